//! Messages that the server refuses, permanently or temporarily.

use std::time::Duration;

use bluetick_client::{CannotCancel, Event, MemoryStorage, SendState};
use tokio::time::timeout;

use crate::proxy::Proxy;
use crate::world::{World, numbered, until, user};

#[tokio::test]
async fn too_large_message_fails_and_later_messages_are_sent() {
    let world = World::with(&[("BLUETICK_LIMITS__CONTENT_BYTES", "100")]).await;
    let alice = world.client("alice").await;
    let to_bob = alice.open_direct(&user("bob")).await.unwrap();
    let large = to_bob.send(&"x".repeat(200)).await.unwrap();
    to_bob.send("small").await.unwrap();
    let failed = || matches!(to_bob.send_state(&large.message_id), Some(SendState::Failed(why)) if why.code == "content_too_large");
    until("it failed", &alice, failed).await;
    until("the rest is sent", &alice, || to_bob.view().waiting.len() == 1).await;
    assert!(to_bob.retry(&large.message_id).await);
    until("it failed again", &alice, failed).await;
    assert_eq!((alice.waiting(), alice.failed()), (0, 1), "no message is sent any more");
    assert!(
        alice.inbox_summaries(false)[0].failed.is_some() && alice.inbox_summaries(false)[0].waiting.is_none()
    );
    assert!(to_bob.cancel(&large.message_id).await.is_ok());
    assert_eq!(to_bob.cancel(&large.message_id).await, Err(CannotCancel::NotWaiting));
    assert_eq!(world.texts("alice", &to_bob).await, ["small"]);
    alice.stop().await;
}

#[tokio::test]
async fn frame_that_closes_the_connection_is_identified_among_pending_sends() {
    let world =
        World::with(&[("BLUETICK_LIMITS__CONTENT_BYTES", "200"), ("BLUETICK_LIMITS__FRAME_BYTES", "2000")])
            .await;
    let alice = world.client("alice").await;
    let mut conversations = Vec::new();
    for peer in ["bob", "carol", "dave"] {
        conversations.push(alice.open_direct(&user(peer)).await.unwrap());
    }
    let large = conversations[1].send(&"x".repeat(5_000)).await.unwrap();
    for conversation in &conversations {
        conversation.send("small").await.unwrap();
    }
    until("the large one failed", &alice, || {
        matches!(conversations[1].send_state(&large.message_id), Some(SendState::Failed(_)))
    })
    .await;
    until("all others are sent", &alice, || alice.waiting() == 0).await;
    assert_eq!(alice.failed(), 1);
    alice.stop().await;
}

#[tokio::test]
async fn rate_limited_sender_slows_down_and_keeps_message_order() {
    let world =
        World::with(&[("BLUETICK_LIMITS__SENDS_PER_SECOND", "20"), ("BLUETICK_LIMITS__SENDS_BURST", "5")])
            .await;
    let alice = world.client("alice").await;
    let to_bob = alice.open_direct(&user("bob")).await.unwrap();
    for text in numbered(30) {
        to_bob.send(&text).await.unwrap();
    }
    until("all are sent", &alice, || alice.waiting() == 0).await;
    assert_eq!(world.texts("alice", &to_bob).await, numbered(30));
    alice.stop().await;
}

#[tokio::test]
async fn full_outbox_refuses_the_message_after_a_thousand() {
    let mut world = World::new().await;
    let alice = world.client("alice").await;
    let to_bob = alice.open_direct(&user("bob")).await.unwrap();
    world.kill().await;
    until("offline", &alice, || !alice.connection().caught_up).await;
    for text in numbered(1_000) {
        to_bob.send(&text).await.unwrap();
    }
    let refused = to_bob.send("one too many").await.unwrap_err();
    assert!(refused.to_string().contains("the outbox is full: it holds 1000 messages"), "{refused}");
    let first = to_bob.view().waiting[0].0.message_id.clone();
    assert!(to_bob.cancel(&first).await.is_ok(), "an unsent message can be cancelled");
    alice.stop().await;
}

#[tokio::test]
async fn message_to_a_group_after_removal_fails_with_a_reason() {
    let world = World::new().await;
    let proxy = Proxy::to(Some(world.address())).await;
    let alice = world.client("alice").await;
    let storage = MemoryStorage::default();
    let bob = world.client_at(&proxy.address, "bob", storage.clone()).await;
    until("bob is there", &bob, || bob.connection().caught_up).await;
    let group = alice.create_group("Lunch", &[user("bob")]).await.unwrap();
    let in_group = bob.conversation(group.id());
    until("bob is in it", &bob, || in_group.view().row.is_some()).await;
    proxy.set_target(None);
    proxy.cut();
    until("bob is offline", &bob, || !bob.connection().caught_up).await;
    let written = in_group.send("Where?").await.unwrap();
    group.remove_member(&user("bob")).await.unwrap();

    let mut events = bob.events();
    proxy.set_target(Some(world.address()));
    let given_up = loop {
        let event = timeout(Duration::from_secs(30), events.recv()).await.unwrap().unwrap();
        if let Event::GivenUp(items) = event {
            break items;
        }
    };
    assert_eq!(given_up.iter().map(|item| item.content.as_str()).collect::<Vec<_>>(), ["Where?"]);
    assert_eq!((bob.waiting(), bob.failed()), (0, 0));
    assert!(matches!(in_group.send_state(&written.message_id), Some(SendState::Failed(_))));
    bob.stop().await;
    let bob = world.client_at(world.address(), "bob", storage).await;
    assert_eq!((bob.waiting(), bob.failed()), (0, 0), "the message does not come back");
    bob.stop().await;
    alice.stop().await;
}
