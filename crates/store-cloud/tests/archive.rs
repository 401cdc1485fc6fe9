//! The archive of a fleet, over tables and objects in memory: what moves, who sees it, and what goes wrong.

mod archive_kit;

use std::sync::Arc;

use archive_kit::{DAY, HOUR, START, World, everything, small, user, with_ten};
use bluetick_archive::object_store::ObjectStoreExt;
use bluetick_archive::{ArchiveSettings, ObjectArchive};
use bluetick_core::ports::{Archive, ArchiveError, ArchiveRun, NoProgress, Store};
use bluetick_core::time::Clock;
use bluetick_core::{ContentType, PageFrom, Refusal, Seq, StoreError};
use bluetick_store_cloud::rows::{Key, Rows, Table};

#[tokio::test]
async fn old_messages_move_and_read_the_same() {
    let world = World::default();
    let id = with_ten(&world).await;
    let node = world.node();
    let before = node.messages(id, "bob").await;
    let report = node.run().await.unwrap();
    assert_eq!((report.conversations, report.moved.segments, report.moved.messages), (1, 3, 10));
    assert_eq!(node.messages(id, "bob").await, before);
    let row = world.rows.get(Table::Messages, &Key::number(id, 3)).await.unwrap().unwrap();
    assert!(row.find_text("content").is_none() && row.find_text("s3_ref").is_some(), "{row:?}");
    assert!(!world.object_paths().await.is_empty());
    let status = node.store.status().await.unwrap();
    assert_eq!((status.cold.segments, status.cold.messages), (3, 10));
    assert_eq!(node.problems().await, Vec::<String>::new());
    assert_eq!(node.store.status().await.unwrap().cold, status.cold, "a verification counts the same");
    // Another node, and again: nothing more to do.
    assert_eq!(world.node().run().await.unwrap().moved.messages, 0);
}

#[tokio::test]
async fn objects_in_a_directory_do_as_well() {
    let world = World::default();
    let id = with_ten(&world).await;
    let directory = tempfile::tempdir().unwrap();
    let settings = ArchiveSettings { engine: bluetick_archive::ArchiveEngine::Directory, ..small() };
    let object_archive = || ObjectArchive::open(&settings, directory.path()).unwrap();
    let node = world.node_with(settings.clone(), object_archive());
    let before = node.messages(id, "bob").await;
    assert_eq!(node.run().await.unwrap().moved.messages, 10);
    let other = world.node_with(settings.clone(), object_archive());
    assert_eq!(other.messages(id, "bob").await, before);
    assert_eq!(other.problems().await, Vec::<String>::new());
}

#[tokio::test]
async fn young_messages_stay_and_too_few_wait_for_their_patience() {
    let world = World::default();
    let node = world.node();
    let id = node.direct("alice", "bob").await;
    node.send(id, "alice", "one", START).await;
    world.clock.advance_millis(80 * DAY);
    assert_eq!(node.run().await.unwrap().moved.messages, 0, "young");
    world.clock.advance_millis(11 * DAY);
    assert_eq!(node.run().await.unwrap().moved.messages, 0, "one message makes no segment");
    world.clock.advance_millis(31 * DAY);
    assert_eq!(node.run().await.unwrap().moved.messages, 1);
}

#[tokio::test]
async fn a_conversation_that_cannot_have_anything_is_not_looked_at() {
    let world = World::default();
    let node = world.node();
    for number in 0..20 {
        let id = node.direct("alice", &format!("friend-{number}")).await;
        node.send(id, "alice", "hi", START).await;
    }
    node.run().await.unwrap();
    let before = node.wire.calls();
    node.run().await.unwrap();
    let calls = node.wire.calls() - before;
    assert!(calls < 10, "{calls} calls for 20 conversations that are all young");
}

#[tokio::test]
async fn notices_and_voids_are_part_of_a_run() {
    let world = World::default();
    let node = world.node();
    let id = node.group("alice", &["bob"]).await;
    node.send(id, "alice", "hi", START).await;
    node.add(id, "alice", "carol", START).await;
    // A place that was handed out and never written to, found before anybody has read it.
    let written = world.rows.get(Table::Messages, &Key::number(id, 2)).await.unwrap().unwrap();
    let later = written.text("message_id", "later");
    world.rows.put_all(vec![(Table::Messages, Key::number(id, 5), later)]).await.unwrap();
    world.clock.advance_millis(200 * DAY);
    let node = world.node();
    assert_eq!(node.run_everything().await.unwrap().moved.messages, 5);
    let kinds: Vec<_> =
        node.messages(id, "bob").await.into_iter().map(|message| message.content_type).collect();
    let (text, system) = (ContentType::Text, ContentType::System);
    assert_eq!(kinds, [system.clone(), text.clone(), system, ContentType::Void, text]);
    assert_eq!(world.object_paths().await.len(), 2, "four and one");
}

#[tokio::test]
async fn without_the_object_store_only_what_lies_there_cannot_be_read() {
    let world = World::default();
    let id = with_ten(&world).await;
    world.node().run().await.unwrap();
    let node = world.node_with(small(), None);
    let newest = node.page(id, "bob", PageFrom::Newest, 20).await.unwrap();
    assert_eq!(newest.len(), 1, "the page ends before the first that cannot be had");
    let older = node.page(id, "bob", PageFrom::Before(Seq::new(5)), 2).await;
    assert!(matches!(older, Err(StoreError::Unavailable(_))), "{older:?}");
    node.send(id, "bob", "still works", world.clock.now()).await;
    assert!(matches!(node.run().await, Err(ArchiveError::Off)));
}

#[tokio::test]
async fn an_inbox_shows_the_newest_message_without_the_archive() {
    let world = World::default();
    let node = world.node();
    let id = node.direct("alice", "bob").await;
    for text in ["one", "two", "three"] {
        node.send(id, "alice", text, START).await;
    }
    world.clock.advance_millis(200 * DAY);
    assert_eq!(node.run_everything().await.unwrap().moved.messages, 3);
    let entry = world.node_with(small(), None).store.inbox_entry(id, &user("bob")).await.unwrap();
    assert_eq!(&*entry.last_message.unwrap().preview, "three");
    assert_eq!(entry.unread, 3);
}

#[tokio::test]
async fn a_message_sent_again_is_recognised_in_the_archive() {
    let world = World::default();
    let id = with_ten(&world).await;
    let node = world.node();
    node.run().await.unwrap();
    let now = world.clock.now();
    let again =
        node.try_send(id, "alice", "alice-says-2", "alice says 2", now, Some(Seq::ZERO)).await.unwrap();
    assert_eq!((again.seq, again.duplicate), (Seq::new(2), true));
    let other = node.try_send(id, "alice", "alice-says-2", "something else", now, Some(Seq::ZERO)).await;
    let reused = Refusal::MessageIdReused { first_seq: Seq::new(2) };
    assert!(matches!(other, Err(StoreError::Refused(refusal)) if refusal == reused));
}

#[tokio::test]
async fn a_lost_or_damaged_object_loses_its_messages_alone() {
    let world = World::default();
    let id = with_ten(&world).await;
    world.node().run().await.unwrap();
    let paths = world.object_paths().await;
    world.objects.delete(&paths[0]).await.unwrap();
    let mut bytes = world.objects.get(&paths[1]).await.unwrap().bytes().await.unwrap().to_vec();
    bytes[60] ^= 1;
    world.objects.put(&paths[1], bytes.into()).await.unwrap();
    let node = world.node();
    let kinds: Vec<_> =
        node.messages(id, "bob").await.into_iter().map(|message| message.content_type).collect();
    let lost = kinds.iter().filter(|kind| **kind == ContentType::Lost).count();
    assert_eq!((kinds.len(), lost), (11, 8), "{kinds:?}");
    assert_eq!(node.problems().await.len(), 2);
    // It is told that it was stored, and does not come back otherwise.
    let now = world.clock.now();
    let again =
        node.try_send(id, "alice", "alice-says-2", "alice says 2", now, Some(Seq::ZERO)).await.unwrap();
    assert!(again.duplicate);
}

#[tokio::test]
async fn one_node_at_a_time_and_a_dead_ones_turn_ends() {
    let world = World::default();
    let id = with_ten(&world).await;
    let dying = world.node();
    dying.wire.cut_after(20, false);
    assert!(dying.run().await.is_err());
    let node = world.node();
    assert!(matches!(node.run().await, Err(ArchiveError::Busy)));
    assert!(matches!(node.store.verify(Arc::new(NoProgress)).await, Err(ArchiveError::Busy)));
    world.clock.advance_millis(61_000);
    node.run().await.unwrap();
    assert_eq!(node.texts(id, "bob").await.len(), 11);
    // An ended job leaves the turn to the next one at once.
    world.node().run().await.unwrap();
}

#[tokio::test]
async fn an_object_that_nothing_refers_to_is_deleted_when_nobody_can_be_about_to() {
    let world = World::default();
    let id = with_ten(&world).await;
    let node = world.node();
    node.run().await.unwrap();
    let path = world.object_paths().await.remove(0);
    let bytes = world.objects.get(&path).await.unwrap().bytes().await.unwrap();
    let orphan = path.as_ref().replace(".1", ".9");
    world.objects.put(&orphan.as_str().into(), bytes.into()).await.unwrap();
    world.clock.advance_millis(25 * HOUR);
    assert_eq!(node.run().await.unwrap().orphans_swept, 0, "seen for the first time");
    assert_eq!(node.run().await.unwrap().orphans_swept, 0, "somebody may be about to refer to it");
    world.clock.advance_millis(2 * HOUR);
    let swept = world.node().run().await.unwrap().orphans_swept;
    assert_eq!((swept, world.object_paths().await.len()), (1, 3), "another node remembers it too");
    assert_eq!(node.texts(id, "bob").await.len(), 11);
}

#[tokio::test]
async fn a_run_goes_on_where_another_one_stopped() {
    let world = World::default();
    let node = world.node();
    for number in 0..150 {
        let id = node.direct("alice", &format!("friend-{number}")).await;
        node.send(id, "alice", &format!("hi {number}"), START).await;
    }
    world.clock.advance_millis(200 * DAY);
    let before = node.wire.calls();
    let copy = world.copy().await;
    let whole = copy.node();
    whole.run_everything().await.unwrap();
    node.wire.cut_after(whole.wire.calls() - before.min(1) - 200, false);
    assert!(node.run_everything().await.is_err());
    world.clock.advance_millis(61_000);
    let report = world.node().run_everything().await.unwrap();
    assert!(report.moved.messages < 100, "{} were left", report.moved.messages);
    assert_eq!(world.node().problems().await, Vec::<String>::new());
}

#[tokio::test]
async fn a_run_of_one_conversation_leaves_the_others() {
    let world = World::default();
    let id = with_ten(&world).await;
    let node = world.node();
    let other = node.direct("alice", "carol").await;
    node.send(other, "alice", "old too", START).await;
    let run = ArchiveRun { only: Some(id), ..everything() };
    let report = node.store.run(run, Arc::new(NoProgress)).await.unwrap();
    assert_eq!((report.conversations, report.moved.messages), (1, 10));
}
