//! Damaged, truncated, missing and foreign objects: their messages are lost, all others stay.

#![expect(clippy::unwrap_used, reason = "a test may stop where its own set-up fails")]

mod archive_kit;

use std::sync::Arc;

use archive_kit::common::direct;
use archive_kit::{Kit, bytes_of, eager, history, lost_places, numbered, paths};
use bluetick_core::ContentType;
use bluetick_core::ports::{Archive, ArchiveError, EraseScope, Store};
use bluetick_core::{ConversationId, Message};
use bluetick_store_embedded::codec::chunk::Header;
use bluetick_store_embedded::codec::cold::{self, ColdChunk};
use bluetick_store_embedded::tables::Tables;
use object_store::ObjectStoreExt;
use object_store::memory::InMemory;
use object_store::path::Path;

/// Creates a conversation with three segments. The second one has the seqs 129 to 256.
async fn three_segments() -> (Kit, Arc<InMemory>, ConversationId, Vec<Message>, Path) {
    let (kit, objects) = Kit::in_memory(eager());
    let id = direct(&*kit.store, "alice", "bob").await;
    kit.send_many(id, "alice", numbered("message", 1..=300)).await;
    // This read fills no cache, because nothing is archived yet.
    let before = history(&*kit.store, id, "bob").await;
    kit.run().await.unwrap();
    let names = paths(&*objects).await;
    assert_eq!(names.len(), 3);
    let second = names[1].clone();
    (kit, objects, id, before, second)
}

fn assert_only_lost(after: &[Message], before: &[Message], lost: std::ops::RangeInclusive<u64>) {
    assert_eq!(lost_places(after), lost.collect::<Vec<_>>());
    for (after, before) in after.iter().zip(before) {
        if lost_places(std::slice::from_ref(after)).is_empty() {
            assert_eq!(after, before);
        } else {
            assert!(after.content.is_empty());
            assert_eq!((&after.sender, after.received_at), (&before.sender, before.received_at));
        }
    }
    assert_eq!(after.len(), before.len());
}

/// Checks that the damage of the second segment loses only its messages and is reported.
async fn assert_lost_and_reported(
    kit: &Kit,
    objects: &InMemory,
    id: ConversationId,
    before: &[Message],
    second: &Path,
) {
    assert_only_lost(&history(&*kit.store, id, "bob").await, before, 129..=256);
    let problems = kit.problems().await;
    let name = second.as_ref().strip_prefix("test/").unwrap();
    assert_eq!(problems.len(), 1, "{problems:?}");
    assert!(problems[0].contains(name), "{problems:?}");
    let there = objects.get(second).await.is_ok();
    kit.run().await.unwrap();
    assert_eq!(objects.get(second).await.is_ok(), there, "it is left as it is");
    assert_eq!(kit.cold_messages().await, 300);
    // The other segments are restored.
    let restored = kit.restore(id).await;
    assert!(matches!(&restored, Err(ArchiveError::Damaged(why)) if why.contains(name)), "{restored:?}");
    assert_eq!(kit.cold_messages().await, 128);
    assert_only_lost(&history(&*kit.store, id, "bob").await, before, 129..=256);
    // The restored messages are archived again by a run that names the conversation.
    kit.run_only(id).await.unwrap();
    assert_eq!(kit.cold_messages().await, 300);
    assert_only_lost(&history(&*kit.store, id, "bob").await, before, 129..=256);
}

#[tokio::test(flavor = "multi_thread")]
async fn damaged_segment_loses_only_its_messages() {
    let (kit, objects, id, before, second) = three_segments().await;
    let mut bytes = bytes_of(&*objects, &second).await.to_vec();
    bytes[60] ^= 1;
    objects.put(&second, bytes.into()).await.unwrap();
    assert_lost_and_reported(&kit, &objects, id, &before, &second).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn truncated_segment_loses_only_its_messages() {
    let (kit, objects, id, before, second) = three_segments().await;
    let bytes = bytes_of(&*objects, &second).await;
    objects.put(&second, bytes.slice(..60).into()).await.unwrap();
    assert_lost_and_reported(&kit, &objects, id, &before, &second).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_of_a_missing_object_are_lost_until_it_returns() {
    let (kit, objects, id, before, second) = three_segments().await;
    let bytes = bytes_of(&*objects, &second).await;
    objects.delete(&second).await.unwrap();
    assert_lost_and_reported(&kit, &objects, id, &before, &second).await;
    objects.put(&second, bytes.into()).await.unwrap();
    assert_eq!(history(&*kit.store, id, "bob").await, before);
    assert_eq!(kit.problems().await, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn block_of_another_conversation_is_reported_and_not_returned() {
    let (kit, objects) = Kit::in_memory(eager());
    let ours = direct(&*kit.store, "alice", "bob").await;
    let theirs = direct(&*kit.store, "alice", "carol").await;
    kit.send_many(ours, "alice", numbered("ours", 1..=64)).await;
    kit.send_many(theirs, "alice", numbered("secret", 1..=64)).await;
    kit.run().await.unwrap();
    let names = paths(&*objects).await;
    let [our_name, their_name] = [ours, theirs]
        .map(|id| names.iter().find(|name| name.as_ref().contains(&id.to_string())).unwrap().clone());
    objects.put(&our_name, bytes_of(&*objects, &their_name).await.into()).await.unwrap();
    kit.store.close().await;
    let Kit { store, clock, object_archive, settings, directory, .. } = kit;
    drop(store);
    // Make a row of our conversation refer to the block of theirs.
    {
        let tables = Tables::open(&directory.path().join("tables")).unwrap();
        let engine = tables.writing().unwrap();
        let chunk_of = |id| {
            let mut found = None;
            engine
                .snapshot()
                .unwrap()
                .chunks(id, bluetick_core::Seq::FIRST, |first, bytes| {
                    found = Some((first, bytes.to_vec()));
                    Ok(false)
                })
                .unwrap();
            found.unwrap()
        };
        let (first, our_chunk) = chunk_of(ours);
        let (_, their_chunk) = chunk_of(theirs);
        let header = Header::read(&our_chunk).unwrap();
        let their_place = ColdChunk::read(&Header::read(&their_chunk).unwrap()).unwrap().location;
        let chunk = ColdChunk::read(&header).unwrap();
        let stubs: Vec<_> = chunk.entries().map(|(stub, hash)| (stub.to_vec(), hash)).collect();
        let mut update = engine.update().unwrap();
        for (first, part) in cold::pack(first, &header, &their_place, &stubs) {
            update.put_chunk(ours, first, &part).unwrap();
        }
        update.commit().unwrap();
    }
    let kit = Kit::open(directory, clock, object_archive, settings);
    let after = history(&*kit.store, ours, "bob").await;
    assert_eq!(lost_places(&after), (1..=64).collect::<Vec<_>>());
    assert!(
        after.iter().all(|message| message.content.is_empty()),
        "the content of another conversation is not returned"
    );
    let problems = kit.problems().await;
    assert!(problems.iter().any(|problem| problem.contains(&ours.to_string())), "{problems:?}");
    assert!(matches!(kit.restore(ours).await, Err(ArchiveError::Damaged(_))));
    assert_eq!(lost_places(&history(&*kit.store, theirs, "carol").await), Vec::<u64>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn erasure_of_a_damaged_segment_finishes_and_keeps_readable_messages() {
    let (kit, objects) = Kit::in_memory(eager());
    let id = direct(&*kit.store, "alice", "bob").await;
    for part in 0..3 {
        kit.send_many(id, "alice", numbered("mine", part * 100 + 1..=part * 100 + 64)).await;
        kit.send_many(id, "bob", numbered("yours", part * 100 + 1..=part * 100 + 64)).await;
    }
    kit.run().await.unwrap();
    let names = paths(&*objects).await;
    let whole = bytes_of(&*objects, &names[1]).await;
    objects.put(&names[1], whole.slice(..60).into()).await.unwrap();
    let lost = history(&*kit.store, id, "bob").await;
    let lost =
        lost_places(&lost).iter().filter(|seq| lost[**seq as usize - 1].sender.as_str() == "bob").count();
    let scope = EraseScope::User { user: "alice".parse().unwrap(), conversation: Some(id) };
    kit.erase(scope, None).await.unwrap();
    assert_eq!(kit.store.status().await.unwrap().unfinished_erasures, 0);
    let after = history(&*kit.store, id, "bob").await;
    let beginning = |text: &str| after.iter().filter(|message| message.content.starts_with(text)).count();
    assert_eq!((beginning("mine"), beginning("yours")), (0, 192 - lost));
    let erased = after.iter().filter(|message| message.content_type == ContentType::Erased).count();
    assert_eq!((erased, lost_places(&after).len()), (192, lost), "unreadable messages are reported as lost");
    assert!(!paths(&*objects).await.contains(&names[1]), "the damaged object is deleted");
    let problems = kit.problems().await;
    assert_eq!(problems.len(), usize::from(lost > 0), "{problems:?}");
}
