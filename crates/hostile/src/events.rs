//! Fuzz target for a log batch and its records.

use bluetick_core::MessageId;
use bluetick_store_embedded::codec::chunk::Fingerprinter;
use bluetick_store_embedded::codec::event::{self, LogEvent};
use bluetick_store_embedded::codec::record::{self, Record};
use bluetick_store_embedded::codec::{Reader, cold};

/// Reads events up to the first invalid one. Asserts that each event survives a round trip.
pub fn any_batch(bytes: &[u8]) {
    let mut reader = Reader(bytes);
    while let Ok(Some(event)) = event::next_event(&mut reader) {
        if let LogEvent::Message { record, .. } = &event {
            any_record(record);
        }
        let written = written(&event);
        let mut again = Reader(&written);
        assert_eq!(event::next_event(&mut again), Ok(Some(event)));
        assert!(again.is_empty());
    }
    any_record(bytes);
}

fn written(event: &LogEvent<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    match event {
        LogEvent::Message { conversation, seq, record } => {
            event::put_message(&mut out, *conversation, *seq, record);
        }
        LogEvent::Created { conversation, members } => event::put_created(&mut out, conversation, members),
        LogEvent::Membership { conversation, change } => {
            event::put_membership(&mut out, *conversation, change)
        }
        LogEvent::User(user) => event::put_user(&mut out, user),
        LogEvent::ReadStateChanged { membership, member_state } => {
            event::put_read_state(&mut out, membership, member_state)
        }
        LogEvent::PreferencesChanged { membership, preferences } => {
            event::put_preferences_changed(&mut out, membership, *preferences)
        }
        LogEvent::Profile { user, profile } => event::put_profile(&mut out, user, profile),
    }
    out
}

/// Asserts that a readable record survives a round trip, and so do the records derived from it.
pub fn any_record(bytes: &[u8]) {
    let Ok(read) = Record::decode(bytes) else {
        assert!(record::cut(bytes).is_err() && cold::erased(bytes).is_err());
        return;
    };
    if matches!(&read.message_id, MessageId::Text(text) if text.len() > MessageId::MAX_BYTES) {
        // No client can send such a message id, so skip the record.
        return;
    }
    let mut out = Vec::new();
    read.encode(&mut out);
    assert_eq!(Record::decode(&out).as_ref(), Ok(&read));
    let cut = record::cut(bytes).expect("a valid record can be truncated");
    let shown = Record::decode(&cut).expect("a truncated record is valid");
    assert!(read.content.starts_with(shown.content));
    let (stub, _) = cold::stub_of(bytes, &Fingerprinter([7; 16])).expect("the record is valid");
    assert_eq!(Record::decode(&stub), Ok(Record { content: "", ..read.clone() }));
    let erased = cold::erased(bytes).expect("a valid record can be erased");
    let left = Record::decode(&erased).expect("an erased record is valid");
    assert_eq!((left.content, left.sender, &left.message_id), ("", read.sender, &read.message_id));
    let _ = read.sender_id();
}
