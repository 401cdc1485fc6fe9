//! Lost connections, killed servers, and killed clients.

use std::time::Duration;

use bluetick_client::storage::Change;
use bluetick_client::{Client, FileStorage, MemoryStorage, Phase, Storage};
use bluetick_core::Seq;
use bluetick_testkit::dice::Dice;
use serde_json::json;
use tokio::time::sleep;

use crate::proxy::Proxy;
use crate::world::{World, numbered, shown, until, user};

/// Random numbers from `BLUETICK_SEED`, which repeats a run as far as the scheduler allows.
fn dice() -> Dice {
    let given = std::env::var("BLUETICK_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed = given.unwrap_or_else(|| u64::from(std::process::id()));
    println!("seed {seed}");
    Dice::new(seed)
}

/// Cuts the connection again and again, and then waits forever. Before half of the cuts the server
/// receives everything, and its answers are lost.
async fn storm(proxy: &Proxy, dice: &mut Dice) {
    /// Bounds the number of cuts: on a busy machine, connecting may take longer than the time
    /// between two cuts.
    const CUTS: usize = 100;
    for _ in 0..CUTS {
        sleep(Duration::from_millis(dice.between(5, 120))).await;
        if dice.one_in(2) {
            proxy.lose_answers(true);
            sleep(Duration::from_millis(dice.between(1, 30))).await;
        }
        proxy.cut();
        proxy.lose_answers(false);
    }
    std::future::pending().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn five_hundred_messages_over_a_failing_network_arrive_once_in_order() {
    let world = World::new().await;
    let proxy = Proxy::to(Some(world.address())).await;
    let other_proxy = Proxy::to(Some(world.address())).await;
    let alice = world.client_at(&proxy.address, "alice", MemoryStorage::default()).await;
    let bob = world.client_at(&other_proxy.address, "bob", MemoryStorage::default()).await;
    until("alice has caught up", &alice, || alice.connection().caught_up).await;
    let to_bob = alice.open_direct(&user("bob")).await.unwrap();
    let to_alice = bob.conversation(to_bob.id());
    let (_looks, _looks_too) = (to_bob.watch(), to_alice.watch());
    let mut dice = dice();
    let mut other_dice = dice.fork();
    let sending = async {
        for text in numbered(500) {
            to_bob.send(&text).await.unwrap();
            sleep(Duration::from_millis(3)).await;
        }
        until("all messages are sent", &alice, || alice.waiting() == 0).await;
    };
    tokio::select! {
        () = sending => {}
        () = storm(&proxy, &mut dice) => {}
        () = storm(&other_proxy, &mut other_dice) => {}
    }
    // Cut the connections on which the proxy dropped answers: they cannot recover.
    for line in [&proxy, &other_proxy] {
        line.lose_answers(false);
        line.cut();
    }
    assert_eq!(world.texts("alice", &to_bob).await, numbered(500));
    until("alice shows all messages", &alice, || shown(&to_bob) == numbered(500)).await;
    until("bob has all messages", &bob, || {
        to_alice.view().row.is_some_and(|row| row.have_seq == Seq::new(500) && row.entry.unread == 500)
    })
    .await;
    until("bob shows all messages", &bob, || shown(&to_alice) == numbered(500)).await;
    alice.stop().await;
    bob.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn server_killed_during_sends_stores_everything_once_in_order() {
    let mut world = World::new().await;
    let proxy = Proxy::to(Some(world.address())).await;
    let alice = world.client_at(&proxy.address, "alice", MemoryStorage::default()).await;
    until("alice has caught up", &alice, || alice.connection().caught_up).await;
    let to_bob = alice.open_direct(&user("bob")).await.unwrap();
    for round in 0..3 {
        for text in &numbered(150)[round * 50..][..50] {
            to_bob.send(text).await.unwrap();
        }
        world.kill().await;
        proxy.set_target(None);
        until("alice notices", &alice, || !alice.connection().caught_up).await;
        world.restart().await;
        proxy.set_target(Some(world.address()));
    }
    until("all messages are sent", &alice, || alice.waiting() == 0).await;
    assert_eq!(world.texts("alice", &to_bob).await, numbered(150));
    assert_eq!(shown(&to_bob).last().unwrap(), "number 150");
    alice.stop().await;
}

#[tokio::test]
async fn outbox_of_a_killed_client_is_sent_once_by_the_next_client() {
    let world = World::new().await;
    let proxy = Proxy::to(Some(world.address())).await;
    let directory = tempfile::tempdir().unwrap();
    let open = || FileStorage::open(directory.path()).unwrap();
    let alice = world.client_at(&proxy.address, "alice", open()).await;
    until("alice has caught up", &alice, || alice.connection().caught_up).await;
    let id = alice.open_direct(&user("bob")).await.unwrap().id();
    alice.stop().await;

    proxy.set_target(None);
    let alice = world.client_at(&proxy.address, "alice", open()).await;
    assert!(
        alice.conversation(id).view().row.is_some(),
        "the stored inbox is shown before the client connects"
    );
    for text in numbered(3) {
        alice.conversation(id).send(&text).await.unwrap();
    }
    die(alice).await;

    proxy.set_target(Some(world.address()));
    let alice = world.client_at(&proxy.address, "alice", open()).await;
    assert_eq!(alice.waiting(), 3);
    until("all messages are sent", &alice, || alice.waiting() == 0).await;
    assert_eq!(world.texts("alice", &alice.conversation(id)).await, numbered(3));
    alice.stop().await;
}

#[tokio::test]
async fn message_resent_after_a_lost_ack_is_stored_once() {
    let world = World::new().await;
    let proxy = Proxy::to(Some(world.address())).await;
    let directory = tempfile::tempdir().unwrap();
    let open = || FileStorage::open(directory.path()).unwrap();
    let alice = world.client_at(&proxy.address, "alice", open()).await;
    until("alice has caught up", &alice, || alice.connection().caught_up).await;
    let to_bob = alice.open_direct(&user("bob")).await.unwrap();
    proxy.lose_answers(true);
    to_bob.send("only once").await.unwrap();
    while world.texts("alice", &to_bob).await.is_empty() {
        sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(alice.waiting(), 1, "alice has not received it");
    let id = to_bob.id();
    drop(to_bob);
    die(alice).await;
    proxy.lose_answers(false);

    let alice = world.client_at(&proxy.address, "alice", open()).await;
    until("the message is sent", &alice, || alice.waiting() == 0).await;
    let to_bob = alice.conversation(id);
    assert_eq!(world.texts("alice", &to_bob).await, ["only once"]);
    until("the message is shown once", &alice, || shown(&to_bob) == ["only once"]).await;
    alice.stop().await;
}

/// Drops the client without closing it, and waits until its tasks have released the storage.
async fn die(client: Client) {
    drop(client);
    for _ in 0..20 {
        tokio::task::yield_now().await;
        sleep(Duration::from_millis(1)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn messages_beyond_the_backlog_are_fetched_completely() {
    let world = World::new().await;
    let storage = MemoryStorage::default();
    let alice = world.client("alice").await;
    let to_bob = alice.open_direct(&user("bob")).await.unwrap();
    let bob = world.client_at(world.address(), "bob", storage.clone()).await;
    to_bob.send("before").await.unwrap();
    let to_alice = bob.conversation(to_bob.id());
    until("bob has the first message", &bob, || shown(&to_alice) == ["before"]).await;
    bob.stop().await;

    send_many(&world, "alice", &to_bob.id().to_string(), 2_500).await;
    let bob = world.client_at(world.address(), "bob", storage).await;
    let to_alice = bob.conversation(to_bob.id());
    until("bob has every missing message", &bob, || {
        to_alice.view().row.is_some_and(|row| row.have_seq == Seq::new(2_501) && row.entry.unread == 2_501)
    })
    .await;
    let view = to_alice.view();
    assert_eq!((view.window.to_seq, view.window.reaches_head), (Seq::new(2_501), true));
    until("alice sees the delivered read state", &alice, || {
        to_bob.view().row.is_some_and(|row| row.entry.peer_status.last_delivered_seq == Seq::new(2_501))
    })
    .await;
    bob.stop().await;
    alice.stop().await;
}

/// Sends `count` messages over a separate connection, without waiting for each ack.
async fn send_many(world: &World, name: &str, conversation: &str, count: u64) {
    use bluetick_client::link::{ClientFrame, FrameKind, Link, SendFrame};
    use bluetick_client::{FixedToken, TokenSource};

    let settings = world.settings_at(world.address(), name).await;
    let token = FixedToken(world.token(name).await).token(None).await.unwrap();
    let mut link = Link::open(&settings.server).await.unwrap();
    let hello = ClientFrame::Hello { token: &token, device_id: None, positions: Default::default() };
    link.send(&hello).await.unwrap();
    for number in 0..count {
        let message_id = format!("many-{number}").parse().unwrap();
        let send = SendFrame::text(conversation.parse().unwrap(), message_id, "one of many");
        link.feed(&ClientFrame::Send(send)).await.unwrap();
    }
    link.flush().await.unwrap();
    let mut acknowledged = 0;
    while acknowledged < count {
        acknowledged += u64::from(link.next().await.unwrap().kind() == FrameKind::Ack);
    }
    link.close().await;
}

#[tokio::test]
async fn changed_epoch_clears_client_cache_and_keeps_the_outbox() {
    let world = World::new().await;
    let mut storage = MemoryStorage::default();
    let alice = world.client_at(world.address(), "alice", storage.clone()).await;
    until("alice has caught up", &alice, || alice.connection().caught_up).await;
    let to_bob = alice.open_direct(&user("bob")).await.unwrap();
    to_bob.send("first").await.unwrap();
    until("the message is sent", &alice, || shown(&to_bob) == ["first"]).await;
    let id = to_bob.id();
    alice.stop().await;

    // Simulate a restored store: the client knows another epoch, with messages that do not exist.
    let kept = storage.load().unwrap();
    let (key, message) = kept.iter().find(|(key, _)| key.starts_with("message/")).unwrap();
    let false_memory = Change::put(key.clone(), message.replace("first", "what never was"));
    let in_the_outbox = json!({
        "number": 7, "conversation_id": id.to_string(), "message_id": "left-behind", "content": "second",
        "timestamp": 5, "after_seq": 4_711, "attempted": true,
    });
    let in_the_outbox = Change::put("outbox/0000000000000007", in_the_outbox.to_string());
    storage.apply(&[Change::put("epoch", "99"), false_memory, in_the_outbox]).unwrap();

    let alice = world.client_at(world.address(), "alice", storage).await;
    let to_bob = alice.conversation(id);
    assert_eq!(shown(&to_bob), ["what never was"]);
    until("the outbox is sent", &alice, || alice.waiting() == 0).await;
    assert_eq!(world.texts("alice", &to_bob).await, ["first", "second"]);
    until("the inbox row is fetched again", &alice, || to_bob.view().row.is_some()).await;
    to_bob.load_newest().await.unwrap();
    assert_eq!(shown(&to_bob), ["first", "second"]);
    alice.stop().await;
}

#[tokio::test]
async fn unread_counts_match_the_server_after_disconnects() {
    let world = World::new().await;
    let proxy = Proxy::to(Some(world.address())).await;
    let alice = world.client("alice").await;
    let bob = world.client_at(&proxy.address, "bob", MemoryStorage::default()).await;
    let to_bob = alice.open_direct(&user("bob")).await.unwrap();
    let to_alice = bob.conversation(to_bob.id());
    let unread = || to_alice.view().row.map(|row| row.entry.unread);
    for (number, text) in numbered(20).iter().enumerate() {
        to_bob.send(text).await.unwrap();
        if number % 5 == 4 {
            proxy.cut();
        }
    }
    until("twenty", &bob, || unread() == Some(20)).await;
    to_alice.mark_read(Some(Seq::new(8)));
    assert_eq!(unread(), Some(12));
    proxy.cut();
    until("bob has caught up again", &bob, || {
        bob.connection().phase == Phase::Online && bob.connection().caught_up
    })
    .await;
    until("the server has the same unread count", &alice, || {
        to_bob.view().row.is_some_and(|row| row.entry.peer_status.last_read_seq == Seq::new(8))
    })
    .await;
    let token = world.token("bob").await;
    let path = format!("/v1/conversations/{}", to_bob.id());
    assert_eq!(world.ask(&token, "GET", &path, json!({})).await["unread"], 12);
    assert_eq!(unread(), Some(12));
    to_alice.send("a reply reads everything").await.unwrap();
    until("none", &bob, || unread() == Some(0) && bob.waiting() == 0).await;
    assert_eq!(world.ask(&token, "GET", &path, json!({})).await["unread"], 0);
    alice.stop().await;
    bob.stop().await;
}

#[tokio::test]
async fn rejected_token_logs_out_and_keeps_the_outbox() {
    let world = World::new().await;
    let mut settings = world.settings_at(world.address(), "alice").await;
    settings.tokens = std::sync::Arc::new(bluetick_client::FixedToken("not a token".into()));
    let storage = MemoryStorage::default();
    let alice = Client::start(settings, storage.clone()).await.unwrap();
    until("logged out", &alice, || alice.connection().phase == Phase::LoggedOut).await;
    let id = bluetick_core::ConversationId::direct(&user("alice"), &user("bob"));
    alice.conversation(id).send("later").await.unwrap();
    alice.stop().await;
    let alice = world.client_at(world.address(), "alice", storage).await;
    assert_eq!(alice.waiting(), 1);
    alice.stop().await;
}
