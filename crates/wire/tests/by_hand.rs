//! Compares hand-written encoders with serde's output for the documented structs.

#![expect(clippy::unwrap_used, reason = "a helper of a test fails the test")]

#[expect(dead_code, reason = "other tests need more of it")]
mod common;

use bluetick_core::ports::Appended;
use bluetick_core::{
    ContentType, ConversationId, Message, MessageId, Page, PageFrom, Seq, Timestamp, UserId,
};
use bluetick_wire::frame::{AckFrame, MessageFrame, StatusFrame, encode_ack, encode_message, encode_status};
use bluetick_wire::http::{MessageBody, PageBody, SentBody};
use common::read_state;
use proptest::prelude::*;
use serde::Serialize;

/// The struct lacks only `type`, which comes first.
fn described(kind: &str, frame: &impl Serialize) -> String {
    let fields = serde_json::to_string(frame).unwrap();
    format!(r#"{{"type":"{kind}",{}"#, fields.strip_prefix('{').unwrap())
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        "[ -~]{0,120}",
        "(?s).{0,60}",
        "[\\x00-\\x7f]{0,60}",
        "[\"\\\\/\\x08\\x0c\n\r\t\\x1f\\x7f]{0,30}",
        "([a-z ]{0,40}[\"\\\\\n\u{2028}\u{1F96A}]){0,5}",
    ]
}

fn user() -> impl Strategy<Value = UserId> {
    prop_oneof!["[a-z]{1,20}", "[!-~]{1,128}", "[^\\s\\p{C}]{1,30}"]
        .prop_filter_map("it can be a user", |name| name.parse().ok())
}

fn message_id() -> impl Strategy<Value = MessageId> {
    prop_oneof![
        any::<[u8; 16]>().prop_map(MessageId::Uuid),
        "[!-~]{1,128}".prop_map(|id| MessageId::from_stored(&id)),
        "[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}".prop_map(|id| id.parse().unwrap()),
        any::<u64>().prop_map(|seq| MessageId::of_notice(Seq::new(seq))),
    ]
}

fn conversation() -> impl Strategy<Value = ConversationId> {
    prop_oneof![
        any::<[u8; 15]>().prop_map(ConversationId::group),
        (user(), user()).prop_map(|(one, other)| ConversationId::direct(&one, &other)),
    ]
}

fn content_type() -> impl Strategy<Value = ContentType> {
    prop_oneof![Just(ContentType::Text), "[!-~]{1,64}".prop_map(|name| ContentType::from_stored(&name))]
}

fn seq() -> impl Strategy<Value = Seq> {
    prop_oneof![0..10_000u64, any::<u64>()].prop_map(Seq::new)
}

fn moment() -> impl Strategy<Value = Timestamp> {
    prop_oneof![any::<i64>(), 1_767_225_600_000..1_800_000_000_000i64].prop_map(Timestamp::from_millis)
}

prop_compose! {
    fn message()(
        (conversation, seq, message_id) in (conversation(), seq(), message_id()),
        (sender, receiver) in (user(), prop::option::of(user())),
        (content_type, content) in (content_type(), text()),
        (timestamp, received_at) in (moment(), moment()),
    ) -> Message {
        let content = content.into();
        Message { conversation, seq, message_id, sender, receiver, content_type, content, timestamp, received_at }
    }
}

proptest! {
    #[test]
    fn hand_written_message_equals_serde(message in message()) {
        let frame = MessageFrame { message: MessageBody::from(&message) };
        prop_assert_eq!(encode_message(&message), described("message", &frame));
    }

    #[test]
    fn hand_written_ack_equals_serde(
        (conversation, id) in (conversation(), message_id()),
        (seq, received_at, duplicate) in (seq(), moment(), any::<bool>()),
    ) {
        let appended = Appended { seq, received_at, duplicate };
        let sent = SentBody::new(conversation, &id, &appended);
        prop_assert_eq!(String::from_utf8(sent.to_json()).unwrap(), serde_json::to_string(&sent).unwrap());
        prop_assert_eq!(encode_ack(conversation, &id, &appended), described("ack", &AckFrame { sent }));
    }

    #[test]
    fn hand_written_status_equals_serde(conversation_id in conversation(), user in user(), delivered: u64, read: u64, unread: Option<u64>) {
        let frame = StatusFrame {
            conversation_id,
            user_id: user.as_str(),
            last_delivered_seq: Seq::new(delivered),
            last_read_seq: Seq::new(read),
            unread,
        };
        let written = encode_status(conversation_id, &user, read_state(delivered, read), unread);
        prop_assert_eq!(written, described("status", &frame));
    }

    #[test]
    fn hand_written_page_equals_serde(
        messages in prop::collection::vec(message(), 0..5),
        (next_before_seq, next_after_seq) in (prop::option::of(seq()), prop::option::of(seq())),
        head_seq in seq(),
    ) {
        let messages = messages.iter().map(MessageBody::from).collect();
        let page = PageBody { messages, next_before_seq, next_after_seq, head_seq };
        prop_assert_eq!(String::from_utf8(page.to_json()).unwrap(), serde_json::to_string(&page).unwrap());
    }
}

/// Builds a page of `count` messages of this length, whose content takes six times as many bytes
/// when escaped.
fn page_of(count: usize, each: usize) -> Page {
    let message = Message { content: "\u{1}".repeat(each).into(), ..common::message("") };
    Page { messages: vec![message; count], next_before: None, next_after: None, head: Seq::new(100) }
}

#[test]
fn page_is_cut_by_its_encoded_length() {
    let most = PageBody::MAX_BYTES / 6;
    for (count, each, kept) in
        [(4, most / 4, 4), (5, most / 4, 4), (2, most * 2, 1), (1, most * 2, 1), (0, 0, 0)]
    {
        let page = page_of(count, each);
        let body = PageBody::new(&page, PageFrom::Newest);
        assert_eq!(body.messages.len(), kept, "{count} of {each}");
        assert_eq!(body.next_before_seq.is_some(), kept < count);
    }
}
