//! Erasing and retention, in rows, inboxes and objects.

mod archive_kit;

use std::sync::Arc;

use archive_kit::{DAY, HOUR, Node, START, World, small, user, with_ten};
use bluetick_archive::ArchiveSettings;
use bluetick_core::ports::{Archive, ArchiveError, Erase, EraseReport, EraseScope, NoProgress, Store};
use bluetick_core::time::Clock;
use bluetick_core::{ContentType, ConversationId, PageFrom, Seq};

async fn erase(node: &Node, scope: EraseScope, through: Option<Seq>) -> Result<EraseReport, ArchiveError> {
    node.store.erase(Erase { scope, through }, Arc::new(NoProgress)).await
}

#[tokio::test]
async fn what_one_person_wrote_goes_from_rows_and_objects_and_the_rest_stays() {
    let world = World::default();
    let id = with_ten(&world).await;
    let node = world.node();
    node.run().await.unwrap();
    node.send(id, "bob", "bob says something new", world.clock.now()).await;
    let scope = EraseScope::User { user: user("bob"), conversation: None };
    let report = erase(&node, scope, None).await.unwrap();
    assert_eq!((report.conversations, report.messages), (1, 4));
    assert_eq!(report.segments_rewritten, 3);
    assert!(!world.holds("bob says").await);
    let messages = node.messages(id, "alice").await;
    assert_eq!(&*messages[1].content, "alice says 2");
    assert_eq!((&messages[2].content_type, &*messages[2].content), (&ContentType::Erased, ""));
    assert_eq!(messages[2].sender, user("bob"));
    let receipts = node.store.receipt_counts(id, &user("alice"), messages[2].seq).await.unwrap();
    assert_eq!(receipts.recipients, 1, "an erased message still has receipts");
    assert_eq!(node.problems().await, Vec::<String>::new());
    let entry = node.store.inbox_entry(id, &user("alice")).await.unwrap();
    assert_eq!(&*entry.last_message.unwrap().preview, "");
}

#[tokio::test]
async fn an_erased_message_sent_again_does_not_come_back() {
    let world = World::default();
    let id = with_ten(&world).await;
    let node = world.node();
    node.run().await.unwrap();
    erase(&node, EraseScope::Conversation(id), None).await.unwrap();
    let now = world.clock.now();
    let again =
        node.try_send(id, "alice", "alice-says-2", "alice says 2", now, Some(Seq::ZERO)).await.unwrap();
    assert_eq!((again.seq, again.duplicate), (Seq::new(2), true));
    assert!(!world.holds("alice says").await);
}

#[tokio::test]
async fn a_conversation_of_which_nothing_is_left_has_no_objects() {
    let world = World::default();
    let id = with_ten(&world).await;
    let node = world.node();
    node.run().await.unwrap();
    let report = erase(&node, EraseScope::Conversation(id), Some(Seq::new(10))).await.unwrap();
    assert_eq!((report.messages, report.segments_deleted), (10, 3));
    assert!(world.object_paths().await.is_empty());
    assert_eq!(node.texts(id, "bob").await[10], "alice is back");
    assert_eq!(node.store.status().await.unwrap().cold.messages, 0);
    let unknown = ConversationId::group([9; 15]);
    let nothing = erase(&node, EraseScope::Conversation(unknown), None).await;
    assert!(matches!(nothing, Err(ArchiveError::NoSuchConversation)));
}

#[tokio::test]
async fn a_line_of_an_inbox_that_another_node_writes_late_is_erased_too() {
    let world = World::default();
    let (node, late) = (world.node(), world.node());
    let id = late.direct("alice", "bob").await;
    late.send(id, "alice", "alice says it", START).await;
    erase(&node, EraseScope::Conversation(id), None).await.unwrap();
    late.store.close().await;
    assert!(world.holds("alice says it").await, "the other node knew no better");
    world.clock.advance_millis(2 * HOUR);
    node.run().await.unwrap();
    assert!(!world.holds("alice says it").await);
}

#[tokio::test]
async fn a_damaged_segment_does_not_keep_an_erasure_up() {
    use bluetick_archive::object_store::ObjectStoreExt;
    let world = World::default();
    let id = with_ten(&world).await;
    let node = world.node();
    node.run().await.unwrap();
    let path = world.object_paths().await.remove(0);
    world.objects.put(&path, vec![1, 2, 3].into()).await.unwrap();
    erase(&node, EraseScope::User { user: user("bob"), conversation: Some(id) }, None).await.unwrap();
    assert!(!world.holds("bob says").await);
    let kinds = world.node().messages(id, "bob").await.into_iter().map(|message| message.content_type);
    let (text, lost, erased) = (ContentType::Text, ContentType::Lost, ContentType::Erased);
    let first: Vec<_> = kinds.take(5).collect();
    assert_eq!(first, [lost.clone(), lost.clone(), erased, lost, text]);
}

#[tokio::test]
async fn what_is_past_its_retention_goes_with_or_without_an_archive() {
    for with_archive in [false, true] {
        let world = World::default();
        let id = with_ten(&world).await;
        if with_archive {
            world.node().run().await.unwrap();
        }
        let settings = ArchiveSettings { retention_seconds: 150 * DAY as u64 / 1_000, ..small() };
        let node = world.node_with(settings, with_archive.then(|| world.object_archive()));
        assert_eq!(node.run().await.unwrap().erased_messages, 10);
        assert_eq!(node.run().await.unwrap().erased_messages, 0);
        assert!(!world.holds("says ").await);
        let newest = node.page(id, "bob", PageFrom::Newest, 1).await.unwrap();
        assert_eq!(&*newest[0].content, "alice is back");
        assert!(world.object_paths().await.is_empty());
    }
}

#[tokio::test]
async fn all_that_lies_in_the_archive_can_be_brought_back() {
    let world = World::default();
    let id = with_ten(&world).await;
    let node = world.node();
    let before = node.messages(id, "bob").await;
    node.run().await.unwrap();
    let report = node.store.restore(None, Arc::new(NoProgress)).await.unwrap();
    assert_eq!((report.segments, report.messages), (3, 10));
    assert!(world.object_paths().await.is_empty());
    assert_eq!(world.node_with(small(), None).messages(id, "bob").await, before);
    let status = node.store.status().await.unwrap();
    assert_eq!((status.cold.segments, status.cold.messages, status.kept_hot), (0, 0, 1));
}
