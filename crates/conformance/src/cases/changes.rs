//! Changes other than messages that the store publishes to its listener.

use std::sync::Arc;

use bluetick_core::ports::{CommittedChange, Origin, ReadStateMoved, Receipt};
use bluetick_core::{ConversationId, ReceiptKind, Seq, UserId};

use crate::cases::at_once;
use crate::recorder::Published;
use crate::world::{MUTE, PIN, TickPair, ticks};
use crate::{Harness, StoreUnderTest};

/// Returns the ticks published to the member's own devices and those published to the others.
fn published_ticks(moved: &ReadStateMoved) -> (TickPair, Option<TickPair>) {
    (ticks(moved.own), moved.shown.map(ticks))
}

/// Returns the published read state changes, without the first `before`.
fn moves_after<H: Harness>(
    world: &StoreUnderTest<H>,
    id: ConversationId,
    before: usize,
) -> Vec<(TickPair, Option<TickPair>)> {
    world.recorder.moves(id)[before..].iter().map(published_ticks).collect()
}

pub async fn read_state_change_is_published_once_before_the_answer<H: Harness>(world: StoreUnderTest<H>) {
    let id = world.direct("alice", "bob").await;
    world.sent_many(id, "alice", "m", 4).await;
    assert_eq!(moves_after(&world, id, 0), [], "own messages change no read state of others");
    world.delivered(id, "bob", 2).await;
    assert_eq!(moves_after(&world, id, 0), [((2, 0), Some((2, 0)))]);
    world.read(id, "bob", 1).await;
    assert_eq!(moves_after(&world, id, 1), [((2, 1), Some((2, 1)))]);
    world.read(id, "bob", 99).await;
    assert_eq!(moves_after(&world, id, 2), [((4, 4), Some((4, 4)))]);
    assert!(world.recorder.moves(id).iter().all(|moved| moved.user == world.user("bob")));
}

pub async fn receipt_without_effect_is_not_published<H: Harness>(world: StoreUnderTest<H>) {
    let id = world.direct("alice", "bob").await;
    world.read(id, "bob", 3).await;
    world.sent_many(id, "alice", "m", 4).await;
    world.delivered(id, "bob", 0).await;
    world.read(id, "bob", 0).await;
    assert_eq!(moves_after(&world, id, 0), []);
    world.read(id, "bob", 3).await;
    for seq in [3, 2, 0] {
        world.delivered(id, "bob", seq).await;
        world.read(id, "bob", seq).await;
    }
    assert_eq!(moves_after(&world, id, 0), [((3, 3), Some((3, 3)))]);
}

pub async fn published_read_state_names_members_unread_count_and_origin<H: Harness>(
    world: StoreUnderTest<H>,
) {
    let id = world.group("alice", &["bob", "carol"]).await;
    world.sent_many(id, "alice", "m", 5).await;
    for (origin, seq) in [(Some(Origin(7)), 3), (None, 5)] {
        let (user, kind) = (world.user("bob"), ReceiptKind::Read);
        let mark = Receipt { conversation: id, user, kind, seq: Seq::new(seq), origin };
        world.store().apply_receipt(mark).await.unwrap();
        let moved = world.recorder.moves(id).pop().unwrap();
        assert_eq!((moved.conversation, &moved.user, moved.origin), (id, &world.user("bob"), origin));
        assert_eq!(moved.members.len(), 3);
        let unread = world.unread(id, "bob").await;
        assert!(moved.unread.is_none_or(|published| published == unread), "{:?}, not {unread}", moved.unread);
    }
}

pub async fn read_state_change_of_an_own_message_is_published_after_it<H: Harness>(world: StoreUnderTest<H>) {
    let id = world.direct("alice", "bob").await;
    world.sent_many(id, "alice", "m", 2).await;
    let mut reply = world.message(id, "bob", "reply");
    reply.origin = Some(Origin(7));
    world.append(reply).await.unwrap();
    let everything = world.recorder.everything(id);
    let [.., Published::Message(message), Published::Change(CommittedChange::ReadState(moved))] =
        &everything[..]
    else {
        panic!("expected the message, then the read state change: {everything:?}")
    };
    assert_eq!(message.message.seq, Seq::new(3));
    assert_eq!((published_ticks(moved), &moved.user), (((2, 2), Some((2, 2))), &world.user("bob")));
    assert_eq!(moved.origin, None, "the read state change of a message has no origin");

    world.sent(id, "bob", "and another").await;
    assert!(world.send(id, "bob", "reply").await.unwrap().duplicate);
    assert_eq!(world.recorder.moves(id).len(), 1, "nothing new was read");
    world.sent(id, "alice", "read by an ack").await;
    world.read(id, "bob", 5).await;
    let before = world.recorder.moves(id).len();
    world.sent(id, "bob", "before this reply").await;
    assert_eq!(moves_after(&world, id, before), []);
}

pub async fn hidden_read_is_published_to_own_devices_only<H: Harness>(world: StoreUnderTest<H>) {
    let id = world.direct("alice", "bob").await;
    world.sent_many(id, "alice", "m", 6).await;
    world.delivered(id, "bob", 3).await;
    world.hide_reads(id, "bob", true).await;
    world.read(id, "bob", 2).await;
    assert_eq!(moves_after(&world, id, 1), [((3, 2), None)]);
    world.read(id, "bob", 5).await;
    assert_eq!(moves_after(&world, id, 2), [((5, 5), Some((5, 0)))], "others see it as delivered only");
    world.sent(id, "bob", "reply").await;
    assert_eq!(moves_after(&world, id, 3), [((6, 6), Some((6, 0)))], "the reply moves the read state to 6");
    world.sent(id, "alice", "one more").await;
    world.delivered(id, "bob", 8).await;
    world.sent(id, "bob", "another reply").await;
    for moved in world.recorder.moves(id) {
        let alice = world.user("alice");
        assert!(moved.user == alice || moved.shown.is_none_or(|shown| shown.read == Seq::ZERO));
    }
}

pub async fn read_state_shown_again_is_published_when_others_see_it<H: Harness>(world: StoreUnderTest<H>) {
    let id = world.direct("alice", "bob").await;
    world.sent_many(id, "alice", "m", 4).await;
    world.hide_reads(id, "bob", true).await;
    world.read(id, "bob", 4).await;
    world.hide_reads(id, "bob", false).await;
    assert_eq!(moves_after(&world, id, 1), []);
    for seq in [3, 4, 4, 2] {
        world.read(id, "bob", seq).await;
    }
    let expected = [((4, 4), Some((4, 3))), ((4, 4), Some((4, 4)))];
    assert_eq!(moves_after(&world, id, 1), expected, "each step that alice sees is published");
    assert_eq!(world.status(id, "alice", "bob").await, (4, 4));
}

pub async fn concurrent_read_state_changes_are_published_in_order<H: Harness>(world: StoreUnderTest<H>) {
    let names = ["bob", "carol", "dave"];
    let id = world.group("alice", &names).await;
    let world = Arc::new(world);
    let doing = names.map(|name| {
        let (world, user) = (Arc::clone(&world), world.user(name));
        async move {
            for number in 0..30 {
                let seq = Seq::new(world.sent(id, name, &format!("m{number}")).await).next();
                let (user, kind, origin) = (user.clone(), ReceiptKind::Read, Some(Origin(1)));
                let mark = Receipt { conversation: id, user, kind, seq, origin };
                let stands = ticks(world.store().apply_receipt(mark).await.unwrap());
                let last = moves_of(&world, id, name).pop();
                assert!(last.is_some_and(|moved| ticks(moved.own) >= stands), "before the answer");
            }
        }
    });
    at_once(doing).await;
    for name in names {
        let moves: Vec<_> = moves_of(&world, id, name).iter().map(|moved| ticks(moved.own)).collect();
        assert!(moves.is_sorted_by(|one, next| one < next), "each change moves forward: {moves:?}");
        assert_eq!(moves.last(), Some(&world.status(id, name, name).await));
    }
    let mut senders = Vec::new();
    for published in world.recorder.everything(id) {
        match published {
            Published::Message(committed) => senders.push(committed.message.sender.clone()),
            Published::Change(CommittedChange::ReadState(ReadStateMoved {
                user, own, origin: None, ..
            })) => {
                let reply = usize::try_from(own.read.get()).unwrap();
                assert_eq!(senders.get(reply), Some(&user), "published after the message that caused it");
            }
            Published::Change(_) => {}
        }
    }
}

fn moves_of<H: Harness>(world: &StoreUnderTest<H>, id: ConversationId, name: &str) -> Vec<ReadStateMoved> {
    world.recorder.moves(id).into_iter().filter(|moved| moved.user == world.user(name)).collect()
}

/// Returns the users for whom a join was published, each with the head seq published before it,
/// sorted.
fn joined<H: Harness>(world: &StoreUnderTest<H>, id: ConversationId) -> Vec<(UserId, u64)> {
    let (mut joined, mut head) = (Vec::new(), 0);
    for published in world.recorder.everything(id) {
        match published {
            Published::Message(committed) => head = committed.message.seq.get(),
            Published::Change(CommittedChange::Joined { user, .. }) => joined.push((user, head)),
            Published::Change(_) => {}
        }
    }
    joined.sort();
    joined
}

pub async fn join_is_published_for_each_new_member<H: Harness>(world: StoreUnderTest<H>) {
    let after = |names: &[&str], head| names.iter().map(|name| (world.user(name), head)).collect::<Vec<_>>();
    let direct = world.direct("bob", "alice").await;
    assert_eq!(joined(&world, direct), after(&["bob"], 0), "only to its creator, while it has no messages");
    world.direct("alice", "bob").await;
    assert_eq!(joined(&world, direct).len(), 1, "opening it again publishes nothing");

    let group = world.group("alice", &["carol", "bob"]).await;
    assert_eq!(joined(&world, group), after(&["alice", "bob", "carol"], 1), "after the notice");
    world.add(group, "bob", &["alice", "dave", "dave"]).await.unwrap();
    assert_eq!(joined(&world, group)[3..], after(&["dave"], 2));
    world.add(group, "bob", &["dave"]).await.unwrap();
    world.remove(group, "alice", "dave").await.unwrap();
    assert_eq!(joined(&world, group).len(), 4);
    world.add(group, "bob", &["dave"]).await.unwrap();
    assert_eq!(joined(&world, group)[4..], after(&["dave"], 4), "new again");
    world.add(group, "bob", &["fred", "gina"]).await.unwrap();
    let [(fred, before_fred), (gina, before_gina)] = &joined(&world, group)[5..] else { panic!("two more") };
    assert_eq!((fred, gina), (&world.user("fred"), &world.user("gina")));
    assert!(*before_fred >= 5 && *before_gina == 6, "each after its own notice");
}

pub async fn preference_change_is_published<H: Harness>(world: StoreUnderTest<H>) {
    let id = world.group("alice", &["bob"]).await;
    world.set_preferences(id, "bob", PIN).await.unwrap();
    assert_eq!(world.recorder.preferred(id), [world.user("bob")]);
    world.set_preferences(id, "bob", MUTE).await.unwrap();
    world.set_preferences(id, "alice", MUTE).await.unwrap();
    assert_eq!(world.recorder.preferred(id), ["bob", "bob", "alice"].map(|name| world.user(name)));
    assert_eq!(moves_after(&world, id, 0), []);
}
