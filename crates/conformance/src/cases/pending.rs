//! Pending messages: those that a reconnecting device misses.

use bluetick_core::ports::{Behind, Position};
use bluetick_core::{ConversationId, PageFrom, PageLimit, Seq};

use crate::world::behind;
use crate::{Harness, StoreUnderTest};

/// Creates a direct conversation in which alice has sent `count` messages to bob.
async fn alice_sent<H: Harness>(world: &StoreUnderTest<H>, count: usize) -> ConversationId {
    let id = world.direct("alice", "bob").await;
    world.sent_many(id, "alice", "from-alice", count).await;
    id
}

/// Creates a group of alice and bob with `count` messages, sent at `minute` and acknowledged by
/// both. Returns its id and head seq.
async fn acked_group<H: Harness>(
    world: &StoreUnderTest<H>,
    minute: i64,
    count: usize,
) -> (ConversationId, u64) {
    world.turn_clock_to(minute);
    let id = world.group("alice", &["bob"]).await;
    let head = world.sent_many(id, "alice", "m", count).await;
    world.delivered(id, "alice", head).await;
    world.delivered(id, "bob", head).await;
    (id, head)
}

pub async fn user_who_acknowledged_all_messages_has_none_pending<H: Harness>(world: StoreUnderTest<H>) {
    let id = alice_sent(&world, 5).await;
    let group = world.group("alice", &["bob"]).await;
    world.delivered(id, "bob", 5).await;
    world.delivered(group, "bob", 1).await;
    let check = async |world: &StoreUnderTest<H>| {
        assert_eq!(world.behind("bob", &[]).await, []);
        assert_eq!(world.behind("bob", &[(id, 5), (group, 1)]).await, []);
        assert_eq!(world.behind("unknown", &[]).await, []);
    };
    world.holds(check).await;
}

pub async fn pending_starts_at_the_first_undelivered_message<H: Harness>(world: StoreUnderTest<H>) {
    let id = alice_sent(&world, 3).await;
    world.delivered(id, "bob", 2).await;
    let world =
        world.holds(async |world| assert_eq!(world.behind("bob", &[]).await, [behind(id, 2, 3)])).await;
    world.sent_many(id, "alice", "more", 1_000).await;
    world.holds(async |world| assert_eq!(world.behind("bob", &[]).await, [behind(id, 2, 1_003)])).await;
}

pub async fn only_receipts_clear_pending_messages<H: Harness>(world: StoreUnderTest<H>) {
    let id = alice_sent(&world, 4).await;
    world.delivered(id, "bob", 1).await;
    world.sent(id, "bob", "from another device").await;
    world.history(id, "bob").await;
    world.page(id, "bob", PageFrom::Newest, PageLimit::MAX).await.unwrap();
    world.inbox("bob").await;
    let check = async |world: &StoreUnderTest<H>| {
        assert_eq!(world.status(id, "alice", "bob").await, (4, 4), "the reply marks them as read");
        assert_eq!(world.behind("bob", &[]).await, [behind(id, 1, 5)], "the reply clears nothing");
    };
    let world = world.holds(check).await;
    world.delivered(id, "bob", 3).await;
    let world = world.holds(async |world| assert_eq!(world.pending(id, "bob").await, Some(3))).await;
    world.delivered(id, "bob", 2).await;
    assert_eq!(world.pending(id, "bob").await, Some(3), "a late receipt does not move it back");
    world.delivered(id, "bob", 5).await;
    world.holds(async |world| assert_eq!(world.behind("bob", &[]).await, [])).await;
}

pub async fn read_receipt_clears_pending_messages<H: Harness>(world: StoreUnderTest<H>) {
    let id = alice_sent(&world, 4).await;
    world.read(id, "bob", 3).await;
    let world = world.holds(async |world| assert_eq!(world.pending(id, "bob").await, Some(3))).await;
    world.read(id, "bob", 99).await;
    let world = world.holds(async |world| assert_eq!(world.pending(id, "bob").await, None)).await;
    world.sent(id, "alice", "next").await;
    world.holds(async |world| assert_eq!(world.pending(id, "bob").await, Some(4))).await;
}

pub async fn own_messages_are_not_pending<H: Harness>(world: StoreUnderTest<H>) {
    let id = alice_sent(&world, 3).await;
    let check = async |world: &StoreUnderTest<H>| {
        assert_eq!(world.pending(id, "alice").await, None);
        assert_eq!(world.pending(id, "bob").await, Some(0));
    };
    let world = world.holds(check).await;
    world.delivered(id, "bob", 3).await;
    world.sent_many(id, "bob", "answers", 2).await;
    let check = async |world: &StoreUnderTest<H>| {
        assert_eq!(world.pending(id, "bob").await, None);
        assert_eq!(world.pending(id, "alice").await, Some(3));
    };
    world.holds(check).await;
}

pub async fn notices_are_pending<H: Harness>(world: StoreUnderTest<H>) {
    let id = world.group("alice", &["bob"]).await;
    assert_eq!(world.behind("bob", &[]).await, [behind(id, 0, 1)]);
    world.delivered(id, "bob", 1).await;
    world.add(id, "alice", &["carol", "dave"]).await.unwrap();
    let check = async |world: &StoreUnderTest<H>| {
        assert_eq!(world.behind("bob", &[]).await, [behind(id, 1, 3)]);
        assert_eq!(world.behind("carol", &[]).await, [behind(id, 1, 3)], "from its join");
        assert_eq!(world.behind("dave", &[]).await, [behind(id, 2, 3)]);
    };
    world.holds(check).await;
}

pub async fn pending_messages_are_tracked_per_conversation<H: Harness>(world: StoreUnderTest<H>) {
    let mut expected = Vec::new();
    for number in 0..20 {
        let peer = format!("peer{number}");
        let id = world.direct("alice", &peer).await;
        world.sent_many(id, &peer, "m", 3).await;
        let acked = number % 4;
        world.delivered(id, "alice", acked).await;
        if acked < 3 {
            expected.push(behind(id, acked, 3));
        }
    }
    expected.sort_by_key(|behind| behind.conversation);
    world.holds(async |world| assert_eq!(world.behind("alice", &[]).await, expected)).await;
}

pub async fn position_returns_missed_messages_that_another_device_has<H: Harness>(world: StoreUnderTest<H>) {
    let id = alice_sent(&world, 9).await;
    world.read(id, "bob", 9).await;
    let check = async |world: &StoreUnderTest<H>| {
        assert_eq!(world.behind("bob", &[]).await, []);
        assert_eq!(world.behind("bob", &[(id, 4)]).await, [behind(id, 4, 9)]);
        assert_eq!(world.behind("bob", &[(id, 0)]).await, [behind(id, 0, 9)]);
        assert_eq!(world.behind("alice", &[(id, 8)]).await, [behind(id, 8, 9)], "own messages are included");
    };
    world.holds(check).await;
}

pub async fn position_replaces_the_pending_row_of_its_conversation<H: Harness>(world: StoreUnderTest<H>) {
    let id = alice_sent(&world, 9).await;
    let other = world.direct("carol", "bob").await;
    world.sent(other, "carol", "hello").await;
    world.delivered(id, "bob", 6).await;
    let check = async |world: &StoreUnderTest<H>| {
        let mut expected = [behind(id, 2, 9), behind(other, 0, 1)];
        expected.sort_by_key(|behind| behind.conversation);
        assert_eq!(
            world.behind("bob", &[(id, 2)]).await,
            expected,
            "the position is below the delivered seq"
        );
    };
    world.holds(check).await;
}

pub async fn position_above_the_head_is_ignored<H: Harness>(world: StoreUnderTest<H>) {
    let id = alice_sent(&world, 3).await;
    world.delivered(id, "bob", 1).await;
    let check = async |world: &StoreUnderTest<H>| {
        assert_eq!(world.behind("bob", &[(id, 4)]).await, [behind(id, 1, 3)]);
        assert_eq!(world.behind("bob", &[(id, u64::MAX)]).await, [behind(id, 1, 3)]);
    };
    let world = world.holds(check).await;
    let empty = world.direct("bob", "carol").await;
    assert_eq!(world.behind("carol", &[(empty, 7)]).await, []);
}

pub async fn position_in_a_conversation_of_others_is_reported_as_gone<H: Harness>(world: StoreUnderTest<H>) {
    let id = alice_sent(&world, 3).await;
    let left = world.group("alice", &["zoe"]).await;
    world.remove(left, "zoe", "zoe").await.unwrap();
    let unknown = ConversationId::direct(&world.user("x"), &world.user("y"));
    // This conversation is newer than the positions and fully acknowledged. Only a position that
    // counted would report it.
    world.turn_clock_to(9);
    let own = world.direct("zoe", "yves").await;
    world.sent(own, "yves", "hi").await;
    world.delivered(own, "zoe", 1).await;
    let check = async |world: &StoreUnderTest<H>| {
        let positions = [(id, 1), (left, 1), (unknown, 5)];
        assert_eq!(world.behind("zoe", &positions).await, []);
        let positions = positions.map(|(conversation, seq)| Position { conversation, seq: Seq::new(seq) });
        let missed = world.store().behind(&world.user("zoe"), positions.into()).await.unwrap();
        assert_eq!(missed.gone, [id, left, unknown], "an unknown conversation is reported in the same way");
    };
    world.holds(check).await;
}

pub async fn conversation_without_a_position_returns_its_newest_page_if_active_since<H: Harness>(
    world: StoreUnderTest<H>,
) {
    let (older, _) = acked_group(&world, 1, 3).await;
    let (known, _) = acked_group(&world, 2, 1).await;
    let (long, long_head) = acked_group(&world, 4, 250).await;
    let (short, short_head) = acked_group(&world, 5, 2).await;
    world.sent_at(6, known, "alice", "newest of all").await;
    world.delivered(known, "bob", 3).await;
    let check = async |world: &StoreUnderTest<H>| {
        // The device last connected at minute 2; the conversation it has a position for received
        // messages later.
        let mut expected =
            vec![behind(known, 2, 3), behind(long, long_head - 100, long_head), behind(short, 0, short_head)];
        expected.sort_by_key(|behind| behind.conversation);
        assert_eq!(world.behind("bob", &[(known, 2)]).await, expected);
        assert_eq!(world.behind("bob", &[(known, 2), (older, 4), (short, 3)]).await, [behind(known, 2, 3)]);
        assert_eq!(world.behind("bob", &[(known, 3)]).await, [], "no conversation was active since");
        assert_eq!(
            world.behind("bob", &[]).await,
            [],
            "a device without positions reads the history instead"
        );
    };
    world.holds(check).await;
}

pub async fn pending_messages_are_not_limited_to_the_newest_page<H: Harness>(world: StoreUnderTest<H>) {
    let (known, known_head) = acked_group(&world, 1, 2).await;
    world.turn_clock_to(2);
    let id = alice_sent(&world, 250).await;
    world.delivered(id, "bob", 2).await;
    let check = async |world: &StoreUnderTest<H>| {
        assert_eq!(world.behind("bob", &[(known, known_head)]).await, [behind(id, 2, 250)]);
    };
    world.holds(check).await;
}

pub async fn newest_page_of_a_late_member_starts_at_its_join<H: Harness>(world: StoreUnderTest<H>) {
    let (known, head) = acked_group(&world, 1, 2).await;
    world.turn_clock_to(2);
    let id = world.group("alice", &[]).await;
    world.sent_many(id, "alice", "before", 10).await;
    world.add(id, "alice", &["bob"]).await.unwrap();
    world.sent(id, "alice", "after").await;
    world.delivered(id, "bob", 13).await;
    world
        .holds(async |world| assert_eq!(world.behind("bob", &[(known, head)]).await, [behind(id, 11, 13)]))
        .await;
}

pub async fn position_above_the_acknowledged_seq_is_marked_unacknowledged<H: Harness>(
    world: StoreUnderTest<H>,
) {
    let id = alice_sent(&world, 5).await;
    world.delivered(id, "bob", 1).await;
    let check = async |world: &StoreUnderTest<H>| {
        let unacknowledged = |after, head| Behind { unacknowledged: true, ..behind(id, after, head) };
        assert_eq!(world.behind("bob", &[(id, 3)]).await, [unacknowledged(3, 5)]);
        assert_eq!(world.behind("bob", &[(id, 5)]).await, [unacknowledged(5, 5)], "also at the head");
        assert_eq!(world.behind("bob", &[(id, 1)]).await, [behind(id, 1, 5)]);
        assert_eq!(world.behind("alice", &[(id, 5)]).await, [], "own messages need no receipt");
    };
    let world = world.holds(check).await;
    world.delivered(id, "bob", 3).await;
    world.holds(async |world| assert_eq!(world.behind("bob", &[(id, 3)]).await, [behind(id, 3, 5)])).await;
}

pub async fn position_before_the_join_acknowledges_nothing<H: Harness>(world: StoreUnderTest<H>) {
    let id = world.group("alice", &["bob"]).await;
    world.sent_many(id, "alice", "before", 5).await;
    world.add(id, "alice", &["carol"]).await.unwrap();
    let check = async |world: &StoreUnderTest<H>| {
        for seq in [0, 4, 6] {
            assert_eq!(world.behind("carol", &[(id, seq)]).await, [behind(id, 6, 7)], "from {seq}");
        }
        let all = Behind { unacknowledged: true, ..behind(id, 7, 7) };
        assert_eq!(world.behind("carol", &[(id, 7)]).await, [all]);
    };
    world.holds(check).await;
}

pub async fn rejoined_member_misses_only_messages_after_its_second_join<H: Harness>(
    world: StoreUnderTest<H>,
) {
    let id = world.group("alice", &["bob"]).await;
    world.sent_many(id, "alice", "m", 5).await;
    world.delivered(id, "bob", 2).await;
    world.remove(id, "alice", "bob").await.unwrap();
    world.sent(id, "alice", "without bob").await;
    let check = async |world: &StoreUnderTest<H>| {
        assert_eq!(world.behind("bob", &[]).await, []);
        assert_eq!(world.behind("bob", &[(id, 2)]).await, []);
    };
    let world = world.holds(check).await;
    world.add(id, "alice", &["bob"]).await.unwrap();
    world.sent(id, "alice", "with bob").await;
    world.holds(async |world| assert_eq!(world.behind("bob", &[]).await, [behind(id, 8, 10)])).await;
}

pub async fn missed_conversations_are_ordered_by_latest_activity<H: Harness>(world: StoreUnderTest<H>) {
    let mut expected = Vec::new();
    for (minute, peer) in [(3, "carol"), (9, "dave"), (1, "erin"), (5, "alice")] {
        world.turn_clock_to(minute);
        let id = world.direct("bob", peer).await;
        world.sent(id, peer, "hi").await;
        expected.push((std::cmp::Reverse(minute), id));
    }
    expected.sort();
    let expected: Vec<ConversationId> = expected.into_iter().map(|(_, id)| id).collect();
    let check = async |world: &StoreUnderTest<H>| {
        let behind = world.store().behind(&world.user("bob"), Vec::new()).await.unwrap().behind;
        let found: Vec<_> = behind.into_iter().map(|behind| behind.conversation).collect();
        assert_eq!(found, expected);
    };
    world.holds(check).await;
}
