//! Copies stored rows unchanged between two sets of tables, for backup, restore and checks.

use std::path::Path;

use bluetick_core::ConversationId;
use heed::{PutFlags, RwTxn};

use super::table::verified;
use super::{Engine, Snapshot, Table, TablesError};

/// Bytes written per transaction. Bounds the memory for uncommitted pages.
const TRANSACTION_BYTES: usize = 8 << 20;

impl Snapshot<'_> {
    /// Passes each stored row to `visit`, unverified, table by table in key order.
    pub fn rows<E: From<TablesError>>(
        &self,
        mut visit: impl FnMut(&'static str, &[u8], &[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        for (name, table) in self.tables.tables() {
            for found in table.iter(&self.txn).map_err(TablesError::from)? {
                let (key, row) = found.map_err(TablesError::from)?;
                visit(name, key, row)?;
            }
        }
        Ok(())
    }
}

impl Snapshot<'_> {
    /// Returns whether `unlisted` has a sound row with this key.
    pub fn is_unlisted(&self, key: &[u8]) -> Result<bool, TablesError> {
        Ok(self.tables.unlisted.peek(&self.txn, key)?.is_some())
    }

    /// Passes every conversation whose key is sound to `visit`.
    pub fn sound_conversations(
        &self,
        mut visit: impl FnMut(ConversationId) -> Result<(), TablesError>,
    ) -> Result<(), TablesError> {
        for found in self.tables.conversations.iter(&self.txn)? {
            let (key, row) = found?;
            let id = key.try_into().ok().and_then(ConversationId::from_bytes);
            if let (Some(id), Ok(_)) = (id, verified(key, row)) {
                visit(id)?;
            }
        }
        Ok(())
    }

    /// Returns whether `order` has a sound row with this key.
    pub fn has_order(&self, key: &[u8]) -> Result<bool, TablesError> {
        Ok(self.tables.order.peek(&self.txn, key)?.is_some())
    }

    pub fn has_name(&self, key: &[u8]) -> Result<bool, TablesError> {
        Ok(self.tables.names.peek(&self.txn, key)?.is_some())
    }

    /// Returns the inbox row with this key. Returns `None` if it is missing or its key is damaged.
    pub fn line_at(&self, key: &[u8]) -> Result<Option<&[u8]>, TablesError> {
        self.tables.inbox.peek(&self.txn, key)
    }

    /// Returns the pending row with this key, which is also the key of the inbox row. Returns
    /// `None` if it is missing or its key is damaged.
    pub fn pending_at(&self, key: &[u8]) -> Result<Option<&[u8]>, TablesError> {
        self.tables.pending.peek(&self.txn, key)
    }

    pub fn row_count(&self) -> Result<u64, TablesError> {
        let mut rows = 0;
        for (_, table) in self.tables.tables() {
            rows += table.len(&self.txn)?;
        }
        Ok(rows)
    }
}

/// New tables that [`fill`] is writing.
pub struct BulkInsert<'e> {
    engine: &'e Engine,
    txn: Option<RwTxn<'e>>,
    bytes: usize,
    /// The table of the previous row.
    current: Option<(&'static str, Table)>,
}

impl BulkInsert<'_> {
    /// Appends a stored row. Rows must arrive table by table, in key order. Errors if the table is
    /// unknown or the order is wrong.
    pub fn put(&mut self, table: &str, key: &[u8], row: &[u8]) -> Result<(), TablesError> {
        let to = match self.current {
            Some((name, to)) if name == table => to,
            _ => {
                let found = self.engine.tables().into_iter().find(|(name, _)| *name == table);
                let found = found.ok_or_else(|| TablesError::NoSuchTable { name: table.to_owned() })?;
                self.current = Some(found);
                found.1
            }
        };
        let txn = match &mut self.txn {
            Some(txn) => txn,
            none => none.insert(self.engine.env.write_txn()?),
        };
        to.put_with_flags(txn, PutFlags::APPEND, key, row)?;
        self.bytes += key.len() + row.len();
        if self.bytes >= TRANSACTION_BYTES {
            self.commit()?;
        }
        Ok(())
    }

    fn commit(&mut self) -> Result<(), TablesError> {
        self.bytes = 0;
        Ok(self.txn.take().map_or(Ok(()), RwTxn::commit)?)
    }
}

/// Creates tables in an existing empty directory. `work` writes the rows and `last` writes the
/// final changes. The tables are durable when this returns.
pub fn fill<E: From<TablesError>>(
    directory: &Path,
    work: impl FnOnce(&mut BulkInsert<'_>) -> Result<(), E>,
    last: impl FnOnce(&Engine) -> Result<(), TablesError>,
) -> Result<(), E> {
    let engine = Engine::open(directory)?;
    let mut filling = BulkInsert { engine: &engine, txn: None, bytes: 0, current: None };
    work(&mut filling)?;
    filling.commit()?;
    drop(filling);
    last(&engine)?;
    engine.env.force_sync().map_err(TablesError::from)?;
    let Engine { env, .. } = engine;
    env.prepare_for_closing().wait();
    Ok(())
}
