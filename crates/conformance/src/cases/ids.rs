//! Idempotent sends: a message id is stored once.

use std::sync::Arc;

use bluetick_core::{Refusal, Seq, Timestamp};

use crate::world::assert_refused;
use crate::{Harness, StoreUnderTest};

pub async fn resend_returns_the_first_seq<H: Harness>(world: StoreUnderTest<H>) {
    let id = world.direct("alice", "bob").await;
    let first = world.send(id, "alice", "m1").await.unwrap();
    assert!(!first.duplicate);
    world.sent(id, "bob", "m2").await;
    let mut again = world.message(id, "alice", "m1");
    again.timestamp = Timestamp::from_millis(99);
    again.received_at = again.received_at.plus_millis(60_000);
    let again = world.append(again).await.unwrap();
    assert_eq!((again.seq, again.received_at, again.duplicate), (first.seq, first.received_at, true));
    assert_eq!(world.texts(id, "bob").await.len(), 2);
}

pub async fn same_message_id_of_another_sender_is_a_new_message<H: Harness>(world: StoreUnderTest<H>) {
    let id = world.direct("alice", "bob").await;
    assert_eq!(world.sent(id, "alice", "m1").await, 1);
    let other = world.send(id, "bob", "m1").await.unwrap();
    assert_eq!((other.seq, other.duplicate), (Seq::new(2), false));
}

pub async fn same_message_id_in_another_conversation_is_a_new_message<H: Harness>(world: StoreUnderTest<H>) {
    let one = world.direct("alice", "bob").await;
    let other = world.direct("alice", "carol").await;
    assert_eq!(world.sent(one, "alice", "m1").await, 1);
    assert!(!world.send(other, "alice", "m1").await.unwrap().duplicate);
}

pub async fn same_message_id_with_other_content_is_refused<H: Harness>(world: StoreUnderTest<H>) {
    let id = world.direct("alice", "bob").await;
    let uuid = "0190b2a4-7c1e-7000-8000-0123456789ab";
    for (message_id, first_seq) in [("m1", Seq::new(1)), (uuid, Seq::new(2))] {
        world.sent(id, "alice", message_id).await;
        let mut other = world.message(id, "alice", message_id);
        other.content = "something else".into();
        assert_refused(world.append(other).await, Refusal::MessageIdReused { first_seq });
    }
    assert_eq!(world.sent(id, "alice", "m3").await, 3);
}

pub async fn concurrent_resends_store_one_message<H: Harness>(world: StoreUnderTest<H>) {
    let id = world.direct("alice", "bob").await;
    let world = Arc::new(world);
    for round in 0..10 {
        let text = format!("round-{round}");
        let tasks: Vec<_> = (0..16)
            .map(|_| {
                let (world, text) = (Arc::clone(&world), text.clone());
                tokio::spawn(async move { world.send(id, "alice", &text).await.unwrap() })
            })
            .collect();
        let mut fresh = 0;
        for task in tasks {
            let appended = task.await.unwrap();
            assert_eq!(appended.seq, Seq::new(round + 1));
            fresh += usize::from(!appended.duplicate);
        }
        assert_eq!(fresh, 1);
    }
    assert_eq!(world.texts(id, "bob").await.len(), 10);
}

pub async fn resend_after_a_crash_returns_the_first_seq<H: Harness>(world: StoreUnderTest<H>) {
    let id = world.direct("alice", "bob").await;
    for number in 0..100 {
        world.sent(id, "alice", &format!("m{number}")).await;
    }
    let world = world.crash().await;
    for number in [0, 50, 99] {
        let again = world.send(id, "alice", &format!("m{number}")).await.unwrap();
        assert_eq!((again.seq, again.duplicate), (Seq::new(number + 1), true));
    }
    let world = world.restart().await;
    for number in [0, 50, 99] {
        assert!(world.send(id, "alice", &format!("m{number}")).await.unwrap().duplicate);
    }
    assert_eq!(world.sent(id, "bob", "new").await, 101);
}

pub async fn resend_with_retry_after_finds_a_message_older_than_the_dedupe_window<H: Harness>(
    world: StoreUnderTest<H>,
) {
    let id = world.direct("alice", "bob").await;
    let long_ago = crate::world::NOW.plus_millis(-400 * 24 * 3_600_000);
    for number in 1..=130 {
        let mut append = world.message(id, "alice", &format!("m{number}"));
        append.received_at = long_ago;
        world.append(append).await.unwrap();
    }
    let world = world.restart().await;
    let mut retry = world.message(id, "alice", "m70");
    retry.retry_after = Some(Seq::new(40));
    let found = world.append(retry).await.unwrap();
    assert_eq!((found.seq, found.received_at, found.duplicate), (Seq::new(70), long_ago, true));
    let mut new = world.message(id, "alice", "never-sent");
    new.retry_after = Some(Seq::ZERO);
    let stored = world.append(new).await.unwrap();
    assert_eq!((stored.seq, stored.duplicate), (Seq::new(131), false));
}

pub async fn resend_after_a_clock_was_set_back_is_a_duplicate<H: Harness>(world: StoreUnderTest<H>) {
    let id = world.direct("alice", "bob").await;
    for number in 1..=100 {
        world.sent(id, "alice", &format!("m{number}")).await;
    }
    let world = world.restart().await;
    for number in 101..=200 {
        let mut append = world.message(id, "alice", &format!("m{number}"));
        append.received_at = crate::world::NOW.plus_millis(-30 * 24 * 3_600_000);
        world.append(append).await.unwrap();
    }
    let world = world.restart().await;
    for number in [5, 100, 101, 200] {
        let again = world.send(id, "alice", &format!("m{number}")).await.unwrap();
        assert_eq!((again.seq, again.duplicate), (Seq::new(number), true));
    }
}

const DAY_MINUTES: i64 = 24 * 60;

pub async fn clock_jump_keeps_message_ids_and_refuses_other_content<H: Harness>(world: StoreUnderTest<H>) {
    let id = world.direct("alice", "bob").await;
    for number in 1..=100 {
        world.sent(id, "alice", &format!("m{number}")).await;
    }
    let check = async |world: &StoreUnderTest<H>, at: &str| {
        for number in [1, 50, 100] {
            let again = world.send(id, "alice", &format!("m{number}")).await.unwrap();
            assert_eq!((again.seq, again.duplicate), (Seq::new(number), true), "{at}");
            let mut other = world.message(id, "alice", &format!("m{number}"));
            other.content = "something else".into();
            assert_refused(
                world.append(other).await,
                Refusal::MessageIdReused { first_seq: Seq::new(number) },
            );
        }
    };
    let (mut world, mut head) = (world, 100);
    for days in [8, 16, 24, 32, -30, 400, 0] {
        if !world.set_clock_to(days * DAY_MINUTES) {
            return;
        }
        for _ in 0..3 {
            head += 1;
            world.sent(id, "bob", &format!("m{head}")).await;
        }
        check(&world, &format!("{days} days")).await;
        // Skip the restarts for jumps of 1 to 31 days, so that the conversation stays in memory.
        if days < 32 && days > 0 {
            continue;
        }
        world = world.crash().await;
        check(&world, &format!("{days} days, after a crash")).await;
        world = world.restart().await;
        check(&world, &format!("{days} days, after a restart")).await;
    }
    assert_eq!(world.sent(id, "bob", "new").await, head + 1);
}

pub async fn retry_after_clock_jump_finds_the_stored_message<H: Harness>(world: StoreUnderTest<H>) {
    let id = world.direct("alice", "bob").await;
    let first = world.sent(id, "alice", "m1").await;
    for (number, days) in [20, 40, 60, 80, 0].into_iter().enumerate() {
        world.turn_clock_to(days * DAY_MINUTES);
        world.sent(id, "alice", &format!("later{number}")).await;
    }
    let mut retry = world.message(id, "alice", "m1");
    retry.retry_after = Some(Seq::ZERO);
    let again = world.append(retry).await.unwrap();
    assert_eq!((again.seq.get(), again.duplicate), (first, true));
}
