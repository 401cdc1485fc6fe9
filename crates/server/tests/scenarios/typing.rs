use serde_json::json;

use crate::harness::{Setup, World};

#[tokio::test(flavor = "multi_thread")]
async fn every_device_of_the_others_hears_that_somebody_is_writing_and_its_own_do_not() {
    let world = World::new().await;
    let [alice, bob] = world.people(["alice", "bob"]);
    let chat = alice.direct_with_message("bob").await;
    let (mut phone, mut laptop) = (alice.connect().await, alice.connect().await);
    let (mut tablet, mut watch) = (bob.connect().await, bob.connect().await);
    phone.say(json!({"type": "typing", "conversation_id": chat})).await;
    for device in [&mut tablet, &mut watch] {
        let expected = json!({"type": "typing", "conversation_id": chat, "user_id": "alice"});
        assert_eq!(device.hear_type("typing").await, expected);
    }
    for device in [&mut phone, &mut laptop] {
        let frames = device.heard_so_far().await;
        assert!(frames.iter().all(|frame| frame["type"] != "typing"), "{frames:?}");
    }
    assert_eq!(alice.history(&chat, "").await.json()["head_seq"], 1, "typing is not stored");
}

/// Each key of a keyboard is a frame.
#[tokio::test(flavor = "multi_thread")]
async fn of_many_typing_frames_one_in_two_seconds_is_passed_on() {
    let world = World::new().await;
    let [alice, bob] = world.people(["alice", "bob"]);
    let chat = alice.direct_with_message("bob").await;
    let (mut phone, mut tablet) = (alice.connect().await, bob.connect().await);
    let started = tokio::time::Instant::now();
    for _ in 0..50 {
        phone.say(json!({"type": "typing", "conversation_id": chat})).await;
    }
    tablet.hear_type("typing").await;
    phone.hears_nothing().await;
    phone.send(&chat, "m1", "done").await;
    let frames = loop {
        let frame = tablet.hear_any().await;
        match frame["type"].as_str() {
            Some("message") => break 0,
            Some("typing") => break 1,
            _ => {}
        }
    };
    assert!(frames == 0 || started.elapsed().as_secs() >= 2, "it came twice");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stranger_is_told_that_there_is_no_such_conversation() {
    let world = World::new().await;
    let [alice, bob, eve] = world.people(["alice", "bob", "eve"]);
    let chat = alice.direct_with_message("bob").await;
    let (mut tablet, mut evil) = (bob.connect().await, eve.connect().await);
    evil.say(json!({"type": "typing", "conversation_id": chat})).await;
    evil.hear_error("conversation_not_found").await;
    let frames = tablet.heard_so_far().await;
    assert!(frames.iter().all(|frame| frame["type"] != "typing"), "{frames:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn in_a_large_group_all_who_write_share_one_frame_a_second() {
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
        writer.say(json!({"type": "typing", "conversation_id": group})).await;
    }
    reader.hear_type("typing").await;
    // The members are looked up for each; the count tells when all were dropped.
    let dropped = r#"bluetick_drops_total{what="ephemeral_frame"} 9"#;
    while started.elapsed().as_secs() < 1 && !world.get("/metrics").await.text().contains(dropped) {}
    let frames = reader.heard_so_far().await;
    let more = frames.iter().filter(|frame| frame["type"] == "typing").count();
    assert!(more <= usize::try_from(started.elapsed().as_secs()).unwrap(), "{frames:?}");
}
