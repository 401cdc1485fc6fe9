//! Opens the LMDB engine: for writing, or for reading only on a read-only disk.

use std::io::ErrorKind;
use std::path::Path;

use heed::types::{Bytes, DecodeIgnore};
use heed::{Database, Env, EnvFlags, EnvOpenOptions, RoTxn, WithoutTls};

use super::pages::verify_at_open;
use super::{Engine, IDENTITY_KEY, LOG_STARTED_KEY, StoreIdentity, Table, TablesError, read_identity};

/// Size of the memory map, in bytes. It reserves address space, not disk space: the file grows with
/// its content. It bounds the size of the tables: writes beyond it fail.
const MAP_BYTES: usize = 1 << 40;
/// The smallest map in bytes to fall back to when address space is limited (`ulimit -v`, valgrind).
/// Opening fails below it.
const LEAST_MAP_BYTES: usize = 1 << 34;
/// Upper bound on concurrent read transactions. Further reads fail.
const MAX_READERS: u32 = 2048;

impl Engine {
    /// Opens the engine for writing and creates missing tables.
    pub(super) fn open(directory: &Path) -> Result<Engine, TablesError> {
        let env = Engine::env(directory, EnvFlags::NO_READ_AHEAD)?;
        let mut txn = env.write_txn()?;
        check_names(&env, &txn)?;
        let tables = Engine::with(|name| Ok(env.create_database(&mut txn, Some(name))?), &env, false)?;
        txn.commit()?;
        Ok(tables)
    }

    /// Opens the engine for writing, or for reading only on a read-only disk.
    pub(super) fn open_for_reading_at_least(directory: &Path) -> Result<Engine, TablesError> {
        match Engine::open(directory) {
            Err(error) if error.is_of_a_read_only_disk() => Engine::open_read_only(directory),
            opened => opened,
        }
    }

    /// Opens the engine for reading only. Errors with [`TablesError::NeedsUpgrade`] if an earlier
    /// version with fewer tables wrote the file.
    pub(super) fn open_read_only(directory: &Path) -> Result<Engine, TablesError> {
        let env = Engine::env(directory, EnvFlags::NO_READ_AHEAD | EnvFlags::READ_ONLY)?;
        let txn = env.read_txn()?;
        check_names(&env, &txn)?;
        let found = |name| env.open_database(&txn, Some(name))?.ok_or(TablesError::NeedsUpgrade);
        let tables = Engine::with(found, &env, true)?;
        // Without this commit, LMDB closes the table handles with the transaction.
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

    /// Maps the data file. Halves the size of the map until the address space suffices.
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
            tracing::warn!(map_bytes, "address space is limited; the tables cannot grow beyond map_bytes");
        }
        check_length(&env, directory)?;
        Ok(env)
    }

    #[expect(unsafe_code, reason = "heed cannot check that no other code maps the file")]
    fn map(directory: &Path, map_bytes: usize, flags: EnvFlags) -> Result<Env<WithoutTls>, heed::Error> {
        let mut options = EnvOpenOptions::new().read_txn_without_tls();
        options.map_size(map_bytes).max_dbs(16).max_readers(MAX_READERS);
        // SAFETY: `NO_READ_AHEAD` only changes how the kernel reads ahead. Page reads are random,
        // and with read-ahead a cold page of history costs hundreds of kilobytes. `READ_ONLY`
        // forbids writes. `NO_LOCK` disables LMDB's own lock; callers use it only with `READ_ONLY`,
        // while this process holds the lock of the data directory.
        unsafe { options.flags(flags) };
        // SAFETY: this process holds the lock of the data directory (see lock.rs) and opens the
        // file once. No other code changes or truncates the mapped file. This process reopens the
        // file only after closing it.
        unsafe { options.open(directory) }
    }
}

/// The identity and state that the tables record about themselves.
#[derive(Default)]
pub struct StoreMarkers {
    pub identity: Option<StoreIdentity>,
    pub log_started: bool,
}

/// Reads the markers of tables that no process writes to. Creates no lock file. Returns empty
/// markers if the tables are missing.
pub fn read_markers(directory: &Path) -> Result<StoreMarkers, TablesError> {
    if !directory.join("data.mdb").is_file() {
        return Ok(StoreMarkers::default());
    }
    verify_at_open(directory)?;
    let flags = EnvFlags::NO_READ_AHEAD | EnvFlags::READ_ONLY | EnvFlags::NO_LOCK;
    let env = Engine::env(directory, flags)?;
    let txn = env.read_txn()?;
    let Some(meta) = env.open_database::<Bytes, Bytes>(&txn, Some("meta"))? else {
        return Ok(StoreMarkers::default());
    };
    let identity = meta.get(&txn, IDENTITY_KEY)?.map(read_identity).transpose()?;
    Ok(StoreMarkers { identity, log_started: meta.get(&txn, LOG_STARTED_KEY)?.is_some() })
}

/// Refuses unknown table names. Otherwise opening would create an empty table in place of one whose
/// name is damaged.
fn check_names(env: &Env<WithoutTls>, txn: &RoTxn<'_>) -> Result<(), TablesError> {
    let Some(names) = env.open_database::<Bytes, DecodeIgnore>(txn, None)? else { return Ok(()) };
    for found in names.iter(txn)? {
        let name = found?.0;
        let name = name.strip_suffix(b"\0").unwrap_or(name);
        if super::NAMES.iter().any(|known| known.as_bytes() == name) {
            continue;
        }
        // A newer version may have more tables. `read_identity` then reports the version.
        if let Some(meta) = env.open_database::<Bytes, Bytes>(txn, Some("meta"))?
            && let Some(identity) = meta.get(txn, IDENTITY_KEY)?
        {
            read_identity(identity)?;
        }
        return Err(TablesError::DamagedList { name: String::from_utf8_lossy(name).into_owned() });
    }
    Ok(())
}

/// Returns whether the map failed for lack of address space. Linux reports `ENOMEM`, valgrind
/// `EINVAL`.
fn is_out_of_space(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::OutOfMemory | ErrorKind::InvalidInput)
}

/// Refuses a truncated file. Without this check, a read beyond its end would crash the process.
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
