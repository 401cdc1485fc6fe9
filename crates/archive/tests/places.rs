//! The archive behaves the same in memory, in a directory and on two S3 servers.

#![expect(clippy::unwrap_used, reason = "a test stops where its own set-up fails")]

mod common;

use std::collections::HashSet;

use bluetick_archive::object_store::ObjectStoreExt;
use bluetick_archive::{ObjectArchiveError, Put, SegmentName, segment};
use bluetick_testkit::s3::S3Kind;
use common::{STORE, TestArchive, segment_of};
use futures_util::StreamExt;
use futures_util::future::join_all;

const MARKER: &str = "74686573746f7265/ARCHIVE.txt";

async fn check_all(place: &TestArchive) {
    missing_segment_in_an_unused_location_is_unavailable(place).await;
    equal_put_is_recognized_and_a_different_one_replaces(place).await;
    block_read_fetches_only_its_bytes(place).await;
    absent_segment_is_missing(place).await;
    truncated_segment_is_damaged(place).await;
    flipped_bit_damages_only_its_block(place).await;
    list_returns_segments_and_skips_foreign_objects(place).await;
    deleted_segment_is_removed_from_the_cache(place).await;
    hundred_concurrent_readers_cause_one_fetch(place).await;
    of_concurrent_equal_puts_one_is_new(place).await;
    missing_segment_without_a_marker_is_unavailable(place).await;
}

#[tokio::test]
async fn archive_works_in_memory() {
    check_all(&TestArchive::memory()).await;
}

#[tokio::test]
async fn archive_works_in_a_directory() {
    check_all(&TestArchive::directory()).await;
}

#[tokio::test]
async fn archive_works_on_s3s_fs() {
    check_all(&TestArchive::s3(S3Kind::S3sFs).await).await;
}

#[tokio::test]
async fn archive_works_on_ministack() {
    check_all(&TestArchive::s3(S3Kind::Ministack).await).await;
}

fn assert_wrong_place<T: std::fmt::Debug>(answer: Result<T, ObjectArchiveError>, place: &TestArchive) {
    match answer {
        Err(ObjectArchiveError::Unavailable(why)) => {
            let sentence = format!(
                "{} does not hold this store's archive (74686573746f7265/ARCHIVE.txt",
                place.object_archive.place()
            );
            assert!(why.starts_with(&sentence) && why.contains("[archive]"), "{why}");
        }
        other => panic!("{other:?}"),
    }
}

async fn missing_segment_in_an_unused_location_is_unavailable(place: &TestArchive) {
    let (name, sealed, _) = segment_of(1);
    assert_wrong_place(place.object_archive.must_hold(STORE).await, place);
    assert_wrong_place(place.object_archive.segment(&name).await, place);
    assert_eq!(place.object_archive.counters().damaged, 0);
    place.object_archive.put(&name, sealed.bytes.clone()).await.unwrap();
    assert_eq!(place.object_archive.must_hold(STORE).await, Ok(()));
    assert_eq!(list(place, None).await, HashSet::from([(name, sealed.bytes.len() as u64)]));
    assert_eq!(place.object_archive.counters().foreign_names, 0, "the marker is not a foreign name");
    let marker = place.objects.get(&place.path(MARKER)).await.unwrap().bytes().await.unwrap();
    assert!(String::from_utf8_lossy(&marker).contains("the store 74686573746f7265"));
    place.object_archive.delete(&name).await.unwrap();
    assert_eq!(
        place.object_archive.must_hold(STORE).await,
        Ok(()),
        "the marker stays after the last segment is deleted"
    );
}

/// Another directory may be mounted while the server runs. The marker is then missing.
async fn missing_segment_without_a_marker_is_unavailable(place: &TestArchive) {
    let (name, sealed, _) = segment_of(30);
    place.object_archive.put(&name, sealed.bytes.clone()).await.unwrap();
    let gone = segment_of(31).0;
    let is_missing = |answer: &Result<_, _>| matches!(answer, Err(ObjectArchiveError::Missing { .. }));
    assert!(is_missing(&place.object_archive.segment(&gone).await));
    place.objects.delete(&place.path(MARKER)).await.unwrap();
    assert_wrong_place(place.object_archive.segment(&gone).await, place);
    assert_wrong_place(place.object_archive.must_hold(STORE).await, place);
    assert_eq!(
        place.object_archive.segment(&name).await,
        Ok(sealed.bytes.clone()),
        "existing objects are served"
    );
    if place.directory.is_some() {
        assert_wrong_place(place.object_archive.put(&gone, sealed.bytes.clone()).await, place);
        assert_wrong_place(place.object_archive.delete(&gone).await, place);
    }
    let damaged = place.object_archive.counters().damaged;
    assert_wrong_place(place.object_archive.block(&gone, sealed.blocks[0]).await.map(drop), place);
    assert_eq!(place.object_archive.counters().damaged, damaged, "a wrong location does not count as damage");
    place.spoil(MARKER, b"put back by somebody".to_vec()).await;
    assert!(is_missing(&place.object_archive.segment(&gone).await));
}

async fn equal_put_is_recognized_and_a_different_one_replaces(place: &TestArchive) {
    let object_archive = &place.object_archive;
    let (name, sealed, _) = segment_of(1);
    assert_eq!(object_archive.put(&name, sealed.bytes.clone()).await, Ok(Put::New));
    assert_eq!(object_archive.put(&name, sealed.bytes.clone()).await, Ok(Put::AlreadyThere));
    place.spoil(&name.to_string(), b"half of a segm".to_vec()).await;
    assert_eq!(object_archive.put(&name, sealed.bytes.clone()).await, Ok(Put::Replaced));
    assert_eq!(object_archive.segment(&name).await, Ok(sealed.bytes));
}

async fn block_read_fetches_only_its_bytes(place: &TestArchive) {
    let (name, sealed, records) = segment_of(2);
    place.object_archive.put(&name, sealed.bytes.clone()).await.unwrap();
    let before = place.object_archive.counters();
    for (block, records) in sealed.blocks.iter().zip(records.chunks(10)) {
        let read = place.object_archive.block(&name, *block).await.unwrap();
        assert_eq!(read.records().collect::<Vec<_>>(), records);
    }
    let after = place.object_archive.counters();
    assert_eq!(after.fetches - before.fetches, 3);
    let block_bytes: u64 = sealed.blocks.iter().map(|block| u64::from(block.length)).sum();
    assert_eq!(after.fetched_bytes - before.fetched_bytes, block_bytes, "only the blocks are fetched");
    let whole = place.object_archive.segment(&name).await.unwrap();
    let opened = segment::open(&whole).unwrap();
    assert_eq!((opened.name, opened.records().count()), (name, 30));
}

async fn absent_segment_is_missing(place: &TestArchive) {
    let (name, sealed, _) = segment_of(3);
    let missing = ObjectArchiveError::Missing { name: name.to_string() };
    assert_eq!(place.object_archive.block(&name, sealed.blocks[0]).await.err(), Some(missing.clone()));
    assert_eq!(place.object_archive.segment(&name).await.err(), Some(missing));
}

async fn truncated_segment_is_damaged(place: &TestArchive) {
    let (name, sealed, _) = segment_of(4);
    let second = sealed.blocks[1];
    // The cut is in the middle of the second block: the first block is complete, the second is
    // short, and the third is missing.
    let cut = usize::try_from(second.offset).unwrap() + 7;
    place.spoil(&name.to_string(), sealed.bytes[..cut].to_vec()).await;
    assert!(place.object_archive.block(&name, sealed.blocks[0]).await.is_ok());
    for block in &sealed.blocks[1..] {
        let read = place.object_archive.block(&name, *block).await;
        assert!(matches!(read, Err(ObjectArchiveError::Damaged { .. })), "{read:?}");
    }
    place.spoil(&name.to_string(), Vec::new()).await;
    let read = place.object_archive.block(&name, sealed.blocks[1]).await;
    assert!(matches!(read, Err(ObjectArchiveError::Damaged { .. })), "an empty object: {read:?}");
}

async fn flipped_bit_damages_only_its_block(place: &TestArchive) {
    let (name, sealed, _) = segment_of(5);
    let mut damaged = sealed.bytes.to_vec();
    damaged[usize::try_from(sealed.blocks[1].offset).unwrap() + 3] ^= 1;
    place.spoil(&name.to_string(), damaged).await;
    let before = place.object_archive.counters().damaged;
    let read = join_all(sealed.blocks.iter().map(|block| place.object_archive.block(&name, *block))).await;
    assert!(read[0].is_ok() && read[2].is_ok());
    assert!(matches!(&read[1], Err(ObjectArchiveError::Damaged { name: of, .. }) if *of == name.to_string()));
    assert_eq!(place.object_archive.counters().damaged - before, 1);
}

async fn list(place: &TestArchive, conversation: Option<SegmentName>) -> HashSet<(SegmentName, u64)> {
    let listed = place.object_archive.list(STORE, conversation.map(|name| name.conversation));
    listed.map(|entry| entry.unwrap()).collect().await
}

async fn list_returns_segments_and_skips_foreign_objects(place: &TestArchive) {
    let (name, sealed, _) = segment_of(6);
    let (other, other_sealed, _) = segment_of(7);
    let later = SegmentName { revision: 1, ..name };
    let foreign = SegmentName { store: *b"another1", ..name };
    for (name, bytes) in [(name, &sealed.bytes), (other, &other_sealed.bytes), (foreign, &sealed.bytes)] {
        place.object_archive.put(&name, bytes.clone()).await.unwrap();
    }
    place.spoil(&later.to_string(), b"12345".to_vec()).await;
    let conversation = name.conversation;
    let store = "74686573746f7265";
    let not_ours =
        [format!("{store}/readme.txt"), format!("{store}/{conversation}/0-1.0"), "notes".to_owned()];
    for text in &not_ours {
        place.spoil(text, b"not ours".to_vec()).await;
    }
    let before = place.object_archive.counters().foreign_names;
    let of_one = HashSet::from([(name, sealed.bytes.len() as u64), (later, 5)]);
    assert_eq!(list(place, Some(name)).await, of_one);
    let all = list(place, None).await;
    assert!(all.is_superset(&of_one) && all.contains(&(other, other_sealed.bytes.len() as u64)));
    assert!(all.iter().all(|(name, _)| name.store == STORE));
    assert_eq!(
        place.object_archive.counters().foreign_names - before,
        3,
        "one name is listed twice, one once, and one is outside the prefix"
    );
    assert_eq!(list(place, Some(segment_of(200).0)).await, HashSet::new());
    for text in &not_ours {
        assert_eq!(place.objects.head(&place.path(text)).await.unwrap().size, 8);
    }
}

async fn deleted_segment_is_removed_from_the_cache(place: &TestArchive) {
    let (name, sealed, _) = segment_of(8);
    place.object_archive.put(&name, sealed.bytes.clone()).await.unwrap();
    place.object_archive.block(&name, sealed.blocks[0]).await.unwrap();
    assert_eq!(place.object_archive.delete(&name).await, Ok(()));
    assert_eq!(place.object_archive.delete(&name).await, Ok(()), "a second time");
    let read = place.object_archive.block(&name, sealed.blocks[0]).await;
    assert_eq!(read.err(), Some(ObjectArchiveError::Missing { name: name.to_string() }));
    assert_eq!(list(place, Some(name)).await, HashSet::new());
}

async fn hundred_concurrent_readers_cause_one_fetch(place: &TestArchive) {
    let (name, sealed, _) = segment_of(9);
    place.object_archive.put(&name, sealed.bytes.clone()).await.unwrap();
    let before = place.object_archive.counters();
    for read in join_all((0..100).map(|_| place.object_archive.block(&name, sealed.blocks[2]))).await {
        assert_eq!(read.unwrap().len(), 10);
    }
    let after = place.object_archive.counters();
    assert_eq!((after.fetches - before.fetches, after.block_reads - before.block_reads), (1, 100));
    assert_eq!(after.from_memory - before.from_memory, 99);
}

async fn of_concurrent_equal_puts_one_is_new(place: &TestArchive) {
    for group in 20..25 {
        let (name, sealed, _) = segment_of(group);
        let puts = join_all((0..8).map(|_| {
            let (object_archive, bytes) = (place.object_archive.clone(), sealed.bytes.clone());
            tokio::spawn(async move { object_archive.put(&name, bytes).await })
        }));
        let puts: Vec<Put> = puts.await.into_iter().map(|put| put.unwrap().unwrap()).collect();
        let first = puts.iter().filter(|put| **put == Put::New).count();
        if place.puts_atomically {
            assert_eq!(first, 1, "{puts:?}");
        }
        assert_eq!(place.object_archive.segment(&name).await.unwrap(), sealed.bytes);
    }
}
