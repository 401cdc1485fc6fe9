//! [`Seq`], the position of a message in its conversation, and [`Epoch`], the generation of the
//! store that assigned it.

use std::fmt;

/// The sequence number of a message in its conversation: 1 for the first message, then contiguous.
/// [`Seq::ZERO`] means "before the first message".
///
/// Invariant: seq is the only message order. No clock takes part in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Seq(u64);

impl Seq {
    /// The position before the first message.
    pub const ZERO: Seq = Seq(0);
    /// The seq of the first message.
    pub const FIRST: Seq = Seq(1);
    /// The largest integer that every JSON parser keeps exact (2^53 - 1). `bluetick-wire` clamps or
    /// rejects higher values from clients.
    pub const MAX: Seq = Seq((1 << 53) - 1);

    pub const fn new(value: u64) -> Seq {
        Seq(value)
    }

    pub const fn get(self) -> u64 {
        self.0
    }

    pub const fn next(self) -> Seq {
        Seq(self.0 + 1)
    }

    /// Returns the preceding seq. [`Seq::ZERO`] returns itself.
    pub const fn previous(self) -> Seq {
        Seq(self.0.saturating_sub(1))
    }

    pub const fn plus(self, count: u64) -> Seq {
        Seq(self.0.saturating_add(count))
    }

    pub const fn minus(self, count: u64) -> Seq {
        Seq(self.0.saturating_sub(count))
    }

    /// Returns how many seqs this one is above `earlier`, or 0 if `earlier` is not lower.
    pub const fn distance_from(self, earlier: Seq) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

impl fmt::Display for Seq {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The generation of a store. It changes only when the operator restores the store to an earlier
/// state. A client that sees another epoch drops its cache, which may hold messages the store lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Epoch(u64);

impl Epoch {
    /// The epoch of a new store.
    pub const FIRST: Epoch = Epoch(1);

    pub const fn new(value: u64) -> Epoch {
        Epoch(value)
    }

    pub const fn get(self) -> u64 {
        self.0
    }
}
