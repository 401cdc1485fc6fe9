//! Delivered and read state, which only move forward.

use bluetick_core::{ConversationId, Preferences, ReceiptKind, Refusal, Seq};

use crate::cases::at_once;
use crate::world::{MUTE, PIN, assert_refused};
use crate::{Harness, StoreUnderTest};

/// Creates a direct conversation in which alice has sent `count` messages and bob none.
async fn alice_sent<H: Harness>(world: &StoreUnderTest<H>, count: usize) -> ConversationId {
    let id = world.direct("alice", "bob").await;
    world.sent_many(id, "alice", "from-alice", count).await;
    id
}

pub async fn read_state_is_zero_before_the_first_receipt<H: Harness>(world: StoreUnderTest<H>) {
    let id = alice_sent(&world, 3).await;
    let world = world.holds(async |world| assert_eq!(world.status(id, "alice", "bob").await, (0, 0))).await;
    assert_eq!(world.delivered(id, "bob", 2).await, (2, 0));
    world
        .holds(async |world| {
            assert_eq!(world.status(id, "alice", "bob").await, (2, 0));
            assert_eq!(world.status(id, "bob", "bob").await, (2, 0));
            let statuses = world.store().statuses(id, &world.user("bob")).await.unwrap();
            assert_eq!((statuses.head, statuses.members.len()), (Seq::new(3), 2));
        })
        .await;
}

pub async fn read_state_never_moves_back<H: Harness>(world: StoreUnderTest<H>) {
    let id = alice_sent(&world, 5).await;
    assert_eq!(world.delivered(id, "bob", 4).await, (4, 0));
    assert_eq!(world.read(id, "bob", 3).await, (4, 3));
    assert_eq!(world.delivered(id, "bob", 1).await, (4, 3));
    assert_eq!(world.read(id, "bob", 2).await, (4, 3));
    let world = world.crash().await;
    assert_eq!(world.read(id, "bob", 1).await, (4, 3), "also after a crash");
    world.holds(async |world| assert_eq!(world.status(id, "alice", "bob").await, (4, 3))).await;
}

pub async fn receipt_above_the_head_stops_at_the_head<H: Harness>(world: StoreUnderTest<H>) {
    let id = alice_sent(&world, 3).await;
    assert_eq!(world.delivered(id, "bob", 4).await, (3, 0));
    assert_eq!(world.read(id, "bob", Seq::MAX.get()).await, (3, 3));
    assert_eq!(world.read(id, "bob", u64::MAX).await, (3, 3));
    world.sent(id, "alice", "later").await;
    let check = async |world: &StoreUnderTest<H>| {
        assert_eq!(world.status(id, "alice", "bob").await, (3, 3), "later messages are not covered");
        assert_eq!(world.unread(id, "bob").await, 1);
    };
    world.holds(check).await;
}

pub async fn receipt_in_an_empty_conversation_changes_nothing<H: Harness>(world: StoreUnderTest<H>) {
    let id = world.direct("alice", "bob").await;
    assert_eq!(world.read(id, "bob", 7).await, (0, 0));
    assert_eq!(world.delivered(id, "alice", 0).await, (0, 0));
    let world = world.crash().await;
    world.sent(id, "alice", "first").await;
    world.holds(async |world| assert_eq!(world.status(id, "alice", "bob").await, (0, 0))).await;
}

pub async fn read_receipt_implies_delivered<H: Harness>(world: StoreUnderTest<H>) {
    let id = alice_sent(&world, 5).await;
    assert_eq!(world.read(id, "bob", 2).await, (2, 2));
    assert_eq!(world.delivered(id, "bob", 5).await, (5, 2));
    assert_eq!(world.read(id, "bob", 4).await, (5, 4));
    world.holds(async |world| assert_eq!(world.status(id, "alice", "bob").await, (5, 4))).await;
}

pub async fn reordered_and_repeated_receipts_give_the_same_read_state<H: Harness>(world: StoreUnderTest<H>) {
    use ReceiptKind::{Delivered, Read};
    let names = ["bob", "carol", "dave", "erin", "frank", "grace"];
    let id = world.group("alice", &names).await;
    world.sent_many(id, "alice", "m", 5).await;
    let marks = [(Delivered, 2), (Read, 1), (Delivered, 5), (Read, 3), (Delivered, 0), (Read, 0)];
    for (turn, name) in names.iter().enumerate() {
        let mut turned = marks;
        turned.rotate_left(turn);
        for (kind, seq) in turned.into_iter().chain(turned.into_iter().rev()) {
            world.apply_receipt(id, name, kind, seq).await.unwrap();
        }
    }
    let check = async |world: &StoreUnderTest<H>| {
        for name in names {
            assert_eq!(world.status(id, "alice", name).await, (5, 3), "{name}");
        }
    };
    world.holds(check).await;
}

pub async fn concurrent_receipts_give_the_highest_read_state<H: Harness>(world: StoreUnderTest<H>) {
    let id = alice_sent(&world, 60).await;
    let marks = (1..=40).map(|number| {
        let (store, user) = (world.store(), world.user("bob"));
        let kind = if number % 2 == 0 { ReceiptKind::Read } else { ReceiptKind::Delivered };
        let seq = Seq::new(number * 7 % 41);
        let mark = bluetick_core::ports::Receipt { conversation: id, user, kind, seq, origin: None };
        async move {
            let state = store.apply_receipt(mark).await.unwrap();
            assert!(state.delivered >= seq && state.delivered >= state.read);
        }
    });
    at_once(marks).await;
    world.holds(async |world| assert_eq!(world.status(id, "alice", "bob").await, (40, 34))).await;
}

pub async fn receipt_moves_one_member_of_one_conversation<H: Harness>(world: StoreUnderTest<H>) {
    let id = world.group("alice", &["bob", "carol"]).await;
    let other = world.group("alice", &["bob", "carol"]).await;
    for group in [id, other] {
        world.sent(group, "alice", "hello").await;
    }
    world.read(id, "bob", 2).await;
    let check = async |world: &StoreUnderTest<H>| {
        assert_eq!(world.status(id, "alice", "bob").await, (2, 2));
        assert_eq!(world.status(id, "alice", "carol").await, (0, 0));
        assert_eq!(world.status(other, "alice", "bob").await, (0, 0));
    };
    world.holds(check).await;
}

pub async fn receipt_of_a_non_member_gets_the_refusal_of_an_unknown_conversation<H: Harness>(
    world: StoreUnderTest<H>,
) {
    let direct = alice_sent(&world, 2).await;
    let group = world.group("alice", &["bob", "carol"]).await;
    world.remove(group, "carol", "carol").await.unwrap();
    let nothing = ConversationId::direct(&world.user("x"), &world.user("y"));
    for (id, stranger) in [(direct, "zoe"), (group, "zoe"), (group, "carol"), (nothing, "zoe")] {
        let zoe = world.user(stranger);
        assert_refused(world.apply_receipt(id, stranger, ReceiptKind::Read, 1).await, Refusal::NotAMember);
        assert_refused(
            world.apply_receipt(id, stranger, ReceiptKind::Delivered, 99).await,
            Refusal::NotAMember,
        );
        assert_refused(world.store().statuses(id, &zoe).await, Refusal::NotAMember);
        assert_refused(world.receipt_counts(id, stranger, 1).await, Refusal::NotAMember);
        assert_refused(world.store().inbox_entry(id, &zoe).await, Refusal::NotAMember);
        assert_refused(world.set_preferences(id, stranger, PIN).await, Refusal::NotAMember);
    }
    assert!(world.recorder.moves(direct).is_empty() && world.recorder.moves(group).is_empty());
    assert!(world.recorder.preferred(group).is_empty());
    let check = async |world: &StoreUnderTest<H>| {
        assert_eq!(world.statuses(direct, "alice").await.len(), 2);
        assert_eq!(world.status(direct, "alice", "bob").await, (0, 0));
        assert_eq!(world.statuses(group, "alice").await.into_values().collect::<Vec<_>>(), [(0, 0); 2]);
        assert!(world.inbox("zoe").await.is_empty());
    };
    world.holds(check).await;
}

pub async fn own_message_marks_earlier_messages_as_read<H: Harness>(world: StoreUnderTest<H>) {
    let id = alice_sent(&world, 3).await;
    assert_eq!(world.sent(id, "bob", "reply").await, 4);
    world.sent(id, "alice", "and then").await;
    let check = async |world: &StoreUnderTest<H>| {
        assert_eq!(world.status(id, "alice", "bob").await, (3, 3));
        assert_eq!(world.unread(id, "bob").await, 1);
        assert_eq!(
            world.status(id, "bob", "alice").await,
            (4, 4),
            "alice's last message marks the reply as read"
        );
    };
    let world = world.holds(check).await;
    world.sent(id, "bob", "another reply").await;
    world.holds(async |world| assert_eq!(world.status(id, "alice", "bob").await, (5, 5))).await;
}

pub async fn resent_message_marks_nothing_as_read<H: Harness>(world: StoreUnderTest<H>) {
    let id = alice_sent(&world, 1).await;
    world.sent(id, "bob", "reply").await;
    world.sent_many(id, "alice", "more", 3).await;
    assert!(world.send(id, "bob", "reply").await.unwrap().duplicate);
    let world = world.crash().await;
    assert!(world.send(id, "bob", "reply").await.unwrap().duplicate);
    let check = async |world: &StoreUnderTest<H>| {
        assert_eq!(world.status(id, "alice", "bob").await, (1, 1));
        assert_eq!(world.unread(id, "bob").await, 3);
    };
    world.holds(check).await;
}

pub async fn hidden_read_leaves_the_shown_read_seq_unchanged<H: Harness>(world: StoreUnderTest<H>) {
    let id = alice_sent(&world, 5).await;
    world.read(id, "bob", 2).await;
    world.hide_reads(id, "bob", true).await;
    let world = world.holds(async |world| assert_eq!(world.status(id, "alice", "bob").await, (2, 2))).await;
    assert_eq!(world.read(id, "bob", 4).await, (4, 4), "bob's devices see the hidden read");
    let check = async |world: &StoreUnderTest<H>| {
        assert_eq!(world.status(id, "alice", "bob").await, (4, 2), "alice sees it as delivered only");
        assert_eq!(world.status(id, "bob", "bob").await, (4, 4));
        assert_eq!(world.unread(id, "bob").await, 1);
        let shown = world.entry(id, "alice").await.others;
        assert_eq!((shown.delivered, shown.read), (Seq::new(4), Seq::new(2)));
    };
    let world = world.holds(check).await;
    world.sent(id, "bob", "a reply").await;
    let check = async |world: &StoreUnderTest<H>| {
        assert_eq!(world.status(id, "alice", "bob").await, (5, 2), "a reply shows no read either");
        assert_eq!(world.status(id, "bob", "bob").await, (5, 5));
    };
    world.holds(check).await;
}

pub async fn reads_made_while_hidden_stay_hidden_after_showing_again<H: Harness>(world: StoreUnderTest<H>) {
    let id = alice_sent(&world, 5).await;
    world.hide_reads(id, "bob", true).await;
    world.read(id, "bob", 3).await;
    world.hide_reads(id, "bob", false).await;
    let world = world.holds(async |world| assert_eq!(world.status(id, "alice", "bob").await, (3, 0))).await;
    assert_eq!(world.read(id, "bob", 2).await, (3, 3));
    let check = async |world: &StoreUnderTest<H>| {
        assert_eq!(world.status(id, "alice", "bob").await, (3, 2), "a hidden read stays hidden");
    };
    let world = world.holds(check).await;
    world.read(id, "bob", 4).await;
    world.holds(async |world| assert_eq!(world.status(id, "alice", "bob").await, (4, 4))).await;
}

pub async fn rejoined_member_starts_with_default_read_state_and_preferences<H: Harness>(
    world: StoreUnderTest<H>,
) {
    let id = world.group("alice", &["bob"]).await;
    world.sent_many(id, "alice", "before", 3).await;
    world.read(id, "bob", 4).await;
    world.set_preferences(id, "bob", PIN).await.unwrap();
    world.hide_reads(id, "bob", true).await;
    world.remove(id, "bob", "bob").await.unwrap();
    let world = world.restart().await;
    world.add(id, "alice", &["bob"]).await.unwrap();
    world.sent(id, "alice", "welcome back").await;
    let check = async |world: &StoreUnderTest<H>| {
        assert_eq!(world.status(id, "alice", "bob").await, (0, 0));
        let entry = world.entry(id, "bob").await;
        assert_eq!((entry.preferences, entry.joined), (Preferences::default(), Seq::new(6)));
        assert_eq!(entry.unread, 1);
    };
    let world = world.holds(check).await;
    world.read(id, "bob", 7).await;
    world.holds(async |world| assert_eq!(world.status(id, "alice", "bob").await, (7, 7))).await;
}

pub async fn preferences_are_stored_per_member<H: Harness>(world: StoreUnderTest<H>) {
    let id = world.group("alice", &["bob"]).await;
    assert_eq!(world.entry(id, "bob").await.preferences, Preferences::default());
    let returned = world.set_preferences(id, "bob", MUTE).await.unwrap();
    assert_eq!(returned, world.entry(id, "bob").await);
    world.set_preferences(id, "bob", PIN).await.unwrap();
    world.hide_reads(id, "bob", true).await;
    let all = Preferences { muted: true, pinned: true, archived: false, hides_reads: true };
    let check = async |world: &StoreUnderTest<H>| {
        assert_eq!(world.entry(id, "bob").await.preferences, all);
        assert_eq!(world.entry(id, "alice").await.preferences, Preferences::default());
    };
    let world = world.holds(check).await;
    world.hide_reads(id, "bob", false).await;
    world.sent(id, "bob", "hello").await;
    world.read(id, "bob", 2).await;
    let fewer = Preferences { hides_reads: false, ..all };
    world.holds(async |world| assert_eq!(world.entry(id, "bob").await.preferences, fewer)).await;
}
