//! The derived tables, in LMDB: the state of the log at the last checkpoint, sorted for reading.
//!
//! The tables become authoritative only when a checkpoint commits. Until then the log still holds
//! the same events, and recovery replays them.
//!
//! Each row is stored with a checksum of its key ([`table`]). `meta` has a fixed set of keys
//! instead.
//!
//! | table | key | row |
//! |---|---|---|
//! | `conversations` | conversation | immutable facts, head, latest activity |
//! | `chunks` | conversation, first seq | up to 64 messages |
//! | `members` | conversation, user | role, joined seq, read state, preferences |
//! | `inbox` | user, conversation | preview of the newest message, position in the order |
//! | `order` | user, shelf, latest first, conversation | empty; rebuilt from `inbox` |
//! | `unlisted` | user, conversation | empty; a direct conversation without messages |
//! | `pending` | user, conversation | the seq before the first unacknowledged message |
//! | `users`, `profiles` | user | account; presence and revoked tokens |
//! | `names` | search term or skeleton, user | empty; rebuilt from `users` when outdated |
//! | `segments` | conversation, first seq | an archive object that chunks refer to |
//! | `progress` | conversation | archiving progress of the conversation |
//! | `erasures` | conversation, sender | an erasure in progress |
//! | `meta` | name | identity, log position, archive totals, erasure requests, dedupe clock |
//!
//! The key of an inbox row never changes. `unlisted` holds direct conversations that another user
//! created and that have no messages; the inbox does not list them.

mod archive;
mod compact;
mod dump;
mod engine;
mod export;
mod opening;
pub mod pages;
mod snapshot;
mod table;
#[cfg(test)]
mod table_tests;
#[cfg(test)]
mod tests;
mod update;

use std::fs::OpenOptions;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard, RwLock};

pub use archive::{ChunkKey, HotChunk, RequestKey, end_of};
use bluetick_core::names::SKELETON_VERSION;
use bluetick_core::{Cause, ConversationId, Epoch, Person, StoreError};
pub use compact::FileSpace;
pub use dump::fill;
use heed::{Env, WithoutTls};
pub use opening::read_markers;
pub use snapshot::{ColdRecord, Snapshot, StoredRecord};
use table::Table;
#[cfg(any(test, feature = "test-internals"))]
pub use table::stored;
pub use table::verified;
#[cfg(test)]
pub(crate) use tests::pretend_version;
use thiserror::Error;
pub use update::{InboxChange, Update};

use crate::codec::archive::{LastRun, StoredErasureRequest};
use crate::codec::chunk::Fingerprinter;
use crate::codec::{DecodeError, Reader, rows};
use crate::dedupe::DedupeRow;
use crate::log::{BatchNumber, StoreTag};

/// Format version of the tables. Raise it when stored bytes change their meaning; otherwise older
/// programs misread them.
pub const FORMAT_VERSION: u32 = 4;
/// The oldest format version this program reads. Opening a store raises its version to
/// [`FORMAT_VERSION`], because an older program would report a row with a key checksum as damaged.
const OLDEST_VERSION: u32 = 2;

#[derive(Debug, Error)]
pub enum TablesError {
    #[error("the table engine failed: {0}")]
    Engine(#[from] heed::Error),
    #[error("{table} row is damaged: {error}")]
    Damaged { table: &'static str, error: DecodeError },
    #[error("{}: {error}", path.display())]
    Io { path: PathBuf, error: std::io::Error },
    #[error("{}: damaged at byte {offset}: {what}", path.display())]
    DamagedPage { path: PathBuf, offset: u64, what: String },
    #[error("{} is truncated: {found} bytes instead of {expected}", path.display())]
    Truncated { path: PathBuf, found: u64, expected: u64 },
    #[error("{id} has messages or members, but its own row is missing")]
    Orphaned { id: ConversationId },
    #[error("there is no table {name} in this version of the program; use a newer bluetick")]
    NoSuchTable { name: String },
    #[error("the list of tables is damaged: it has {name}, which is not a table")]
    DamagedList { name: String },
    #[error("the tables are closed")]
    Closed,
    #[error(
        "an earlier version wrote these tables, and the disk is read-only; start this version once on a \
         writable copy"
    )]
    NeedsUpgrade,
    #[error("rewriting the tables needs {needed} bytes, and the disk has {available} left")]
    NoSpace { needed: u64, available: u64 },
    #[error("a checkpoint panicked")]
    Panicked,
    #[error("the store closed before the checkpoint was complete")]
    Stopped,
    #[error(
        "the tables have format version {found}, this program knows {FORMAT_VERSION}; use a newer bluetick"
    )]
    TooNew { found: u32 },
    #[error(
        "the tables have format version {found}, from before the first release; this program knows \
         {FORMAT_VERSION}. Start with a new data directory"
    )]
    TooOld { found: u32 },
}

impl TablesError {
    /// Returns whether the engine must be reopened: it failed to write its root page and refuses
    /// every request, or it is closed.
    pub fn needs_reopening(&self) -> bool {
        matches!(self, TablesError::Engine(heed::Error::Mdb(heed::MdbError::Panic)) | TablesError::Closed)
    }

    fn is_of_a_read_only_disk(&self) -> bool {
        match self {
            TablesError::Engine(heed::Error::Io(error)) | TablesError::Io { error, .. } => {
                error.kind() == ErrorKind::ReadOnlyFilesystem
            }
            _ => false,
        }
    }
}

impl From<TablesError> for StoreError {
    fn from(error: TablesError) -> StoreError {
        match error {
            TablesError::Damaged { .. }
            | TablesError::DamagedPage { .. }
            | TablesError::Truncated { .. }
            | TablesError::DamagedList { .. }
            | TablesError::Orphaned { .. } => StoreError::Damaged(Cause::of(error)),
            // Transient: the store reopens the engine once the disk allows it.
            other if other.needs_reopening() || other.is_of_a_read_only_disk() => {
                StoreError::NoAnswer(Cause::of(other))
            }
            TablesError::NoSpace { .. } => StoreError::ReadOnly(Cause::of(error)),
            other => StoreError::Failed(Cause::of(other)),
        }
    }
}

/// The tables. [`Tables::reopen`] and compaction replace the engine while other threads use it.
pub struct Tables {
    directory: PathBuf,
    engine: RwLock<Option<Arc<Engine>>>,
    /// The write lock. While a writer holds it, no other thread replaces the engine.
    writing: Mutex<()>,
    edition: AtomicU64,
}

/// Version of the stored messages. It changes whenever a write may have altered a message, for
/// example an erasure. While it is unchanged, no stored message changes; messages may be added.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Edition(u64);

impl Edition {
    #[cfg(test)]
    pub fn next(self) -> Edition {
        Edition(self.0 + 1)
    }
}

/// The exclusive right to write. The engine is not replaced while a `WriteGuard` exists.
pub struct WriteGuard<'t> {
    engine: Arc<Engine>,
    /// Incremented on drop, so that readers detect that their earlier reads may be outdated. `None`
    /// for a writer that only adds messages.
    edition: Option<&'t AtomicU64>,
    _turn: MutexGuard<'t, ()>,
}

impl Drop for WriteGuard<'_> {
    fn drop(&mut self) {
        if let Some(edition) = self.edition {
            edition.fetch_add(1, Ordering::AcqRel);
        }
    }
}

impl std::ops::Deref for WriteGuard<'_> {
    type Target = Engine;

    fn deref(&self) -> &Engine {
        &self.engine
    }
}

/// Upper bound on how long [`Tables::reopen`] waits for running reads to end. New reads block
/// during this wait, so a longer one delays them while the tables are broken.
const CLOSING_PATIENCE: Duration = Duration::from_secs(10);

impl Tables {
    /// Opens the tables for writing. Removes the copy of an interrupted compaction, and checks the
    /// pages of a small file first.
    pub fn open(directory: &Path) -> Result<Tables, TablesError> {
        Tables::remove_leftovers(directory);
        pages::verify_at_open(directory)?;
        let engine = RwLock::new(Some(Arc::new(Engine::open(directory)?)));
        let directory = directory.to_owned();
        Ok(Tables { directory, engine, writing: Mutex::new(()), edition: AtomicU64::new(0) })
    }

    /// Opens the tables for a caller that has already checked the pages and only reads. Works on a
    /// read-only file system.
    pub fn open_sound(directory: &Path) -> Result<Tables, TablesError> {
        let engine = RwLock::new(Some(Arc::new(Engine::open_for_reading_at_least(directory)?)));
        let directory = directory.to_owned();
        Ok(Tables { directory, engine, writing: Mutex::new(()), edition: AtomicU64::new(0) })
    }

    /// Returns the engine to read with. Hold it for one read only: a held engine delays compaction
    /// and [`Tables::reopen`].
    pub fn current(&self) -> Result<Arc<Engine>, TablesError> {
        let engine = self.engine.read().clone();
        match engine {
            Some(engine) => Ok(engine),
            None => self.open_again(),
        }
    }

    /// Opens the engine after an earlier attempt to reopen it failed.
    fn open_again(&self) -> Result<Arc<Engine>, TablesError> {
        let mut slot = self.engine.write();
        if slot.is_none() {
            *slot = Some(Arc::new(Engine::open_for_reading_at_least(&self.directory)?));
        }
        slot.clone().ok_or(TablesError::Closed)
    }

    /// Returns an engine that can write. If the current engine is read-only, because the disk was
    /// read-only when it opened, this reopens it. Errors while the disk is still read-only.
    fn writable(&self, _turn: &MutexGuard<'_, ()>) -> Result<Arc<Engine>, TablesError> {
        let engine = self.current()?;
        if !engine.is_read_only {
            return Ok(engine);
        }
        drop(engine);
        let lock = self.directory.join("lock.mdb");
        // Detect a read-only disk before `replace` blocks readers.
        OpenOptions::new().write(true).open(&lock).map_err(|error| TablesError::Io { path: lock, error })?;
        let engine = self.replace()?;
        match engine.is_read_only {
            true => Err(TablesError::Closed),
            false => Ok(engine),
        }
    }

    /// Waits for the write lock and returns the engine to write with. The archiver holds it for one
    /// change. Raises the [`Edition`] on drop.
    pub fn writing(&self) -> Result<WriteGuard<'_>, TablesError> {
        let turn = self.turn();
        Ok(WriteGuard { engine: self.writable(&turn)?, edition: Some(&self.edition), _turn: turn })
    }

    /// Like [`Tables::writing`], for a checkpoint. A checkpoint alters no stored message, so the
    /// [`Edition`] stays the same.
    pub fn adding(&self) -> Result<WriteGuard<'_>, TablesError> {
        let turn = self.turn();
        Ok(WriteGuard { engine: self.writable(&turn)?, edition: None, _turn: turn })
    }

    /// Returns the current edition. Call it before reading: the data read then belongs to this
    /// edition or to a later one.
    pub fn edition(&self) -> Edition {
        Edition(self.edition.load(Ordering::Acquire))
    }

    /// Takes the write lock. A panic of an earlier writer does no harm, because its open
    /// transaction is never committed.
    fn turn(&self) -> MutexGuard<'_, ()> {
        self.writing.lock()
    }

    /// Closes the engine and opens it again, to recover an engine that has shut itself off. On a
    /// read-only disk the new engine only serves reads.
    pub fn reopen(&self) -> Result<(), TablesError> {
        let _turn = self.turn();
        self.replace().map(drop)
    }

    /// Replaces the engine. The caller holds the write lock ([`Tables::turn`]). Blocks new readers
    /// until the new engine is open.
    fn replace(&self) -> Result<Arc<Engine>, TablesError> {
        let mut slot = self.engine.write();
        if let Some(engine) = slot.take() {
            let closing = engine.env.clone().prepare_for_closing();
            drop(engine);
            closing.wait_timeout(CLOSING_PATIENCE);
        }
        let engine = Arc::new(Engine::open_for_reading_at_least(&self.directory)?);
        *slot = Some(Arc::clone(&engine));
        Ok(engine)
    }
}

/// The names of all tables. Opening fails if the file has a table with any other name, so a missing
/// one makes every store unreadable.
const NAMES: [&str; 14] = [
    "meta",
    "conversations",
    "chunks",
    "members",
    "inbox",
    "order",
    "unlisted",
    "pending",
    "users",
    "profiles",
    "names",
    "segments",
    "progress",
    "erasures",
];

/// Decodes the rows of `meta` that are otherwise read late, and returns an error if one is damaged.
/// Accepts every other row unread.
pub fn read_meta(key: &[u8], row: &[u8]) -> Result<(), DecodeError> {
    match key {
        DEDUPE_CLOCK_KEY => DedupeRow::read(row).map(drop),
        LAST_RUN_KEY => LastRun::read(row).map(drop),
        key if key.starts_with(ERASURE_REQUEST_PREFIX) => StoredErasureRequest::read(row).map(drop),
        _ => Ok(()),
    }
}

/// Returns whether this program knows the key of a `meta` row.
pub fn is_meta_key(key: &[u8]) -> bool {
    let is_request =
        || key.strip_prefix(ERASURE_REQUEST_PREFIX).is_some_and(|number| number.len() == size_of::<u64>());
    META_KEYS.contains(&key) || is_request()
}

/// One open LMDB environment and its tables.
pub struct Engine {
    env: Env<WithoutTls>,
    /// Whether the engine was opened on a read-only disk.
    is_read_only: bool,
    meta: Table,
    conversations: Table,
    members: Table,
    chunks: Table,
    inbox: Table,
    order: Table,
    unlisted: Table,
    pending: Table,
    users: Table,
    profiles: Table,
    names: Table,
    segments: Table,
    progress: Table,
    erasures: Table,
}

/// The number of rows and the page bytes of one table.
#[derive(Clone, Copy, Debug)]
pub struct Footprint {
    pub table: &'static str,
    pub rows: u64,
    pub bytes: u64,
}

/// Identifies this store and its current epoch.
#[derive(Clone, Copy)]
pub struct StoreIdentity {
    pub tag: StoreTag,
    pub fingerprinter: Fingerprinter,
    pub epoch: Epoch,
}

/// Key of the identity in `meta`. Keys of `meta` are stored, so a renamed key loses its row.
const IDENTITY_KEY: &[u8] = b"identity";
/// Length of the identity row without its checksum: version, tag, fingerprint key, epoch.
const IDENTITY_BYTES: usize = 4 + 8 + 16 + 8;
/// Length of the checkpoint row without its checksum: a batch number.
const CHECKPOINT_BYTES: usize = 8;
/// Key of the last batch whose effects are in the tables.
const CHECKPOINT_KEY: &[u8] = b"checkpoint";
/// Key of the mark that the log exists. A store with it and without log files has lost its log.
const LOG_STARTED_KEY: &[u8] = b"log started";
/// Key of the [`NAMES_MADE`] of the program that built `names`.
const NAMES_MADE_KEY: &[u8] = b"names made";
/// Version of the way `names` rows are built, including the version of the Unicode skeleton data.
/// Raise the first number when [`rows::name_keys`] or [`rows::skeleton_keys`] changes; otherwise
/// old rows stay.
const NAMES_MADE: [u8; 4] = {
    let [major, minor, patch] = SKELETON_VERSION;
    [2, major, minor, patch]
};
/// Key of the archive totals.
const COLD_COUNT_KEY: &[u8] = b"cold count";
/// Key of the dedupe clock.
const DEDUPE_CLOCK_KEY: &[u8] = b"dedupe clock";
/// Present while freed pages or log files may hold erased content.
const ERASED_PAGES_KEY: &[u8] = b"erased pages";
/// Present while freed pages or log files may hold content past its retention.
const EXPIRED_PAGES_KEY: &[u8] = b"expired pages";
/// Key of the report of the last archive run.
const LAST_RUN_KEY: &[u8] = b"last run";
/// Prefix of the key of an erasure request. An eight-byte big-endian number follows, so a scan
/// returns requests in the order in which they were accepted.
const ERASURE_REQUEST_PREFIX: &[u8] = b"erasure request ";
/// All other keys of `meta`. Any key that is neither listed here nor an erasure request is damaged.
const META_KEYS: [&[u8]; 9] = [
    IDENTITY_KEY,
    CHECKPOINT_KEY,
    LOG_STARTED_KEY,
    NAMES_MADE_KEY,
    COLD_COUNT_KEY,
    DEDUPE_CLOCK_KEY,
    ERASED_PAGES_KEY,
    EXPIRED_PAGES_KEY,
    LAST_RUN_KEY,
];

/// Appends a checksum to a `meta` row. Programs from before this checksum read only the bytes in
/// front of it.
fn with_checksum(row: &[u8]) -> Vec<u8> {
    [row, &crc32fast::hash(row).to_le_bytes()].concat()
}

/// Returns the first `bytes` of a row that [`with_checksum`] wrote. A row of exactly that length is
/// from an older program and has no checksum. Errors if the row is shorter or its checksum is
/// wrong.
fn without_checksum(row: &[u8], bytes: usize) -> Result<&[u8], DecodeError> {
    let (front, sum) = row.split_at_checked(bytes).ok_or(DecodeError::Short)?;
    match sum.is_empty() || sum == crc32fast::hash(front).to_le_bytes() {
        true => Ok(front),
        false => Err(DecodeError::Checksum),
    }
}

fn read_identity(row: &[u8]) -> Result<StoreIdentity, TablesError> {
    let version = Reader(row).u32().map_err(in_table("meta"))?;
    // Check the version before the row: a newer version may have another layout.
    let front = without_checksum(row, IDENTITY_BYTES);
    if version > FORMAT_VERSION && (front.is_ok() || row.len() != IDENTITY_BYTES + 4) {
        return Err(TablesError::TooNew { found: version });
    }
    let mut reader = Reader(front.map_err(in_table("meta"))?);
    if version < OLDEST_VERSION {
        return Err(TablesError::TooOld { found: version });
    }
    let mut read = || -> Result<StoreIdentity, DecodeError> {
        reader.u32()?;
        Ok(StoreIdentity {
            tag: StoreTag(reader.array()?),
            fingerprinter: Fingerprinter(reader.array()?),
            epoch: Epoch::new(reader.u64()?),
        })
    };
    read().map_err(in_table("meta"))
}

/// Returns the `order` key of an inbox row: the user part of its key, then its position.
fn order_key_of(key: &[u8], row: &[u8]) -> Result<Vec<u8>, DecodeError> {
    let id = rows::key_conversation(key)?;
    let position = rows::read_inbox(row)?.position(id);
    Ok(rows::order_key_in(rows::key_user(key)?, &position))
}

fn in_table(table: &'static str) -> impl Fn(DecodeError) -> TablesError {
    move |error| TablesError::Damaged { table, error }
}
