//! The place of a message in its conversation, and the life of the store that place belongs to.

use std::fmt;

/// A message's place in its conversation: 1 for the first, then dense. [`Seq::ZERO`] means "before the first".
///
/// Invariant: seq is the only order. No clock takes part in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Seq(u64);

impl Seq {
    pub const ZERO: Seq = Seq(0);
    pub const FIRST: Seq = Seq(1);
    /// The largest number that every JSON reader keeps exact (2^53 - 1); larger ones are clamped on the way in.
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

    /// The place before this one; [`Seq::ZERO`] stays where it is.
    pub const fn previous(self) -> Seq {
        Seq(self.0.saturating_sub(1))
    }

    pub const fn plus(self, count: u64) -> Seq {
        Seq(self.0.saturating_add(count))
    }

    pub const fn minus(self, count: u64) -> Seq {
        Seq(self.0.saturating_sub(count))
    }

    /// How many places lie from `earlier` up to this one; 0 when `earlier` is not earlier.
    pub const fn distance_from(self, earlier: Seq) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

impl fmt::Display for Seq {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Which life of the store a position belongs to. It changes only when a store was restored to an earlier state;
/// a client that sees another epoch drops its cache instead of diverging.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Epoch(u64);

impl Epoch {
    pub const FIRST: Epoch = Epoch(1);

    pub const fn new(value: u64) -> Epoch {
        Epoch(value)
    }

    pub const fn get(self) -> u64 {
        self.0
    }
}
