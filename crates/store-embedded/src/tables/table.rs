//! One table whose reads never mistake a damaged key for a missing row.
//!
//! LMDB has no checksums and finds a row by comparing keys, so a flipped bit in a key hides the
//! row. Two rules turn that into an error:
//!
//! 1. A stored row ends with a checksum of its key. A row found under another key is damaged.
//! 2. Absence is verified. A lookup that finds nothing verifies the entries on both sides of the
//!    key. A scan verifies the entries at both ends of its range.
//!
//! Rule 2 works because a wrong comparison in a leaf ends next to the damaged key. A damaged key in
//! a branch leads to a leaf whose entries are on the wrong side of the bound.
//!
//! Rows of older programs have no key checksum. They stay readable while their own checksum matches
//! ([`is_sound_without_key`]). The next write adds the key checksum.

use std::borrow::Cow;
use std::ops::Bound;

use heed::types::Bytes;
use heed::{Database, DatabaseStat, PutFlags, RoIter, RoRange, RoRevRange, RoTxn, RwTxn};

use super::TablesError;
use crate::codec::chunk::Header;
use crate::codec::rows::unseal;
use crate::codec::{DecodeError, KEYED_VERSION, UNKEYED_VERSION};

type Rows = Database<Bytes, Bytes>;
type RawRow<'txn> = (&'txn [u8], &'txn [u8]);

/// Name of the table of single rows, such as the store's identity. Its rows have known keys instead
/// of key checksums.
const META: &str = "meta";
/// Length of the key checksum (CRC-32) at the end of a stored row, in bytes. Part of the stored
/// format.
const KEY_CHECKSUM_BYTES: usize = 4;

/// A named LMDB database whose rows carry key checksums.
#[derive(Clone, Copy)]
pub struct Table {
    name: &'static str,
    rows: Rows,
}

/// Returns whether the stored row ends with a checksum of its key.
fn is_keyed(row: &[u8]) -> bool {
    row.first() == Some(&KEYED_VERSION)
}

/// Returns whether the row is sound in the format of an older program: empty, or with a matching
/// checksum of its own. Damage to the length of a key moves the start of the row. Without this
/// check it would pass as a row of an older program.
fn is_sound_without_key(row: &[u8]) -> bool {
    match row.first() {
        None => true,
        Some(&UNKEYED_VERSION) => unseal(row).is_ok() || Header::read(row).is_ok(),
        Some(_) => false,
    }
}

/// Returns the row in the form in which every table except `meta` stores it. An empty row gets a
/// version byte, which marks that a key checksum follows.
pub fn stored<'r>(key: &[u8], row: &'r [u8]) -> Cow<'r, [u8]> {
    let checksum = crc32fast::hash(key).to_le_bytes();
    match row {
        [] => Cow::Owned([&[KEYED_VERSION][..], &checksum].concat()),
        row if is_keyed(row) => Cow::Owned([row, &checksum].concat()),
        // An older program wrote this row. Store it unchanged.
        row => Cow::Borrowed(row),
    }
}

/// Reverses [`stored`]. Errors if the row was stored under another key or is damaged.
pub fn verified<'r>(key: &[u8], stored: &'r [u8]) -> Result<&'r [u8], DecodeError> {
    if !is_keyed(stored) {
        return if is_sound_without_key(stored) { Ok(stored) } else { Err(DecodeError::Checksum) };
    }
    let (row, checksum) = stored.split_last_chunk::<KEY_CHECKSUM_BYTES>().ok_or(DecodeError::Short)?;
    match crc32fast::hash(key) == u32::from_le_bytes(*checksum) {
        true => Ok(row),
        false => Err(DecodeError::Key),
    }
}

impl Table {
    pub fn new(name: &'static str, rows: Rows) -> Table {
        Table { name, rows }
    }

    fn damaged(&self, error: DecodeError) -> TablesError {
        TablesError::Damaged { table: self.name, error }
    }

    /// Returns the row of an entry. Errors if it was stored under another key. The rows of `meta`
    /// have known keys instead of key checksums.
    fn verified<'r>(&self, key: &[u8], row: &'r [u8]) -> Result<&'r [u8], TablesError> {
        let verified = match self.name {
            META if super::is_meta_key(key) => Ok(row),
            META => Err(DecodeError::Key),
            _ => verified(key, row),
        };
        verified.map_err(|error| self.damaged(error))
    }

    /// Returns the row under `key`. Errors if the row belongs to another key, or if its absence
    /// cannot be verified.
    pub fn get<'txn>(&self, txn: &'txn RoTxn<'_>, key: &[u8]) -> Result<Option<&'txn [u8]>, TablesError> {
        match self.rows.get(txn, key)? {
            Some(row) => self.verified(key, row).map(Some),
            None => self.verify_absence(txn, key).map(|()| None),
        }
    }

    /// Returns the row under `key`, and `None` if it is missing or damaged. Does not verify
    /// absence. For writers that rewrite the row anyway, and for checks that verify each key
    /// separately.
    pub fn peek<'txn>(&self, txn: &'txn RoTxn<'_>, key: &[u8]) -> Result<Option<&'txn [u8]>, TablesError> {
        let Some(row) = self.rows.get(txn, key)? else { return Ok(None) };
        Ok(verified(key, row).ok())
    }

    /// Verifies that `key` is missing: the entries on both sides of it are sound and in order.
    fn verify_absence(&self, txn: &RoTxn<'_>, key: &[u8]) -> Result<(), TablesError> {
        if self.name == META {
            return self.verify_names(txn);
        }
        let above = self.rows.get_greater_than_or_equal_to(txn, key)?;
        self.verify_beside(above, |found| found > key)?;
        let below = self.rows.get_lower_than(txn, key)?;
        self.verify_beside(below, |found| found < key)
    }

    /// Verifies all keys of `meta`, which has few rows.
    fn verify_names(&self, txn: &RoTxn<'_>) -> Result<(), TablesError> {
        for found in self.rows.iter(txn)? {
            let (key, row) = found?;
            self.verified(key, row)?;
        }
        Ok(())
    }

    fn verify_beside(
        &self,
        entry: Option<RawRow<'_>>,
        is_in_order: impl FnOnce(&[u8]) -> bool,
    ) -> Result<(), TablesError> {
        let Some((key, row)) = entry else { return Ok(()) };
        if !is_in_order(key) {
            return Err(self.damaged(DecodeError::Order));
        }
        self.verified(key, row).map(drop)
    }

    /// Returns the rows from `start` while `end` includes them, in key order. Verifies the entry
    /// before `start`.
    pub fn scan<'txn, 'k>(
        &self,
        txn: &'txn RoTxn<'_>,
        start: Bound<&[u8]>,
        end: RangeEnd<'k>,
    ) -> Result<Scan<'txn, 'k>, TablesError> {
        match start {
            Bound::Unbounded => {}
            Bound::Included(start) => {
                let below = self.rows.get_lower_than(txn, start)?;
                self.verify_beside(below, |found| found < start)?;
            }
            Bound::Excluded(start) => {
                let below = self.rows.get_lower_than_or_equal_to(txn, start)?;
                self.verify_beside(below, |found| found <= start)?;
            }
        }
        let entries = self.rows.range(txn, &(start, Bound::Unbounded))?;
        let before = match start {
            Bound::Excluded(start) => Some((start.to_vec(), false)),
            Bound::Included(start) => Some((start.to_vec(), true)),
            Bound::Unbounded => None,
        };
        Ok(Scan { table: *self, entries, end, before, last: None })
    }

    /// Returns all rows whose key starts with `prefix`, in key order.
    pub fn scan_prefix<'txn, 'k>(
        &self,
        txn: &'txn RoTxn<'_>,
        prefix: &'k [u8],
    ) -> Result<Scan<'txn, 'k>, TablesError> {
        self.scan(txn, Bound::Included(prefix), RangeEnd::Prefix(prefix))
    }

    /// Returns the rows from `start` downwards while their key starts with `prefix`, highest key
    /// first. Verifies the entry above `start`.
    pub fn scan_back<'txn, 'k>(
        &self,
        txn: &'txn RoTxn<'_>,
        start: &[u8],
        prefix: &'k [u8],
    ) -> Result<ScanBack<'txn, 'k>, TablesError> {
        let above = self.rows.get_greater_than(txn, start)?;
        self.verify_beside(above, |found| found > start)?;
        let bounds: (Bound<&[u8]>, _) = (Bound::Unbounded, Bound::Included(start));
        let entries = self.rows.rev_range(txn, &bounds)?;
        Ok(ScanBack { table: *self, entries, prefix, start: start.to_vec(), last: None })
    }

    pub fn put(&self, txn: &mut RwTxn<'_>, key: &[u8], row: &[u8]) -> Result<(), TablesError> {
        let row = if self.name == META { Cow::Borrowed(row) } else { stored(key, row) };
        Ok(self.rows.put(txn, key, &row)?)
    }

    pub fn delete(&self, txn: &mut RwTxn<'_>, key: &[u8]) -> Result<bool, TablesError> {
        Ok(self.rows.delete(txn, key)?)
    }

    pub fn clear(&self, txn: &mut RwTxn<'_>) -> Result<(), TablesError> {
        Ok(self.rows.clear(txn)?)
    }

    pub fn len(&self, txn: &RoTxn<'_>) -> Result<u64, TablesError> {
        Ok(self.rows.len(txn)?)
    }

    pub fn stat(&self, txn: &RoTxn<'_>) -> heed::Result<DatabaseStat> {
        self.rows.stat(txn)
    }

    /// Returns every stored row, unverified. For copies and checks.
    pub fn iter<'txn>(&self, txn: &'txn RoTxn<'_>) -> heed::Result<RoIter<'txn, Bytes, Bytes>> {
        self.rows.iter(txn)
    }

    /// Stores a row exactly as [`Table::iter`] returned it.
    pub fn put_with_flags(
        &self,
        txn: &mut RwTxn<'_>,
        flags: PutFlags,
        key: &[u8],
        row: &[u8],
    ) -> heed::Result<()> {
        self.rows.put_with_flags(txn, flags, key, row)
    }
}

/// The end of a scan. The scan also verifies the first entry beyond it.
#[derive(Clone, Copy)]
pub enum RangeEnd<'k> {
    OfTable,
    Prefix(&'k [u8]),
    Through(&'k [u8]),
}

impl RangeEnd<'_> {
    fn includes(&self, key: &[u8]) -> bool {
        match self {
            RangeEnd::OfTable => true,
            RangeEnd::Prefix(prefix) => key.starts_with(prefix),
            RangeEnd::Through(last) => key <= *last,
        }
    }
}

/// Verified rows in key order.
pub struct Scan<'txn, 'k> {
    table: Table,
    entries: RoRange<'txn, Bytes, Bytes>,
    end: RangeEnd<'k>,
    /// The start bound, checked against the first entry, and whether that entry may equal it.
    before: Option<(Vec<u8>, bool)>,
    last: Option<&'txn [u8]>,
}

impl<'txn> Iterator for Scan<'txn, '_> {
    type Item = Result<RawRow<'txn>, TablesError>;

    fn next(&mut self) -> Option<Self::Item> {
        let (key, row) = match self.entries.next()? {
            Ok(entry) => entry,
            Err(error) => return Some(Err(error.into())),
        };
        let is_behind_start = match self.before.take() {
            Some((start, included)) => key > &start[..] || included && key == &start[..],
            None => true,
        };
        if !is_behind_start || self.last.is_some_and(|last| last >= key) {
            return Some(Err(self.table.damaged(DecodeError::Order)));
        }
        self.last = Some(key);
        match self.table.verified(key, row) {
            Err(error) => Some(Err(error)),
            Ok(row) => self.end.includes(key).then_some(Ok((key, row))),
        }
    }
}

/// Verified rows in reverse key order.
pub struct ScanBack<'txn, 'k> {
    table: Table,
    entries: RoRevRange<'txn, Bytes, Bytes>,
    prefix: &'k [u8],
    start: Vec<u8>,
    last: Option<&'txn [u8]>,
}

impl<'txn> Iterator for ScanBack<'txn, '_> {
    type Item = Result<RawRow<'txn>, TablesError>;

    fn next(&mut self) -> Option<Self::Item> {
        let (key, row) = match self.entries.next()? {
            Ok(entry) => entry,
            Err(error) => return Some(Err(error.into())),
        };
        if key > &self.start[..] || self.last.is_some_and(|last| last <= key) {
            return Some(Err(self.table.damaged(DecodeError::Order)));
        }
        self.last = Some(key);
        match self.table.verified(key, row) {
            Err(error) => Some(Err(error)),
            Ok(row) => key.starts_with(self.prefix).then_some(Ok((key, row))),
        }
    }
}
