//! The archive beside others who write the same rows: nodes that are late, sends, changes of members, a copy.

#![expect(clippy::unwrap_used, reason = "a test may stop where its own set-up fails")]

mod archive_kit;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use archive_kit::{HOUR, Node, START, World, everything, small, user, with_ten};
use bluetick_core::ports::{Archive, ArchiveError, ArchiveRun, Erase, EraseScope, NoProgress, Store};
use bluetick_core::time::Clock;
use bluetick_core::{
    ContentType, Conversation, ConversationId, Member, MemberState, Message, Refusal, Role, Seq, StoreError,
};
use bluetick_store_cloud::import::{ImportError, ImportedRoom, Importer};
use bluetick_store_cloud::rows::{Item, Key, Rows, Table};
use tokio::task::JoinHandle;

/// A node whose object is there, and of whose four rows so many refer to it, because it has fallen asleep.
async fn asleep(world: &World, flips: u64) -> (Arc<Node>, JoinHandle<Result<(), ArchiveError>>) {
    let slow = Arc::new(world.node());
    slow.wire.hold_flips(true);
    slow.wire.free_flips.store(flips, Ordering::SeqCst);
    let sleeping = tokio::spawn({
        let slow = Arc::clone(&slow);
        async move { slow.run().await.map(drop) }
    });
    let deadline = Instant::now() + Duration::from_secs(20);
    while slow.wire.held.load(Ordering::SeqCst) < 4 {
        assert!(Instant::now() < deadline, "it comes to its rows");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    world.clock.advance_millis(61_000);
    (slow, sleeping)
}

async fn wake(slow: &Node, sleeping: JoinHandle<Result<(), ArchiveError>>) {
    slow.wire.hold_flips(false);
    let outcome = sleeping.await.unwrap();
    assert!(matches!(outcome, Err(ArchiveError::Busy)), "its turn is over: {outcome:?}");
}

async fn messages_row(world: &World, id: ConversationId, seq: u64) -> Item {
    world.rows.get(Table::Messages, &Key::number(id, seq)).await.unwrap().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slow_run_and_another_one_put_under_different_names() {
    let world = World::default();
    let id = with_ten(&world).await;
    let (slow, sleeping) = asleep(&world, 0).await;
    let node = world.node();
    let expected = node.messages(id, "bob").await;
    assert_eq!(node.run().await.unwrap().moved.messages, 10);
    wake(&slow, sleeping).await;
    assert_eq!(world.object_paths().await.len(), 4, "one is the slow one's own");
    assert_eq!(node.messages(id, "bob").await, expected);
    assert_eq!(node.problems().await, Vec::<String>::new());
    for _ in 0..3 {
        world.clock.advance_millis(25 * HOUR);
        node.run().await.unwrap();
    }
    assert_eq!(world.object_paths().await.len(), 3, "it is swept");
    assert_eq!(node.messages(id, "bob").await, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_sweep_deletes_nobody_can_refer_to_any_more() {
    let world = World::default();
    let id = with_ten(&world).await;
    let (slow, sleeping) = asleep(&world, 0).await;
    let settings = bluetick_archive::ArchiveSettings { age_seconds: 1 << 40, ..small() };
    // It moves nothing itself, and finds the object without a row again and again.
    let node = world.node_with(settings, Some(world.object_archive()));
    let expected = node.messages(id, "bob").await;
    for _ in 0..3 {
        world.clock.advance_millis(25 * HOUR);
        node.run().await.unwrap();
    }
    assert!(world.object_paths().await.is_empty());
    wake(&slow, sleeping).await;
    assert_eq!(node.messages(id, "bob").await, expected, "no row refers to what was deleted");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restore_beside_a_slow_run_loses_nothing() {
    let world = World::default();
    let id = with_ten(&world).await;
    let (slow, sleeping) = asleep(&world, 2).await;
    let node = world.node();
    let expected = node.messages(id, "bob").await;
    assert_eq!(node.store.restore(Some(id), Arc::new(NoProgress)).await.unwrap().messages, 2);
    assert!(world.object_paths().await.is_empty());
    wake(&slow, sleeping).await;
    assert_eq!(world.node_with(small(), None).messages(id, "bob").await, expected);
}

#[tokio::test]
async fn whoever_writes_late_into_what_is_erased_takes_another_place() {
    let world = World::default();
    let id = with_ten(&world).await;
    // A place that was handed out, and whoever has it is slow.
    let there = messages_row(&world, id, 11).await;
    world.rows.put_all(vec![(Table::Messages, Key::number(id, 13), there)]).await.unwrap();
    let node = world.node();
    let erase = Erase { scope: EraseScope::Conversation(id), through: None };
    node.store.erase(erase, Arc::new(NoProgress)).await.unwrap();
    let closed = messages_row(&world, id, 12).await;
    assert_eq!(closed.find_text("content_type").map(|kind| &**kind), Some("void"), "it is taken");
    assert!(!world.holds("alice is back").await);
}

#[tokio::test]
async fn a_message_sent_again_is_recognised_without_the_object_store() {
    let world = World::default();
    let id = with_ten(&world).await;
    world.node().run().await.unwrap();
    let node = world.node_with(small(), None);
    let now = world.clock.now();
    let again = node.try_send(id, "alice", "alice-says-2", "alice says 2", now, Some(Seq::ZERO)).await;
    let again = again.unwrap();
    assert_eq!((again.seq, again.duplicate), (Seq::new(2), true));
    let other = node.try_send(id, "alice", "alice-says-2", "alice says 1", now, Some(Seq::ZERO)).await;
    let reused = Refusal::MessageIdReused { first_seq: Seq::new(2) };
    assert!(matches!(other, Err(StoreError::Refused(refusal)) if refusal == reused));
}

#[tokio::test]
async fn a_change_of_members_is_finished_after_its_notice_has_moved() {
    let world = World::default();
    let node = world.node();
    let id = node.group("alice", &["bob"]).await;
    let before = world.rows.get(Table::Rooms, &Key::new(id)).await.unwrap().unwrap();
    node.add(id, "alice", "carol", START).await;
    world.clock.advance_millis(200 * archive_kit::DAY);
    assert_eq!(node.run_everything().await.unwrap().moved.messages, 2);
    // As if whoever decided it had died before the end: the room still says what is to be done.
    let after = world.rows.get(Table::Rooms, &Key::new(id)).await.unwrap().unwrap();
    assert!(before.find_text("intent").is_none());
    let intent = format!(
        r#"{{"actor":"alice","at":{0},"last_at":{0},"joining":[{{"user":"carol","seq":2}}]}}"#,
        START.millis()
    );
    let version = after.version() + 1;
    let undone = after.text("intent", intent).versioned(version);
    world.rows.put_all(vec![(Table::Rooms, Key::new(id), undone)]).await.unwrap();
    // Without the archive: what stands there is known all the same.
    let other = world.node_with(small(), None);
    let view = other.store.conversation(id, &user("bob")).await.unwrap();
    assert_eq!((view.members.len(), view.conversation.head), (3, Seq::new(2)), "no second notice");
}

#[tokio::test]
async fn members_change_while_the_archive_writes_the_same_row() {
    let world = World::default();
    let node = world.node();
    let id = node.group("alice", &["bob"]).await;
    node.wire.interferes.store(true, Ordering::SeqCst);
    node.add(id, "alice", "carol", START).await;
    assert!(!node.wire.interferes.load(Ordering::SeqCst));
    let kinds = node.messages(id, "bob").await.into_iter().map(|message| message.content_type);
    assert_eq!(
        kinds.collect::<Vec<_>>(),
        [ContentType::System, ContentType::System],
        "no place went to waste"
    );
    let view = node.store.conversation(id, &user("bob")).await.unwrap();
    assert_eq!(view.members.len(), 3);
}

fn imported(id: ConversationId, texts: &[&str]) -> (ImportedRoom, Vec<Message>) {
    let conversation = Conversation {
        id,
        title: None,
        created_by: user("alice"),
        created_at: START,
        head: Seq::new(texts.len() as u64),
        last_at: START,
    };
    let member = |name| {
        (Member { user: user(name), role: Role::Member, joined_seq: Seq::FIRST }, MemberState::default())
    };
    let messages = texts.iter().zip(1..).map(|(text, number)| Message {
        conversation: id,
        seq: Seq::new(number),
        message_id: format!("m{number}").parse().unwrap(),
        sender: user("alice"),
        receiver: Some(user("bob")),
        content_type: ContentType::Text,
        content: (*text).into(),
        timestamp: START,
        received_at: START,
    });
    (ImportedRoom { conversation, members: vec![member("alice"), member("bob")] }, messages.collect())
}

#[tokio::test]
async fn a_conversation_that_is_being_copied_is_left_alone_and_one_that_has_moved_is_not_copied_over() {
    let world = World::default();
    world.clock.advance_millis(200 * archive_kit::DAY);
    let id = ConversationId::direct(&user("alice"), &user("bob"));
    let (room, messages) = imported(id, &["one", "two", "three"]);
    let importer = Importer::new(world.rows.clone());
    let node = world.node();
    let mut copy = importer.room(room.clone()).await.unwrap();
    copy.messages(messages[..2].to_vec()).await.unwrap();
    assert_eq!(node.run_everything().await.unwrap().moved.messages, 0, "half of it is not there yet");
    let only = ArchiveRun { only: Some(id), ..everything() };
    let outcome = node.store.run(only, Arc::new(NoProgress)).await;
    assert!(matches!(outcome, Err(ArchiveError::NoSuchConversation)), "{outcome:?}");
    copy.messages(messages[2..].to_vec()).await.unwrap();
    copy.finish().await.unwrap();
    assert_eq!(node.run_everything().await.unwrap().moved.messages, 3);
    let again = importer.room(room).await;
    assert!(matches!(again.err(), Some(ImportError::Conflict(_))), "nodes have it now");
    assert_eq!(node.texts(id, "bob").await, ["one", "two", "three"]);
}
