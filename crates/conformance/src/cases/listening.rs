//! Messages that the store publishes to its listener.

use std::sync::Arc;

use bluetick_core::Seq;
use bluetick_core::ports::Origin;

use crate::{Harness, StoreUnderTest};

pub async fn message_is_published_once_in_order_before_its_ack<H: Harness>(world: StoreUnderTest<H>) {
    let id = world.group("s0", &["s1", "s2", "s3", "s4", "s5", "s6", "s7"]).await;
    let world = Arc::new(world);
    let tasks: Vec<_> = (0..8)
        .map(|sender| {
            let world = Arc::clone(&world);
            tokio::spawn(async move {
                for number in 0..50 {
                    let text = format!("{sender}-{number}");
                    let seq = world.send(id, &format!("s{sender}"), &text).await.unwrap().seq;
                    assert!(world.recorder.heard_seqs(id).contains(&seq), "published before the ack");
                    let again = world.send(id, &format!("s{sender}"), &text).await.unwrap();
                    assert!(again.duplicate, "{text} got seq {seq} and then {}", again.seq);
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    let expected: Vec<_> = (1..=401).map(Seq::new).collect();
    assert_eq!(world.recorder.heard_seqs(id), expected);
    let history = world.history(id, "s0").await;
    let published = world.recorder.heard(id);
    assert!(published.iter().zip(&history).all(|(published, stored)| *published.message == *stored));
}

pub async fn committed_message_names_its_origin_and_the_departed_member<H: Harness>(
    world: StoreUnderTest<H>,
) {
    let id = world.group("alice", &["bob"]).await;
    let mut append = world.message(id, "bob", "hi");
    append.origin = Some(Origin(7));
    world.append(append).await.unwrap();
    world.remove(id, "alice", "bob").await.unwrap();
    world.add(id, "alice", &["carol"]).await.unwrap();
    let published = world.recorder.heard(id);
    assert_eq!(published.len(), 4);
    assert_eq!(published[1].origin, Some(Origin(7)));
    assert_eq!((published[0].origin, published[2].origin), (None, None));
    assert_eq!(published[2].departed, Some(world.user("bob")));
    assert!(!published[2].members.contains(&world.user("bob")));
    assert!(published[3].members.contains(&world.user("carol")), "the new member receives its join notice");
}

pub async fn members_added_in_one_call_receive_messages_from_their_own_notice<H: Harness>(
    world: StoreUnderTest<H>,
) {
    let id = world.group("alice", &["bob"]).await;
    world.add(id, "bob", &["carol", "dave", "erin"]).await.unwrap();
    for (name, first) in [("alice", 1), ("carol", 2), ("dave", 3), ("erin", 4)] {
        let received = world.recorder.heard(id).into_iter().filter(|committed| {
            committed.members.get(&world.user(name)).is_some_and(|member| committed.concerns(member))
        });
        let received: Vec<u64> = received.map(|committed| committed.message.seq.get()).collect();
        assert_eq!(received, (first..=4).collect::<Vec<_>>(), "{name}");
    }
}
