//! Storage in memory, for tests and for clients without persistence.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{Change, Storage, StorageError};
use parking_lot::Mutex;

/// A [`Storage`] in memory. Clones share one table, so a test can pass one to a later client. It
/// does not prevent concurrent use.
#[derive(Clone, Default)]
pub struct MemoryStorage(Arc<Mutex<BTreeMap<String, String>>>);

impl Storage for MemoryStorage {
    fn load(&mut self) -> Result<Vec<(String, String)>, StorageError> {
        let table = self.0.lock();
        Ok(table.clone().into_iter().collect())
    }

    fn apply(&mut self, batch: &[Change]) -> Result<(), StorageError> {
        let mut table = self.0.lock();
        batch.iter().cloned().for_each(|change| super::journal::change(&mut table, change));
        Ok(())
    }
}
