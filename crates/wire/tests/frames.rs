//! The bytes of every frame and body, and what becomes of frames that come in.

#![expect(clippy::unwrap_used, reason = "a helper of a test fails the test")]

use std::sync::Arc;

use bluetick_core::ports::{Appended, Origin};
use bluetick_core::{
    ContentType, Conversation, ConversationId, ConversationView, Epoch, Member, Members, Message, MessageId,
    Page, PageFrom, Role, Seq, Timestamp, User, UserId,
};
use bluetick_wire::frame::{
    ClientFrame, FrameError, encode_ack, encode_caught_up, encode_error, encode_message, encode_pong,
    encode_welcome,
};
use bluetick_wire::http::{
    ConversationBody, ErrorBody, HealthBody, PageBody, PageParameters, ReadyBody, SentBody, TokenBody,
    UserBody,
};
use bluetick_wire::{ErrorCode, decode};
use proptest::prelude::*;

fn user(name: &str) -> UserId {
    name.parse().unwrap()
}

fn direct() -> ConversationId {
    ConversationId::direct(&user("alice"), &user("bob"))
}

fn message_id() -> MessageId {
    "0199c0de-0000-7000-8000-000000000001".parse().unwrap()
}

fn message(content: &str) -> Message {
    Message {
        conversation: direct(),
        seq: Seq::new(7),
        message_id: message_id(),
        sender: user("alice"),
        receiver: Some(user("bob")),
        content_type: ContentType::Text,
        content: content.into(),
        timestamp: Timestamp::from_millis(-5),
        received_at: Timestamp::from_millis(1_767_225_600_123),
    }
}

fn appended(duplicate: bool) -> Appended {
    Appended { seq: Seq::new(7), received_at: Timestamp::from_millis(1_767_225_600_123), duplicate }
}

fn json(body: &impl serde::Serialize) -> String {
    serde_json::to_string(body).unwrap()
}

/// One line each. A change here is a change of the contract; `BLUETICK_BLESS=1` accepts it.
fn snapshot(name: &str, lines: &str) {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/snapshots").join(name);
    if std::env::var_os("BLUETICK_BLESS").is_some() {
        std::fs::write(&path, lines).unwrap();
    }
    let expected = std::fs::read_to_string(&path).unwrap();
    assert_eq!(lines, expected, "if this is meant: BLUETICK_BLESS=1 cargo test -p bluetick-wire");
}

#[test]
fn the_bytes_of_every_server_frame() {
    let frames = [
        encode_welcome(&user("alice"), "s1", Epoch::FIRST, Timestamp::from_millis(1_767_225_600_000)),
        encode_caught_up().into(),
        encode_ack(direct(), &message_id(), &appended(false)),
        encode_ack(direct(), &"m1".parse().unwrap(), &appended(true)),
        encode_message(&message("Lunch? \"now\"\n\u{1}\u{1F96A}")),
        encode_message(&Message { receiver: None, content_type: ContentType::System, ..message("{}") }),
        encode_pong().into(),
        encode_error(ErrorCode::RateLimited, "too many requests", Some("m1")),
        encode_error(ErrorCode::UnknownType, "this server knows no frame of that type", None),
    ];
    snapshot("server_frames.txt", &(frames.join("\n") + "\n"));
}

#[test]
fn the_bytes_of_every_http_body() {
    let members = Members::from_unsorted(vec![
        Member { user: user("bob"), role: Role::Member, joined_seq: Seq::new(3) },
        Member { user: user("alice"), role: Role::Admin, joined_seq: Seq::FIRST },
    ]);
    let conversation = Conversation {
        id: direct(),
        title: None,
        created_by: user("alice"),
        created_at: Timestamp::from_millis(1),
        head: Seq::new(7),
        last_at: Timestamp::from_millis(2),
    };
    let view = ConversationView { conversation, members: Arc::new(members) };
    let group = ConversationView {
        conversation: Conversation {
            id: ConversationId::group([9; 15]),
            title: Some("Lunch".parse().unwrap()),
            ..view.conversation.clone()
        },
        ..view.clone()
    };
    let page = Page {
        messages: vec![message("hi")],
        next_before: Some(Seq::new(7)),
        next_after: None,
        head: Seq::new(7),
    };
    let account = User {
        id: user("alice"),
        display_name: Some("Alice".into()),
        password_hash: Some("secret".into()),
        created_at: Timestamp::from_millis(3),
    };
    let token = TokenBody {
        token: "t".into(),
        user_id: user("alice"),
        expires_at: Timestamp::from_millis(1_767_225_600_000),
    };
    let bodies = [
        json(&token),
        json(&UserBody::from(&account)),
        json(&ConversationBody::new(&view, &user("alice"))),
        json(&ConversationBody::new(&group, &user("alice"))),
        json(&SentBody::new(direct(), &message_id(), &appended(true))),
        json(&PageBody::new(&page, PageFrom::Newest)),
        json(&ErrorBody::new(ErrorCode::ConversationNotFound, "no such conversation")),
        json(&HealthBody { status: "ok" }),
        json(&ReadyBody::ready()),
        json(&ReadyBody::not_ready("the disk is full")),
    ];
    snapshot("http_bodies.txt", &(bodies.join("\n") + "\n"));
}

#[test]
fn a_message_takes_one_buffer_also_when_much_of_it_is_escaped() {
    for content in ["x".repeat(60_000), "\"".repeat(60_000), "\u{1}".repeat(10_000), "🥪".repeat(10_000)] {
        let usual = encode_message(&message("x")).len();
        let frame = encode_message(&message(&content));
        assert!(frame.capacity() < frame.len() + 320, "it grew to {} for {}", frame.capacity(), frame.len());
        assert!(usual < 320);
    }
}

fn decoded(text: &str) -> Result<ClientFrame<'_>, FrameError> {
    ClientFrame::decode(text)
}

fn refused(text: &str) -> String {
    match decoded(text) {
        Err(error) => format!("{}: {error}", error.code()),
        Ok(_) => panic!("{text} was understood"),
    }
}

#[test]
fn a_frame_that_is_not_understood_says_which_field_and_never_repeats_its_value() {
    for (text, says) in [
        ("", "invalid_frame: not valid JSON"),
        ("nonsense", "invalid_frame: not valid JSON"),
        ("[1]", "invalid_frame: expected an object"),
        (r#"["send"]"#, "invalid_frame: expected an object"),
        ("7", "invalid_frame: expected an object"),
        ("{}", "missing field `type`"),
        (r#"{"type":1}"#, "type: expected"),
        (r#"{"type":"hello","token":{"secret":"hunter2"}}"#, "token: expected"),
        (r#"{"type":"send","conversation_id":"c","message_id":"m"}"#, "missing field `content`"),
        (
            r#"{"type":"send","conversation_id":"c","message_id":"m","content":"hi","after_seq":-1}"#,
            "after_seq: ",
        ),
        (
            r#"{"type":"send","conversation_id":"c","message_id":"m","content":"hi","retry":"hunter2"}"#,
            "retry: ",
        ),
        (
            r#"{"type":"hello","token":"t","positions":{"c":{"seq":"x"}}}"#,
            "positions.c.seq: expected a whole number that is not negative",
        ),
        (r#"{"type":"hello","token":"t","positions":{"c":[1,2]}}"#, "positions.c: expected an object"),
        (r#"{"type":"hello","token":"t","positions":[]}"#, "positions: expected an object"),
        (
            r#"{"type":"send","conversation_id":"c","message_id":"m","content":"hi","retry":"hunter2 at line 1"}"#,
            "retry: expected true or false",
        ),
        (r#"{"type":"read","conversation_id":"c","seq":1}"#, "unknown_type: "),
    ] {
        let message = refused(text);
        assert!(message.contains(says), "{text} gave: {message}");
        assert!(!message.contains("hunter2"), "{text} gave: {message}");
    }
}

#[test]
fn a_long_name_is_not_sent_back_whole() {
    let name = "n".repeat(10_000);
    let message = refused(&format!(r#"{{"type":"hello","token":"t","positions":{{"{name}":7}}}}"#));
    assert!(message.len() < 200 && message.contains("positions.nnn"), "{message}");
}

#[test]
fn fields_nobody_knows_are_passed_over_and_null_is_as_good_as_absent() {
    let text = r#"{"future":{"deep":[1]},"type":"send","conversation_id":"c","message_id":"m","content":"\u0068i",
        "content_type":null,"timestamp":null,"retry":null,"after_seq":null,"type2":"x"}"#;
    let Ok(ClientFrame::Send(send)) = decoded(text) else { panic!("it was not understood") };
    let request = send.into_request(direct(), Origin(1)).unwrap();
    assert_eq!((&*request.content, request.content_type), ("hi", ContentType::Text));
    assert_eq!((request.timestamp, request.retry_after), (None, None));
}

#[test]
fn only_a_resend_that_says_what_it_knew_is_looked_for_beyond_the_window() {
    let retry_after = |fields: &str| {
        let text =
            format!(r#"{{"type":"send","conversation_id":"c","message_id":"m","content":"hi"{fields}}}"#);
        let Ok(ClientFrame::Send(send)) = decoded(&text) else { panic!("{text} was not understood") };
        send.into_request(direct(), Origin(1)).unwrap().retry_after
    };
    assert_eq!(retry_after(r#","retry":true,"after_seq":5"#), Some(Seq::new(5)));
    assert_eq!(retry_after(r#","retry":true,"after_seq":18446744073709551615"#), Some(Seq::MAX));
    assert_eq!(retry_after(r#","retry":true"#), None);
    assert_eq!(retry_after(r#","retry":false,"after_seq":5"#), None);
}

proptest! {
    #[test]
    fn any_text_is_a_frame_or_an_error(text in ".*") {
        let _ = decoded(&text);
    }

    #[test]
    fn any_json_object_is_a_frame_or_an_error(
        kind in "(hello|send|ping|other)",
        fields in prop::collection::btree_map(
            "(token|device_id|positions|conversation_id|message_id|content|content_type|timestamp|retry|after_seq)",
            prop_oneof![
                Just("null".to_string()), Just("true".to_string()), Just("[]".to_string()), Just("{}".to_string()),
                any::<i64>().prop_map(|number| number.to_string()),
                any::<f64>().prop_filter("JSON has no NaN", |number| number.is_finite()).prop_map(|n| n.to_string()),
                ".{0,40}".prop_map(|text| serde_json::to_string(&text).unwrap()),
            ],
            0..8,
        ),
    ) {
        let fields: String = fields.iter().map(|(name, value)| format!(r#","{name}":{value}"#)).collect();
        let text = format!(r#"{{"type":"{kind}"{fields}}}"#);
        if let Ok(ClientFrame::Send(send)) = decoded(&text) {
            let _ = (send.conversation(), send.message_id());
            let _ = send.into_request(direct(), Origin(1));
        }
    }

    #[test]
    fn any_bytes_are_a_body_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = decode::<bluetick_wire::http::SendRequestBody<'_>>(&bytes);
        let _ = bluetick_wire::http::OpenConversation::decode(&bytes);
    }

    #[test]
    fn any_query_is_a_page_or_an_error(query in "[a-z_=&0-9+.-]{0,60}") {
        let _ = PageParameters::parse(&query);
    }

    #[test]
    fn what_was_sent_comes_out_as_it_went_in(content in "\\PC{1,80}|[\\x00-\\x7f]{1,40}") {
        let frame: serde_json::Value = serde_json::from_str(&encode_message(&message(&content))).unwrap();
        prop_assert_eq!(frame["content"].as_str(), Some(content.as_str()));
    }
}
