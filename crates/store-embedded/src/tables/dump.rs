//! Every row of every table as it is, out of one set of tables and into another.

use std::path::Path;

use bluetick_core::ConversationId;
use heed::{PutFlags, RwTxn};

use super::table::verified;
use super::{Engine, Snapshot, Table, TablesError};

/// What is put before it becomes durable.
const TRANSACTION_BYTES: usize = 8 << 20;

impl Snapshot<'_> {
    /// Gives each row as it is stored to `visit`, table by table, in the order of the keys.
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
    /// Whether there is a row of `unlisted` under this key.
    pub fn is_unlisted(&self, key: &[u8]) -> Result<bool, TablesError> {
        Ok(self.tables.unlisted.peek(&self.txn, key)?.is_some())
    }

    /// Gives every conversation whose key is sound to `visit`.
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

    /// Whether there is a line of the order with this key.
    pub fn has_order(&self, key: &[u8]) -> Result<bool, TablesError> {
        Ok(self.tables.order.peek(&self.txn, key)?.is_some())
    }

    pub fn has_name(&self, key: &[u8]) -> Result<bool, TablesError> {
        Ok(self.tables.names.peek(&self.txn, key)?.is_some())
    }

    /// The stored bytes of an inbox row.
    pub fn line_at(&self, key: &[u8]) -> Result<Option<&[u8]>, TablesError> {
        self.tables.inbox.peek(&self.txn, key)
    }

    /// The stored bytes of a pending row, whose key is that of the inbox row.
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

/// Tables that are being filled.
pub struct Filling<'e> {
    engine: &'e Engine,
    txn: Option<RwTxn<'e>>,
    bytes: usize,
    /// The table that rows go to now.
    current: Option<(&'static str, Table)>,
}

impl Filling<'_> {
    /// Tables come one after the other, and rows in the order of their keys.
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

/// Makes tables in a directory that is there and empty, lets `work` fill them, and lets `last` say what else has to be
/// written. Durable when it returns.
pub fn fill<E: From<TablesError>>(
    directory: &Path,
    work: impl FnOnce(&mut Filling<'_>) -> Result<(), E>,
    last: impl FnOnce(&Engine) -> Result<(), TablesError>,
) -> Result<(), E> {
    let engine = Engine::open(directory)?;
    let mut filling = Filling { engine: &engine, txn: None, bytes: 0, current: None };
    work(&mut filling)?;
    filling.commit()?;
    drop(filling);
    last(&engine)?;
    engine.env.force_sync().map_err(TablesError::from)?;
    let Engine { env, .. } = engine;
    env.prepare_for_closing().wait();
    Ok(())
}
