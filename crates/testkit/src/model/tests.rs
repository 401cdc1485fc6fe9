use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::*;

fn user(name: &str) -> UserName {
    UserName::new(name)
}

fn said(seq: u64, sender: &str) -> Value {
    json!({
        "seq": seq, "sender_id": sender, "message_id": format!("m{seq}"), "content": "hello", "content_type": "text",
        "received_at": 1000 + seq,
    })
}

fn notice(seq: u64, event: &str, about: &str) -> Value {
    let content = json!({"event": event, "by": "alice", "user_id": about}).to_string();
    json!({
        "seq": seq, "sender_id": "alice", "message_id": format!("system:{seq}"), "content": content,
        "content_type": "system", "received_at": 1000 + seq,
    })
}

/// Alice and Bob; Carol comes at 4, Bob goes at 6 and comes back at 7.
fn group() -> Thread {
    let messages = [
        notice(1, "group_created", ""),
        said(2, "alice"),
        said(3, "bob"),
        notice(4, "member_added", "carol"),
        said(5, "bob"),
        notice(6, "member_removed", "bob"),
        notice(7, "member_added", "bob"),
        said(8, "alice"),
        said(9, "carol"),
    ];
    Thread::new(&[user("alice"), user("bob")], &messages).unwrap()
}

#[test]
fn who_is_in_follows_from_the_notices() {
    let members = BTreeMap::from([(user("alice"), 1), (user("bob"), 7), (user("carol"), 4)]);
    assert_eq!(group().members, members);
    assert_eq!(group().visible_to(&user("bob")).unwrap().len(), 3);
    assert_eq!(group().last_at, Some(1009));
}

#[test]
fn unread_are_the_messages_of_others_that_one_can_see_without_notices() {
    let unread = |name, read| group().unread(&user(name), read);
    assert_eq!((unread("alice", 0), unread("alice", 3), unread("alice", 9)), (3, 2, 0));
    assert_eq!(unread("bob", 0), 2, "what was said before one came back does not count");
    assert_eq!(unread("carol", 0), 2);
}

#[test]
fn receipts_leave_out_the_sender_and_those_who_came_later() {
    let standing = BTreeMap::from([
        (user("alice"), Boundaries { delivered: 9, read: 5 }),
        (user("carol"), Boundaries { delivered: 8, read: 8 }),
    ]);
    assert_eq!(group().receipts(5, &standing), Receipts { recipients: 2, delivered: 2, read: 2 });
    assert_eq!(group().receipts(8, &standing), Receipts { recipients: 2, delivered: 1, read: 1 });
    assert_eq!(group().others(&user("carol"), &standing), Boundaries { delivered: 6, read: 5 });
}

#[test]
fn what_anybody_was_told_is_the_least_and_what_was_claimed_the_most() {
    let room = ConversationName::new("g");
    let mut record = Record::default();
    record.claim(&room, Boundaries { delivered: 7, read: 4 });
    let told = Boundaries { delivered: 5, read: 1 };
    record.hear_answer((room.clone(), user("alice")), told, true).unwrap();
    let mut testimony = Testimony::default();
    testimony.add(&user("alice"), &record);
    let bounds = testimony.bounds(&room, &user("alice"), &group(), true);
    // Her message at 8 reads what came before it.
    assert_eq!(bounds.least, Boundaries { delivered: 7, read: 7 });
    assert_eq!(bounds.most, Boundaries { delivered: 7, read: 7 });
    assert!(!bounds.hold(told));
    assert!(bounds.hold(Boundaries { delivered: 7, read: 7 }));
    assert!(!bounds.hold(Boundaries { delivered: 8, read: 7 }));
}
