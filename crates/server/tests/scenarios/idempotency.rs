//! Resends: one message per message_id and sender.

use std::sync::{Arc, OnceLock};

use bluetick_core::ports::{CommitListener, Committed};
use bluetick_core::{ContentType, ConversationId, Member, Members, Message, MessageId, Role, Seq, Timestamp};
use bluetick_server::Hub;
use bluetick_store_memory::MemoryStore;

use crate::harness::{Setup, World, send_frame};

#[tokio::test(flavor = "multi_thread")]
async fn resend_on_any_connection_returns_first_seq_and_is_delivered_once() {
    let world = World::new().await;
    let [alice, bob] = world.people(["alice", "bob"]);
    let chat = alice.direct("bob").await;
    let mut tablet = bob.connect().await;
    let (mut phone, mut laptop) = (alice.connect().await, alice.connect().await);
    phone.send(&chat, "m1", "hi").await;
    let first = phone.receive_type("ack").await;
    laptop.receive_type("message").await;
    for device in [&mut phone, &mut laptop] {
        device.send(&chat, "m1", "hi").await;
        let again = device.receive_type("ack").await;
        assert_eq!((&again["seq"], &again["received_at"]), (&first["seq"], &first["received_at"]));
        assert_eq!(again["duplicate"], true);
    }
    let over_http = alice.send(&chat, "m1", "hi").await;
    assert_eq!((over_http.status, over_http.json()["duplicate"].as_bool()), (200, Some(true)));
    tablet.receive_type("message").await;
    tablet.receives_nothing().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn concurrent_resends_store_one_message() {
    let world = World::new().await;
    let alice = world.person("alice");
    let chat = alice.direct("bob").await;
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..16 {
        let (alice, chat) = (alice.clone(), chat.clone());
        tasks.spawn(async move { alice.send(&chat, "m1", "hi").await });
    }
    let replies = tasks.join_all().await;
    assert_eq!(replies.iter().filter(|reply| reply.status == 201).count(), 1);
    assert!(replies.iter().all(|reply| reply.json()["seq"] == 1));
    assert_eq!(alice.history(&chat, "").await.seqs(), [1]);
}

#[tokio::test(flavor = "multi_thread")]
async fn same_message_id_of_another_sender_is_another_message() {
    let world = World::new().await;
    let [alice, bob] = world.people(["alice", "bob"]);
    let chat = alice.direct("bob").await;
    assert_eq!(alice.send(&chat, "m1", "hi").await.json()["seq"], 1);
    assert_eq!(bob.send(&chat, "m1", "hi").await.json()["seq"], 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn same_message_id_with_other_content_is_refused() {
    let world = World::new().await;
    let alice = world.person("alice");
    let chat = alice.direct("bob").await;
    alice.send(&chat, "m1", "hi").await;
    alice.send(&chat, "m1", "bye").await.refused(409, "message_id_conflict");
    let mut phone = alice.connect().await;
    phone.send_json(send_frame(&chat, "m1", "bye")).await;
    assert_eq!(phone.receive_error("message_id_conflict").await["message_id"], "m1");
}

#[tokio::test(flavor = "multi_thread")]
async fn resend_marked_as_retry_returns_first_seq() {
    let world = World::new().await;
    let alice = world.person("alice");
    let chat = alice.direct("bob").await;
    alice.send(&chat, "m1", "hi").await;
    let mut phone = alice.connect().await;
    let mut frame = send_frame(&chat, "m1", "hi");
    frame["retry"] = true.into();
    frame["after_seq"] = 0.into();
    phone.send_json(frame).await;
    let ack = phone.receive_type("ack").await;
    assert_eq!((ack["seq"].as_u64(), ack["duplicate"].as_bool()), (Some(1), Some(true)));
}

/// Builds a committed message, as a store reports it.
pub fn committed(member: &str, seq: u64) -> Committed {
    let message = Message {
        conversation: ConversationId::group([1; 15]),
        seq: Seq::new(seq),
        message_id: MessageId::of_notice(Seq::new(seq)),
        sender: "somebody".parse().unwrap(),
        receiver: None,
        content_type: ContentType::Text,
        content: "hi".into(),
        timestamp: Timestamp::default(),
        received_at: Timestamp::default(),
    };
    let member = Member { user: member.parse().unwrap(), role: Role::Member, joined_seq: Seq::FIRST };
    let members = Arc::new(Members::from_unsorted(vec![member]));
    Committed { message: Arc::new(message), members, departed: None, origin: None, is_stored_here: true }
}

/// The fan-out is busy when the resend is acknowledged.
#[tokio::test(flavor = "multi_thread")]
async fn resend_ack_does_not_overtake_earlier_commits() {
    let listener = Arc::new(OnceLock::<Arc<Hub>>::new());
    let setup = Setup {
        store: Box::new({
            let listener = Arc::clone(&listener);
            move |hub| {
                let _ = listener.set(Arc::clone(&hub));
                Arc::new(MemoryStore::with_listener(hub))
            }
        }),
        ..Setup::default()
    };
    let world = setup.start().await;
    let alice = world.person("alice");
    let chat = alice.direct("bob").await;
    let mut phone = alice.connect().await;
    phone.send(&chat, "m1", "hi").await;
    phone.receive_type("ack").await;

    let mut batch = vec![committed("nobody-here", 1); 200_000];
    batch.push(committed("alice", 2));
    listener.get().unwrap().committed(batch);
    phone.send(&chat, "m1", "hi").await;
    assert_eq!(phone.receive_type("message").await["seq"], 2);
    let ack = phone.receive_type("ack").await;
    assert_eq!((ack["seq"].as_u64(), ack["duplicate"].as_bool()), (Some(1), Some(true)));
}
