//! Tests of the model of ticks, unread counts and membership.

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

/// Alice and Bob are founders. Carol joins at 4; Bob leaves at 6 and rejoins at 7.
fn group() -> ConversationHistory {
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
    ConversationHistory::new(&[user("alice"), user("bob")], &messages).unwrap()
}

#[test]
fn model_derives_membership_from_notices() {
    let members = BTreeMap::from([(user("alice"), 1), (user("bob"), 7), (user("carol"), 4)]);
    assert_eq!(group().members, members);
    assert_eq!(group().visible_to(&user("bob")).unwrap().len(), 3);
    assert_eq!(group().last_at, Some(1009));
}

#[test]
fn model_counts_visible_messages_of_others_as_unread() {
    let unread = |name, read| group().unread(&user(name), read);
    assert_eq!((unread("alice", 0), unread("alice", 3), unread("alice", 9)), (3, 2, 0));
    assert_eq!(unread("bob", 0), 2, "messages from before the rejoin do not count");
    assert_eq!(unread("carol", 0), 2);
}

#[test]
fn receipts_exclude_the_sender_and_later_members() {
    let standing = BTreeMap::from([
        (user("alice"), ReadState { delivered: 9, read: 5 }),
        (user("carol"), ReadState { delivered: 8, read: 8 }),
    ]);
    let counted = |seq| group().receipts(seq, &standing);
    assert_eq!(counted(5), Some(ReceiptCounts { recipients: 2, delivered: 2, read: 2 }));
    assert_eq!(counted(8), Some(ReceiptCounts { recipients: 2, delivered: 1, read: 1 }));
    assert_eq!(group().others(&user("carol"), &standing), ReadState { delivered: 6, read: 5 });
}

#[test]
fn void_has_no_receipts_and_the_server_returns_message_not_found() {
    let void = json!({
        "seq": 2, "sender_id": "void", "message_id": "void:2", "content": "", "content_type": "void",
        "received_at": 1002,
    });
    let messages = [said(1, "alice"), void, notice(3, "member_added", "carol")];
    let thread = ConversationHistory::new(&[user("alice"), user("bob")], &messages).unwrap();
    let expected = |seq| thread.receipts(seq, &BTreeMap::new());
    let not_found = json!({"error": {"code": "message_not_found", "message": "no such message"}});
    assert_eq!(ReceiptCounts::from_answer(404, &not_found), Ok(expected(2)));
    assert_eq!((expected(2), expected(0), expected(4)), (None, None, None));
    assert_eq!(expected(1), Some(ReceiptCounts { recipients: 1, delivered: 0, read: 0 }));
    let notice = json!({"seq": 3, "recipient_count": 2, "delivered_count": 0, "read_count": 0});
    assert_eq!(ReceiptCounts::from_answer(200, &notice), Ok(expected(3)), "a notice has recipients");
    let hidden = json!({"error": {"code": "conversation_not_found", "message": "no such conversation"}});
    assert!(ReceiptCounts::from_answer(404, &hidden).is_err(), "another refusal does not count as a void");
    assert!(ReceiptCounts::from_answer(200, &json!({"seq": 1})).is_err());
}

#[test]
fn read_state_lies_between_published_and_claimed() {
    let room = ConversationName::new("g");
    let mut record = DeviceRecord::default();
    record.claim(&room, ReadState { delivered: 7, read: 4 });
    let told = ReadState { delivered: 5, read: 1 };
    record.hear_answer((room.clone(), user("alice")), told, true).unwrap();
    let mut claims = ClaimedReadStates::default();
    claims.add(&user("alice"), &record);
    let bounds = claims.bounds(&room, &user("alice"), &group(), true);
    // Her message at seq 8 implies that she has read everything before it.
    assert_eq!(bounds.least, ReadState { delivered: 7, read: 7 });
    assert_eq!(bounds.most, ReadState { delivered: 7, read: 7 });
    assert!(!bounds.hold(told));
    assert!(bounds.hold(ReadState { delivered: 7, read: 7 }));
    assert!(!bounds.hold(ReadState { delivered: 8, read: 7 }));
}
