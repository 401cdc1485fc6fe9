//! Typing indicators.

use serde_json::json;

use crate::harness::{Setup, World};

#[tokio::test(flavor = "multi_thread")]
async fn typing_reaches_devices_of_other_members_only() {
    let world = World::new().await;
    let [alice, bob] = world.people(["alice", "bob"]);
    let chat = alice.direct_with_message("bob").await;
    let (mut phone, mut laptop) = (alice.connect().await, alice.connect().await);
    let (mut tablet, mut watch) = (bob.connect().await, bob.connect().await);
    phone.send_json(json!({"type": "typing", "conversation_id": chat})).await;
    for device in [&mut tablet, &mut watch] {
        let expected = json!({"type": "typing", "conversation_id": chat, "user_id": "alice"});
        assert_eq!(device.receive_type("typing").await, expected);
    }
    for device in [&mut phone, &mut laptop] {
        let frames = device.received_so_far().await;
        assert!(frames.iter().all(|frame| frame["type"] != "typing"), "{frames:?}");
    }
    assert_eq!(alice.history(&chat, "").await.json()["head_seq"], 1, "typing is not stored");
}

/// A client sends a frame for each key press.
#[tokio::test(flavor = "multi_thread")]
async fn typing_frames_are_forwarded_once_per_two_seconds() {
    let world = World::new().await;
    let [alice, bob] = world.people(["alice", "bob"]);
    let chat = alice.direct_with_message("bob").await;
    let (mut phone, mut tablet) = (alice.connect().await, bob.connect().await);
    let started = tokio::time::Instant::now();
    for _ in 0..50 {
        phone.send_json(json!({"type": "typing", "conversation_id": chat})).await;
    }
    tablet.receive_type("typing").await;
    phone.receives_nothing().await;
    phone.send(&chat, "m1", "done").await;
    let frames = loop {
        let frame = tablet.receive_any().await;
        match frame["type"].as_str() {
            Some("message") => break 0,
            Some("typing") => break 1,
            _ => {}
        }
    };
    assert!(frames == 0 || started.elapsed().as_secs() >= 2, "the frame arrived twice");
}

#[tokio::test(flavor = "multi_thread")]
async fn typing_by_a_non_member_gets_conversation_not_found() {
    let world = World::new().await;
    let [alice, bob, eve] = world.people(["alice", "bob", "eve"]);
    let chat = alice.direct_with_message("bob").await;
    let (mut tablet, mut evil) = (bob.connect().await, eve.connect().await);
    evil.send_json(json!({"type": "typing", "conversation_id": chat})).await;
    evil.receive_error("conversation_not_found").await;
    let frames = tablet.received_so_far().await;
    assert!(frames.iter().all(|frame| frame["type"] != "typing"), "{frames:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn typing_in_a_large_group_is_forwarded_once_per_second() {
    let world = Setup::default().start().await;
    let names: Vec<String> = (0..60).map(|number| format!("p{number}")).collect();
    let members: Vec<&str> = names.iter().map(String::as_str).collect();
    let group = world.person("p0").group(&members[1..]).await;
    let mut reader = world.person("p0").connect().await;
    let mut writers = Vec::new();
    for name in &names[1..11] {
        writers.push(world.person(name).connect_now().await);
    }
    let started = tokio::time::Instant::now();
    for writer in &mut writers {
        writer.send_json(json!({"type": "typing", "conversation_id": group})).await;
    }
    reader.receive_type("typing").await;
    // The server reads the members for each frame; the counter shows when all were dropped.
    let dropped = r#"bluetick_drops_total{what="ephemeral_frame"} 9"#;
    while started.elapsed().as_secs() < 1 && !world.get("/metrics").await.text().contains(dropped) {}
    let frames = reader.received_so_far().await;
    let more = frames.iter().filter(|frame| frame["type"] == "typing").count();
    assert!(more <= usize::try_from(started.elapsed().as_secs()).unwrap(), "{frames:?}");
}
