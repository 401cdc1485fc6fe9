//! A send or a change that stopped in the middle, and is done again or finished by somebody else.

use std::sync::atomic::Ordering;
use std::time::Duration;

use bluetick_core::ports::{Fleet, RemoveMember, Store};
use bluetick_core::time::{Clock, SystemClock};
use bluetick_core::{MarkKind, Refusal, Seq, StoreError};
use bluetick_store_cloud::rows::Table;

use crate::town::{Fate, Town, until, user};

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
    there.came("bob").await;
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
    there.came("bob").await;
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
    town.hints.set_away(false);
    cut_off.way.release();
    let first = storing.await.unwrap().unwrap();
    let again = other.send(id, "a", "mine").await.unwrap();
    assert_eq!((again.seq, again.duplicate), (first.seq, true));
    slow.way.release();
    slowly.await.unwrap().unwrap();
}
