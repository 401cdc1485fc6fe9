//! Durability: the data that survives a crash and a restart.

use bluetick_core::{ProfileUpdate, ReceiptKind, Seq, StoreError};

use crate::world::PIN;
use crate::{Harness, StoreUnderTest};

async fn fill<H: Harness>(world: &StoreUnderTest<H>) -> Vec<bluetick_core::ConversationId> {
    let mut ids = Vec::new();
    for pair in 0..10 {
        let id = world.direct("alice", &format!("bob{pair}")).await;
        for number in 0..=(pair * 11) {
            world.sent(id, "alice", &format!("{pair}-{number}")).await;
        }
        ids.push(id);
    }
    ids
}

async fn check<H: Harness>(world: &StoreUnderTest<H>, ids: &[bluetick_core::ConversationId]) {
    for (pair, id) in ids.iter().enumerate() {
        let expected: Vec<_> =
            (0..=(pair * 11)).map(|number| (number as u64 + 1, format!("{pair}-{number}"))).collect();
        assert_eq!(world.texts(*id, "alice").await, expected);
    }
}

pub async fn acknowledged_messages_survive_a_crash<H: Harness>(world: StoreUnderTest<H>) {
    let ids = fill(&world).await;
    let world = world.crash().await;
    check(&world, &ids).await;
    assert_eq!(world.sent(ids[3], "alice", "after").await, 35);
    let world = world.crash().await;
    assert_eq!(world.texts(ids[3], "bob3").await.len(), 35);
    check(&world, &ids[..3]).await;
}

pub async fn acknowledged_messages_survive_a_clean_restart<H: Harness>(world: StoreUnderTest<H>) {
    let ids = fill(&world).await;
    let world = world.restart().await;
    check(&world, &ids).await;
    assert_eq!(world.sent(ids[9], "alice", "after").await, 101);
    let world = world.restart().await;
    check(&world, &ids[..9]).await;
    assert_eq!(world.texts(ids[9], "bob9").await.len(), 101);
}

pub async fn membership_survives_a_crash<H: Harness>(world: StoreUnderTest<H>) {
    let id = world.group("alice", &["bob", "carol"]).await;
    world.add(id, "bob", &["dave"]).await.unwrap();
    world.remove(id, "alice", "carol").await.unwrap();
    world.remove(id, "alice", "alice").await.unwrap();
    let before = world.store().conversation(id, &world.user("bob")).await.unwrap();
    let world = world.crash().await;
    let after = world.store().conversation(id, &world.user("bob")).await.unwrap();
    assert_eq!((&after.members, &after.conversation), (&before.members, &before.conversation));
    let world = world.restart().await;
    let after = world.store().conversation(id, &world.user("dave")).await.unwrap();
    assert_eq!((&after.members, &after.conversation), (&before.members, &before.conversation));
    assert_eq!(world.history(id, "dave").await[0].seq, Seq::new(2));
}

pub async fn closed_store_refuses_messages<H: Harness>(world: StoreUnderTest<H>) {
    let id = world.direct("alice", "bob").await;
    world.sent(id, "alice", "before").await;
    let store = world.store();
    store.close().await;
    assert!(matches!(world.send(id, "alice", "after").await, Err(StoreError::Closing)));
}

pub async fn closed_store_refuses_receipts_and_preferences<H: Harness>(world: StoreUnderTest<H>) {
    let id = world.direct("alice", "bob").await;
    world.sent(id, "alice", "before").await;
    world.store().close().await;
    let (user, last_seen_at) = (world.user("bob"), Some(world.now()));
    assert!(matches!(world.apply_receipt(id, "bob", ReceiptKind::Read, 1).await, Err(StoreError::Closing)));
    assert!(matches!(world.set_preferences(id, "bob", PIN).await, Err(StoreError::Closing)));
    let update = ProfileUpdate { last_seen_at, ..ProfileUpdate::of(user) };
    assert!(matches!(world.store().update_profile(update).await, Err(StoreError::Closing)));
    assert!(world.recorder.moves(id).is_empty());
}
