//! Which partition a place lies in, once it is known over how many its epoch is spread.
//!
//! Consecutive seqs stay together in blocks, so that a page touches few partitions; blocks go round, so that every second
//! of a busy conversation touches all of them. The size of a block was measured: `docs/adr/0016-hot-conversations.md`.

use bluetick_core::{ConversationId, Seq};

use crate::rows::Key;

pub use bluetick_fleet_settings::Layout;

/// One partition of the messages' table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Partition {
    /// The one without a suffix: everything before the first epoch, and whatever is not spread.
    Plain,
    Salted(u16),
}

/// What tells whoever reads the plain partition to its end that the conversation goes on elsewhere. It sorts behind every
/// message.
pub const SIGNPOST: u64 = Seq::MAX.get() + 1;

const _: () = assert!(SIGNPOST < 1 << 63, "the tables' numbers are signed");

impl Partition {
    /// Where `seq` lies when its epoch has so many partitions.
    pub fn of(seq: Seq, partitions: u16, block: u64) -> Partition {
        if partitions <= 1 {
            return Partition::Plain;
        }
        let turn = block_of(seq, block) % u64::from(partitions);
        Partition::Salted(u16::try_from(turn).expect("a remainder of a u16"))
    }

    /// A conversation's id has no `#`.
    pub fn name(self, conversation: ConversationId) -> String {
        match self {
            Partition::Plain => conversation.to_string(),
            Partition::Salted(suffix) => format!("{conversation}#{suffix}"),
        }
    }

    pub fn key(self, conversation: ConversationId, seq: Seq) -> Key {
        Key::number(self.name(conversation), seq.get())
    }
}

/// Blocks are counted from the first place of the conversation.
pub(super) fn block_of(seq: Seq, block: u64) -> u64 {
    seq.previous().get() / block
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_spread_has_no_suffix() {
        assert_eq!(Partition::of(Seq::new(70), 1, 64), Partition::Plain);
        let id = ConversationId::group([7; 15]);
        assert_eq!(Partition::Plain.name(id), id.to_string());
        assert_eq!(Partition::Salted(3).name(id), format!("{id}#3"));
    }

    #[test]
    fn a_block_stays_together_and_the_next_one_lies_elsewhere() {
        let of = |seq| Partition::of(Seq::new(seq), 3, 64);
        assert_eq!((of(1), of(64)), (Partition::Salted(0), Partition::Salted(0)));
        assert_eq!(
            (of(65), of(129), of(193)),
            (Partition::Salted(1), Partition::Salted(2), Partition::Salted(0))
        );
    }
}
