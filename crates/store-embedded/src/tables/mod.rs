//! The derived tables, in LMDB. They hold what the log said up to the last checkpoint, sorted for reading.
//!
//! Nothing here is the truth before its checkpoint is complete: until then the log says the same again.
//!
//! Each row is stored with a checksum of its key ([`table`]); `meta` alone has fixed keys instead.
//!
//! | table | key | row |
//! |---|---|---|
//! | `conversations` | conversation | what never changes, head, latest activity |
//! | `chunks` | conversation, first seq | up to 64 messages |
//! | `members` | conversation, user | role, joining, and where the member stands: delivered, read, preferences |
//! | `inbox` | user, conversation | the newest message, cut; where the line is in the order. Never moves |
//! | `order` | user, shelf, latest first, conversation | nothing: the order alone. Made again from `inbox` when it is gone |
//! | `unlisted` | user, conversation | nothing: the user's inbox does not list it yet, since it is a direct conversation without messages |
//! | `pending` | user, conversation | the last place before what no device has acknowledged |
//! | `users`, `profiles` | user | account; presence |
//! | `names` | what a user is found by, or its skeleton; user | nothing. Made again from `users` where it was never made |
//! | `segments` | conversation, first seq | an object of the archive that chunks refer to |
//! | `progress` | conversation | how far it has come on its way to the archive |
//! | `erasures` | conversation, sender | what is being erased |
//! | `meta` | name | identity, position in the log, how much lies in the archive, accepted erasures, the dedupe clock |

mod archive;
mod compact;
mod dump;
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
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Duration;

pub use archive::{ChunkKey, HotChunk, RequestKey, end_of};
use bluetick_core::names::SKELETON_VERSION;
use bluetick_core::{ConversationId, Epoch, Person, StoreError};
pub use compact::Space;
pub use dump::{Filling, fill};
use heed::{Env, WithoutTls};
pub use opening::marks;
pub use snapshot::{Cell, ColdCell, Snapshot};
use table::Table;
pub use table::{stored, verified};
#[cfg(test)]
pub(crate) use tests::pretend_version;
use thiserror::Error;
pub use update::{InboxChange, Update};

use crate::codec::archive::{ErasureRequest, LastRun};
use crate::codec::chunk::Fingerprinter;
use crate::codec::{DecodeError, Reader, rows};
use crate::dedupe::DedupeRow;
use crate::log::{BatchNumber, StoreTag};

/// Raised when the bytes in the tables change their meaning.
pub const FORMAT_VERSION: u32 = 4;
/// The oldest version whose tables this program reads. Opening a store raises it to [`FORMAT_VERSION`], since programs
/// that know less would take a row with a checksum of its key for a damaged one.
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
    #[error("{} is shorter than it says: {found} bytes instead of {expected}", path.display())]
    Truncated { path: PathBuf, found: u64, expected: u64 },
    #[error("{id} has messages or members and is not there itself: its row was lost")]
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
    /// The engine has shut itself off (it failed to write its root page) and serves nobody until it is opened again.
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
            | TablesError::Orphaned { .. } => StoreError::Damaged(error.to_string()),
            // It is opened again as soon as the disk lets it.
            other if other.needs_reopening() || other.is_of_a_read_only_disk() => {
                StoreError::NoAnswer(other.to_string())
            }
            TablesError::NoSpace { .. } => StoreError::ReadOnly(error.to_string()),
            other => StoreError::Failed(other.to_string()),
        }
    }
}

/// The tables, which can be closed and opened again under everybody who uses them.
pub struct Tables {
    directory: PathBuf,
    engine: RwLock<Option<Arc<Engine>>>,
    /// Held by whoever writes, for as long as the engine must stay the same one.
    writing: Mutex<()>,
    edition: AtomicU64,
}

/// Changes whenever something may have been written that is no mere addition, such as an erasure. As long as it stays
/// the same, so does every message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Edition(u64);

impl Edition {
    #[cfg(test)]
    pub fn next(self) -> Edition {
        Edition(self.0 + 1)
    }
}

/// The right to write. While somebody has it, the engine is not replaced.
pub struct Writing<'t> {
    engine: Arc<Engine>,
    /// Raised at the end: then whoever read before it knows less than the tables.
    edition: Option<&'t AtomicU64>,
    _turn: MutexGuard<'t, ()>,
}

impl Drop for Writing<'_> {
    fn drop(&mut self) {
        if let Some(edition) = self.edition {
            edition.fetch_add(1, Ordering::AcqRel);
        }
    }
}

impl std::ops::Deref for Writing<'_> {
    type Target = Engine;

    fn deref(&self) -> &Engine {
        &self.engine
    }
}

/// How long [`Tables::reopen`] waits for reads that are under way.
const CLOSING_PATIENCE: Duration = Duration::from_secs(10);

impl Tables {
    pub fn open(directory: &Path) -> Result<Tables, TablesError> {
        Tables::remove_leftovers(directory);
        pages::look_at_start(directory)?;
        let engine = RwLock::new(Some(Arc::new(Engine::open(directory)?)));
        let directory = directory.to_owned();
        Ok(Tables { directory, engine, writing: Mutex::new(()), edition: AtomicU64::new(0) })
    }

    /// As [`Tables::open`], for a caller that has looked at the pages already and only reads. Works on a file system that is
    /// mounted read-only.
    pub fn open_sound(directory: &Path) -> Result<Tables, TablesError> {
        let engine = RwLock::new(Some(Arc::new(Engine::open_for_reading_at_least(directory)?)));
        let directory = directory.to_owned();
        Ok(Tables { directory, engine, writing: Mutex::new(()), edition: AtomicU64::new(0) })
    }

    /// What to read with. Held for one read, never longer.
    pub fn current(&self) -> Result<Arc<Engine>, TablesError> {
        let engine = self.engine.read().expect("nobody panics while holding the engine").clone();
        match engine {
            Some(engine) => Ok(engine),
            None => self.open_again(),
        }
    }

    /// After it could not be opened again at once.
    fn open_again(&self) -> Result<Arc<Engine>, TablesError> {
        let mut slot = self.engine.write().expect("nobody panics while holding the engine");
        if slot.is_none() {
            *slot = Some(Arc::new(Engine::open_for_reading_at_least(&self.directory)?));
        }
        slot.clone().ok_or(TablesError::Closed)
    }

    /// The engine, open for writing. One that is only read from, since the disk could not be written to when it was opened,
    /// is opened again if that has changed.
    fn writable(&self, _turn: &MutexGuard<'_, ()>) -> Result<Arc<Engine>, TablesError> {
        let engine = self.current()?;
        if !engine.is_read_only {
            return Ok(engine);
        }
        drop(engine);
        let lock = self.directory.join("lock.mdb");
        // Before readers are held up for it.
        OpenOptions::new().write(true).open(&lock).map_err(|error| TablesError::Io { path: lock, error })?;
        let engine = self.replace()?;
        match engine.is_read_only {
            true => Err(TablesError::Closed),
            false => Ok(engine),
        }
    }

    /// What to write with, when it is one's turn. Held for one change by the archive.
    pub fn writing(&self) -> Result<Writing<'_>, TablesError> {
        let turn = self.turn();
        Ok(Writing { engine: self.writable(&turn)?, edition: Some(&self.edition), _turn: turn })
    }

    /// The same for one checkpoint, which adds and changes no message that is there.
    pub fn adding(&self) -> Result<Writing<'_>, TablesError> {
        let turn = self.turn();
        Ok(Writing { engine: self.writable(&turn)?, edition: None, _turn: turn })
    }

    /// Asked before reading: what is read then belongs to this edition, or to the next.
    pub fn edition(&self) -> Edition {
        Edition(self.edition.load(Ordering::Acquire))
    }

    /// Nobody else writes meanwhile. What a writer that panicked left was never committed.
    fn turn(&self) -> MutexGuard<'_, ()> {
        self.writing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Closes the engine and opens it again: the way out when it has shut itself off. On a disk that cannot be written to, it
    /// serves readers until that can be.
    pub fn reopen(&self) -> Result<(), TablesError> {
        let _turn = self.turn();
        self.replace().map(drop)
    }

    /// Only by whoever has the turn.
    fn replace(&self) -> Result<Arc<Engine>, TablesError> {
        let mut slot = self.engine.write().expect("nobody panics while holding the engine");
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

/// Every table there is.
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

/// Decodes the rows of `meta` that a reader would meet late. Errors where one is damaged.
pub fn read_meta(key: &[u8], row: &[u8]) -> Result<(), DecodeError> {
    match key {
        DEDUPE_CLOCK_KEY => DedupeRow::read(row).map(drop),
        LAST_RUN_KEY => LastRun::read(row).map(drop),
        key if key.starts_with(ERASURE_REQUEST_PREFIX) => ErasureRequest::read(row).map(drop),
        _ => Ok(()),
    }
}

pub fn is_meta_key(key: &[u8]) -> bool {
    let is_request =
        || key.strip_prefix(ERASURE_REQUEST_PREFIX).is_some_and(|number| number.len() == size_of::<u64>());
    META_KEYS.contains(&key) || is_request()
}

pub struct Engine {
    env: Env<WithoutTls>,
    /// Opened on a disk that cannot be written to.
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

#[derive(Clone, Copy, Debug)]
pub struct Footprint {
    pub table: &'static str,
    pub rows: u64,
    pub bytes: u64,
}

/// What makes this store this one.
#[derive(Clone, Copy)]
pub struct Identity {
    pub tag: StoreTag,
    pub fingerprinter: Fingerprinter,
    pub epoch: Epoch,
}

const IDENTITY_KEY: &[u8] = b"identity";
/// Version, tag, key of fingerprints, epoch.
const IDENTITY_BYTES: usize = 4 + 8 + 16 + 8;
const CHECKPOINT_BYTES: usize = 8;
const CHECKPOINT_KEY: &[u8] = b"checkpoint";
const LOG_STARTED_KEY: &[u8] = b"log started";
const NAMES_MADE_KEY: &[u8] = b"names made";
/// How the rows of `names` are made: raised when that changes. Skeletons also depend on Unicode's data.
const NAMES_MADE: [u8; 4] = {
    let [major, minor, patch] = SKELETON_VERSION;
    [2, major, minor, patch]
};
const COLD_COUNT_KEY: &[u8] = b"cold count";
const DEDUPE_CLOCK_KEY: &[u8] = b"dedupe clock";
const ERASED_PAGES_KEY: &[u8] = b"erased pages";
const EXPIRED_PAGES_KEY: &[u8] = b"expired pages";
const LAST_RUN_KEY: &[u8] = b"last run";
/// Followed by a number of eight bytes, big endian: requests come back in the order in which they
/// were accepted.
const ERASURE_REQUEST_PREFIX: &[u8] = b"erasure request ";
/// Every other key of `meta`. A key that is neither is damaged.
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

impl Engine {
    /// Builds the index of search terms and skeletons in a store of an older version. One pass over
    /// all users, in one transaction: about a second for 200,000 of them.
    pub fn mend_names(&self) -> Result<(), TablesError> {
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
                    tracing::error!(%error, "an account is damaged and cannot be found by its name")
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

    /// Whether this version of the program built the rows of `names`.
    pub fn names_are_current(&self) -> Result<bool, TablesError> {
        let txn = self.env.read_txn()?;
        Ok(self.meta.get(&txn, NAMES_MADE_KEY)? == Some(&NAMES_MADE))
    }

    /// Makes the order of all inboxes again from their rows, unless it is whole. Returns whether it had to.
    pub fn mend_order(&self) -> Result<bool, TablesError> {
        let mut txn = self.env.write_txn()?;
        if self.order.len(&txn)? == self.inbox.len(&txn)? {
            return Ok(false);
        }
        self.order.clear(&mut txn)?;
        let mut keys = Vec::new();
        for found in self.inbox.iter(&txn)? {
            let (key, row) = found?;
            // One that cannot be read comes back when its conversation changes.
            match verified(key, row).and_then(|row| order_key_of(key, row)) {
                Ok(key) => keys.push(key),
                Err(error) => {
                    tracing::error!(%error, "a line of an inbox is damaged and left out of the order")
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

    /// `None` for a store that was just made.
    pub fn identity(&self) -> Result<Option<Identity>, TablesError> {
        let txn = self.env.read_txn()?;
        let Some(row) = self.meta.get(&txn, IDENTITY_KEY)? else { return Ok(None) };
        read_identity(row).map(Some)
    }

    pub fn set_identity(&self, identity: &Identity) -> Result<(), TablesError> {
        let mut row = FORMAT_VERSION.to_le_bytes().to_vec();
        row.extend_from_slice(&identity.tag.0);
        row.extend_from_slice(&identity.fingerprinter.0);
        row.extend_from_slice(&identity.epoch.get().to_le_bytes());
        let mut txn = self.env.write_txn()?;
        self.meta.put(&mut txn, IDENTITY_KEY, &summed(&row))?;
        Ok(txn.commit()?)
    }

    /// Raises the format version, so that older programs refuse the store. Call it before any other
    /// write.
    pub fn raise_format(&self) -> Result<(), TablesError> {
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
        self.meta.put(&mut txn, IDENTITY_KEY, &summed(&row))?;
        // Earlier versions deleted content without this mark, so the next erasure rewrites the tables.
        self.meta.put(&mut txn, EXPIRED_PAGES_KEY, &[1])?;
        Ok(txn.commit()?)
    }

    /// Another epoch for the same store.
    pub fn set_epoch(&self, epoch: Epoch) -> Result<(), TablesError> {
        let mut txn = self.env.write_txn()?;
        let row = self.meta.get(&txn, IDENTITY_KEY)?.ok_or(DecodeError::Short).map_err(in_table("meta"))?;
        read_identity(row)?;
        let kept = row.get(..IDENTITY_BYTES - 8).ok_or(DecodeError::Short).map_err(in_table("meta"))?;
        let row = [kept, &epoch.get().to_le_bytes()].concat();
        self.meta.put(&mut txn, IDENTITY_KEY, &summed(&row))?;
        Ok(txn.commit()?)
    }

    /// From now on a store without a log is one that has lost it.
    pub fn set_log_started(&self) -> Result<(), TablesError> {
        let mut txn = self.env.write_txn()?;
        self.meta.put(&mut txn, LOG_STARTED_KEY, &[1])?;
        Ok(txn.commit()?)
    }

    pub fn log_started(&self) -> Result<bool, TablesError> {
        let txn = self.env.read_txn()?;
        Ok(self.meta.get(&txn, LOG_STARTED_KEY)?.is_some())
    }

    /// Everything up to this batch is in the tables.
    pub fn checkpoint(&self) -> Result<BatchNumber, TablesError> {
        self.snapshot()?.checkpoint()
    }

    /// How long the store was open, and what it received when. `None` in a store that has made no
    /// checkpoint yet.
    pub fn dedupe_clock(&self) -> Result<Option<DedupeRow>, TablesError> {
        let txn = self.env.read_txn()?;
        let row = self.meta.get(&txn, DEDUPE_CLOCK_KEY)?;
        row.map(DedupeRow::read).transpose().map_err(in_table("meta"))
    }

    /// Every table, by its name.
    fn tables(&self) -> [(&'static str, Table); 14] {
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

    /// How many rows each table has, and how many bytes its pages take.
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

/// A row of `meta` with a checksum behind it. Programs from before there was one read what is in front of it.
fn summed(row: &[u8]) -> Vec<u8> {
    [row, &crc32fast::hash(row).to_le_bytes()].concat()
}

/// The first `bytes` of such a row. One that is no longer than that is from before.
fn unsummed(row: &[u8], bytes: usize) -> Result<&[u8], DecodeError> {
    let (front, sum) = row.split_at_checked(bytes).ok_or(DecodeError::Short)?;
    match sum.is_empty() || sum == crc32fast::hash(front).to_le_bytes() {
        true => Ok(front),
        false => Err(DecodeError::Checksum),
    }
}

fn read_identity(row: &[u8]) -> Result<Identity, TablesError> {
    let version = Reader(row).u32().map_err(in_table("meta"))?;
    // Asked first: a newer one may have another form.
    let front = unsummed(row, IDENTITY_BYTES);
    if version > FORMAT_VERSION && (front.is_ok() || row.len() != IDENTITY_BYTES + 4) {
        return Err(TablesError::TooNew { found: version });
    }
    let mut reader = Reader(front.map_err(in_table("meta"))?);
    if version < OLDEST_VERSION {
        return Err(TablesError::TooOld { found: version });
    }
    let mut read = || -> Result<Identity, DecodeError> {
        reader.u32()?;
        Ok(Identity {
            tag: StoreTag(reader.array()?),
            fingerprinter: Fingerprinter(reader.array()?),
            epoch: Epoch::new(reader.u64()?),
        })
    };
    read().map_err(in_table("meta"))
}

/// Where an inbox row puts its conversation: the user part of its key, then the place.
fn order_key_of(key: &[u8], row: &[u8]) -> Result<Vec<u8>, DecodeError> {
    let id = rows::key_conversation(key)?;
    let place = rows::read_inbox(row)?.place(id);
    Ok(rows::order_key_in(rows::key_user(key)?, &place))
}

fn in_table(table: &'static str) -> impl Fn(DecodeError) -> TablesError {
    move |error| TablesError::Damaged { table, error }
}
