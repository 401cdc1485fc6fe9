//! Fuzz target for the client's journal file.

use bluetick_client::storage::fuzzing::{replayed, written};

use crate::choice;

pub fn any_journal(bytes: &[u8]) {
    let Some((way, rest)) = choice(bytes, 2) else { return };
    let bytes = if way == 0 { rest.to_vec() } else { with_checksums(rest) };
    let (table, whole) = replayed(&bytes);
    assert!(whole <= bytes.len());
    assert_eq!(replayed(&bytes[..whole]), (table.clone(), whole), "a torn entry changed the result");
    assert_eq!(replayed(&written(&table)).0, table);
}

/// Splits the input into batches of at most 255 bytes, each with its length and a correct checksum.
fn with_checksums(mut rest: &[u8]) -> Vec<u8> {
    let mut bytes = b"BTCJ1\n".to_vec();
    while let Some((&length, behind)) = rest.split_first() {
        let (payload, behind) = behind.split_at(behind.len().min(length.into()));
        bytes.extend((payload.len() as u32).to_le_bytes());
        bytes.extend(crc32fast::hash(payload).to_le_bytes());
        bytes.extend(payload);
        rest = behind;
    }
    bytes
}
