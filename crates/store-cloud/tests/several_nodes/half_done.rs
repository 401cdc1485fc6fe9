//! A send or a change that stopped in the middle, and is done again or finished by somebody else.

use std::sync::atomic::Ordering;

use bluetick_core::ports::{Appended, Fleet, Position, Store};
use bluetick_core::{ConversationId, ReceiptKind, Seq, StoreError};
use bluetick_store_cloud::rows::Table;
use tokio::task::JoinHandle;

use crate::town::{Fate, Node, Town, until, user};

#[tokio::test(flavor = "multi_thread")]
async fn a_message_sent_again_after_its_pending_row_failed_is_owed_all_the_same() {
    let town = Town::default();
    let node = town.node().await;
    let id = node.direct("alice", "bob").await;
    node.way.next_write(Table::PendingDeliveries, Fate::Refused);
    assert!(matches!(node.send(id, "alice", "m1").await, Err(StoreError::NoAnswer(_))));
    let again = node.send(id, "alice", "m1").await.unwrap();
    assert_eq!(again.seq, Seq::FIRST);
    let missed = node.store.behind(&user("bob"), Vec::new()).await.unwrap();
    assert_eq!(missed.behind.len(), 1, "acknowledged, and bob is not owed it");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_sent_again_after_its_answer_was_lost_reaches_who_is_elsewhere() {
    let town = Town::default();
    let (here, there) = (town.node().await, town.node().await);
    Town::settle(&[&here, &there]).await;
    let id = here.direct("alice", "bob").await;
    there.user_connected("bob").await;
    here.way.next_write(Table::Messages, Fate::Unanswered);
    assert!(matches!(here.send(id, "alice", "m1").await, Err(StoreError::NoAnswer(_))));
    assert!(here.send(id, "alice", "m1").await.unwrap().duplicate);
    until(async || there.heard(id) == [1]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn news_that_come_late_to_a_node_that_follows_a_conversation_only_since_then_are_told() {
    let town = Town::default();
    let (slow, quick, there) = (town.node().await, town.node().await, town.node().await);
    Town::settle(&[&slow, &quick, &there]).await;
    let id = slow.direct("alice", "bob").await;
    there.user_connected("bob").await;
    town.street.hold_letters_from("node-0");
    slow.send(id, "alice", "m1").await.unwrap();
    slow.send(id, "alice", "m2").await.unwrap();
    quick.send(id, "alice", "m3").await.unwrap();
    until(async || there.heard(id).last() == Some(&3)).await;
    town.street.deliver_letters();
    assert_eq!(there.heard(id), [1, 2, 3]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_id_stored_while_one_node_alone_was_without_redis_has_no_second_place_elsewhere() {
    let town = Town::default();
    let (cut_off, other, slow) = (town.node().await, town.node().await, town.node().await);
    Town::settle(&[&cut_off, &other, &slow]).await;
    let id = slow.group(8, "a", &["b", "c"]).await;
    // Somebody has the next place and is slow to write.
    slow.way.holds_messages.store(true, Ordering::SeqCst);
    let slowly = tokio::spawn({
        let slow = slow.again();
        async move { slow.send(id, "c", "slow").await }
    });
    until(async || slow.way.held.load(Ordering::SeqCst) == 1).await;
    cut_off.way.holds_messages.store(true, Ordering::SeqCst);
    town.hints.set_away(true);
    let storing = tokio::spawn({
        let cut_off = cut_off.again();
        async move { cut_off.send(id, "a", "mine").await }
    });
    until(async || cut_off.way.held.load(Ordering::SeqCst) == 1).await;
    // Nobody else has noticed.
    town.hints.set_away(false);
    cut_off.way.release();
    let first = storing.await.unwrap().unwrap();
    let again = other.send(id, "a", "mine").await.unwrap();
    assert_eq!((again.seq, again.duplicate), (first.seq, true));
    slow.way.release();
    slowly.await.unwrap().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn who_goes_while_a_message_waits_for_the_one_before_is_owed_it() {
    let town = Town::default();
    let (slow, here, there) = (town.node().await, town.node().await, town.node().await);
    Town::settle(&[&slow, &here, &there]).await;
    let id = slow.group(9, "a", &["b", "c"]).await;
    there.user_connected("b").await;
    there.apply_receipt(id, "b", ReceiptKind::Delivered, 1).await;
    slow.way.holds_messages.store(true, Ordering::SeqCst);
    let slowly = tokio::spawn({
        let slow = slow.again();
        async move { slow.send(id, "c", "slow").await }
    });
    until(async || slow.way.held.load(Ordering::SeqCst) == 1).await;
    let before = there.store.counters_now().news_received;
    let quickly = tokio::spawn({
        let here = here.again();
        async move { here.send(id, "a", "quick").await }
    });
    until(async || there.store.counters_now().news_received > before).await;
    there.store.user_disconnected(&user("b")).await;
    quickly.await.unwrap().unwrap();
    let is_owed = async || {
        let missed = here.store.behind(&user("b"), Vec::new()).await.unwrap();
        missed.behind.len() == 1
    };
    until(is_owed).await;
    slow.way.release();
    slowly.await.unwrap().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_pushed_and_could_not_be_written_down_at_once_is_written_down_later() {
    let town = Town::default();
    let (one, other) = (town.node().await, town.node().await);
    Town::settle(&[&one, &other]).await;
    let id = one.direct("alice", "bob").await;
    other.user_connected("bob").await;
    one.send(id, "alice", "m1").await.unwrap();
    until(async || other.heard(id) == [1]).await;
    other.way.next_write(Table::PendingDeliveries, Fate::Refused);
    other.store.user_disconnected(&user("bob")).await;
    until(async || one.store.behind(&user("bob"), Vec::new()).await.unwrap().behind.len() == 1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn ticks_that_moved_on_two_nodes_are_never_told_backwards() {
    let town = Town::default();
    let (slow, quick, there) = (town.node().await, town.node().await, town.node().await);
    Town::settle(&[&slow, &quick, &there]).await;
    let id = there.direct("alice", "bob").await;
    there.user_connected("alice").await;
    for number in 1..=2 {
        there.send(id, "alice", &format!("m{number}")).await.unwrap();
    }
    town.street.hold_letters_from("node-0");
    slow.apply_receipt(id, "bob", ReceiptKind::Read, 1).await;
    until(async || slow.store.counters_now().news_sent == 1).await;
    quick.apply_receipt(id, "bob", ReceiptKind::Read, 2).await;
    until(async || !there.recorder.moves(id).is_empty()).await;
    town.street.deliver_letters();
    until(async || there.store.counters_now().news_received == 2).await;
    let read: Vec<_> = there.recorder.moves(id).iter().map(|moved| moved.own.read.get()).collect();
    assert_eq!(read, [2]);
}

async fn two_nodes() -> (Node, Node) {
    let town = Town::default();
    let nodes = (town.node().await, town.node().await);
    Town::settle(&[&nodes.0, &nodes.1]).await;
    nodes
}

/// Alice says something to bob, and the row that says that bob is owed it is not written before the node may go on.
async fn stored_and_not_owed_yet(
    slow: &Node,
    id: ConversationId,
) -> JoinHandle<Result<Appended, StoreError>> {
    slow.way.next_write(Table::PendingDeliveries, Fate::Stopped);
    let sending = tokio::spawn({
        let slow = slow.again();
        async move { slow.send(id, "alice", "m1").await }
    });
    until(async || slow.way.stopped.load(Ordering::SeqCst) == 1).await;
    sending
}

#[tokio::test(flavor = "multi_thread")]
async fn who_comes_just_before_it_is_owed_something_is_told_of_it() {
    let (slow, there) = two_nodes().await;
    let id = slow.direct("alice", "bob").await;
    let sending = stored_and_not_owed_yet(&slow, id).await;
    there.user_connected("bob").await;
    assert_eq!(there.store.behind(&user("bob"), Vec::new()).await.unwrap().behind.len(), 0);
    slow.way.go_on();
    sending.await.unwrap().unwrap();
    until(async || there.heard(id) == [1]).await;
    assert_eq!(there.recorder.overlooked(), []);
}

#[tokio::test(flavor = "multi_thread")]
async fn who_is_owed_what_was_told_before_it_came_is_asked_to_come_again() {
    let (slow, there) = two_nodes().await;
    let id = slow.direct("alice", "bob").await;
    let sending = stored_and_not_owed_yet(&slow, id).await;
    // Another device of alice's has come this far, so the node follows the conversation from here on.
    there.user_connected("alice").await;
    let position = Position { conversation: id, seq: Seq::FIRST };
    there.store.behind(&user("alice"), vec![position]).await.unwrap();
    there.user_connected("bob").await;
    assert_eq!(there.store.behind(&user("bob"), Vec::new()).await.unwrap().behind.len(), 0);
    slow.way.go_on();
    sending.await.unwrap().unwrap();
    until(async || there.recorder.overlooked() == [user("bob")]).await;
    there.store.user_disconnected(&user("bob")).await;
    there.user_connected("bob").await;
    assert_eq!(there.store.behind(&user("bob"), Vec::new()).await.unwrap().behind.len(), 1);
}
