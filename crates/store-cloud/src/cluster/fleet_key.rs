//! The fleet key: a secret of all nodes of one fleet, by which they authenticate each other.
//!
//! An operator sets it, or the first node creates it in the tables. Everyone who may read the
//! tables can read it there, and can also read and write the data itself.

use std::fmt;
use std::sync::Arc;

use bluetick_core::StoreError;
use bluetick_core::ports::Random;
use thiserror::Error;

use crate::people::in_common;
use crate::rows::Rows;

/// The name of the shared row that holds the key.
const ROW: &str = "cluster.key";

/// Length of the key in bytes. The handshake reveals HMACs under this key, so a key that can be
/// guessed must not be possible.
const LENGTH: usize = 32;

/// 32 secret bytes. The `Debug` form does not show them.
#[derive(Clone)]
pub struct FleetKey([u8; LENGTH]);

/// The text is not a fleet key. The error does not repeat it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("a fleet key has 64 hexadecimal digits")]
pub struct InvalidFleetKey;

impl FleetKey {
    pub fn new(bytes: [u8; LENGTH]) -> FleetKey {
        FleetKey(bytes)
    }

    /// Decodes a setting: 64 hexadecimal digits.
    pub fn parse(text: &str) -> Result<FleetKey, InvalidFleetKey> {
        let text = text.trim();
        if text.len() != 2 * LENGTH || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(InvalidFleetKey);
        }
        let mut bytes = [0; LENGTH];
        for (at, byte) in bytes.iter_mut().enumerate() {
            *byte = u8::from_str_radix(&text[2 * at..2 * at + 2], 16).map_err(|_| InvalidFleetKey)?;
        }
        Ok(FleetKey(bytes))
    }

    /// Returns the key in the tables. If there is none, puts a new one there, unless another node
    /// does so first. All callers get the same key.
    pub async fn shared(rows: &dyn Rows, random: &dyn Random) -> Result<FleetKey, StoreError> {
        let mut bytes = [0; LENGTH];
        random.fill(&mut bytes);
        let candidate: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        let stored: Arc<str> = in_common(rows, ROW, &candidate).await?;
        FleetKey::parse(&stored).map_err(|_| StoreError::Damaged("the row of the fleet key".into()))
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for FleetKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("FleetKey(secret)")
    }
}

#[cfg(test)]
mod tests {
    use bluetick_core::ports::SystemRandom;

    use super::*;
    use crate::rows::memory::MemoryRows;

    #[tokio::test]
    async fn all_nodes_get_the_key_of_the_first_one() {
        let rows = MemoryRows::default();
        let first = FleetKey::shared(&rows, &SystemRandom).await.unwrap();
        let second = FleetKey::shared(&rows, &SystemRandom).await.unwrap();
        assert!(first.bytes() == second.bytes() && first.bytes() != [0; LENGTH]);
        let elsewhere = FleetKey::shared(&MemoryRows::default(), &SystemRandom).await.unwrap();
        assert!(first.bytes() != elsewhere.bytes(), "each fleet has its own key");
    }

    #[test]
    fn only_64_hexadecimal_digits_are_a_key() {
        let text = "0123456789abcdefABCDEF0123456789".repeat(2);
        assert_eq!(FleetKey::parse(&format!(" {text}\n")).unwrap().bytes()[..3], [0x01, 0x23, 0x45]);
        for invalid in ["", "secret", &text[1..], &text.replace('0', "+"), &text.replace("01", "é")] {
            assert_eq!(FleetKey::parse(invalid).err(), Some(InvalidFleetKey), "{invalid}");
        }
    }

    #[test]
    fn debug_form_does_not_show_the_key() {
        assert_eq!(format!("{:?}", FleetKey::new([0xab; 32])), "FleetKey(secret)");
    }
}
