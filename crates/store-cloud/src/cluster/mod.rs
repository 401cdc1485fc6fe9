//! The nodes of a fleet: which ones are live, which one owns a conversation, and how they talk.
//!
//! - [`rendezvous`]: from a conversation and the live nodes to its owner.
//! - [`membership`]: which nodes are live, from rows in the tables.
//! - [`bus`]: calls and notifications between nodes: the port and its contract. [`transport`] is
//!   the adapter over TCP, [`memory`] the one for simulations.
//! - [`fleet_key`]: the secret by which nodes authenticate each other.
//!
//! Everything here is routing. No result of this module is a right to write: two nodes may consider
//! themselves the owner of a conversation, and a call may be executed although its caller got no
//! answer. The rules of [`crate::log`] keep the stored data correct in each of these cases. Redis
//! takes no part.

pub mod bus;
pub mod fleet_key;
pub mod membership;
pub mod memory;
mod queue;
pub mod rendezvous;
pub mod transport;

use std::fmt;
use std::str::FromStr;

use bluetick_core::ports::Random;

use crate::NodeId;
pub use queue::QueueLimits;

/// One start of a server process. Two processes with the same node id have different boot ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BootId(u128);

impl BootId {
    pub fn draw(random: &dyn Random) -> BootId {
        let mut bytes = [0; 16];
        random.fill(&mut bytes);
        BootId::from_bytes(bytes)
    }

    pub(crate) fn from_bytes(bytes: [u8; 16]) -> BootId {
        BootId(u128::from_be_bytes(bytes))
    }

    pub(crate) fn to_bytes(self) -> [u8; 16] {
        self.0.to_be_bytes()
    }
}

impl fmt::Display for BootId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl FromStr for BootId {
    type Err = std::num::ParseIntError;

    fn from_str(text: &str) -> Result<BootId, Self::Err> {
        u128::from_str_radix(text, 16).map(BootId)
    }
}

/// The names of this process in the cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeIdentity {
    pub node: NodeId,
    pub boot: BootId,
}
