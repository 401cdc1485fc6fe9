//! Storage that ends with its last handle: for tests, and for clients that keep nothing.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use super::{Change, Storage, StorageError};

/// Handles that are clones of each other see the same, one after the other.
#[derive(Clone, Default)]
pub struct MemoryStorage(Arc<Mutex<BTreeMap<String, String>>>);

impl Storage for MemoryStorage {
    fn load(&mut self) -> Result<Vec<(String, String)>, StorageError> {
        let table = self.0.lock().expect("nothing panics while it holds the table");
        Ok(table.clone().into_iter().collect())
    }

    fn apply(&mut self, batch: &[Change]) -> Result<(), StorageError> {
        let mut table = self.0.lock().expect("nothing panics while it holds the table");
        batch.iter().cloned().for_each(|change| super::journal::change(&mut table, change));
        Ok(())
    }
}
