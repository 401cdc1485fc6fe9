//! The encoding of a part: rows or batches, compressed together.
//!
//! ```text
//! version u8 | raw length u64 | zstd of:
//!   rows: (0, table) or (1, key, row) …
//!   log:  batch …
//! ```
//!
//! Each table name, key, row and batch starts with its length.

use crate::codec::{DecodeError, Reader, put_bytes};

/// Format version of a part. Readers refuse all others.
const VERSION: u8 = 1;
/// zstd level of a part. A higher one makes backups smaller and slower.
const COMPRESSION_LEVEL: i32 = 1;
/// Raw bytes at which a part is closed. Bounds the memory for one part. A smaller value makes more
/// objects.
const PART_RAW_BYTES: usize = 8 << 20;
/// Upper bound on the raw length in a part, in bytes, so that a damaged length cannot exhaust
/// memory.
const MAX_RAW_BYTES: u64 = 1 << 30;
/// Tag of an entry in a rows part: the name of the table of the rows that follow. Stored, so the
/// value must never change.
const TABLE: u8 = 0;
/// Tag of an entry in a rows part: a row. Stored, so the value must never change.
const ROW: u8 = 1;

/// A part under construction.
#[derive(Default)]
pub struct PartBuilder {
    raw: Vec<u8>,
    table: Option<&'static str>,
}

impl PartBuilder {
    pub fn row(&mut self, table: &'static str, key: &[u8], row: &[u8]) {
        if self.table != Some(table) {
            self.table = Some(table);
            self.raw.push(TABLE);
            put_bytes(&mut self.raw, table.as_bytes());
        }
        self.raw.push(ROW);
        put_bytes(&mut self.raw, key);
        put_bytes(&mut self.raw, row);
    }

    pub fn batch(&mut self, batch: &[u8]) {
        put_bytes(&mut self.raw, batch);
    }

    pub fn is_full(&self) -> bool {
        self.raw.len() >= PART_RAW_BYTES
    }

    pub fn is_empty(&self) -> bool {
        self.raw.is_empty()
    }

    /// Compresses the collected entries into a part, and starts an empty one.
    pub fn take(&mut self) -> Vec<u8> {
        let raw = std::mem::take(self).raw;
        let mut part = vec![VERSION];
        part.extend_from_slice(&(raw.len() as u64).to_le_bytes());
        let packed = zstd::bulk::compress(&raw, COMPRESSION_LEVEL);
        part.extend_from_slice(&packed.expect("creating a compressor fails only without memory"));
        part
    }
}

/// Decompresses a part. Errors if its version is unknown or its length is wrong.
pub fn unpack(part: &[u8]) -> Result<Vec<u8>, DecodeError> {
    let mut reader = Reader(part);
    match reader.u8()? {
        VERSION => {}
        value => return Err(DecodeError::Unknown { what: "version of a part", value: value.into() }),
    }
    let length = reader.u64()?;
    if length > MAX_RAW_BYTES {
        return Err(DecodeError::Malformed("a part's length"));
    }
    let length = usize::try_from(length).map_err(|_| DecodeError::Malformed("a part's length"))?;
    let raw = zstd::bulk::decompress(reader.rest(), length);
    raw.ok().filter(|raw| raw.len() == length).ok_or(DecodeError::Malformed("a compressed part"))
}

/// Passes the table, key and row of each row to `visit`.
pub fn rows<E: From<DecodeError>>(
    raw: &[u8],
    mut visit: impl FnMut(&str, &[u8], &[u8]) -> Result<(), E>,
) -> Result<(), E> {
    let mut reader = Reader(raw);
    let mut table = None;
    while !reader.is_empty() {
        match reader.u8()? {
            TABLE => table = Some(reader.str()?),
            ROW => {
                let table = table.ok_or(DecodeError::Malformed("a row without its table"))?;
                visit(table, reader.bytes()?, reader.bytes()?)?;
            }
            value => return Err(DecodeError::Unknown { what: "kind of row", value: value.into() }.into()),
        }
    }
    Ok(())
}

/// Returns the batches of a part.
pub fn batches(raw: &[u8]) -> Result<Vec<Vec<u8>>, DecodeError> {
    let (mut reader, mut all) = (Reader(raw), Vec::new());
    while !reader.is_empty() {
        all.push(reader.bytes()?.to_vec());
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_round_trip_with_their_tables() {
        let mut pack = PartBuilder::default();
        let all = [("meta", "a", "1"), ("chunks", "b", "2"), ("chunks", "c", "")];
        for (table, key, row) in all {
            pack.row(table, key.as_bytes(), row.as_bytes());
        }
        let raw = unpack(&pack.take()).unwrap();
        assert!(pack.is_empty());
        let mut back = Vec::new();
        rows::<DecodeError>(&raw, |table, key, row| {
            back.push((table.to_owned(), key.to_vec(), row.to_vec()));
            Ok(())
        })
        .unwrap();
        let expected = all.map(|(table, key, row)| (table.to_owned(), key.into(), row.into()));
        assert_eq!(back, expected);
    }

    #[test]
    fn batches_round_trip_and_invalid_bytes_are_an_error() {
        let mut pack = PartBuilder::default();
        pack.batch(b"one");
        pack.batch(b"two");
        let part = pack.take();
        assert_eq!(batches(&unpack(&part).unwrap()).unwrap(), [b"one", b"two"]);
        for end in 0..part.len() {
            assert!(unpack(&part[..end]).is_err(), "{end}");
        }
        assert!(rows::<DecodeError>(&[1, 1, b'x', 0], |_, _, _| Ok(())).is_err());
    }
}
