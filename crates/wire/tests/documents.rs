//! The committed documents equal the generated ones, and their examples validate.

#![expect(clippy::unwrap_used, reason = "a helper of a test fails the test")]

use std::collections::HashSet;
use std::path::PathBuf;

use bluetick_wire::{CloseCode, ErrorCode, document};
use serde_json::Value;

const HOW: &str = "BLUETICK_BLESS=1 cargo test -p bluetick-wire";

fn committed(name: &str, generated: &str) -> String {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(name);
    if std::env::var_os("BLUETICK_BLESS").is_some() {
        std::fs::write(&path, generated).unwrap();
    }
    std::fs::read_to_string(&path).unwrap_or_default()
}

#[test]
fn errors_page_matches_the_code_tables() {
    let generated = document::errors_markdown();
    assert!(committed("errors.md", &generated) == generated, "docs/errors.md is stale: {HOW}");
}

#[test]
fn websocket_document_matches_the_types() {
    let generated = document::websocket();
    let committed = committed("websocket.json", &format!("{generated:#}\n"));
    // Compare values, because the order of keys depends on the features of the build.
    let committed: Value = serde_json::from_str(&committed).unwrap_or_default();
    assert!(committed == generated, "docs/websocket.json is stale: {HOW}");
}

#[test]
fn error_codes_are_unique_and_map_to_error_statuses() {
    let codes: HashSet<&str> = ErrorCode::ALL.iter().map(|code| code.as_str()).collect();
    assert_eq!(codes.len(), ErrorCode::ALL.len());
    assert!(ErrorCode::ALL.iter().all(|code| (400..600).contains(&code.status())));
    let numbers: HashSet<u16> = CloseCode::ALL.iter().map(|code| code.number()).collect();
    assert_eq!(numbers.len(), CloseCode::ALL.len());
}

#[test]
fn every_example_frame_validates_against_its_schema() {
    let document = document::websocket();
    let messages = document["components"]["messages"].as_object().unwrap();
    for (kind, message) in messages {
        let mut schema = document["components"]["schemas"][format!("{kind}_frame")].clone();
        schema["components"] = document["components"].clone();
        let validator = jsonschema::validator_for(&schema).unwrap();
        let example = &message["examples"][0]["payload"];
        let errors: Vec<String> = validator.iter_errors(example).map(|error| error.to_string()).collect();
        assert!(example.is_object() && errors.is_empty(), "{kind}: {errors:?}");
        let mut wrong = example.clone();
        wrong["type"] = "another".into();
        assert!(!validator.is_valid(&wrong), "the schema of {kind} accepts another type");
    }
    assert_eq!(messages.len(), 20);
}
