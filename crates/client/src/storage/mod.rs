//! Persistent storage of a client: its positions, copies of server data, and above all the unsent
//! messages.
//!
//! [`Storage`] is a key-value table of strings that changes in batches. The module `stored_state`
//! defines the keys.

mod file;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
mod journal;
mod memory;

use thiserror::Error;

pub use file::FileStorage;
pub use memory::MemoryStorage;

/// One change of a batch: sets or removes the value of a key.
#[derive(Clone, PartialEq, Eq)]
pub struct Change {
    pub key: String,
    /// The new value. `None` removes the key.
    pub value: Option<String>,
}

impl Change {
    /// Sets `key` to `value`.
    pub fn put(key: impl Into<String>, value: impl Into<String>) -> Change {
        Change { key: key.into(), value: Some(value.into()) }
    }

    /// Removes `key`. Removing a missing key has no effect.
    pub fn remove(key: impl Into<String>) -> Change {
        Change { key: key.into(), value: None }
    }
}

/// Why a storage operation failed.
#[derive(Debug, Error)]
pub enum StorageError {
    /// Another process or client has the storage open. Holds its path.
    #[error("{0} is used by another program")]
    InUse(String),
    /// A read or write failed.
    #[error("cannot store in {place}: {error}")]
    Io { place: String, error: std::io::Error },
}

/// A persistent key-value table. The client calls it from one task at a time, on a thread that may
/// block.
///
/// Implementations guarantee:
///
/// 1. **Atomic.** A crash leaves either the whole batch or none of it.
/// 2. **Durable.** After `apply` returns, the batch survives a crash of the process and the
///    machine. `MemoryStorage` is exempt.
/// 3. **Ordered.** Later batches win over earlier ones; within a batch, later changes win.
/// 4. **Exclusive.** At most one client uses a storage. `FileStorage` refuses a second open.
/// 5. **Errors.** If `apply` fails, its batch may or may not be stored. All earlier batches are
///    intact.
pub trait Storage: Send + 'static {
    /// Returns all entries, sorted by key.
    fn load(&mut self) -> Result<Vec<(String, String)>, StorageError>;

    /// Applies a batch of changes. An empty batch has no effect.
    fn apply(&mut self, batch: &[Change]) -> Result<(), StorageError>;
}

#[cfg(test)]
mod tests;
