//! Opening the engine: as it is meant to be, or for readers alone where the disk cannot be written to.

use std::io::ErrorKind;
use std::path::Path;

use heed::types::{Bytes, DecodeIgnore};
use heed::{Database, Env, EnvFlags, EnvOpenOptions, RoTxn, WithoutTls};

use super::pages::look_at_start;
use super::{Engine, IDENTITY_KEY, Identity, LOG_STARTED_KEY, Table, TablesError, read_identity};

/// Address space, not disk: the file grows as it is filled.
const MAP_BYTES: usize = 1 << 40;
/// Where address space is short (`ulimit -v`, valgrind) there is less of it, and no less than this.
const LEAST_MAP_BYTES: usize = 1 << 34;
const MAX_READERS: u32 = 2048;

impl Engine {
    pub(super) fn open(directory: &Path) -> Result<Engine, TablesError> {
        let env = Engine::env(directory, EnvFlags::NO_READ_AHEAD)?;
        let mut txn = env.write_txn()?;
        check_names(&env, &txn)?;
        let tables = Engine::with(|name| Ok(env.create_database(&mut txn, Some(name))?), &env, false)?;
        txn.commit()?;
        Ok(tables)
    }

    /// For readers alone where the disk cannot be written to.
    pub(super) fn open_for_reading_at_least(directory: &Path) -> Result<Engine, TablesError> {
        match Engine::open(directory) {
            Err(error) if error.is_of_a_read_only_disk() => Engine::open_read_only(directory),
            opened => opened,
        }
    }

    /// Opens tables for reading. Errors with [`TablesError::NeedsUpgrade`] where an earlier version, which
    /// had fewer tables, wrote them.
    pub(super) fn open_read_only(directory: &Path) -> Result<Engine, TablesError> {
        let env = Engine::env(directory, EnvFlags::NO_READ_AHEAD | EnvFlags::READ_ONLY)?;
        let txn = env.read_txn()?;
        check_names(&env, &txn)?;
        let found = |name| env.open_database(&txn, Some(name))?.ok_or(TablesError::NeedsUpgrade);
        let tables = Engine::with(found, &env, true)?;
        // Otherwise the handles are dropped with the transaction.
        txn.commit()?;
        Ok(tables)
    }

    fn with(
        mut open: impl FnMut(&'static str) -> Result<Database<Bytes, Bytes>, TablesError>,
        env: &Env<WithoutTls>,
        is_read_only: bool,
    ) -> Result<Engine, TablesError> {
        let mut table = |name| Ok::<_, TablesError>(Table::new(name, open(name)?));
        Ok(Engine {
            env: env.clone(),
            is_read_only,
            meta: table("meta")?,
            conversations: table("conversations")?,
            members: table("members")?,
            chunks: table("chunks")?,
            inbox: table("inbox")?,
            order: table("order")?,
            unlisted: table("unlisted")?,
            pending: table("pending")?,
            users: table("users")?,
            profiles: table("profiles")?,
            names: table("names")?,
            segments: table("segments")?,
            progress: table("progress")?,
            erasures: table("erasures")?,
        })
    }

    /// Maps the file of the tables, as large as the address space allows.
    pub(super) fn env(directory: &Path, flags: EnvFlags) -> Result<Env<WithoutTls>, TablesError> {
        let mut map_bytes = MAP_BYTES;
        let env = loop {
            match Engine::map(directory, map_bytes, flags) {
                Err(heed::Error::Io(error)) if map_bytes > LEAST_MAP_BYTES && is_out_of_space(&error) => {
                    map_bytes /= 2;
                }
                mapped => break mapped?,
            }
        };
        if map_bytes < MAP_BYTES {
            tracing::warn!(map_bytes, "address space is short: the tables can grow to this and no further");
        }
        check_length(&env, directory)?;
        Ok(env)
    }

    #[expect(unsafe_code, reason = "heed cannot know that nobody else maps the file")]
    fn map(directory: &Path, map_bytes: usize, flags: EnvFlags) -> Result<Env<WithoutTls>, heed::Error> {
        let mut options = EnvOpenOptions::new().read_txn_without_tls();
        options.map_size(map_bytes).max_dbs(16).max_readers(MAX_READERS);
        // SAFETY: one flag changes how the kernel reads ahead and nothing else: pages are read at random, and without it a
        // cold page of history costs hundreds of kilobytes. The second forbids writes. The third
        // disables the engine's own lock; callers use it only with the second, while this process
        // holds the lock of the data directory.
        unsafe { options.flags(flags) };
        // SAFETY: the data directory is locked by this process (see lock.rs) and opened once in it, so nobody changes
        // or shortens the mapped file while it is in use. It is opened again only after it was closed.
        unsafe { options.open(directory) }
    }
}

/// The identity and state that the tables record about themselves.
#[derive(Default)]
pub struct Marks {
    pub identity: Option<Identity>,
    pub log_started: bool,
}

/// Reads the marks of tables that no process writes to, and leaves no lock file behind. Missing
/// tables have no marks.
pub fn marks(directory: &Path) -> Result<Marks, TablesError> {
    if !directory.join("data.mdb").is_file() {
        return Ok(Marks::default());
    }
    look_at_start(directory)?;
    let flags = EnvFlags::NO_READ_AHEAD | EnvFlags::READ_ONLY | EnvFlags::NO_LOCK;
    let env = Engine::env(directory, flags)?;
    let txn = env.read_txn()?;
    let Some(meta) = env.open_database::<Bytes, Bytes>(&txn, Some("meta"))? else {
        return Ok(Marks::default());
    };
    let identity = meta.get(&txn, IDENTITY_KEY)?.map(read_identity).transpose()?;
    Ok(Marks { identity, log_started: meta.get(&txn, LOG_STARTED_KEY)?.is_some() })
}

/// Refuses unknown table names: opening would recreate a table with a damaged name, empty.
fn check_names(env: &Env<WithoutTls>, txn: &RoTxn<'_>) -> Result<(), TablesError> {
    let Some(names) = env.open_database::<Bytes, DecodeIgnore>(txn, None)? else { return Ok(()) };
    for found in names.iter(txn)? {
        let name = found?.0;
        let name = name.strip_suffix(b"\0").unwrap_or(name);
        if super::NAMES.iter().any(|known| known.as_bytes() == name) {
            continue;
        }
        // A newer program may have more tables.
        if let Some(meta) = env.open_database::<Bytes, Bytes>(txn, Some("meta"))?
            && let Some(identity) = meta.get(txn, IDENTITY_KEY)?
        {
            read_identity(identity)?;
        }
        return Err(TablesError::DamagedList { name: String::from_utf8_lossy(name).into_owned() });
    }
    Ok(())
}

/// The kernel lacks memory to give, valgrind calls the request invalid.
fn is_out_of_space(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::OutOfMemory | ErrorKind::InvalidInput)
}

/// A file that lost its end would be noticed by a crash in the middle of a read. Better now.
fn check_length(env: &Env<WithoutTls>, directory: &Path) -> Result<(), TablesError> {
    let path = directory.join("data.mdb");
    let found = match path.metadata() {
        Ok(metadata) => metadata.len(),
        Err(error) => return Err(TablesError::Io { path, error }),
    };
    let expected = (env.info().last_page_number as u64 + 1) * rustix::param::page_size() as u64;
    if found < expected {
        return Err(TablesError::Truncated { path, found, expected });
    }
    Ok(())
}
