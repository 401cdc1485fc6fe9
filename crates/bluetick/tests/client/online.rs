//! Two connected users.

use bluetick_client::{Event, Tick};
use bluetick_core::Seq;
use serde_json::json;

use crate::world::{World, shown, until, user};

#[tokio::test]
async fn message_status_goes_from_pending_to_read() {
    let world = World::new().await;
    let (alice, bob) = (world.client("alice").await, world.client("bob").await);
    let to_bob = alice.open_direct(&user("bob")).await.unwrap();
    let to_alice = bob.conversation(to_bob.id());
    let mut heard = bob.events();

    to_bob.send("Lunch?").await.unwrap();
    until("delivered", &alice, || {
        let view = to_bob.view();
        view.messages.last().is_some_and(|last| view.tick(last) == Some(Tick::Delivered))
    })
    .await;
    assert!(matches!(heard.recv().await.unwrap(), Event::Message(message) if message.content == "Lunch?"));
    until("the message is in bob's inbox", &bob, || bob.unread_total() == 1).await;
    assert_eq!(shown(&to_alice), ["Lunch?"]);

    to_alice.mark_read(None);
    until("read", &alice, || {
        let view = to_bob.view();
        view.messages.last().is_some_and(|last| view.tick(last) == Some(Tick::Read))
    })
    .await;
    assert_eq!(bob.unread_total(), 0);
    alice.stop().await;
    bob.stop().await;
}

#[tokio::test]
async fn typing_and_presence_are_shown_until_they_end() {
    let world = World::new().await;
    let alice = world.client("alice").await;
    let to_bob = alice.open_direct(&user("bob")).await.unwrap();
    let bob = world.client("bob").await;
    let to_alice = bob.conversation(to_bob.id());
    // Presence is visible from the first message on.
    to_bob.send("hello").await.unwrap();
    until("bob is online", &alice, || to_bob.view().presence.is_some_and(|presence| presence.online)).await;
    to_alice.typing();
    until("bob types", &alice, || to_bob.view().typists == [user("bob")]).await;
    to_alice.send("done typing").await.unwrap();
    until("bob is shown as typing", &alice, || {
        to_bob.view().typists.is_empty() && shown(&to_bob) == ["hello", "done typing"]
    })
    .await;
    bob.stop().await;
    until("bob is offline", &alice, || {
        to_bob.view().presence.is_some_and(|presence| !presence.online && presence.last_seen_at.is_some())
    })
    .await;
    alice.stop().await;
}

#[tokio::test]
async fn group_message_is_read_after_the_last_member_reads() {
    let world = World::new().await;
    let (alice, bob, carol) =
        (world.client("alice").await, world.client("bob").await, world.client("carol").await);
    let group = alice.create_group("Lunch", &[user("bob"), user("carol")]).await.unwrap();
    group.send("Where?").await.unwrap();
    let tick = || {
        let view = group.view();
        let own = view.messages.iter().rev().find(|message| message.content == "Where?").cloned();
        own.and_then(|own| view.tick(&own))
    };
    until("delivered to both", &alice, || tick() == Some(Tick::Delivered)).await;
    bob.conversation(group.id()).mark_read(None);
    until("bob has read", &bob, || bob.unread_total() == 0).await;
    let receipts = group.receipts(group.view().window.to_seq).await.unwrap();
    assert!(receipts.recipient_count == 2 && receipts.read_count <= 1, "{receipts:?}");
    assert_eq!(tick(), Some(Tick::Delivered), "carol has not read it");
    carol.conversation(group.id()).mark_read(None);
    until("all have read", &alice, || tick() == Some(Tick::Read)).await;

    let in_group = carol.conversation(group.id());
    group.remove_member(&user("carol")).await.unwrap();
    until("carol's inbox drops the group", &carol, || in_group.view().row.is_none()).await;
    for client in [alice, bob, carol] {
        client.stop().await;
    }
}

#[tokio::test]
async fn two_devices_of_one_user_show_the_same_state() {
    let world = World::new().await;
    let (phone, laptop, bob) =
        (world.client("alice").await, world.client("alice").await, world.client("bob").await);
    let on_phone = phone.open_direct(&user("bob")).await.unwrap();
    let on_laptop = laptop.conversation(on_phone.id());
    on_phone.send("from the phone").await.unwrap();
    until("seen on the laptop", &laptop, || shown(&on_laptop) == ["from the phone"]).await;
    let with_bob = bob.conversation(on_phone.id());
    until("bob has it", &bob, || with_bob.view().row.is_some()).await;
    with_bob.send("hi").await.unwrap();
    until("unread on both", &phone, || phone.unread_total() == 1).await;
    until("unread on both", &laptop, || laptop.unread_total() == 1).await;
    on_laptop.mark_read(None);
    until("read on both", &phone, || phone.unread_total() == 0).await;
    for client in [phone, laptop, bob] {
        client.stop().await;
    }
}

#[tokio::test]
async fn history_pages_back_to_the_first_message_without_a_gap() {
    let world = World::new().await;
    let token = world.token("alice").await;
    let opened =
        world.ask(&token, "POST", "/v1/conversations", json!({"kind": "direct", "peer": "bob"})).await;
    let path = format!("/v1/conversations/{}/messages", opened["conversation_id"].as_str().unwrap());
    for number in 1..=330 {
        let body = json!({"message_id": format!("m{number}"), "content": format!("number {number}")});
        world.ask(&token, "POST", &path, body).await;
    }
    let alice = world.client("alice").await;
    let to_bob = alice.open_direct(&user("bob")).await.unwrap();
    to_bob.load_newest().await.unwrap();
    let mut pages = 0;
    while !to_bob.view().window.reaches_start {
        to_bob.load_older().await.unwrap();
        pages += 1;
    }
    let seqs: Vec<u64> = to_bob.view().messages.iter().map(|message| message.seq.get()).collect();
    assert_eq!(seqs, (1..=330).collect::<Vec<_>>());
    assert!(pages >= 3, "{pages}");
    assert_eq!(to_bob.view().window.to_seq, Seq::new(330));
    alice.stop().await;
}

#[tokio::test]
async fn user_search_matches_name_prefixes() {
    let world = World::with(&[("BLUETICK_AUTH__SIGNUP", "true")]).await;
    for (name, shown) in [("bob", "Bob Builder"), ("berta", "Berta"), ("carol", "Carol Bobson")] {
        let body = json!({"user_id": name, "password": "correct horse", "display_name": shown});
        world.ask("", "POST", "/v1/signup", body).await;
    }
    let alice = world.client("alice").await;
    let found = alice.search_people("bob").await.unwrap();
    let mut names: Vec<&str> = found.iter().map(|person| person.user_id.as_str()).collect();
    names.sort_unstable();
    assert_eq!(names, ["bob", "carol"]);
    alice.open_direct(&user("berta")).await.unwrap();
    until("berta has a name", &alice, || alice.name(&user("berta")) == "Berta").await;
    alice.stop().await;
}
