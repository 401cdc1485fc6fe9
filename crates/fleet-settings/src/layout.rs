//! The parameters that spread a busy conversation over partitions of the messages table.

use bluetick_core::Seq;

/// The parameters of the partitioning. Tests use smaller values, to reach every boundary often.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// The number of consecutive seqs in one block. A block is in one partition.
    pub block: u64,
    /// A conversation without a row in the registry has one partition up to this seq.
    pub plain_through: Seq,
    /// How many seqs ahead of the newest seq the partition count is decided.
    pub ahead: u64,
    /// The maximum number of partitions of a conversation.
    pub most_partitions: u16,
    /// For tests: every decision picks a random number of partitions.
    pub restless: bool,
}

impl Default for Layout {
    fn default() -> Layout {
        Layout::CHOSEN
    }
}

impl Layout {
    /// The parameters of a fleet in production. A node with another `block` looks for messages in
    /// the wrong partitions.
    pub const CHOSEN: Layout = Layout {
        block: 64,
        plain_through: Seq::new(1_024),
        ahead: 1_024,
        most_partitions: 64,
        restless: false,
    };

    /// Returns the last seq of the block that contains `seq`.
    pub fn end_of_block(&self, seq: Seq) -> Seq {
        Seq::new(seq.get().div_ceil(self.block).saturating_mul(self.block)).min(Seq::MAX)
    }
}
