//! Encodes and decodes stored bytes: compact, versioned and checksummed. This module does not
//! interpret them.
//!
//! Integers are LEB128 varints, signed ones zigzag-encoded. Strings and byte strings start with
//! their length.

pub mod archive;
pub mod chunk;
pub mod cold;
pub mod event;
pub mod profile;
pub mod record;
pub mod rows;

use thiserror::Error;

/// Version of rows and chunks that are stored with a checksum of their key (`tables/table.rs`). A
/// change makes all of them unreadable.
pub const KEYED_VERSION: u8 = 3;
/// Version of rows and chunks without a key checksum. Older programs wrote them; a change makes
/// those unreadable.
pub const UNKEYED_VERSION: u8 = 2;

#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum DecodeError {
    #[error("the bytes end too early")]
    Short,
    #[error("the bytes do not match their checksum")]
    Checksum,
    #[error("the key does not match the checksum in the row")]
    Key,
    #[error("the keys are out of order")]
    Order,
    #[error("unknown {what} {value}")]
    Unknown { what: &'static str, value: u64 },
    #[error("{0} is malformed")]
    Malformed(&'static str),
}

pub fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push((value as u8) | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

pub const fn varint_length(value: u64) -> usize {
    (70 - (value | 1).leading_zeros() as usize) / 7
}

pub fn put_signed(out: &mut Vec<u8>, value: i64) {
    put_varint(out, zigzag(value));
}

pub const fn signed_length(value: i64) -> usize {
    varint_length(zigzag(value))
}

/// Returns the number of bytes that [`put_bytes`] writes for a string of `count` bytes.
pub const fn bytes_length(count: usize) -> usize {
    varint_length(count as u64) + count
}

const fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)) as u64
}

pub fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Reads values from the front of a slice.
#[derive(Clone, Copy, Debug)]
pub struct Reader<'a>(pub &'a [u8]);

impl<'a> Reader<'a> {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn u8(&mut self) -> Result<u8, DecodeError> {
        let (&first, rest) = self.0.split_first().ok_or(DecodeError::Short)?;
        self.0 = rest;
        Ok(first)
    }

    pub fn take(&mut self, count: usize) -> Result<&'a [u8], DecodeError> {
        let (front, rest) = self.0.split_at_checked(count).ok_or(DecodeError::Short)?;
        self.0 = rest;
        Ok(front)
    }

    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        let (front, rest) = self.0.split_first_chunk().ok_or(DecodeError::Short)?;
        self.0 = rest;
        Ok(*front)
    }

    pub fn u32(&mut self) -> Result<u32, DecodeError> {
        self.array().map(u32::from_le_bytes)
    }

    pub fn u64(&mut self) -> Result<u64, DecodeError> {
        self.array().map(u64::from_le_bytes)
    }

    pub fn varint(&mut self) -> Result<u64, DecodeError> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.u8()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(DecodeError::Malformed("a varint"))
    }

    pub fn signed(&mut self) -> Result<i64, DecodeError> {
        let value = self.varint()?;
        Ok((value >> 1) as i64 ^ -((value & 1) as i64))
    }

    pub fn bytes(&mut self) -> Result<&'a [u8], DecodeError> {
        let length = usize::try_from(self.varint()?).map_err(|_| DecodeError::Malformed("a length"))?;
        self.take(length)
    }

    pub fn str(&mut self) -> Result<&'a str, DecodeError> {
        std::str::from_utf8(self.bytes()?).map_err(|_| DecodeError::Malformed("text"))
    }

    pub fn rest(self) -> &'a [u8] {
        self.0
    }
}

#[cfg(test)]
pub mod testing {
    /// Formats bytes as hex words of four bytes, so that a person can compare snapshots.
    pub fn hex(bytes: &[u8]) -> String {
        let words =
            bytes.chunks(4).map(|word| word.iter().map(|byte| format!("{byte:02x}")).collect::<String>());
        words.collect::<Vec<_>>().join(" ")
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn varints_round_trip(value: u64, signed: i64) {
            let mut out = Vec::new();
            put_varint(&mut out, value);
            prop_assert_eq!(out.len(), varint_length(value));
            put_signed(&mut out, signed);
            let mut reader = Reader(&out);
            prop_assert_eq!(reader.varint(), Ok(value));
            prop_assert_eq!(reader.signed(), Ok(signed));
            prop_assert!(reader.is_empty());
        }
    }

    #[test]
    fn endless_varint_is_refused() {
        assert_eq!(Reader(&[0xff; 11]).varint(), Err(DecodeError::Malformed("a varint")));
        assert_eq!(Reader(&[0xff; 3]).varint(), Err(DecodeError::Short));
    }
}
