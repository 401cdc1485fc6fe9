//! Several nodes on one store, and what goes wrong between them. Tables and Redis are in memory here, so that every order
//! of events can be had; the same on real servers is in the fleet tests of the binary.

#![expect(clippy::unwrap_used, reason = "a test may stop where its own set-up fails")]

mod at_random;
mod changing;
mod half_done;
mod revoking;
mod town;

use std::sync::atomic::Ordering;

use bluetick_core::ports::{AddMembers, CommittedChange, Fleet, Store};
use bluetick_core::time::{Clock, SystemClock};
use bluetick_core::{ContentType, ReceiptKind, Refusal, Seq, StoreError};
use town::{Node, Town, until, user};

#[tokio::test(flavor = "multi_thread")]
async fn who_is_connected_elsewhere_hears_everything_in_order() {
    let town = Town::default();
    let (here, there) = (town.node().await, town.node().await);
    Town::settle(&[&here, &there]).await;
    let id = here.direct("alice", "bob").await;
    there.user_connected("bob").await;
    here.user_connected("alice").await;
    for number in 1..=50 {
        assert_eq!(here.send(id, "alice", &format!("m{number}")).await.unwrap().seq, Seq::new(number));
    }
    until(async || there.heard(id) == (1..=50).collect::<Vec<_>>()).await;
    there.apply_receipt(id, "bob", ReceiptKind::Read, 50).await;
    until(async || here.recorder.moves(id).iter().any(|moved| moved.own.read == Seq::new(50))).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn writers_on_several_nodes_are_heard_in_one_order_everywhere() {
    let town = Town::default();
    let nodes = [town.node().await, town.node().await, town.node().await];
    Town::settle(&nodes.each_ref()).await;
    let id = nodes[0].group(1, "a", &["b", "c"]).await;
    for (node, name) in nodes.iter().zip(["a", "b", "c"]) {
        node.user_connected(name).await;
    }
    let writing = nodes.iter().zip(["a", "b", "c"]).map(|(node, name)| async move {
        for number in 0..100 {
            node.surely_send(id, name, &format!("{name}{number}")).await;
        }
    });
    futures_util::future::join_all(writing).await;
    let expected: Vec<u64> = (1..=301).collect();
    for node in &nodes {
        until(async || node.heard(id).last() == Some(&301)).await;
        let heard = node.heard(id);
        assert!(heard.is_sorted() && heard.ends_with(&expected[1..]), "{heard:?}");
    }
    assert_eq!(nodes[1].history(id, "b").await.len(), 301);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_sent_on_two_nodes_at_once_is_one() {
    let town = Town::default();
    let (one, other) = (town.node().await, town.node().await);
    let id = one.direct("alice", "bob").await;
    for number in 0..100 {
        let text = format!("m{number}");
        let (first, second) = tokio::join!(one.send(id, "alice", &text), other.send(id, "alice", &text));
        let (first, second) = (first.unwrap(), second.unwrap());
        assert_eq!(first.seq, second.seq);
        assert_ne!(first.duplicate, second.duplicate);
    }
    assert_eq!(one.history(id, "bob").await.len(), 100);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_writer_that_dies_before_it_writes_leaves_a_void_and_no_gap() {
    let town = Town::default();
    let (dying, living) = (town.node().await, town.node().await);
    Town::settle(&[&dying, &living]).await;
    let id = dying.group(2, "a", &["b"]).await;
    living.user_connected("b").await;
    dying.way.holds_messages.store(true, Ordering::SeqCst);
    let sending = {
        let store = dying.store.clone();
        let node = Node { store, recorder: dying.recorder.clone(), way: dying.way.clone() };
        tokio::spawn(async move { node.send(id, "a", "never written").await })
    };
    until(async || dying.way.held.load(Ordering::SeqCst) == 1).await;
    sending.abort();
    let (_, way) = dying.die();
    let next = living.send(id, "b", "goes on").await.unwrap();
    assert_eq!(next.seq, Seq::new(3), "the place was handed out");
    until(async || living.heard(id).ends_with(&[2, 3])).await;
    let history = living.history(id, "b").await;
    assert_eq!(history[1].content_type, ContentType::Void);
    assert_eq!(history.len(), 3);
    let (of_void, of_message) = (Seq::new(2), Seq::new(3));
    let receipts = living.store.receipt_counts(id, &user("a"), of_void).await;
    assert!(matches!(receipts, Err(StoreError::Refused(Refusal::NoSuchMessage))), "{receipts:?}");
    assert_eq!(living.store.receipt_counts(id, &user("a"), of_message).await.unwrap().recipients, 1);
    // The write that was under way comes after all, and loses.
    way.release();
    tokio::time::sleep(std::time::Duration::from_millis(30)).await;
    assert_eq!(living.history(id, "b").await[1].content_type, ContentType::Void);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_writer_that_is_late_loses_its_place_and_takes_another() {
    let town = Town::default();
    let (slow, quick) = (town.node().await, town.node().await);
    let id = slow.group(3, "a", &["b"]).await;
    slow.way.holds_messages.store(true, Ordering::SeqCst);
    let sending = {
        let (store, recorder, way) = (slow.store.clone(), slow.recorder.clone(), slow.way.clone());
        tokio::spawn(async move { Node { store, recorder, way }.send(id, "a", "late").await })
    };
    until(async || slow.way.held.load(Ordering::SeqCst) == 1).await;
    assert_eq!(quick.send(id, "b", "quick").await.unwrap().seq, Seq::new(3));
    assert_eq!(quick.history(id, "b").await.len(), 3);
    slow.way.release();
    let late = sending.await.unwrap().unwrap();
    assert_eq!((late.seq, late.duplicate), (Seq::new(4), false));
    let texts: Vec<_> = quick.history(id, "b").await.into_iter().map(|message| message.content).collect();
    assert_eq!(texts[1..].iter().map(|text| &**text).collect::<Vec<_>>(), ["", "quick", "late"]);
    let again = quick.send(id, "a", "late").await.unwrap();
    assert_eq!((again.seq, again.duplicate), (Seq::new(4), true));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_counter_that_was_set_back_overwrites_nothing() {
    let town = Town::default();
    let (one, other) = (town.node().await, town.node().await);
    let id = one.direct("alice", "bob").await;
    for number in 0..1_200 {
        one.send(id, "alice", &format!("m{number}")).await.unwrap();
    }
    town.hints.rewind(id, 1_000);
    let (first, second) = tokio::join!(other.send(id, "bob", "after"), one.send(id, "alice", "m700"));
    assert_eq!(first.unwrap().seq, Seq::new(1_201));
    let second = second.unwrap();
    assert_eq!((second.seq, second.duplicate), (Seq::new(701), true));
    assert_eq!(one.history(id, "bob").await.len(), 1_201);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_of_members_that_a_dead_node_left_is_finished_by_whoever_meets_it() {
    let town = Town::default();
    let (dying, living) = (town.node().await, town.node().await);
    let id = dying.group(4, "a", &["b"]).await;
    let users: Vec<_> = (0..20).map(|number| user(&format!("new{number}"))).collect();
    let add =
        AddMembers { conversation: id, actor: user("a"), users, member_limit: 1_000, at: SystemClock.now() };
    // After the intent is written, nothing gets through any more.
    let (store, way) = (dying.store.clone(), dying.way.clone());
    let adding = tokio::spawn(async move { store.add_members(add).await });
    tokio::time::sleep(std::time::Duration::from_micros(200)).await;
    way.refuses.store(1, Ordering::SeqCst);
    let _failed = adding.await.unwrap();
    drop(dying);
    // Either it was never decided, or it is whole.
    let view = living.store.conversation(id, &user("b")).await.unwrap();
    assert!([2, 22].contains(&view.members.len()), "{} members", view.members.len());
    let history = living.history(id, "b").await;
    let notices = history.iter().filter(|message| message.content_type == ContentType::System).count();
    assert_eq!(notices, view.members.len() - 1);
    living.send(id, "b", "goes on").await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn who_was_connected_to_a_node_that_died_misses_nothing() {
    let town = Town::default();
    let (sending, dying) = (town.node().await, town.node().await);
    Town::settle(&[&sending, &dying]).await;
    let id = sending.direct("alice", "bob").await;
    dying.user_connected("bob").await;
    sending.send(id, "alice", "pushed and never acknowledged").await.unwrap();
    until(async || dying.heard(id) == [1]).await;
    let node = dying.store.clone();
    dying.die();
    drop(node);
    let other = town.node().await;
    until(async || other.store.counters_now().nodes >= 2).await;
    // In memory nobody forgets the dead by itself.
    town.street.bury("node-1");
    until(async || other.store.counters_now().nodes == 2).await;
    other.user_connected("bob").await;
    let missed = other.store.behind(&user("bob"), Vec::new()).await.unwrap();
    assert_eq!(missed.behind.len(), 1, "{missed:?}");
    assert_eq!((missed.behind[0].after, missed.behind[0].head), (Seq::ZERO, Seq::new(1)));
}

#[tokio::test(flavor = "multi_thread")]
async fn who_leaves_without_an_ack_is_owed_what_it_was_pushed() {
    let town = Town::default();
    let (one, other) = (town.node().await, town.node().await);
    Town::settle(&[&one, &other]).await;
    let id = one.direct("alice", "bob").await;
    other.user_connected("bob").await;
    one.send(id, "alice", "m1").await.unwrap();
    one.send(id, "alice", "m2").await.unwrap();
    until(async || other.heard(id) == [1, 2]).await;
    other.apply_receipt(id, "bob", ReceiptKind::Delivered, 1).await;
    other.store.user_disconnected(&user("bob")).await;
    let missed = one.store.behind(&user("bob"), Vec::new()).await.unwrap();
    assert_eq!((missed.behind.len(), missed.behind[0].after), (1, Seq::new(1)));
}

#[tokio::test(flavor = "multi_thread")]
async fn joining_is_told_on_the_node_where_somebody_is() {
    let town = Town::default();
    let (one, other) = (town.node().await, town.node().await);
    Town::settle(&[&one, &other]).await;
    other.user_connected("bob").await;
    let id = one.group(5, "alice", &["bob"]).await;
    let is_told = async || {
        let changes = other.recorder.changes(id);
        changes.iter().any(
            |change| matches!(change, CommittedChange::Joined { user: joined, .. } if *joined == user("bob")),
        )
    };
    until(is_told).await;
    until(async || other.heard(id) == [1]).await;
}
