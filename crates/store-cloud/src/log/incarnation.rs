//! The identity of a writer: one load of a conversation's state.

use std::fmt;
use std::str::FromStr;

use bluetick_core::ports::Random;

/// A random id, drawn whenever a node loads the state of a conversation.
///
/// A node that evicts the state and loads it again is another incarnation: a put of the earlier one
/// may still arrive, so its grants are foreign.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Incarnation(u128);

impl Incarnation {
    pub fn draw(random: &dyn Random) -> Incarnation {
        let mut bytes = [0; 16];
        random.fill(&mut bytes);
        Incarnation(u128::from_be_bytes(bytes))
    }
}

impl fmt::Display for Incarnation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl FromStr for Incarnation {
    type Err = std::num::ParseIntError;

    fn from_str(text: &str) -> Result<Incarnation, Self::Err> {
        u128::from_str_radix(text, 16).map(Incarnation)
    }
}
