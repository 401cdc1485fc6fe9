//! The encoded bytes of every frame, and the decoding of frames.

#![expect(clippy::unwrap_used, reason = "a helper of a test fails the test")]

mod common;

use bluetick_core::ports::{Appended, Origin};
use bluetick_core::{
    ContentType, ConversationId, Epoch, Message, MessageId, Profile, ReceiptKind, Seq, Timestamp,
};
use bluetick_wire::ErrorCode;
use bluetick_wire::frame::{
    ClientFrame, FrameError, encode_ack, encode_backlog, encode_caught_up, encode_conversation, encode_error,
    encode_gone, encode_message, encode_pong, encode_presence, encode_receipts, encode_status, encode_typing,
    encode_welcome, write_ack, write_message, write_status,
};
use bluetick_wire::http::PresenceBody;
use common::{NOW, appended, direct, entry, group_entry, message, message_id, read_state, snapshot, user};
use proptest::prelude::*;

#[test]
fn server_frames_match_their_snapshot() {
    let (entry, seen) = (entry(), Profile { last_seen_at: Some(NOW), ..Profile::default() });
    let hidden = Profile { hides_presence: true, ..seen.clone() };
    let frames = [
        encode_welcome(&user("alice"), "s1", Epoch::FIRST, Timestamp::from_millis(1_767_225_600_000)),
        encode_caught_up().into(),
        encode_ack(direct(), &message_id(), &appended(false)),
        encode_ack(direct(), &"m1".parse().unwrap(), &appended(true)),
        encode_message(&message("Lunch? \"now\"\n\u{1}\u{1F96A}")),
        encode_message(&Message { receiver: None, content_type: ContentType::System, ..message("{}") }),
        encode_message(&Message::void(direct(), Seq::new(8), NOW)),
        encode_status(direct(), &user("bob"), read_state(44, 40), None),
        encode_status(direct(), &user("alice"), read_state(44, 40), Some(4)),
        encode_receipts(ConversationId::group([9; 15]), read_state(44, 12)),
        encode_typing(direct(), &user("bob")),
        encode_presence(&user("bob"), true, &seen),
        encode_presence(&user("bob"), false, &seen),
        encode_presence(&user("bob"), true, &hidden),
        encode_conversation(&entry, Some(PresenceBody::new(&user("bob"), false, &seen))),
        encode_conversation(&group_entry(), None),
        encode_backlog(direct(), Seq::new(1_000), Seq::new(250_000)),
        encode_pong().into(),
        encode_error(ErrorCode::RateLimited, "too many requests", Some("m1"), None),
        encode_error(ErrorCode::UnknownType, "this server knows no frame of that type", None, None),
        encode_error(ErrorCode::ConversationNotFound, "no such conversation", None, Some(direct())),
        encode_gone(direct()),
    ];
    snapshot("server_frames.txt", &(frames.join("\n") + "\n"));
}

#[test]
fn escaped_message_frame_allocates_one_buffer() {
    for content in ["x".repeat(60_000), "\"".repeat(60_000), "\u{1}".repeat(10_000), "🥪".repeat(10_000)] {
        let frame = encode_message(&message(&content));
        assert!(
            frame.capacity() < frame.len() + 64,
            "the buffer grew to {} bytes for {}",
            frame.capacity(),
            frame.len()
        );
    }
}

#[test]
fn frame_with_the_longest_values_allocates_one_buffer() {
    let id: MessageId = "m".repeat(128).parse().unwrap();
    let (longest, last) = (user(&"u".repeat(128)), Timestamp::from_millis(i64::MIN));
    let message = Message {
        message_id: id.clone(),
        sender: longest.clone(),
        receiver: Some(longest.clone()),
        content_type: "t".repeat(64).parse().unwrap(),
        seq: Seq::new(u64::MAX),
        timestamp: last,
        received_at: last,
        ..message("x")
    };
    let appended = Appended { seq: Seq::new(u64::MAX), received_at: last, duplicate: false };
    let furthest = read_state(u64::MAX, u64::MAX);
    for (frame, kind) in [
        (encode_message(&message), "message"),
        (encode_ack(direct(), &id, &appended), "ack"),
        (encode_status(direct(), &longest, furthest, Some(u64::MAX)), "status"),
    ] {
        assert_eq!(frame.capacity(), frame.len(), "the reserved capacity of {kind} equals its maximum size");
    }
}

#[test]
fn frame_is_appended_to_the_buffer() {
    let (message, id, bob) = (message("Lunch?"), message_id(), user("bob"));
    let mut buffer = b"\x81\x00".to_vec();
    write_message(&mut buffer, &message);
    write_ack(&mut buffer, direct(), &id, &appended(false));
    write_status(&mut buffer, direct(), &bob, read_state(44, 40), None);
    let frames = encode_message(&message)
        + &encode_ack(direct(), &id, &appended(false))
        + &encode_status(direct(), &bob, read_state(44, 40), None);
    assert_eq!(buffer, [b"\x81\x00", frames.as_bytes()].concat());
}

fn decoded(text: &str) -> Result<ClientFrame<'_>, FrameError> {
    ClientFrame::decode(text)
}

fn refused(text: &str) -> String {
    match decoded(text) {
        Err(error) => format!("{}: {error}", error.code()),
        Ok(_) => panic!("{text} was accepted"),
    }
}

#[test]
fn invalid_frame_names_the_field_and_omits_its_value() {
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
        (
            r#"{"type":"hello","token":"t","positions":{"c":[1,2]}}"#,
            "positions.c: expected an object with a seq, or the seq alone",
        ),
        (
            r#"{"type":"hello","token":"t","positions":{"c":-1}}"#,
            "positions.c: expected an object with a seq",
        ),
        (
            r#"{"type":"hello","token":"t","positions":{"c":null}}"#,
            "positions.c: expected an object with a seq",
        ),
        (r#"{"type":"hello","token":"t","positions":{"c":"hunter2"}}"#, "positions.c: expected an object"),
        (r#"{"type":"hello","token":"t","positions":{"c":{"epoch":1}}}"#, "positions.c: missing field `seq`"),
        (
            r#"{"type":"hello","token":"t","positions":{"c":{"seq":1,"epoch":-1}}}"#,
            "positions.c.epoch: expected a whole number that is not negative",
        ),
        (r#"{"type":"hello","token":"t","positions":[]}"#, "positions: expected an object"),
        (
            r#"{"type":"send","conversation_id":"c","message_id":"m","content":"hi","retry":"hunter2 at line 1"}"#,
            "retry: expected true or false",
        ),
        (r#"{"type":"delivered","conversation_id":"c"}"#, "missing field `seq`"),
        (r#"{"type":"delivered","seq":1}"#, "missing field `conversation_id`"),
        (
            r#"{"type":"read","conversation_id":"c","seq":-1}"#,
            "seq: expected a whole number that is not negative",
        ),
        (r#"{"type":"read","conversation_id":"c","seq":1.5}"#, "seq: expected a whole number"),
        (r#"{"type":"read","conversation_id":"c","seq":"hunter2"}"#, "seq: expected a whole number"),
        (r#"{"type":"read","conversation_id":["hunter2"],"seq":1}"#, "conversation_id: expected a string"),
        (r#"{"type":"typing"}"#, "missing field `conversation_id`"),
        (r#"{"type":"typing","conversation_id":7}"#, "conversation_id: expected a string"),
        (r#"{"type":"receipts","conversation_id":"c"}"#, "unknown_type: "),
    ] {
        let message = refused(text);
        assert!(message.contains(says), "{text} gave: {message}");
        assert!(!message.contains("hunter2"), "{text} gave: {message}");
    }
}

#[test]
fn long_field_name_is_truncated_in_the_error() {
    let name = "n".repeat(10_000);
    let message = refused(&format!(r#"{{"type":"hello","token":"t","positions":{{"{name}":true}}}}"#));
    assert!(message.len() < 200 && message.contains("positions.nnn"), "{message}");
}

#[test]
fn unknown_fields_are_ignored_and_null_means_absent() {
    let text = r#"{"future":{"deep":[1]},"type":"send","conversation_id":"c","message_id":"m","content":"\u0068i",
        "content_type":null,"timestamp":null,"retry":null,"after_seq":null,"type2":"x"}"#;
    let Ok(ClientFrame::Send(send)) = decoded(text) else { panic!("the frame was not parsed") };
    let request = send.into_request(direct(), message_id(), Origin(1)).unwrap();
    assert_eq!((&*request.content, request.content_type), ("hi", ContentType::Text));
    assert_eq!((request.timestamp, request.retry_after), (None, None));
}

#[test]
fn receipt_frame_has_kind_conversation_and_seq() {
    for (kind, meant) in [("delivered", ReceiptKind::Delivered), ("read", ReceiptKind::Read)] {
        let text = format!(r#"{{"seq":44,"conversation_id":"{}","type":"{kind}","new":[1]}}"#, direct());
        let Ok(ClientFrame::Receipt(found, mark)) = decoded(&text) else { panic!("{text} was not parsed") };
        assert_eq!((found, mark.conversation(), mark.seq()), (meant, Some(direct()), Seq::new(44)));
    }
}

#[test]
fn receipt_seq_saturates_and_invalid_conversation_is_reported() {
    let text = r#"{"type":"read","conversation_id":"nonsense","seq":18446744073709551615}"#;
    let Ok(ClientFrame::Receipt(_, mark)) = decoded(text) else { panic!("the frame was not parsed") };
    assert_eq!((mark.conversation(), mark.seq()), (None, Seq::MAX));
}

#[test]
fn typing_frame_has_a_conversation() {
    let conversation = |id: &str| {
        let text = format!(r#"{{"type":"typing","conversation_id":"{id}"}}"#);
        let Ok(ClientFrame::Typing(typing)) = decoded(&text) else { panic!("{text} was not parsed") };
        typing.conversation()
    };
    assert_eq!(conversation(&direct().to_string()), Some(direct()));
    assert_eq!(conversation("nonsense"), None);
}

/// A position in one conversation, in the first epoch.
fn position(value: &str) -> Option<Seq> {
    let text = format!(r#"{{"type":"hello","token":"t","positions":{{"{}":{value}}}}}"#, direct());
    let Ok(ClientFrame::Hello(hello)) = decoded(&text) else { panic!("{text} was not parsed") };
    let positions = hello.positions_in(Epoch::FIRST);
    assert!(positions.iter().all(|position| position.conversation == direct()));
    positions.first().map(|position| position.seq)
}

#[test]
fn position_is_an_object_or_a_bare_seq() {
    for same in ["44", r#"{"seq":44}"#, r#"{"epoch":null,"seq":44}"#, r#"{"seq":44,"epoch":1,"new":{}}"#] {
        assert_eq!(position(same), Some(Seq::new(44)), "{same}");
    }
    assert_eq!(position("18446744073709551615"), Some(Seq::MAX));
}

#[test]
fn positions_with_other_epoch_or_invalid_id_are_ignored() {
    assert_eq!(position(r#"{"seq":44,"epoch":2}"#), None);
    let text = r#"{"type":"hello","token":"t","positions":{"nonsense":44,"":1}}"#;
    let Ok(ClientFrame::Hello(hello)) = decoded(text) else { panic!("the frame was not parsed") };
    assert_eq!(hello.positions_in(Epoch::FIRST), []);
}

#[test]
fn only_retry_with_after_seq_searches_beyond_the_dedupe_window() {
    let retry_after = |fields: &str| {
        let text =
            format!(r#"{{"type":"send","conversation_id":"c","message_id":"m","content":"hi"{fields}}}"#);
        let Ok(ClientFrame::Send(send)) = decoded(&text) else { panic!("{text} was not parsed") };
        send.into_request(direct(), message_id(), Origin(1)).unwrap().retry_after
    };
    assert_eq!(retry_after(r#","retry":true,"after_seq":5"#), Some(Seq::new(5)));
    assert_eq!(retry_after(r#","retry":true,"after_seq":18446744073709551615"#), Some(Seq::MAX));
    assert_eq!(retry_after(r#","retry":true"#), None);
    assert_eq!(retry_after(r#","retry":false,"after_seq":5"#), None);
}

proptest! {
    #[test]
    fn arbitrary_text_parses_to_a_frame_or_an_error(text in ".*") {
        let _ = decoded(&text);
    }

    #[test]
    fn arbitrary_json_object_parses_to_a_frame_or_an_error(
        kind in "(hello|send|delivered|read|typing|ping|other)",
        fields in prop::collection::btree_map(
            "(token|device_id|positions|conversation_id|message_id|content|content_type|timestamp|retry|after_seq|seq)",
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
        match decoded(&text) {
            Ok(ClientFrame::Send(send)) => {
                let _ = (send.conversation(), send.message_id());
                let _ = send.into_request(direct(), message_id(), Origin(1));
            }
            Ok(ClientFrame::Receipt(_, mark)) => prop_assert!(mark.seq() <= Seq::MAX && mark.conversation().is_none()),
            Ok(ClientFrame::Typing(typing)) => prop_assert!(typing.conversation().is_none()),
            Ok(ClientFrame::Hello(_) | ClientFrame::Ping) | Err(_) => {}
        }
    }

    #[test]
    fn arbitrary_positions_parse_or_fail_and_never_exceed_the_maximum_seq(
        positions in prop::collection::btree_map(
            prop_oneof![Just(direct().to_string()), "[dg][0-9a-z]{24}", ".{0,30}"],
            prop_oneof![
                any::<u64>().prop_map(|seq| seq.to_string()),
                any::<i64>().prop_map(|seq| seq.to_string()),
                (any::<i64>(), any::<u64>()).prop_map(|(epoch, seq)| format!(r#"{{"epoch":{epoch},"seq":{seq}}}"#)),
                any::<u64>().prop_map(|seq| format!(r#"{{"epoch":1,"seq":{seq}}}"#)),
                Just("[]".to_string()), Just("null".to_string()), Just("1e3".to_string()),
            ],
            0..6,
        ),
    ) {
        let spelled = |(id, value): (&String, &String)| format!("{}:{value}", serde_json::to_string(id).unwrap());
        let entries = positions.iter().map(spelled).collect::<Vec<_>>().join(",");
        let text = format!(r#"{{"type":"hello","token":"t","positions":{{{entries}}}}}"#);
        match decoded(&text) {
            Ok(ClientFrame::Hello(hello)) => {
                prop_assert!(hello.positions_in(Epoch::FIRST).iter().all(|position| position.seq <= Seq::MAX));
            }
            Ok(_) => prop_assert!(false, "it is a hello"),
            Err(error) => prop_assert!(error.to_string().starts_with("positions"), "{error}"),
        }
    }

    #[test]
    fn sent_content_round_trips(content in "\\PC{1,80}|[\\x00-\\x7f]{1,40}") {
        let frame: serde_json::Value = serde_json::from_str(&encode_message(&message(&content))).unwrap();
        prop_assert_eq!(frame["content"].as_str(), Some(content.as_str()));
    }
}
