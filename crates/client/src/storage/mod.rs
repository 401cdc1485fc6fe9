//! What a client keeps between its lives: where it stands, what it has, and above all what it has not sent yet.
//!
//! The port is a small table of texts by key, changed in batches. What the keys mean is the business of `keeping`.

mod file;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
mod journal;
mod memory;

use thiserror::Error;

pub use file::FileStorage;
pub use memory::MemoryStorage;

/// One change of a batch: a value, or the removal of one.
#[derive(Clone, PartialEq, Eq)]
pub struct Change {
    pub key: String,
    /// `None` removes.
    pub value: Option<String>,
}

impl Change {
    pub fn put(key: impl Into<String>, value: impl Into<String>) -> Change {
        Change { key: key.into(), value: Some(value.into()) }
    }

    pub fn remove(key: impl Into<String>) -> Change {
        Change { key: key.into(), value: None }
    }
}

#[derive(Debug, Error)]
pub enum StorageError {
    #[error("{0} is used by another program")]
    InUse(String),
    #[error("cannot keep anything in {place}: {error}")]
    Io { place: String, error: std::io::Error },
}

/// Implementations are called from a thread that may block, by one caller at a time.
///
/// 1. **Atomic.** A batch is kept as a whole or not at all, also when the program dies in the middle.
/// 2. **Durable.** When `apply` has returned, the batch outlives the program and the machine (as far as the kind of
///    storage can promise: memory cannot).
/// 3. **In order.** Later batches win; within a batch, later changes win.
/// 4. **Alone.** While one client uses it, nobody else does; opening it a second time is refused.
/// 5. After an error of `apply` nothing is known about that batch, and all before it is still there.
pub trait Storage: Send + 'static {
    /// Everything there is, sorted by key.
    fn load(&mut self) -> Result<Vec<(String, String)>, StorageError>;

    fn apply(&mut self, batch: &[Change]) -> Result<(), StorageError>;
}

#[cfg(test)]
mod tests;
