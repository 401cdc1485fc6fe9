//! The unread count is exact: messages by others above the read seq, without system notices.

use std::sync::Arc;

use bluetick_core::ConversationId;

use crate::cases::at_once;
use crate::{Harness, StoreUnderTest};

/// Asserts the unread count, both as the inbox reports it and as counted message by message.
async fn assert_unread<H: Harness>(world: &StoreUnderTest<H>, id: ConversationId, name: &str, expected: u64) {
    assert_eq!(world.unread_by_counting(id, name).await, expected, "{name}, counted from the history");
    assert_eq!(world.unread(id, name).await, expected, "{name}, from the inbox");
}

pub async fn own_messages_are_never_unread<H: Harness>(world: StoreUnderTest<H>) {
    let id = world.direct("alice", "bob").await;
    world.sent_many(id, "alice", "from-the-phone", 5).await;
    let world = world.holds(async |world| assert_unread(world, id, "alice", 0).await).await;
    assert_unread(&world, id, "bob", 5).await;
    world.sent_many(id, "bob", "from-bob", 2).await;
    world.holds(async |world| assert_unread(world, id, "alice", 2).await).await;
}

pub async fn own_message_leaves_no_earlier_message_unread<H: Harness>(world: StoreUnderTest<H>) {
    let id = world.direct("alice", "bob").await;
    world.sent_many(id, "alice", "m", 4).await;
    world.sent(id, "bob", "reply").await;
    let world = world.holds(async |world| assert_unread(world, id, "bob", 0).await).await;
    world.sent(id, "alice", "next").await;
    let world = world.holds(async |world| assert_unread(world, id, "bob", 1).await).await;
    world.sent(id, "bob", "next reply").await;
    world.holds(async |world| assert_unread(world, id, "bob", 0).await).await;
}

pub async fn notices_are_never_unread<H: Harness>(world: StoreUnderTest<H>) {
    let id = world.group("alice", &["bob"]).await;
    assert_unread(&world, id, "bob", 0).await;
    world.add(id, "alice", &["carol", "dave"]).await.unwrap();
    world.sent(id, "alice", "hello").await;
    world.remove(id, "alice", "dave").await.unwrap();
    let check = async |world: &StoreUnderTest<H>| {
        assert_unread(world, id, "bob", 1).await;
        assert_unread(world, id, "alice", 0).await;
    };
    let world = world.holds(check).await;
    world.read(id, "bob", 2).await;
    let world = world.holds(async |world| assert_unread(world, id, "bob", 1).await).await;
    world.read(id, "bob", 4).await;
    world.holds(async |world| assert_unread(world, id, "bob", 0).await).await;
}

pub async fn unread_count_is_exact_with_concurrent_senders<H: Harness>(world: StoreUnderTest<H>) {
    let senders = ["bob", "carol", "dave", "erin"];
    let id = world.group("alice", &senders).await;
    let world = Arc::new(world);
    let sending = senders.map(|sender| {
        let world = Arc::clone(&world);
        async move {
            for number in 0..25 {
                world.sent(id, sender, &format!("{sender}-{number}")).await;
                if number % 5 == 0 {
                    world.read(id, sender, number).await;
                }
            }
        }
    });
    at_once(sending).await;
    let world = Arc::into_inner(world).expect("all senders are done");
    assert_unread(&world, id, "alice", 100).await;
    let check = async |world: &StoreUnderTest<H>| {
        for name in ["alice", "bob", "carol", "dave", "erin"] {
            assert_unread(world, id, name, world.unread_by_counting(id, name).await).await;
        }
    };
    let world = world.holds(check).await;
    world.read(id, "alice", 51).await;
    world.holds(async |world| assert_unread(world, id, "alice", 50).await).await;
}

pub async fn earlier_read_receipt_keeps_the_unread_count<H: Harness>(world: StoreUnderTest<H>) {
    let id = world.direct("alice", "bob").await;
    world.sent_many(id, "alice", "m", 9).await;
    for (seq, left) in [(6, 3), (5, 3), (1, 3), (7, 2), (0, 2)] {
        world.read(id, "bob", seq).await;
        assert_unread(&world, id, "bob", left).await;
    }
    world.holds(async |world| assert_unread(world, id, "bob", 2).await).await;
}

pub async fn late_member_counts_only_messages_after_its_join_as_unread<H: Harness>(world: StoreUnderTest<H>) {
    let id = world.group("alice", &["bob"]).await;
    world.sent_many(id, "alice", "before", 7).await;
    world.add(id, "alice", &["carol"]).await.unwrap();
    let world = world.holds(async |world| assert_unread(world, id, "carol", 0).await).await;
    world.sent_many(id, "bob", "after", 3).await;
    let check = async |world: &StoreUnderTest<H>| {
        assert_unread(world, id, "carol", 3).await;
        assert_unread(world, id, "bob", 0).await;
        assert_unread(world, id, "alice", 3).await;
    };
    let world = world.holds(check).await;
    world.read(id, "carol", 2).await;
    assert_unread(&world, id, "carol", 3).await;
    world.read(id, "carol", 10).await;
    world.holds(async |world| assert_unread(world, id, "carol", 2).await).await;
}

pub async fn unread_count_is_exact_with_concurrent_delivered_and_read_receipts<H: Harness>(
    world: StoreUnderTest<H>,
) {
    let id = world.direct("alice", "bob").await;
    for round in 1..=20 {
        let head = world.sent_many(id, "alice", &format!("round-{round}"), 3).await;
        tokio::join!(world.delivered(id, "bob", head), world.read(id, "bob", head - 1));
        assert_unread(&world, id, "bob", 1).await;
    }
    let check = async |world: &StoreUnderTest<H>| {
        assert_unread(world, id, "bob", 1).await;
        assert_eq!(world.status(id, "alice", "bob").await, (60, 59));
    };
    world.holds(check).await;
}

pub async fn unread_count_is_exact_for_a_member_far_behind<H: Harness>(world: StoreUnderTest<H>) {
    let id = world.group("alice", &["bob", "carol"]).await;
    for block in 0..30 {
        world.sent_many(id, "alice", &format!("a{block}"), 8).await;
        world.add(id, "bob", &["guest"]).await.unwrap();
        world.sent_many(id, "bob", &format!("b{block}"), 4).await;
        world.remove(id, "guest", "guest").await.unwrap();
    }
    assert_unread(&world, id, "carol", 360).await;
    let world = world.restart().await;
    assert_unread(&world, id, "carol", 360).await;
    // Move the read state to messages and to notices, in history that is no longer in memory.
    for seq in [5, 10, 11, 100, 150, 230, 331] {
        world.read(id, "carol", seq).await;
        let expected = world.unread_by_counting(id, "carol").await;
        assert_unread(&world, id, "carol", expected).await;
    }
    let expected = world.unread_by_counting(id, "carol").await;
    let world = world.holds(async |world| assert_unread(world, id, "carol", expected).await).await;
    world.sent(id, "bob", "one more").await;
    assert_unread(&world, id, "carol", expected + 1).await;
    world.sent(id, "carol", "here I am").await;
    world.holds(async |world| assert_unread(world, id, "carol", 0).await).await;
}
