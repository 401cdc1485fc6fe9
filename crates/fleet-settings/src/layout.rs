//! How a busy conversation is spread over partitions of the messages table: the numbers alone.

use bluetick_core::Seq;

/// The numbers that shape salting. Tests use smaller ones, to meet every border often.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// So many consecutive seqs lie together.
    pub block: u64,
    /// A conversation without a row in the registry lies in one partition up to here.
    pub plain_through: Seq,
    /// So far ahead of the newest place it is decided where places lie.
    pub ahead: u64,
    /// A conversation is never spread further.
    pub most_partitions: u16,
    /// For tests: every decision is about another number of partitions, by chance.
    pub restless: bool,
}

impl Default for Layout {
    fn default() -> Layout {
        Layout::CHOSEN
    }
}

impl Layout {
    pub const CHOSEN: Layout = Layout {
        block: 64,
        plain_through: Seq::new(1_024),
        ahead: 1_024,
        most_partitions: 64,
        restless: false,
    };

    /// The last place of the block that `seq` lies in.
    pub fn end_of_block(&self, seq: Seq) -> Seq {
        Seq::new(seq.get().div_ceil(self.block).saturating_mul(self.block)).min(Seq::MAX)
    }
}
