//! Opening conversations, members and access.

use serde_json::json;

use crate::harness::{Setup, World};

#[tokio::test(flavor = "multi_thread")]
async fn both_users_open_the_same_direct_conversation() {
    let world = World::new().await;
    let [alice, bob] = world.people(["alice", "bob"]);
    let first = alice.post("/v1/conversations", json!({"kind": "direct", "peer": "bob"})).await;
    let second = bob.post("/v1/conversations", json!({"kind": "direct", "peer": "alice"})).await;
    assert_eq!((first.status, second.status), (201, 200));
    let (first, second) = (first.json(), second.json());
    assert_eq!(first["conversation_id"], second["conversation_id"]);
    assert_eq!((first["peer"].as_str(), second["peer"].as_str()), (Some("bob"), Some("alice")));
    assert_eq!((first["head_seq"].as_u64(), first["title"].is_null()), (Some(0), true));
    assert_eq!(first["created_by"], "alice");
}

#[tokio::test(flavor = "multi_thread")]
async fn new_group_has_a_notice_and_its_creator_as_admin() {
    let world = World::new().await;
    let [alice, bob] = world.people(["alice", "bob"]);
    let group = alice.group(&["bob"]).await;
    let shown = bob.get(&format!("/v1/conversations/{group}")).await.json();
    assert_eq!((shown["kind"].as_str(), shown["title"].as_str()), (Some("group"), Some("Lunch")));
    assert_eq!((shown["head_seq"].as_u64(), shown["member_count"].as_u64()), (Some(1), Some(2)));
    assert_eq!(shown["members"][0], json!({"user_id": "alice", "role": "admin", "joined_seq": 1}));
    let notice = &bob.history(&group, "").await.json()["messages"][0];
    assert_eq!(notice["content_type"], "system");
    let content: serde_json::Value = serde_json::from_str(notice["content"].as_str().unwrap()).unwrap();
    assert_eq!(content["event"], "group_created");
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_open_request_names_the_field() {
    let world = World::new().await;
    let alice = world.person("alice");
    for (body, says) in [
        (json!({"kind": "channel", "peer": "bob"}), "kind"),
        (json!({"peer": "bob"}), "kind"),
        (json!({"kind": "direct"}), "peer"),
        (json!({"kind": "direct", "peer": 5}), "peer"),
        (json!({"kind": "direct", "peer": "has space"}), "peer"),
        (json!({"kind": "direct", "peer": "alice"}), "another user"),
        (json!({"kind": "group", "members": ["bob"]}), "title"),
        (json!({"kind": "group", "title": "", "members": ["bob"]}), "title"),
        (json!({"kind": "group", "title": "x", "members": "bob"}), "members"),
        (json!({"kind": "group", "title": "x", "members": ["bob", ""]}), "members[1]"),
        (json!([]), ""),
    ] {
        let message = alice.post("/v1/conversations", body.clone()).await.refused(400, "invalid_request");
        assert!(message.contains(says), "{body} gave: {message}");
    }
    let broken =
        crate::harness::call(world.addr, "POST", "/v1/conversations", Some(&alice.token), Some("{")).await;
    assert!(broken.refused(400, "invalid_request").contains("JSON"));
}

#[tokio::test(flavor = "multi_thread")]
async fn non_member_gets_the_same_error_as_for_an_unknown_conversation() {
    let world = World::new().await;
    let [alice, mallory] = world.people(["alice", "mallory"]);
    let group = alice.group(&["bob"]).await;
    let real = format!("/v1/conversations/{group}");
    let missing = "/v1/conversations/g0123456789abcdefghjkmnpq".to_string();
    let nonsense = "/v1/conversations/nonsense".to_string();
    let send = json!({"message_id": "m1", "content": "hi"});
    let add = json!({"members": ["mallory"]});
    for (method, rest, body) in [
        ("GET", "", None),
        ("GET", "/messages", None),
        ("POST", "/messages", Some(send)),
        ("POST", "/members", Some(add)),
        ("DELETE", "/members/bob", None),
        ("DELETE", "/members/mallory", None),
    ] {
        let mut answers = Vec::new();
        for path in [&real, &missing, &nonsense] {
            let reply = mallory.call(method, &format!("{path}{rest}"), body.clone()).await;
            reply.refused(404, "conversation_not_found");
            answers.push(reply.body);
        }
        assert!(answers.iter().all(|answer| *answer == answers[0]), "{method} {rest}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn late_member_sees_messages_from_its_joining_on() {
    let world = World::new().await;
    let [alice, carol] = world.people(["alice", "carol"]);
    let group = alice.group(&["bob"]).await;
    alice.send(&group, "m1", "before").await;
    let added = alice.add(&group, &["carol"]).await;
    assert_eq!((added.status, added.json()["member_count"].as_u64()), (200, Some(3)));
    alice.send(&group, "m2", "after").await;
    assert_eq!(carol.history(&group, "").await.seqs(), [4, 3]);
    assert_eq!(carol.history(&group, "?after_seq=0").await.seqs(), [3, 4]);
    assert_eq!(carol.history(&group, "?before_seq=3").await.seqs(), [0; 0]);
    assert_eq!(alice.history(&group, "").await.seqs(), [4, 3, 2, 1]);
}

#[tokio::test(flavor = "multi_thread")]
async fn removed_member_gets_the_notice_and_loses_access() {
    let world = World::new().await;
    let [alice, bob] = world.people(["alice", "bob"]);
    let group = alice.group(&["bob"]).await;
    let mut phone = bob.connect().await;
    assert_eq!(alice.remove(&group, "bob").await.status, 204);
    let notice = phone.receive_type("message").await;
    assert!(notice["content"].as_str().unwrap().contains("member_removed"));
    alice.send(&group, "m1", "he is gone").await;
    phone.receives_nothing().await;
    bob.get(&format!("/v1/conversations/{group}")).await.refused(404, "conversation_not_found");
    bob.history(&group, "").await.refused(404, "conversation_not_found");
    bob.send(&group, "m2", "let me in").await.refused(404, "conversation_not_found");
    phone.send(&group, "m3", "let me in").await;
    assert_eq!(phone.receive_error("conversation_not_found").await["message_id"], "m3");
}

#[tokio::test(flavor = "multi_thread")]
async fn member_may_leave_and_only_an_admin_removes_others() {
    let world = World::new().await;
    let [alice, bob] = world.people(["alice", "bob"]);
    let group = alice.group(&["bob", "carol"]).await;
    bob.remove(&group, "carol").await.refused(403, "not_an_admin");
    alice.remove(&group, "nobody").await.refused(404, "member_not_found");
    assert_eq!(bob.remove(&group, "bob").await.status, 204);
    bob.remove(&group, "bob").await.refused(404, "conversation_not_found");
    let direct = alice.direct("bob").await;
    alice.add(&direct, &["carol"]).await.refused(409, "direct_is_fixed");
    alice.remove(&direct, "bob").await.refused(409, "direct_is_fixed");
}

#[tokio::test(flavor = "multi_thread")]
async fn group_size_and_members_per_call_are_limited() {
    let world = Setup::limits(|limits| {
        limits.group_members = 4;
        limits.members_per_call = 2;
    })
    .start()
    .await;
    let alice = world.person("alice");
    let group = alice.group(&["bob"]).await;
    alice.add(&group, &["c", "d", "e"]).await.refused(400, "invalid_request");
    alice.add(&group, &[]).await.refused(400, "invalid_request");
    assert_eq!(alice.add(&group, &["c", "d"]).await.status, 200);
    alice.add(&group, &["e"]).await.refused(409, "group_full");
    assert_eq!(alice.add(&group, &["d"]).await.status, 200);
    let large = json!({"kind": "group", "title": "x", "members": ["b", "c", "d", "e"]});
    alice.post("/v1/conversations", large).await.refused(409, "group_full");
}

#[tokio::test(flavor = "multi_thread")]
async fn percent_encoded_user_id_in_a_path_is_decoded() {
    let world = World::new().await;
    let alice = world.person("alice");
    let group = alice.group(&["jürgen/ñ%"]).await;
    assert_eq!(alice.remove(&group, "j%C3%BCrgen%2F%C3%B1%25").await.status, 204);
    let shown = alice.get(&format!("/v1/conversations/{group}")).await.json();
    assert_eq!(shown["member_count"], 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn group_of_ten_thousand_is_created_read_and_written() {
    let world = Setup::limits(|limits| limits.members_added_per_user_per_hour = 0).start().await;
    let others: Vec<String> = (1..10_000).map(|number| format!("member{number}")).collect();
    let alice = world.person("alice");
    let mut phone = world.person("member77").connect().await;
    let group = alice.group(&others.iter().map(String::as_str).collect::<Vec<_>>()).await;
    assert_eq!(phone.receive_type("message").await["seq"], 1);
    assert_eq!(alice.send(&group, "m1", "hello, all").await.json()["seq"], 2);
    assert_eq!(phone.receive_type("message").await["message_id"], "m1");
    let shown = world.person("member9999").get(&format!("/v1/conversations/{group}")).await.json();
    assert_eq!(shown["member_count"], 10_000);
    alice.add(&group, &["one-too-many"]).await.refused(409, "group_full");
}

#[tokio::test(flavor = "multi_thread")]
async fn single_user_id_is_added_and_an_empty_request_is_refused() {
    let world = World::new().await;
    let [alice, carol] = world.people(["alice", "carol"]);
    let group = alice.group(&["bob"]).await;
    let path = format!("/v1/conversations/{group}/members");
    assert_eq!(alice.post(&path, json!({"user_id": "carol"})).await.status, 200);
    assert_eq!(carol.get(&format!("/v1/conversations/{group}")).await.status, 200);
    for body in [json!({}), json!({"members": []}), json!({"user_id": "with space"})] {
        alice.post(&path, body).await.refused(400, "invalid_request");
    }
}
