//! Reads all users, in id order.

use std::ops::Bound;

use bluetick_core::{Profile, User, UserId};

use super::table::RangeEnd;
use super::{Snapshot, TablesError, in_table};
use crate::codec::{DecodeError, rows};

impl Snapshot<'_> {
    /// Returns up to `limit` accounts above `after`.
    pub fn users_after(&self, after: Option<&UserId>, limit: usize) -> Result<Vec<User>, TablesError> {
        let mut users = Vec::new();
        for found in self.tables.users.scan(&self.txn, above(after), RangeEnd::OfTable)?.take(limit) {
            let (key, row) = found?;
            users.push(rows::read_user_row(key, row).map_err(in_table("users"))?);
        }
        Ok(users)
    }

    /// Returns up to `limit` profiles above `after`, with or without an account.
    pub fn profiles_after(
        &self,
        after: Option<&UserId>,
        limit: usize,
    ) -> Result<Vec<(UserId, Profile)>, TablesError> {
        let mut profiles = Vec::new();
        for found in self.tables.profiles.scan(&self.txn, above(after), RangeEnd::OfTable)?.take(limit) {
            let (key, row) = found?;
            let read = || -> Result<(UserId, Profile), DecodeError> {
                let id = std::str::from_utf8(key).ok().and_then(|id| UserId::from_stored(id).ok());
                let id = id.ok_or(DecodeError::Malformed("a user id"))?;
                Ok((id, rows::read_profile(&mut rows::unseal(row)?)?))
            };
            profiles.push(read().map_err(in_table("profiles"))?);
        }
        Ok(profiles)
    }

    pub fn user_count(&self) -> Result<u64, TablesError> {
        self.tables.users.len(&self.txn)
    }
}

fn above(after: Option<&UserId>) -> Bound<&[u8]> {
    // LMDB rejects an empty key.
    after.map_or(Bound::Unbounded, |after| Bound::Excluded(after.as_str().as_bytes()))
}
