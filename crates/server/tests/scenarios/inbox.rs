//! The inbox over HTTP: entries, order, pages and preferences.

use std::collections::HashSet;
use std::sync::Arc;

use bluetick_core::Timestamp;
use bluetick_core::time::ManualClock;
use serde_json::{Value, json};

use crate::harness::{Person, Reply, Setup, World};

/// Starts a server with a manual clock, which makes the inbox order deterministic.
async fn world_with_clock() -> (World, Arc<ManualClock>) {
    let clock = Arc::new(ManualClock::at(Timestamp::from_millis(1_767_225_600_000)));
    let world = Setup { clock: Arc::<ManualClock>::clone(&clock), ..Setup::default() }.start().await;
    (world, clock)
}

async fn inbox(person: &Person, query: &str) -> Reply {
    person.get(&format!("/v1/conversations{query}")).await
}

/// Returns the peers or titles of a page, in order.
fn peers(page: &Value) -> Vec<&str> {
    let entries = page["conversations"].as_array().unwrap().iter();
    entries.map(|entry| entry["peer"].as_str().or(entry["title"].as_str()).unwrap()).collect()
}

/// Returns the entry of one conversation in the inbox of a user.
async fn entry(person: &Person, chat: &str) -> Value {
    let page = inbox(person, "?limit=100").await.json();
    let mut entries = page["conversations"].as_array().unwrap().iter();
    entries.find(|entry| entry["conversation_id"] == chat).unwrap().clone()
}

async fn unread(person: &Person, chat: &str) -> u64 {
    let unread = entry(person, chat).await["unread"].as_u64().unwrap();
    let shown = person.get(&format!("/v1/conversations/{chat}")).await.json();
    assert_eq!(shown["unread"], unread, "the inbox and its entry have different unread counts");
    unread
}

async fn read(person: &Person, chat: &str, seq: u64) {
    let reply = person.post(&format!("/v1/conversations/{chat}/read"), json!({"seq": seq})).await;
    assert_eq!(reply.status, 200, "{}", reply.text());
}

async fn set(person: &Person, chat: &str, settings: Value) -> Reply {
    person.call("PATCH", &format!("/v1/conversations/{chat}/settings"), Some(settings)).await
}

/// Opens direct conversations with friend1, friend2, and so on; the last one is the latest.
async fn friends(person: &Person, clock: &ManualClock, count: usize) -> Vec<String> {
    let mut chats = Vec::new();
    for number in 1..=count {
        clock.advance_millis(1_000);
        chats.push(person.direct(&format!("friend{number}")).await);
    }
    chats
}

#[tokio::test(flavor = "multi_thread")]
async fn inbox_entry_has_all_fields_of_a_chat_list() {
    let (world, clock) = world_with_clock().await;
    let [alice, bob] = world.people(["alice", "bob"]);
    let chat = alice.direct("bob").await;
    clock.advance_millis(123);
    let sent = json!({"message_id": "m1", "content": "Lunch?", "timestamp": 5});
    alice.post(&format!("/v1/conversations/{chat}/messages"), sent).await;
    let expected = json!({
        "conversation_id": chat, "kind": "direct", "title": null, "peer": "alice", "member_count": 2,
        "last_seq": 1, "last_at": 1_767_225_600_123_i64, "preview": "Lunch?",
        "last_message": {
            "seq": 1, "message_id": "m1", "sender_id": "alice", "content": "Lunch?", "content_type": "text",
            "timestamp": 5, "received_at": 1_767_225_600_123_i64,
        },
        "unread": 1, "first_seq": 1, "my_status": {"last_delivered_seq": 0, "last_read_seq": 0},
        "peer_status": {"last_delivered_seq": 0, "last_read_seq": 0},
        "muted": false, "pinned": false, "archived": false, "read_receipts": true,
        "peer_presence": {"user_id": "alice", "online": false, "last_seen_at": null},
    });
    let page = inbox(&bob, "").await;
    assert_eq!((page.status, page.json()), (200, json!({"conversations": [expected], "next_cursor": null})));
}

#[tokio::test(flavor = "multi_thread")]
async fn group_entry_has_a_title_and_a_notice_without_preview() {
    let world = World::new().await;
    let [alice, bob] = world.people(["alice", "bob"]);
    let group = alice.group(&["bob", "carol"]).await;
    let entry = entry(&bob, &group).await;
    assert_eq!(
        (&entry["kind"], &entry["title"], &entry["peer"]),
        (&json!("group"), &json!("Lunch"), &json!(null))
    );
    assert_eq!((&entry["member_count"], &entry["peer_presence"]), (&json!(3), &json!(null)));
    assert_eq!((&entry["preview"], &entry["unread"]), (&json!(""), &json!(0)));
    assert_eq!(entry["last_message"]["content_type"], "system");
    let notice: Value = serde_json::from_str(entry["last_message"]["content"].as_str().unwrap()).unwrap();
    assert_eq!(notice["event"], "group_created");
}

#[tokio::test(flavor = "multi_thread")]
async fn inbox_starts_empty_and_lists_own_conversations_only() {
    let world = World::new().await;
    let [alice, bob, zoe] = world.people(["alice", "bob", "zoe"]);
    let nothing = json!({"conversations": [], "next_cursor": null});
    assert_eq!(inbox(&alice, "").await.json(), nothing);
    world.get("/v1/conversations").await.refused(401, "unauthenticated");
    let group = alice.group(&["bob"]).await;
    assert_eq!(peers(&inbox(&bob, "").await.json()), ["Lunch"]);
    assert_eq!(inbox(&zoe, "").await.json(), nothing);
    alice.remove(&group, "bob").await;
    assert_eq!(inbox(&bob, "").await.json(), nothing);
}

#[tokio::test(flavor = "multi_thread")]
async fn inbox_is_ordered_by_latest_message() {
    let (world, clock) = world_with_clock().await;
    let alice = world.person("alice");
    let chats = friends(&alice, &clock, 3).await;
    assert_eq!(peers(&inbox(&alice, "").await.json()), ["friend3", "friend2", "friend1"]);
    clock.advance_millis(1);
    world.person("friend1").send(&chats[0], "m1", "hi").await;
    assert_eq!(peers(&inbox(&alice, "").await.json()), ["friend1", "friend3", "friend2"]);
    clock.advance_millis(1);
    read(&alice, &chats[1], 0).await;
    set(&alice, &chats[1], json!({"muted": true})).await;
    assert_eq!(
        peers(&inbox(&alice, "").await.json()),
        ["friend1", "friend3", "friend2"],
        "a read receipt does not move a conversation"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn inbox_pages_of_any_size_list_every_conversation_once() {
    let (world, clock) = world_with_clock().await;
    let alice = world.person("alice");
    friends(&alice, &clock, 25).await;
    let expected: Vec<String> = (1..=25).rev().map(|number| format!("friend{number}")).collect();
    for (limit, pages) in [(1, 25), (7, 4), (20, 2), (25, 1), (100, 1)] {
        let (mut seen, mut cursor, mut asked) = (Vec::new(), String::new(), 0);
        loop {
            let page = inbox(&alice, &format!("?limit={limit}&cursor={cursor}")).await.json();
            seen.extend(peers(&page).into_iter().map(String::from));
            asked += 1;
            match page["next_cursor"].as_str() {
                Some(next) => cursor = next.to_string(),
                None => break,
            }
        }
        assert_eq!((&seen, asked), (&expected, pages), "limit {limit}");
    }
    assert_eq!(inbox(&alice, "").await.json()["conversations"].as_array().unwrap().len(), 20);
}

#[tokio::test(flavor = "multi_thread")]
async fn conversation_that_moves_up_during_paging_causes_no_miss_and_no_repeat() {
    let (world, clock) = world_with_clock().await;
    let alice = world.person("alice");
    let chats = friends(&alice, &clock, 9).await;
    let first = inbox(&alice, "?limit=3").await.json();
    assert_eq!(peers(&first), ["friend9", "friend8", "friend7"]);
    clock.advance_millis(1);
    // Move one conversation from further down, and the one that the cursor names.
    world.person("friend5").send(&chats[4], "m1", "hi").await;
    world.person("friend7").send(&chats[6], "m1", "hi").await;
    let second =
        inbox(&alice, &format!("?limit=3&cursor={}", first["next_cursor"].as_str().unwrap())).await.json();
    assert_eq!(peers(&second), ["friend6", "friend4", "friend3"]);
    let third =
        inbox(&alice, &format!("?limit=3&cursor={}", second["next_cursor"].as_str().unwrap())).await.json();
    assert_eq!((peers(&third), &third["next_cursor"]), (vec!["friend2", "friend1"], &json!(null)));
    let front = inbox(&alice, "?limit=2").await.json();
    let moved: HashSet<&str> = peers(&front).into_iter().collect();
    assert_eq!(moved, HashSet::from(["friend5", "friend7"]));
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_inbox_parameter_is_named() {
    let world = World::new().await;
    let alice = world.person("alice");
    alice.direct("bob").await;
    for (query, says) in [
        ("?limit=0", "limit"),
        ("?limit=101", "limit"),
        ("?limit=-1", "limit"),
        ("?limit=x", "limit"),
        ("?limit=", "limit"),
        ("?limit=1&limit=2", "limit: given more than once"),
        ("?cursor=7", "cursor: not a cursor of this server"),
        ("?cursor=o1767225600000.nonsense", "cursor: not a cursor of this server"),
        ("?cursor=x1.g0123456789abcdefghjkmnpq", "cursor: not a cursor of this server"),
        ("?cursor=%C3%A9", "cursor: not a cursor of this server"),
        ("?archived=yes", "archived: must be true or false"),
        ("?archived=", "archived: must be true or false"),
    ] {
        let message = inbox(&alice, query).await.refused(400, "invalid_request");
        assert!(message.contains(says), "{query} gave: {message}");
    }
    assert_eq!(peers(&inbox(&alice, "?unknown=1&cursor=").await.json()), ["bob"]);
}

/// A cursor of another user, or of an unknown conversation, is only a start position.
#[tokio::test(flavor = "multi_thread")]
async fn forged_cursor_lists_no_conversation_of_another_user() {
    let world = World::new().await;
    let [alice, mallory] = world.people(["alice", "mallory"]);
    let chat = alice.direct("bob").await;
    mallory.direct("trent").await;
    let page = inbox(&mallory, &format!("?cursor=p9223372036854775807.{chat}")).await.json();
    assert_eq!(peers(&page), ["trent"]);
    let page = inbox(&mallory, &format!("?cursor=a-9223372036854775808.{chat}")).await.json();
    assert_eq!(page, json!({"conversations": [], "next_cursor": null}));
}

#[tokio::test(flavor = "multi_thread")]
async fn pinned_entries_are_first_archived_ones_last_and_both_can_be_filtered() {
    let (world, clock) = world_with_clock().await;
    let alice = world.person("alice");
    let chats = friends(&alice, &clock, 4).await;
    set(&alice, &chats[0], json!({"pinned": true})).await;
    set(&alice, &chats[3], json!({"archived": true})).await;
    let page = |query: &'static str| async { inbox(&alice, query).await.json() };
    assert_eq!(peers(&page("").await), ["friend1", "friend3", "friend2", "friend4"]);
    assert_eq!(peers(&page("?archived=true").await), ["friend4"]);
    assert_eq!(peers(&page("?archived=false").await), ["friend1", "friend3", "friend2"]);
    let first = page("?archived=false&limit=1").await;
    let rest = format!("?archived=false&cursor={}", first["next_cursor"].as_str().unwrap());
    assert_eq!(peers(&inbox(&alice, &rest).await.json()), ["friend3", "friend2"]);
    // A new message does not unarchive the conversation.
    clock.advance_millis(1);
    world.person("friend4").send(&chats[3], "m1", "hi").await;
    assert_eq!(peers(&page("").await).last(), Some(&"friend4"));
    set(&alice, &chats[3], json!({"archived": false})).await;
    set(&alice, &chats[0], json!({"pinned": false})).await;
    assert_eq!(peers(&page("").await), ["friend4", "friend3", "friend2", "friend1"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn preferences_are_stored_for_the_caller_only() {
    let world = World::new().await;
    let [alice, bob] = world.people(["alice", "bob"]);
    let chat = alice.direct_with_message("bob").await;
    let flags = |entry: &Value| {
        ["muted", "pinned", "archived", "read_receipts"].map(|name| entry[name].as_bool().unwrap())
    };
    let usual = [false, false, false, true];
    for (settings, expected) in [
        (json!({}), usual),
        (json!({"muted": true}), [true, false, false, true]),
        (json!({"pinned": true, "muted": null, "unknown": 1}), [true, true, false, true]),
        (json!({"archived": true, "read_receipts": false}), [true, true, true, false]),
        (json!({"muted": false, "pinned": false, "archived": false, "read_receipts": true}), usual),
    ] {
        let answer = set(&alice, &chat, settings.clone()).await;
        assert_eq!((answer.status, flags(&answer.json())), (200, expected), "{settings}");
        assert_eq!(answer.json(), entry(&alice, &chat).await);
        let shown = alice.get(&format!("/v1/conversations/{chat}")).await.json();
        assert_eq!(flags(&shown), expected);
        assert_eq!(flags(&entry(&bob, &chat).await), usual);
    }
    for (settings, says) in [
        (json!({"muted": "yes"}), "muted: expected true or false"),
        (json!({"pinned": 1}), "pinned: expected true or false"),
        (json!({"archived": []}), "archived: expected true or false"),
        (json!({"pinned": true, "read_receipts": "no"}), "read_receipts: expected true or false"),
        (json!([true]), "expected an object"),
    ] {
        assert_eq!(set(&alice, &chat, settings).await.refused(400, "invalid_request"), says);
    }
    assert_eq!(flags(&entry(&alice, &chat).await), usual);
}

#[tokio::test(flavor = "multi_thread")]
async fn preview_is_cut_at_a_character_boundary() {
    let world = World::new().await;
    let [alice, bob] = world.people(["alice", "bob"]);
    let chat = alice.direct("bob").await;
    for (number, (content, preview)) in [
        ("x".repeat(120), "x".repeat(120)),
        ("x".repeat(121), "x".repeat(120)),
        ("\u{20ac}".repeat(41), "\u{20ac}".repeat(40)),
        (format!("x{}", "\u{20ac}".repeat(40)), format!("x{}", "\u{20ac}".repeat(39))),
        ("\u{1F96A}".repeat(5_000), "\u{1F96A}".repeat(30)),
    ]
    .into_iter()
    .enumerate()
    {
        alice.send(&chat, &format!("m{number}"), &content).await;
        let entry = entry(&bob, &chat).await;
        assert_eq!(
            (&entry["preview"], &entry["last_message"]["content"]),
            (&json!(preview), &json!(preview))
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn inbox_entry_has_own_and_lowest_read_state() {
    let world = World::new().await;
    let [alice, bob, carol] = world.people(["alice", "bob", "carol"]);
    let group = alice.group(&["bob", "carol"]).await;
    alice.send(&group, "m1", "hi").await;
    let statuses = |entry: &Value| {
        let numbers = |status: &Value| {
            ["last_delivered_seq", "last_read_seq"].map(|name| status[name].as_u64().unwrap())
        };
        (numbers(&entry["my_status"]), numbers(&entry["peer_status"]))
    };
    assert_eq!(statuses(&entry(&alice, &group).await), ([1, 1], [0, 0]));
    read(&bob, &group, 2).await;
    assert_eq!(statuses(&entry(&alice, &group).await), ([1, 1], [0, 0]), "the lowest read state is carol's");
    carol.post(&format!("/v1/conversations/{group}/delivered"), json!({"seq": 2})).await;
    assert_eq!(statuses(&entry(&alice, &group).await), ([1, 1], [2, 0]));
    read(&carol, &group, 2).await;
    let after = entry(&alice, &group).await;
    assert_eq!(statuses(&after), ([1, 1], [2, 2]));
    let shown = alice.get(&format!("/v1/conversations/{group}")).await.json();
    assert_eq!((&shown["my_status"], &shown["peer_status"]), (&after["my_status"], &after["peer_status"]));
}

#[tokio::test(flavor = "multi_thread")]
async fn unread_counts_messages_of_other_users_only() {
    let world = World::new().await;
    let [alice, bob, carol] = world.people(["alice", "bob", "carol"]);
    let group = alice.group(&["bob"]).await;
    assert_eq!(unread(&bob, &group).await, 0, "notices do not count");
    alice.send(&group, "m1", "one").await;
    alice.send(&group, "m2", "two").await;
    assert_eq!((unread(&bob, &group).await, unread(&alice, &group).await), (2, 0));
    bob.post(&format!("/v1/conversations/{group}/delivered"), json!({"seq": 3})).await;
    assert_eq!(unread(&bob, &group).await, 2, "delivered messages stay unread");
    read(&bob, &group, 2).await;
    assert_eq!(unread(&bob, &group).await, 1);
    read(&bob, &group, 1).await;
    assert_eq!(unread(&bob, &group).await, 1, "an earlier receipt changes nothing");
    alice.add(&group, &["carol"]).await;
    assert_eq!(
        (unread(&carol, &group).await, entry(&carol, &group).await["first_seq"].as_u64()),
        (0, Some(4))
    );
    alice.send(&group, "m3", "three").await;
    carol.send(&group, "m4", "four").await;
    assert_eq!(
        (unread(&carol, &group).await, unread(&bob, &group).await),
        (0, 3),
        "carol's reply marks three messages as read"
    );
    bob.send(&group, "m5", "sorry, was out").await;
    assert_eq!((unread(&bob, &group).await, unread(&alice, &group).await), (0, 2));
    alice.send(&group, "m6", "no problem").await;
    assert_eq!((unread(&bob, &group).await, unread(&carol, &group).await), (1, 2));
    read(&bob, &group, 99).await;
    assert_eq!(unread(&bob, &group).await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn unread_counts_concurrent_senders() {
    let world = World::new().await;
    let [alice, bob, carol, dave] = world.people(["alice", "bob", "carol", "dave"]);
    let group = alice.group(&["bob", "carol", "dave"]).await;
    let writers = [bob, carol, dave].map(|writer| {
        let group = group.clone();
        tokio::spawn(async move {
            for number in 0..10 {
                assert_eq!(writer.send(&group, &format!("m{number}"), "hi").await.status, 201);
            }
        })
    });
    for writer in writers {
        writer.await.unwrap();
    }
    assert_eq!(unread(&alice, &group).await, 30);
    read(&alice, &group, 11).await;
    assert_eq!(unread(&alice, &group).await, 20);
}
