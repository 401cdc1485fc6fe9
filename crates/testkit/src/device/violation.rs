//! Contract violations that a device reports, with context for debugging.

use std::fmt;

use serde_json::Value;

use crate::names::{ConversationName, DeviceName, UserName};

/// The read state of a member.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReadState {
    pub delivered: u64,
    pub read: u64,
}

impl ReadState {
    pub fn from_json(status: &Value) -> Option<ReadState> {
        Some(ReadState {
            delivered: status["last_delivered_seq"].as_u64()?,
            read: status["last_read_seq"].as_u64()?,
        })
    }

    /// Returns the maximum of each seq.
    pub fn max(self, other: ReadState) -> ReadState {
        ReadState { delivered: self.delivered.max(other.delivered), read: self.read.max(other.read) }
    }

    /// Returns whether neither seq is below `other`.
    pub fn covers(self, other: ReadState) -> bool {
        self.delivered >= other.delivered && self.read >= other.read
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// A connection received a seq twice, or after a higher one.
    OutOfOrder { after: u64, then: u64 },
    /// A seq between the two was neither sent nor announced as skipped.
    Gap { after: u64, then: u64 },
    /// The message at a seq has changed.
    Altered { seq: u64 },
    /// A pending message of another user was not sent on reconnect, although no device of the user
    /// acknowledged it.
    NotPending { seq: u64 },
    /// A tick moved backwards.
    WentBack { of: UserName, from: ReadState, to: ReadState },
    /// A tick is above the last message that this caught-up connection received.
    AheadOfMessages { of: UserName, told: ReadState, sent: u64 },
    /// The read seq is above the delivered seq.
    ReadNotDelivered { of: UserName, told: ReadState },
    /// The answer to a receipt is below the receipt.
    MarkLost { marked: u64, answered: ReadState },
    /// The server refused a valid request.
    Refused(String),
    /// The server closed the connection of a valid client.
    Closed(String),
    /// An answer or frame violates the contract.
    Misspoken(String),
    /// Messages or answers were missing, and no further frame arrived.
    Stuck(String),
}

/// A violation and its context. It prints everything, because a run is hard to repeat exactly.
#[derive(Clone, Debug)]
pub struct ViolationReport {
    pub seed: u64,
    pub device: DeviceName,
    pub conversation: Option<ConversationName>,
    pub trouble: Trouble,
    pub last_frames: Vec<String>,
}

impl fmt::Display for ViolationReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = self.conversation.as_ref().map_or("no conversation", ConversationName::as_str);
        writeln!(f, "seed {}, device {}, {place}: {:?}", self.seed, self.device, self.trouble)?;
        self.last_frames.iter().try_for_each(|frame| writeln!(f, "    {frame}"))
    }
}
