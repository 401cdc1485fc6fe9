//! The operations on an open engine: identity, format upgrades, derived tables and transactions.

use super::*;

impl Engine {
    /// Rebuilds `names` (search terms and skeletons) if another version of the program built it.
    /// Reads all users in one transaction, about a second for 200,000 users. Logs and skips damaged
    /// accounts.
    pub fn rebuild_names(&self) -> Result<(), TablesError> {
        if self.names_are_current()? {
            return Ok(());
        }
        let mut txn = self.env.write_txn()?;
        self.names.clear(&mut txn)?;
        let mut keys = Vec::new();
        for found in self.users.iter(&txn)? {
            let (key, row) = found?;
            match verified(key, row).and_then(|row| rows::read_user_row(key, row)) {
                Ok(user) => {
                    keys.extend(rows::name_keys(&Person::from(&user)));
                    keys.extend(rows::skeleton_keys(&user.id));
                }
                Err(error) => {
                    tracing::error!(%error, "account row is damaged; a name search does not find the user")
                }
            }
        }
        keys.sort_unstable();
        for key in keys {
            self.names.put(&mut txn, &key, &[])?;
        }
        self.meta.put(&mut txn, NAMES_MADE_KEY, &NAMES_MADE)?;
        Ok(txn.commit()?)
    }

    /// Returns whether this version of the program built the rows of `names`.
    pub fn names_are_current(&self) -> Result<bool, TablesError> {
        let txn = self.env.read_txn()?;
        Ok(self.meta.get(&txn, NAMES_MADE_KEY)? == Some(&NAMES_MADE))
    }

    /// Rebuilds the order of all inboxes from the inbox rows if the two tables differ in length.
    /// Returns whether it rebuilt. Logs and skips damaged inbox rows.
    pub fn rebuild_order(&self) -> Result<bool, TablesError> {
        let mut txn = self.env.write_txn()?;
        if self.order.len(&txn)? == self.inbox.len(&txn)? {
            return Ok(false);
        }
        self.order.clear(&mut txn)?;
        let mut keys = Vec::new();
        for found in self.inbox.iter(&txn)? {
            let (key, row) = found?;
            // The next change of the conversation rewrites a damaged inbox row.
            match verified(key, row).and_then(|row| order_key_of(key, row)) {
                Ok(key) => keys.push(key),
                Err(error) => {
                    tracing::error!(%error, "inbox row is damaged and left out of the order")
                }
            }
        }
        keys.sort_unstable();
        for key in keys {
            self.order.put(&mut txn, &key, &[])?;
        }
        txn.commit()?;
        Ok(true)
    }

    /// Returns the identity of the store, or `None` for a new store without one.
    pub fn identity(&self) -> Result<Option<StoreIdentity>, TablesError> {
        let txn = self.env.read_txn()?;
        let Some(row) = self.meta.get(&txn, IDENTITY_KEY)? else { return Ok(None) };
        read_identity(row).map(Some)
    }

    pub fn set_identity(&self, identity: &StoreIdentity) -> Result<(), TablesError> {
        let mut row = FORMAT_VERSION.to_le_bytes().to_vec();
        row.extend_from_slice(&identity.tag.0);
        row.extend_from_slice(&identity.fingerprinter.0);
        row.extend_from_slice(&identity.epoch.get().to_le_bytes());
        let mut txn = self.env.write_txn()?;
        self.meta.put(&mut txn, IDENTITY_KEY, &with_checksum(&row))?;
        Ok(txn.commit()?)
    }

    /// Raises the format version, so that older programs refuse the store. Call it before any other
    /// write.
    pub fn upgrade_format(&self) -> Result<(), TablesError> {
        let mut txn = self.env.write_txn()?;
        let Some(row) = self.meta.get(&txn, IDENTITY_KEY)? else { return Ok(()) };
        read_identity(row)?;
        let version = FORMAT_VERSION.to_le_bytes();
        if row.starts_with(&version) {
            return Ok(());
        }
        let kept =
            row.get(version.len()..IDENTITY_BYTES).ok_or(DecodeError::Short).map_err(in_table("meta"))?;
        let row = [&version, kept].concat();
        self.meta.put(&mut txn, IDENTITY_KEY, &with_checksum(&row))?;
        // Earlier versions deleted content without setting this mark, so force the next erasure to
        // rewrite the tables.
        self.meta.put(&mut txn, EXPIRED_PAGES_KEY, &[1])?;
        Ok(txn.commit()?)
    }

    /// Sets another epoch and keeps the rest of the identity. Errors if the store has no identity.
    pub fn set_epoch(&self, epoch: Epoch) -> Result<(), TablesError> {
        let mut txn = self.env.write_txn()?;
        let row = self.meta.get(&txn, IDENTITY_KEY)?.ok_or(DecodeError::Short).map_err(in_table("meta"))?;
        read_identity(row)?;
        let kept = row.get(..IDENTITY_BYTES - 8).ok_or(DecodeError::Short).map_err(in_table("meta"))?;
        let row = [kept, &epoch.get().to_le_bytes()].concat();
        self.meta.put(&mut txn, IDENTITY_KEY, &with_checksum(&row))?;
        Ok(txn.commit()?)
    }

    /// Records that the log exists. From then on, a store without log files counts as having lost
    /// its log.
    pub fn set_log_started(&self) -> Result<(), TablesError> {
        let mut txn = self.env.write_txn()?;
        self.meta.put(&mut txn, LOG_STARTED_KEY, &[1])?;
        Ok(txn.commit()?)
    }

    pub fn log_started(&self) -> Result<bool, TablesError> {
        let txn = self.env.read_txn()?;
        Ok(self.meta.get(&txn, LOG_STARTED_KEY)?.is_some())
    }

    /// Returns the last batch whose effects are in the tables.
    pub fn checkpoint(&self) -> Result<BatchNumber, TablesError> {
        self.snapshot()?.checkpoint()
    }

    /// Returns the stored dedupe clock: how long the store was open, and what it received when.
    /// `None` if no checkpoint has stored one yet.
    pub fn dedupe_clock(&self) -> Result<Option<DedupeRow>, TablesError> {
        let txn = self.env.read_txn()?;
        let row = self.meta.get(&txn, DEDUPE_CLOCK_KEY)?;
        row.map(DedupeRow::read).transpose().map_err(in_table("meta"))
    }

    /// Returns all tables with their names.
    pub(super) fn tables(&self) -> [(&'static str, Table); 14] {
        [
            ("meta", self.meta),
            ("conversations", self.conversations),
            ("chunks", self.chunks),
            ("members", self.members),
            ("inbox", self.inbox),
            ("order", self.order),
            ("unlisted", self.unlisted),
            ("pending", self.pending),
            ("users", self.users),
            ("profiles", self.profiles),
            ("names", self.names),
            ("segments", self.segments),
            ("progress", self.progress),
            ("erasures", self.erasures),
        ]
    }

    /// Returns the number of rows and the page bytes of each table except `meta`.
    pub fn footprint(&self) -> Result<Vec<Footprint>, TablesError> {
        let txn = self.env.read_txn()?;
        let measure = |(name, table): (&'static str, Table)| {
            let stat = table.stat(&txn)?;
            let pages = stat.branch_pages + stat.leaf_pages + stat.overflow_pages;
            Ok(Footprint {
                table: name,
                rows: stat.entries as u64,
                bytes: pages as u64 * u64::from(stat.page_size),
            })
        };
        self.tables().into_iter().filter(|(name, _)| *name != "meta").map(measure).collect()
    }

    pub fn snapshot(&self) -> Result<Snapshot<'_>, TablesError> {
        Ok(Snapshot { tables: self, txn: self.env.read_txn()? })
    }

    pub fn update(&self) -> Result<Update<'_>, TablesError> {
        Ok(Update { tables: self, txn: self.env.write_txn()?, bytes: 0 })
    }
}
