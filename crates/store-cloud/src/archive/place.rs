//! Where in the archive a message's content lies: what a row says in `s3_ref`.
//!
//! `1-1000.1@53+4096:65536:0a1b2c3d#17`: seqs and revision of the object, then the frame in it (offset, length, length
//! before compression, checksum), then which of the frame's records it is. Store and conversation are the row's own.

use std::fmt;
use std::str::FromStr;

use bluetick_archive::{FrameRef, SegmentName};
use bluetick_core::{ConversationId, Seq};
use thiserror::Error;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ColdPlace {
    pub first: Seq,
    pub last: Seq,
    pub revision: u32,
    pub frame: FrameRef,
    pub index: u32,
}

impl ColdPlace {
    pub fn segment(&self, store: [u8; 8], conversation: ConversationId) -> SegmentName {
        SegmentName { store, conversation, first: self.first, last: self.last, revision: self.revision }
    }

    pub fn is_in(&self, name: &SegmentName) -> bool {
        (self.first, self.last, self.revision) == (name.first, name.last, name.revision)
    }
}

impl fmt::Display for ColdPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ColdPlace { first, last, revision, frame, index } = self;
        let FrameRef { offset, length, raw_length, checksum } = frame;
        let (first, last) = (first.get(), last.get());
        write!(f, "{first}-{last}.{revision}@{offset}+{length}:{raw_length}:{checksum:08x}#{index}")
    }
}

#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[error("not a place in the archive")]
pub(crate) struct InvalidPlace;

impl FromStr for ColdPlace {
    type Err = InvalidPlace;

    fn from_str(text: &str) -> Result<ColdPlace, InvalidPlace> {
        parse(text).ok_or(InvalidPlace)
    }
}

fn parse(text: &str) -> Option<ColdPlace> {
    let (object, within) = text.split_once('@')?;
    let (range, revision) = object.split_once('.')?;
    let (first, last) = range.split_once('-')?;
    let (frame, index) = within.split_once('#')?;
    let (offset, lengths) = frame.split_once('+')?;
    let mut lengths = lengths.split(':');
    let frame = FrameRef {
        offset: offset.parse().ok()?,
        length: lengths.next()?.parse().ok()?,
        raw_length: lengths.next()?.parse().ok()?,
        checksum: u32::from_str_radix(lengths.next()?, 16).ok()?,
    };
    let (first, last) = (Seq::new(first.parse().ok()?), Seq::new(last.parse().ok()?));
    let is_whole = lengths.next().is_none() && Seq::FIRST <= first && first <= last;
    is_whole.then_some(ColdPlace {
        first,
        last,
        revision: revision.parse().ok()?,
        frame,
        index: index.parse().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_rows_say_never_changes() {
        let frame = FrameRef { offset: 53, length: 4096, raw_length: 65_536, checksum: 0x0a1b_2c3d };
        let place = ColdPlace { first: Seq::new(1), last: Seq::new(1000), revision: 1, frame, index: 17 };
        let text = "1-1000.1@53+4096:65536:0a1b2c3d#17";
        assert_eq!(place.to_string(), text);
        assert_eq!(text.parse(), Ok(place));
    }

    #[test]
    fn anything_else_is_refused() {
        for wrong in
            ["", "1-1000.1", "0-5.1@1+2:3:4#5", "5-1.1@1+2:3:4#5", "1-5.1@1+2:3:4:9#5", "1-5.1@1+2:3#5"]
        {
            assert_eq!(wrong.parse::<ColdPlace>(), Err(InvalidPlace), "{wrong}");
        }
    }
}
