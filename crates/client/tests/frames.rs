//! Decodes the examples of the server's generated documents with the types of this client.

#![expect(clippy::unwrap_used, reason = "a test may stop where its own set-up fails")]

use std::collections::BTreeMap;

use bluetick_client::link::{ClientFrame, Frame, FrameKind, Position, SendFrame, ServerFrame};
use bluetick_types::{ConversationId, MessageId, Seq, Timestamp};
use serde_json::{Value, json};

fn document(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

fn websocket() -> Value {
    document(include_str!("../../../docs/websocket.json"))
}

/// Returns the example of a frame in the server's document.
fn example(name: &str) -> Value {
    websocket()["components"]["messages"][name]["examples"][0]["payload"].clone()
}

fn encoded(frame: &ClientFrame<'_>) -> Value {
    serde_json::from_str(&frame.encode()).unwrap()
}

#[test]
fn every_documented_server_frame_parses() {
    let document = websocket();
    let messages = document["components"]["messages"].as_object().unwrap();
    let ours = ["hello", "send", "delivered", "read", "typing_by_client", "ping"];
    let mut understood = 0;
    for (name, message) in messages.iter().filter(|(name, _)| !ours.contains(&name.as_str())) {
        let text = message["examples"][0]["payload"].to_string();
        let frame = Frame::new(text.as_str().into());
        assert_ne!(frame.kind(), FrameKind::Unknown, "{name}");
        frame.decode().unwrap_or_else(|error| panic!("{name}: {error}"));
        understood += 1;
    }
    assert!(understood >= 13, "{understood}");
}

#[test]
fn come_back_parses_and_unknown_frames_are_ignored() {
    let frame = Frame::new(r#"{"type":"come_back","after_ms":1730}"#.into());
    assert!(matches!(frame.decode().unwrap(), ServerFrame::ComeBack(back) if back.after_ms == 1_730));
    let frame = Frame::new(r#"{"type":"of_the_future","x":1}"#.into());
    assert!(matches!(frame.decode().unwrap(), ServerFrame::Unknown));
}

#[test]
fn frame_type_is_found_at_any_position() {
    for text in [r#"{"type":"pong"}"#, r#"{ "type" : "pong" }"#, r#"{"x":{"type":"ack"},"type":"pong"}"#] {
        assert_eq!(Frame::new(text.into()).kind(), FrameKind::Pong, "{text}");
    }
}

#[test]
fn client_frames_match_the_documented_schema() {
    let conversation_id: ConversationId =
        example("send")["conversation_id"].as_str().unwrap().parse().unwrap();
    let seq = Seq::new(44);
    assert_eq!(encoded(&ClientFrame::Delivered { conversation_id, seq }), example("delivered"));
    assert_eq!(encoded(&ClientFrame::Read { conversation_id, seq }), example("read"));
    assert_eq!(encoded(&ClientFrame::Typing { conversation_id }), example("typing_by_client"));
    assert_eq!(encoded(&ClientFrame::Ping), example("ping"));
    let positions = BTreeMap::from([(conversation_id.to_string(), Position { epoch: 1, seq })]);
    let hello = ClientFrame::Hello { token: "eyJhbGciOi...", device_id: Some("alice-phone"), positions };
    assert_eq!(encoded(&hello), example("hello"));
    let send = |timestamp, retry, after_seq| {
        ClientFrame::Send(SendFrame {
            conversation_id,
            message_id: MessageId::from_stored("0199c0de-0000-7000-8000-000000000001"),
            content: "Lunch?",
            content_type: None,
            timestamp,
            retry,
            after_seq,
        })
    };
    assert_eq!(encoded(&send(None, false, None)), example("send"));
    let mut again = example("send");
    again["timestamp"] = json!(5);
    again["retry"] = json!(true);
    again["after_seq"] = json!(44);
    assert_eq!(encoded(&send(Some(Timestamp::from_millis(5)), true, Some(seq))), again);
}

#[test]
fn documented_http_bodies_parse() {
    let document = document(include_str!("../../../docs/openapi.json"));
    let example = |name: &str| document["components"]["schemas"][name]["example"].clone();
    let entry: bluetick_client::wire::bodies::InboxEntry =
        serde_json::from_value(example("InboxEntryBody")).unwrap();
    assert_eq!((entry.unread, entry.last_seq), (1, Seq::new(7)));
    let detail: bluetick_client::wire::bodies::ConversationDetail =
        serde_json::from_value(example("ConversationDetailBody")).unwrap();
    let entry = detail.into_entry(&"alice".parse().unwrap());
    assert_eq!((entry.unread, entry.first_seq), (1, Seq::FIRST));
    let page: bluetick_client::wire::bodies::Page = serde_json::from_value(example("PageBody")).unwrap();
    assert_eq!(page.head_seq, Seq::ZERO);
}

#[test]
fn debug_output_of_a_message_omits_its_content() {
    let frame = Frame::new(example("message").to_string().as_str().into());
    let shown = format!("{:?}", frame.decode().unwrap());
    assert!(!shown.contains("Lunch"), "{shown}");
}
