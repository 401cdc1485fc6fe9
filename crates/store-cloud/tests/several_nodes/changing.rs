//! Members change while somebody is slow, dead or elsewhere.

use std::sync::atomic::Ordering;

use bluetick_core::ports::{AddMembers, Committed, Position, RemoveMember, SetPreferences, Store};
use bluetick_core::time::{Clock, SystemClock};
use bluetick_core::{ConversationId, PreferenceChange, Refusal, Seq, StoreError};
use bluetick_store_cloud::rows::Table;

use crate::town::{Fate, Node, Town, until, user};

fn adding(id: ConversationId, name: &str) -> AddMembers {
    let users = vec![user(name)];
    AddMembers { conversation: id, actor: user("a"), users, member_limit: 1_000, at: SystemClock.now() }
}

async fn remove(node: Node, id: ConversationId, name: &str) {
    let remove = RemoveMember { conversation: id, actor: user("a"), user: user(name), at: SystemClock.now() };
    node.store.remove_member(remove).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn who_was_removed_by_a_node_that_died_in_the_middle_can_write_nowhere() {
    let town = Town::default();
    let (dying, helping, other) = (town.node().await, town.node().await, town.node().await);
    Town::settle(&[&dying, &helping, &other]).await;
    let id = dying.group(10, "a", &["b", "c"]).await;
    other.send(id, "b", "still in").await.unwrap();
    dying.way.next_write(Table::Members, Fate::Stopped);
    let removing = tokio::spawn(remove(dying.again(), id, "b"));
    until(async || dying.way.stopped.load(Ordering::SeqCst) == 1).await;
    removing.abort();
    let view = helping.store.conversation(id, &user("a")).await.unwrap();
    assert_eq!(view.members.len(), 2);
    let refused = other.send(id, "b", "after all").await;
    assert!(matches!(refused, Err(StoreError::Refused(Refusal::NotAMember))), "{refused:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_that_somebody_else_has_finished_is_heard_where_the_members_are() {
    let town = Town::default();
    let (dying, helping, there) = (town.node().await, town.node().await, town.node().await);
    Town::settle(&[&dying, &helping, &there]).await;
    let id = dying.group(11, "a", &["b"]).await;
    there.user_connected("b").await;
    dying.way.next_write(Table::Members, Fate::Stopped);
    let adding = tokio::spawn({
        let dying = dying.again();
        async move { dying.store.add_members(adding(id, "c")).await }
    });
    until(async || dying.way.stopped.load(Ordering::SeqCst) == 1).await;
    adding.abort();
    helping.store.conversation(id, &user("a")).await.unwrap();
    until(async || there.heard(id).last() == Some(&2)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_helps_too_late_takes_nothing_back_from_a_new_member() {
    let town = Town::default();
    let (slow, quick) = (town.node().await, town.node().await);
    Town::settle(&[&slow, &quick]).await;
    let id = slow.group(12, "a", &["b"]).await;
    slow.way.next_write(Table::Conversations, Fate::Stopped);
    let adding = tokio::spawn({
        let slow = slow.again();
        async move { slow.store.add_members(adding(id, "c")).await }
    });
    until(async || slow.way.stopped.load(Ordering::SeqCst) == 1).await;
    assert_eq!(quick.store.conversation(id, &user("a")).await.unwrap().members.len(), 3);
    let change = PreferenceChange { muted: Some(true), ..PreferenceChange::default() };
    let prefer = SetPreferences { conversation: id, user: user("c"), change };
    assert!(quick.store.set_preferences(prefer).await.unwrap().preferences.muted);
    slow.way.go_on();
    adding.await.unwrap().unwrap();
    assert!(quick.store.inbox_entry(id, &user("c")).await.unwrap().preferences.muted);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_member_hears_what_was_being_written_when_it_joined() {
    let town = Town::default();
    let (slow, quick, there) = (town.node().await, town.node().await, town.node().await);
    Town::settle(&[&slow, &quick, &there]).await;
    let id = quick.group(13, "a", &["b"]).await;
    slow.send(id, "b", "known here").await.unwrap();
    there.user_connected("c").await;
    // The notice has its place; the message has the next one before anybody knows of the change.
    quick.way.next_write(Table::Rooms, Fate::Stopped);
    let adding = tokio::spawn({
        let quick = quick.again();
        async move { quick.store.add_members(adding(id, "c")).await }
    });
    until(async || quick.way.stopped.load(Ordering::SeqCst) == 1).await;
    let held = slow.way.held.load(Ordering::SeqCst);
    slow.way.holds_messages.store(true, Ordering::SeqCst);
    let sending = tokio::spawn({
        let slow = slow.again();
        async move { slow.send(id, "b", "at the same time").await }
    });
    until(async || slow.way.held.load(Ordering::SeqCst) == held + 1).await;
    quick.way.go_on();
    adding.await.unwrap().unwrap();
    slow.way.release();
    let sent = sending.await.unwrap().unwrap();
    until(async || there.heard(id).last() == Some(&sent.seq.get())).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_begins_to_follow_a_group_does_not_tell_who_left_before() {
    let town = Town::default();
    let (first, second) = (town.node().await, town.node().await);
    Town::settle(&[&first, &second]).await;
    let id = first.group(14, "a", &["b", "c"]).await;
    remove(first.again(), id, "c").await;
    // Two members and the one who left are connected there, before anybody looks what it has missed.
    for name in ["a", "b", "c"] {
        second.user_connected(name).await;
    }
    second.store.behind(&user("a"), Vec::new()).await.unwrap();
    let position = Position { conversation: id, seq: Seq::FIRST };
    second.store.behind(&user("b"), vec![position]).await.unwrap();
    let farewells = || second.recorder.heard(id).iter().filter(|told| told.departed.is_some()).count();
    assert_eq!((second.heard(id), farewells()), (vec![1, 2], 0));
    // Who leaves from now on is told.
    remove(first.again(), id, "b").await;
    until(async || second.heard(id).last() == Some(&3)).await;
    assert_eq!(farewells(), 1);
}

/// A node that learns of a removal before it announces older messages must still announce those to
/// the removed member. Without them, the member's connection sees a gap before its last ack.
#[tokio::test(flavor = "multi_thread")]
async fn removed_member_is_sent_every_message_below_the_removal() {
    let town = Town::default();
    let (slow, there) = (town.node().await, town.node().await);
    Town::settle(&[&slow, &there]).await;
    let id = slow.group(31, "a", &["b", "c"]).await;
    there.user_connected("b").await;
    slow.way.holds_messages.store(true, Ordering::SeqCst);
    let sending = tokio::spawn({
        let slow = slow.again();
        async move { slow.send(id, "a", "below the removal").await }
    });
    until(async || slow.way.held.load(Ordering::SeqCst) == 1).await;
    let removing = tokio::spawn(remove(there.again(), id, "b"));
    // From now on, the node knows the members without `b`.
    until(async || there.store.conversation(id, &user("a")).await.unwrap().members.len() == 2).await;
    slow.way.release();
    sending.await.unwrap().unwrap();
    removing.await.unwrap();
    let is_removal = |committed: &Committed| committed.departed.is_some();
    until(async || there.recorder.heard(id).iter().any(is_removal)).await;
    let heard = there.recorder.heard(id);
    let removal = heard.iter().find(|committed| is_removal(committed)).unwrap().message.seq;
    let below: Vec<_> = heard.iter().filter(|committed| committed.message.seq < removal).collect();
    assert!(!below.is_empty(), "the message was stored above the removal: {heard:?}");
    for committed in below {
        assert!(committed.members.contains(&user("b")), "{committed:?}");
    }
    assert!(heard.iter().filter(|it| it.message.seq >= removal).all(|it| !it.members.contains(&user("b"))));
}
