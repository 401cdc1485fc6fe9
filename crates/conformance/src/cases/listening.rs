//! Messages that the store publishes to its listener.

use std::sync::Arc;

use bluetick_core::Seq;
use bluetick_core::ports::Origin;

use crate::{Harness, World};

pub async fn the_listener_hears_every_message_once_in_order_and_before_the_answer<H: Harness>(
    world: World<H>,
) {
    let id = world.group("s0", &["s1", "s2", "s3", "s4", "s5", "s6", "s7"]).await;
    let world = Arc::new(world);
    let tasks: Vec<_> = (0..8)
        .map(|sender| {
            let world = Arc::clone(&world);
            tokio::spawn(async move {
                for number in 0..50 {
                    let text = format!("{sender}-{number}");
                    let seq = world.send(id, &format!("s{sender}"), &text).await.unwrap().seq;
                    assert!(world.recorder.heard_seqs(id).contains(&seq), "heard before the answer");
                    let again = world.send(id, &format!("s{sender}"), &text).await.unwrap();
                    assert!(again.duplicate, "{text} stood at {seq} and stands at {} as well", again.seq);
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
    let heard = world.recorder.heard(id);
    assert!(heard.iter().zip(&history).all(|(heard, stored)| *heard.message == *stored));
}

pub async fn the_listener_learns_the_origin_and_who_departed<H: Harness>(world: World<H>) {
    let id = world.group("alice", &["bob"]).await;
    let mut append = world.message(id, "bob", "hi");
    append.origin = Some(Origin(7));
    world.append(append).await.unwrap();
    world.remove(id, "alice", "bob").await.unwrap();
    world.add(id, "alice", &["carol"]).await.unwrap();
    let heard = world.recorder.heard(id);
    assert_eq!(heard.len(), 4);
    assert_eq!(heard[1].origin, Some(Origin(7)));
    assert_eq!((heard[0].origin, heard[2].origin), (None, None));
    assert_eq!(heard[2].departed, Some(world.user("bob")));
    assert!(!heard[2].members.contains(&world.user("bob")));
    assert!(heard[3].members.contains(&world.user("carol")), "the one who joins is told");
}

pub async fn those_added_in_one_call_each_hear_from_their_own_notice_on<H: Harness>(world: World<H>) {
    let id = world.group("alice", &["bob"]).await;
    world.add(id, "bob", &["carol", "dave", "erin"]).await.unwrap();
    for (name, first) in [("alice", 1), ("carol", 2), ("dave", 3), ("erin", 4)] {
        let told = world.recorder.heard(id).into_iter().filter(|heard| {
            heard.members.get(&world.user(name)).is_some_and(|member| heard.concerns(member))
        });
        let told: Vec<u64> = told.map(|heard| heard.message.seq.get()).collect();
        assert_eq!(told, (first..=4).collect::<Vec<_>>(), "{name}");
    }
}
