//! Checks that the one-pass decoder and the general decoder return the same frame.

use proptest::prelude::*;

use super::as_text::as_text;
use super::*;
use crate::frame::scan::usual_frame;

/// Asserts that both decoders agree. Returns whether the one-pass decoder accepted the frame.
fn reads_the_same(text: &str) -> bool {
    let slowly = ClientFrame::decode_any(text).map(|frame| as_text(&frame));
    assert_eq!(ClientFrame::decode(text).map(|frame| as_text(&frame)), slowly, "{text}");
    let at_once = usual_frame(text);
    if let Some(frame) = &at_once {
        assert_eq!(Ok(as_text(frame)), slowly, "{text}");
    }
    at_once.is_some()
}

const USUAL: [&str; 8] = [
    r#"{"type":"send","conversation_id":"c","message_id":"m","content":"hi"}"#,
    r#"{"type": "send", "conversation_id": "c", "message_id": "m", "content": "hi", "timestamp": 1767225600000}"#,
    r#"{"type":"send","content":"","retry":true,"after_seq":0,"message_id":"m","content_type":"md","conversation_id":"c"}"#,
    r#"{"type":"send","conversation_id":"c","message_id":"m","content":"a\n\"b\"\\\u00e9\ud83e\udd6a ü🥪","retry":false}"#,
    r#"{"type":"send","conversation_id":"ü","message_id":"🥪","content":"\\","after_seq":999999999999999999}"#,
    r#"{"type":"delivered","conversation_id":"c","seq":44}"#,
    r#"{"type":"read","seq":0,"conversation_id":"c"}"#,
    r#"{ "type" : "read" , "seq" : 7 , "conversation_id" : "c" }"#,
];

#[test]
fn common_client_frames_are_read_by_the_fast_scanner() {
    for text in USUAL {
        assert!(reads_the_same(text), "{text}");
    }
}

#[test]
fn unusual_or_invalid_frames_fall_back_to_the_explaining_parser() {
    for text in [
        "",
        "{",
        "{}",
        "[]",
        "7",
        "nonsense",
        r#"{"type"#,
        r#"{"type":"send""#,
        r#"{"type":"send"}"#,
        r#"{"type":"ping"}"#,
        r#"{"conversation_id":"c","type":"read","seq":1}"#,
        r#"{"type":"read","conversation_id":"c","seq":1} "#,
        r#"{"type":"read","conversation_id":"c","seq":1}x"#,
        r#"{"type":"read","conversation_id":"c","seq":1,}"#,
        r#"{"type":"read",,"conversation_id":"c","seq":1}"#,
        r#"{"type":"read","conversation_id":"c" "seq":1}"#,
        r#"{"type":"read","conversation_id":"c","seq":01}"#,
        r#"{"type":"read","conversation_id":"c","seq":-1}"#,
        r#"{"type":"read","conversation_id":"c","seq":1.0}"#,
        r#"{"type":"read","conversation_id":"c","seq":1e3}"#,
        r#"{"type":"read","conversation_id":"c","seq":18446744073709551615}"#,
        r#"{"type":"read","conversation_id":"c","seq":18446744073709551616}"#,
        r#"{"type":"read","conversation_id":"c","seq":"1"}"#,
        r#"{"type":"read","conversation_id":"c","seq":1,"seq":1}"#,
        r#"{"type":"read","type":"read","conversation_id":"c","seq":1}"#,
        r#"{"type":"read","conversation_id":"\u0063","seq":1}"#,
        r#"{"type":"read","conversation_id":"c","seq":1,"new":[1]}"#,
        "{\"type\":\"read\",\n\"conversation_id\":\"c\",\"seq\":1}",
        "{\"type\":\"read\",\"conversation_id\":\"c\u{1}\",\"seq\":1}",
        r#"{"type":"send","conversation_id":"c","message_id":"m"}"#,
        r#"{"type":"send","conversation_id":"c","message_id":"m","content":"hi","content":"hi"}"#,
        r#"{"type":"send","conversation_id":"c","message_id":"m","content":"\ud800"}"#,
        r#"{"type":"send","conversation_id":"c","message_id":"m","content":"\x"}"#,
        r#"{"type":"send","conversation_id":"c","message_id":"m","content":"\🥪"}"#,
        r#"{"type":"send","conversation_id":"c","message_id":"m","content":"hi\"#,
        r#"{"type":"send","conversation_id":"c","message_id":"m","content":\"hi"}"#,
        "{\"type\":\"send\",\"conversation_id\":\"c\",\"message_id\":\"m\",\"content\":\"\\n\n\"}",
        r#"{"type":"send","conversation_id":"c","message_id":"m","content":"hi","timestamp":-5}"#,
        r#"{"type":"send","conversation_id":"c","message_id":"m","content":"hi","timestamp":9223372036854775808}"#,
        r#"{"type":"send","conversation_id":"c","message_id":"m","content":"hi","retry":tru}"#,
        r#"{"type":"send","conversation_id":"c","message_id":"m","content":"hi","retry":truee}"#,
        r#"{"type":"send","conversation_id":"c","message_id":"m","content":"hi","retry":null}"#,
        r#"{"type":"send","conversation_id":"c","message_id":null,"content":"hi"}"#,
        r#"["send","c","m","hi"]"#,
    ] {
        assert!(!reads_the_same(text), "{text}");
    }
}

proptest! {
    #[test]
    fn mutated_frames_parse_equally_in_scanner_and_parser(
        which in prop::sample::select(USUAL.as_slice()),
        changes in prop::collection::vec(
            (any::<prop::sample::Index>(), 0..3usize, prop_oneof![
                "[{}\\[\\]\",:\\\\ 0-9a-z\\x00-\\x20\u{e9}]{0,3}",
                prop::sample::select(vec![
                    r#""type":"send","#, r#""seq":1"#, r#","content":"x""#, "null", "true", "-1", "1.5", r"\ud83e", r"\n", "\u{1F96A}",
                ]).prop_map(String::from),
            ]),
            0..4,
        ),
    ) {
        let mut text: Vec<char> = which.chars().collect();
        for (at, taken, put) in changes {
            let at = at.index(text.len() + 1);
            let end = (at + taken).min(text.len());
            text.splice(at..end, put.chars());
        }
        reads_the_same(&String::from_iter(text));
    }

    #[test]
    fn any_content_parses_equally_in_scanner_and_parser(content in "(?s)(.|[\\x00-\\x7f]|[\"\\\\]){0,40}", escape: bool) {
        let content = if escape { serde_json::to_string(&content).unwrap() } else { format!("\"{content}\"") };
        let text = format!(r#"{{"type":"send","conversation_id":"c","message_id":"m","content":{content}}}"#);
        prop_assert!(reads_the_same(&text) || !escape);
    }
}
