//! Segment names, and the object keys derived from them.

use std::fmt;
use std::str::FromStr;

use bluetick_core::{ConversationId, Seq};
use thiserror::Error;

/// The name of one segment. It identifies the content permanently: messages are immutable, and an
/// erasure creates the next revision.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SegmentName {
    /// The store that wrote the segment. Several stores can share one location.
    pub store: [u8; 8],
    pub conversation: ConversationId,
    pub first: Seq,
    pub last: Seq,
    pub revision: u32,
}

impl SegmentName {
    /// Returns the number of messages in the segment.
    pub fn count(&self) -> u64 {
        self.last.next().distance_from(self.first)
    }
}

/// The form of a store id in keys.
pub(crate) struct StoreText(pub [u8; 8]);

impl fmt::Display for StoreText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", u64::from_be_bytes(self.0))
    }
}

impl fmt::Display for SegmentName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let SegmentName { store, conversation, first, last, revision } = self;
        write!(f, "{}/{conversation}/{:016}-{:016}.{revision}", StoreText(*store), first.get(), last.get())
    }
}

/// The text is not a segment name.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[error("not the name of a segment")]
pub struct InvalidSegmentName;

impl FromStr for SegmentName {
    type Err = InvalidSegmentName;

    /// Accepts only the exact form that [`Display`](fmt::Display) produces.
    fn from_str(text: &str) -> Result<SegmentName, InvalidSegmentName> {
        let name = parse(text).ok_or(InvalidSegmentName)?;
        let holds_some = Seq::FIRST <= name.first && name.first <= name.last && name.last <= Seq::MAX;
        if holds_some && name.to_string() == text { Ok(name) } else { Err(InvalidSegmentName) }
    }
}

/// Parses leniently. The caller compares the result with the text.
fn parse(text: &str) -> Option<SegmentName> {
    let mut parts = text.split('/');
    let store = u64::from_str_radix(parts.next()?, 16).ok()?.to_be_bytes();
    let conversation = parts.next()?.parse().ok()?;
    let (range, revision) = parts.next()?.split_once('.')?;
    let (first, last) = range.split_once('-')?;
    let seq = |digits: &str| digits.parse().ok().map(Seq::new);
    Some(SegmentName {
        store,
        conversation,
        first: seq(first)?,
        last: seq(last)?,
        revision: revision.parse().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn name() -> SegmentName {
        SegmentName {
            store: [0, 1, 2, 3, 4, 5, 6, 0xab],
            conversation: ConversationId::group([7; 15]),
            first: Seq::new(1),
            last: Seq::new(1000),
            revision: 0,
        }
    }

    #[test]
    fn segment_key_matches_its_recorded_form() {
        let text = "00010203040506ab/g0w3ge1r70w3ge1r70w3ge1r7/0000000000000001-0000000000001000.0";
        assert_eq!(name().to_string(), text);
        assert_eq!(text.parse(), Ok(name()));
        assert_eq!(name().count(), 1000);
    }

    #[test]
    fn segment_name_in_another_spelling_is_refused() {
        let text = name().to_string();
        for wrong in [
            String::new(),
            text.to_uppercase(),
            text.replace("ab/", "ab//"),
            text.replace(".0", ""),
            text.replace(".0", ".00"),
            text.replace(".0", ".+0"),
            text.replace(".0", ".0/x"),
            text.replace(".0", ".0#1"),
            text.replace(".0", ".4294967296"),
            text.replace("0000000000001000", "1000"),
            text.replace("0000000000001000", "0000000000000000"),
            text.replace("0000000000001000", "9999999999999999"),
            text.replace("0000000000000001-", "0000000000000000-"),
            text.replace("0000000000000001-", "0000000000001001-"),
            format!("/{text}"),
            format!("bluetick/{text}"),
        ] {
            assert_eq!(wrong.parse::<SegmentName>(), Err(InvalidSegmentName), "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn segment_name_round_trips(store: [u8; 8], group: [u8; 15], first in 1..=Seq::MAX.get(), more in 0..5000u64, revision: u32) {
            let first = Seq::new(first);
            let last = first.plus(more).min(Seq::MAX);
            let name = SegmentName { store, conversation: ConversationId::group(group), first, last, revision };
            prop_assert_eq!(name.to_string().parse(), Ok(name));
        }

        #[test]
        fn arbitrary_text_never_panics(text: String) {
            let _ = text.parse::<SegmentName>();
        }
    }
}
