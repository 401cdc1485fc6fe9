//! The reference from a row to the archived content of its message.

use std::fmt;
use std::str::FromStr;

use bluetick_core::{ConversationId, Seq};
use thiserror::Error;

use crate::{BlockRef, SegmentName};

/// The location of archived content: an object, a block of it, and the first record in the block.
/// A row keeps it in place of the content. The store and the conversation are those of the row.
///
/// The text form is `1-1000.1@53+4096:65536:0a1b2c3d#17`: seqs and revision of the object, then
/// offset, length, raw length and checksum of the block, then the index of the record. Rows contain
/// this text, so it must not change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentRef {
    /// The first seq of the segment.
    pub first: Seq,
    /// The last seq of the segment.
    pub last: Seq,
    pub revision: u32,
    pub block: BlockRef,
    /// The index of the first record in the block.
    pub index: u32,
}

impl SegmentRef {
    pub fn segment(&self, store: [u8; 8], conversation: ConversationId) -> SegmentName {
        SegmentName { store, conversation, first: self.first, last: self.last, revision: self.revision }
    }

    /// Returns whether the content is in this object. Store and conversation are not compared.
    pub fn is_in(&self, name: &SegmentName) -> bool {
        (self.first, self.last, self.revision) == (name.first, name.last, name.revision)
    }
}

impl fmt::Display for SegmentRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let SegmentRef { first, last, revision, block, index } = self;
        let BlockRef { offset, length, raw_length, checksum } = block;
        let (first, last) = (first.get(), last.get());
        write!(f, "{first}-{last}.{revision}@{offset}+{length}:{raw_length}:{checksum:08x}#{index}")
    }
}

/// The text is not a [`SegmentRef`].
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[error("not a reference to a segment")]
pub struct InvalidSegmentRef;

impl FromStr for SegmentRef {
    type Err = InvalidSegmentRef;

    fn from_str(text: &str) -> Result<SegmentRef, InvalidSegmentRef> {
        parse(text).ok_or(InvalidSegmentRef)
    }
}

fn parse(text: &str) -> Option<SegmentRef> {
    let (object, within) = text.split_once('@')?;
    let (range, revision) = object.split_once('.')?;
    let (first, last) = range.split_once('-')?;
    let (block, index) = within.split_once('#')?;
    let (offset, lengths) = block.split_once('+')?;
    let mut lengths = lengths.split(':');
    let block = BlockRef {
        offset: offset.parse().ok()?,
        length: lengths.next()?.parse().ok()?,
        raw_length: lengths.next()?.parse().ok()?,
        checksum: u32::from_str_radix(lengths.next()?, 16).ok()?,
    };
    let (first, last) = (Seq::new(first.parse().ok()?), Seq::new(last.parse().ok()?));
    let is_complete = lengths.next().is_none() && Seq::FIRST <= first && first <= last;
    is_complete.then_some(SegmentRef {
        first,
        last,
        revision: revision.parse().ok()?,
        block,
        index: index.parse().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segment_ref_matches_its_recorded_text_form() {
        let block = BlockRef { offset: 53, length: 4096, raw_length: 65_536, checksum: 0x0a1b_2c3d };
        let reference =
            SegmentRef { first: Seq::new(1), last: Seq::new(1000), revision: 1, block, index: 17 };
        let text = "1-1000.1@53+4096:65536:0a1b2c3d#17";
        assert_eq!(reference.to_string(), text);
        assert_eq!(text.parse(), Ok(reference));
    }

    #[test]
    fn malformed_text_is_refused() {
        for wrong in
            ["", "1-1000.1", "0-5.1@1+2:3:4#5", "5-1.1@1+2:3:4#5", "1-5.1@1+2:3:4:9#5", "1-5.1@1+2:3#5"]
        {
            assert_eq!(wrong.parse::<SegmentRef>(), Err(InvalidSegmentRef), "{wrong}");
        }
    }
}
