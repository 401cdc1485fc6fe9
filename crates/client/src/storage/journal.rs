//! The journal's byte format: a sequence of batches, each with a length and a checksum, so that an
//! incomplete last batch is detected.
//!
//! The file starts with `BTCJ1\n`. Each batch is a u32 length, a u32 CRC-32 of the payload (both
//! little endian), and the payload. The payload lists changes: u32 key length, key, u32 value
//! length, value. A removal has the value length `u32::MAX` and no value.

use std::collections::BTreeMap;

use super::Change;

/// Header of the file, with the format version. A change makes existing journals unreadable.
pub const MAGIC: &[u8] = b"BTCJ1\n";
/// Value length that marks a removal.
const REMOVED: u32 = u32::MAX;

/// Applies one change to the table.
pub fn change(table: &mut BTreeMap<String, String>, change: Change) {
    match change.value {
        Some(value) => table.insert(change.key, value),
        None => table.remove(&change.key),
    };
}

/// Encodes one batch. Panics if it reaches 4 GiB.
pub fn encode<'a>(changes: impl Iterator<Item = (&'a str, Option<&'a str>)>) -> Vec<u8> {
    let mut bytes = vec![0; 8];
    for (key, value) in changes {
        text(&mut bytes, key);
        match value {
            Some(value) => text(&mut bytes, value),
            None => bytes.extend_from_slice(&REMOVED.to_le_bytes()),
        }
    }
    let payload = &bytes[8..];
    let length = u32::try_from(payload.len()).expect("a batch is below 4 GiB");
    let checksum = crc32fast::hash(payload);
    bytes[..4].copy_from_slice(&length.to_le_bytes());
    bytes[4..8].copy_from_slice(&checksum.to_le_bytes());
    bytes
}

fn text(bytes: &mut Vec<u8>, text: &str) {
    let length = u32::try_from(text.len()).expect("a text is below 4 GiB");
    bytes.extend_from_slice(&length.to_le_bytes());
    bytes.extend_from_slice(text.as_bytes());
}

/// Applies all complete batches to `table`. Returns the length of the header and these batches in
/// bytes, or 0 without a valid header. Any bytes behind that are an incomplete or damaged batch.
pub fn replay(bytes: &[u8], table: &mut BTreeMap<String, String>) -> usize {
    let Some(mut rest) = bytes.strip_prefix(MAGIC) else { return 0 };
    while let Some((batch, behind)) = next(rest) {
        batch.into_iter().for_each(|one| change(table, one));
        rest = behind;
    }
    bytes.len() - rest.len()
}

/// Splits off the first batch. Returns `None` if it is incomplete or damaged.
fn next(bytes: &[u8]) -> Option<(Vec<Change>, &[u8])> {
    let (length, rest) = number(bytes)?;
    let (checksum, rest) = number(rest)?;
    let (mut payload, behind) = rest.split_at_checked(usize::try_from(length).ok()?)?;
    // Some file systems leave zeros after a crash. They read as an empty payload with a valid
    // checksum, so reject empty payloads.
    if payload.is_empty() || crc32fast::hash(payload) != checksum {
        return None;
    }
    let mut batch = Vec::new();
    while !payload.is_empty() {
        let (key, rest) = taken(payload)?;
        let (length, after_length) = number(rest)?;
        let (value, rest) = if length == REMOVED {
            (None, after_length)
        } else {
            let (value, rest) = taken(rest)?;
            (Some(value), rest)
        };
        batch.push(Change { key, value });
        payload = rest;
    }
    Some((batch, behind))
}

fn number(bytes: &[u8]) -> Option<(u32, &[u8])> {
    let (number, rest) = bytes.split_first_chunk::<4>()?;
    Some((u32::from_le_bytes(*number), rest))
}

fn taken(bytes: &[u8]) -> Option<(String, &[u8])> {
    let (length, rest) = number(bytes)?;
    let (text, rest) = rest.split_at_checked(usize::try_from(length).ok()?)?;
    Some((String::from_utf8(text.to_vec()).ok()?, rest))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn journal(batches: &[&[(&str, Option<&str>)]]) -> Vec<u8> {
        let encoded = batches.iter().map(|batch| encode(batch.iter().copied()));
        MAGIC.iter().copied().chain(encoded.flatten()).collect()
    }

    fn replayed(bytes: &[u8]) -> (BTreeMap<String, String>, usize) {
        let mut table = BTreeMap::new();
        let whole = replay(bytes, &mut table);
        (table, whole)
    }

    #[test]
    fn journal_batch_bytes_match_their_snapshot() {
        let bytes = journal(&[&[("a", Some("b")), ("c", None)]]);
        let payload = [1, 0, 0, 0, b'a', 1, 0, 0, 0, b'b', 1, 0, 0, 0, b'c', 255, 255, 255, 255];
        let head = [19, 0, 0, 0, 58, 219, 96, 169];
        assert_eq!(bytes, [b"BTCJ1\n".as_slice(), &head, &payload].concat());
    }

    #[test]
    fn zeros_after_the_last_batch_are_ignored() {
        let mut bytes = journal(&[&[("a", Some("b"))]]);
        let whole = bytes.len();
        bytes.resize(whole + 64, 0);
        assert_eq!(replayed(&bytes), ([("a".into(), "b".into())].into(), whole));
    }

    proptest! {
        #[test]
        fn damaged_journal_returns_whole_batches_from_the_front(
            values in prop::collection::vec(("[a-c]", prop::option::of(".{0,9}")), 1..20),
            cut in any::<prop::sample::Index>(),
            flip in any::<prop::sample::Index>(),
        ) {
            let batches: Vec<Vec<u8>> =
                values.iter().map(|(key, value)| encode([(key.as_str(), value.as_deref())].into_iter())).collect();
            let mut bytes: Vec<u8> = MAGIC.iter().copied().chain(batches.concat()).collect();
            bytes.truncate(MAGIC.len() + cut.index(bytes.len() - MAGIC.len() + 1));
            if bytes.len() > MAGIC.len() {
                let at = MAGIC.len() + flip.index(bytes.len() - MAGIC.len());
                bytes[at] ^= 1;
            }
            let (table, whole) = replayed(&bytes);
            let mut expected = BTreeMap::new();
            let mut end = MAGIC.len();
            for ((key, value), batch) in values.iter().zip(&batches) {
                if end + batch.len() > whole {
                    break;
                }
                end += batch.len();
                change(&mut expected, Change { key: key.clone(), value: value.clone() });
            }
            prop_assert_eq!(end, whole);
            prop_assert_eq!(table, expected);
        }
    }
}
