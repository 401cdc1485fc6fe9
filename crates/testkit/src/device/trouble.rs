//! What a device holds against its server, with enough beside it to find out why.

use std::fmt;

use serde_json::Value;

use crate::names::{ConversationName, DeviceName, UserName};

/// The two numbers of a tick.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Boundaries {
    pub delivered: u64,
    pub read: u64,
}

impl Boundaries {
    pub fn from_json(status: &Value) -> Option<Boundaries> {
        Some(Boundaries {
            delivered: status["last_delivered_seq"].as_u64()?,
            read: status["last_read_seq"].as_u64()?,
        })
    }

    /// The further of each.
    pub fn max(self, other: Boundaries) -> Boundaries {
        Boundaries { delivered: self.delivered.max(other.delivered), read: self.read.max(other.read) }
    }

    /// Whether neither is behind `other`.
    pub fn covers(self, other: Boundaries) -> bool {
        self.delivered >= other.delivered && self.read >= other.read
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// A connection was shown a place before the one below it, or one twice.
    OutOfOrder { after: u64, then: u64 },
    /// Something between the two was neither sent nor announced as left out.
    Hole { after: u64, then: u64 },
    /// The message at a place is not what it was.
    Altered { seq: u64 },
    /// No device of the user has ever said that it has this message of somebody else, and it was not sent on reconnect.
    NotPending { seq: u64 },
    /// A tick went back.
    WentBack { of: UserName, from: Boundaries, to: Boundaries },
    /// Somebody is said to have a message that this connection, which is up to date, has not been sent.
    AheadOfMessages { of: UserName, told: Boundaries, sent: u64 },
    /// Read and not delivered.
    ReadNotDelivered { of: UserName, told: Boundaries },
    /// A mark was answered with less than it said.
    MarkLost { marked: u64, answered: Boundaries },
    /// The server refused something that a good client may do.
    Refused(String),
    /// The server closed the connection of a good client.
    Closed(String),
    /// An answer that the contract does not know.
    Misspoken(String),
    /// Nothing more came, and something was still missing.
    Stuck(String),
}

/// A trouble and where it was met. Printed whole, since a run is hard to repeat exactly.
#[derive(Clone, Debug)]
pub struct Violation {
    pub seed: u64,
    pub device: DeviceName,
    pub conversation: Option<ConversationName>,
    pub trouble: Trouble,
    pub last_frames: Vec<String>,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = self.conversation.as_ref().map_or("no conversation", ConversationName::as_str);
        writeln!(f, "seed {}, device {}, {place}: {:?}", self.seed, self.device, self.trouble)?;
        self.last_frames.iter().try_for_each(|frame| writeln!(f, "    {frame}"))
    }
}
