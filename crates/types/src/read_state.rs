//! How far a member received and read a conversation.

use crate::Seq;

/// The read state that decides a tick: every message up to `delivered` was delivered, and every
/// message up to `read` was read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct ReadState {
    pub delivered: Seq,
    pub read: Seq,
}

/// The kind of a receipt. A receipt is cumulative: it covers all messages up to its seq.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ReceiptKind {
    Delivered,
    Read,
}
