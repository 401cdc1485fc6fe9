//! Packs records into blocks, and the blocks into a sealed segment.

use bluetick_core::ports::ArchiveError;

use crate::segment::{self, EncodedSegment};
use crate::{BLOCK_MESSAGES, BLOCK_RAW_BYTES, SegmentName, SegmentRef};

/// A sealed segment, and the location of each group of records in it.
pub struct SegmentLayout {
    pub sealed: EncodedSegment,
    pub refs: Vec<SegmentRef>,
}

/// Packs groups of records into blocks. The records of a group stay together in one block, so one
/// [`SegmentRef`] locates the whole group. Panics if a group is empty.
pub fn lay_out<R: AsRef<[u8]>>(name: &SegmentName, groups: &[Vec<R>]) -> SegmentLayout {
    let mut blocks: Vec<Vec<&[u8]>> = Vec::new();
    let mut within = Vec::with_capacity(groups.len());
    let mut bytes = 0;
    for group in groups {
        let is_full = blocks
            .last()
            .is_none_or(|block| block.len() + group.len() > BLOCK_MESSAGES || bytes >= BLOCK_RAW_BYTES);
        if is_full {
            blocks.push(Vec::new());
            bytes = 0;
        }
        let number = blocks.len() - 1;
        let block = &mut blocks[number];
        within.push((number, u32::try_from(block.len()).expect("a block has few messages")));
        block.extend(group.iter().map(AsRef::as_ref));
        bytes += group.iter().map(|record| record.as_ref().len()).sum::<usize>();
    }
    let sealed = segment::seal(name, &blocks);
    let refer = |(number, index): (usize, u32)| SegmentRef {
        first: name.first,
        last: name.last,
        revision: name.revision,
        block: sealed.blocks[number],
        index,
    };
    let refs = within.into_iter().map(refer).collect();
    SegmentLayout { sealed, refs }
}

/// As [`lay_out`], on a blocking thread, because compression takes long. Errors with `Stopped` if
/// the runtime shuts down.
pub async fn lay_out_blocking(
    name: SegmentName,
    groups: Vec<Vec<Vec<u8>>>,
) -> Result<SegmentLayout, ArchiveError> {
    let laid = tokio::task::spawn_blocking(move || lay_out(&name, &groups)).await;
    laid.map_err(|_| ArchiveError::Stopped)
}
