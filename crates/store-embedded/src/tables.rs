//! The derived tables, in LMDB. They hold what the log said up to the last checkpoint, sorted for reading.
//!
//! Nothing here is the truth before its checkpoint is complete: until then the log says the same again.

use std::ops::{Bound, RangeInclusive};
use std::path::{Path, PathBuf};
use std::sync::{Arc, RwLock};
use std::time::Duration;

use bluetick_core::{ConversationId, Epoch, Member, Members, Seq, StoreError, User, UserId};
use heed::types::Bytes;
use heed::{Database, Env, EnvFlags, EnvOpenOptions, RoTxn, RwTxn, WithoutTls};
use thiserror::Error;

use crate::codec::chunk::{self, Fingerprinter};
use crate::codec::rows::StoredConversation;
use crate::codec::{DecodeError, Reader, rows};
use crate::log::{BatchNumber, StoreTag};

/// Raised when the bytes in the tables change their meaning.
pub const FORMAT_VERSION: u32 = 1;
/// Address space, not disk: the file grows as it is filled.
const MAP_BYTES: usize = 1 << 40;
const MAX_READERS: u32 = 2048;

#[derive(Debug, Error)]
pub enum TablesError {
    #[error("the table engine failed: {0}")]
    Engine(#[from] heed::Error),
    #[error("{table} row is damaged: {error}")]
    Damaged { table: &'static str, error: DecodeError },
    #[error("{}: {error}", path.display())]
    Io { path: PathBuf, error: std::io::Error },
    #[error("{} is shorter than it says: {found} bytes instead of {expected}", path.display())]
    Truncated { path: PathBuf, found: u64, expected: u64 },
    #[error("{id} has messages or members and is not there itself: its row was lost")]
    Orphaned { id: ConversationId },
    #[error("the tables are closed")]
    Closed,
    #[error("a checkpoint panicked")]
    Panicked,
    #[error("the store closed before the checkpoint was complete")]
    Stopped,
    #[error(
        "the tables have format version {found}, this program knows {FORMAT_VERSION}; use a newer bluetick"
    )]
    TooNew { found: u32 },
}

impl TablesError {
    /// The engine has shut itself off (it failed to write its root page) and serves nobody until it is opened again.
    pub fn needs_reopening(&self) -> bool {
        matches!(self, TablesError::Engine(heed::Error::Mdb(heed::MdbError::Panic)) | TablesError::Closed)
    }
}

impl From<TablesError> for StoreError {
    fn from(error: TablesError) -> StoreError {
        match error {
            TablesError::Damaged { .. } | TablesError::Truncated { .. } | TablesError::Orphaned { .. } => {
                StoreError::Damaged(error.to_string())
            }
            other => StoreError::Failed(other.to_string()),
        }
    }
}

type Table = Database<Bytes, Bytes>;

/// The tables, which can be closed and opened again under everybody who uses them.
pub struct Tables {
    directory: PathBuf,
    engine: RwLock<Option<Arc<Engine>>>,
}

/// How long [`Tables::reopen`] waits for reads that are under way.
const CLOSING_PATIENCE: Duration = Duration::from_secs(10);

impl Tables {
    pub fn open(directory: &Path) -> Result<Tables, TablesError> {
        let engine = RwLock::new(Some(Arc::new(Engine::open(directory)?)));
        Ok(Tables { directory: directory.to_owned(), engine })
    }

    /// What to read and write with. Held for one read or one checkpoint, never longer.
    pub fn current(&self) -> Result<Arc<Engine>, TablesError> {
        self.engine.read().expect("nobody panics while holding the engine").clone().ok_or(TablesError::Closed)
    }

    /// Closes the engine and opens it again: the way out when it has shut itself off.
    pub fn reopen(&self) -> Result<(), TablesError> {
        let mut slot = self.engine.write().expect("nobody panics while holding the engine");
        if let Some(engine) = slot.take() {
            let closing = engine.env.clone().prepare_for_closing();
            drop(engine);
            closing.wait_timeout(CLOSING_PATIENCE);
        }
        *slot = Some(Arc::new(Engine::open(&self.directory)?));
        Ok(())
    }
}

pub struct Engine {
    env: Env<WithoutTls>,
    meta: Table,
    conversations: Table,
    members: Table,
    chunks: Table,
    inbox: Table,
    users: Table,
}

/// What makes this store this one.
#[derive(Clone, Copy)]
pub struct Identity {
    pub tag: StoreTag,
    pub fingerprinter: Fingerprinter,
    pub epoch: Epoch,
}

const IDENTITY_KEY: &[u8] = b"identity";
const CHECKPOINT_KEY: &[u8] = b"checkpoint";
const LOG_STARTED_KEY: &[u8] = b"log started";

impl Engine {
    #[expect(unsafe_code, reason = "heed cannot know that nobody else maps the file")]
    fn open(directory: &Path) -> Result<Engine, TablesError> {
        let mut options = EnvOpenOptions::new().read_txn_without_tls();
        options.map_size(MAP_BYTES).max_dbs(8).max_readers(MAX_READERS);
        // SAFETY: this flag changes how the kernel reads ahead and nothing else. Pages are read at random; without it a
        // cold page of history costs hundreds of kilobytes.
        unsafe { options.flags(EnvFlags::NO_READ_AHEAD) };
        // SAFETY: the data directory is locked by this process (see lock.rs) and opened once in it, so nobody changes
        // or shortens the mapped file while it is in use. It is opened again only after it was closed.
        let env = unsafe { options.open(directory) }?;
        check_length(&env, directory)?;
        let mut txn = env.write_txn()?;
        let meta: Table = env.create_database(&mut txn, Some("meta"))?;
        let conversations = env.create_database(&mut txn, Some("conversations"))?;
        let members = env.create_database(&mut txn, Some("members"))?;
        let chunks = env.create_database(&mut txn, Some("chunks"))?;
        let inbox = env.create_database(&mut txn, Some("inbox"))?;
        let users = env.create_database(&mut txn, Some("users"))?;
        txn.commit()?;
        Ok(Engine { env, meta, conversations, members, chunks, inbox, users })
    }

    /// `None` for a store that was just made.
    pub fn identity(&self) -> Result<Option<Identity>, TablesError> {
        let txn = self.env.read_txn()?;
        let Some(row) = self.meta.get(&txn, IDENTITY_KEY)? else { return Ok(None) };
        let mut reader = Reader(row);
        let version = reader.u32().map_err(in_table("meta"))?;
        if version > FORMAT_VERSION {
            return Err(TablesError::TooNew { found: version });
        }
        let mut read = || -> Result<Identity, DecodeError> {
            Ok(Identity {
                tag: StoreTag(reader.array()?),
                fingerprinter: Fingerprinter(reader.array()?),
                epoch: Epoch::new(reader.u64()?),
            })
        };
        read().map(Some).map_err(in_table("meta"))
    }

    pub fn set_identity(&self, identity: &Identity) -> Result<(), TablesError> {
        let mut row = FORMAT_VERSION.to_le_bytes().to_vec();
        row.extend_from_slice(&identity.tag.0);
        row.extend_from_slice(&identity.fingerprinter.0);
        row.extend_from_slice(&identity.epoch.get().to_le_bytes());
        let mut txn = self.env.write_txn()?;
        self.meta.put(&mut txn, IDENTITY_KEY, &row)?;
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
        let txn = self.env.read_txn()?;
        let Some(row) = self.meta.get(&txn, CHECKPOINT_KEY)? else { return Ok(BatchNumber::NONE) };
        Reader(row).u64().map(BatchNumber).map_err(in_table("meta"))
    }

    pub fn snapshot(&self) -> Result<Snapshot<'_>, TablesError> {
        Ok(Snapshot { tables: self, txn: self.env.read_txn()? })
    }

    pub fn update(&self) -> Result<Update<'_>, TablesError> {
        Ok(Update { tables: self, txn: self.env.write_txn()?, bytes: 0 })
    }
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

fn in_table(table: &'static str) -> impl Fn(DecodeError) -> TablesError {
    move |error| TablesError::Damaged { table, error }
}

/// The tables at one moment.
pub struct Snapshot<'t> {
    tables: &'t Engine,
    txn: RoTxn<'t, WithoutTls>,
}

impl Snapshot<'_> {
    pub fn conversation(&self, id: ConversationId) -> Result<Option<StoredConversation>, TablesError> {
        let row = self.tables.conversations.get(&self.txn, id.as_bytes())?;
        row.map(|row| rows::read_conversation(row, id)).transpose().map_err(in_table("conversations"))
    }

    /// Whether there are messages or members of a conversation that itself is not there: its row was lost.
    pub fn is_orphaned(&self, id: ConversationId) -> Result<bool, TablesError> {
        let chunk = self.tables.chunks.prefix_iter(&self.txn, id.as_bytes())?.next().transpose()?;
        let member = self.tables.members.prefix_iter(&self.txn, id.as_bytes())?.next().transpose()?;
        Ok(chunk.is_some() || member.is_some())
    }

    pub fn member(&self, id: ConversationId, user: &UserId) -> Result<Option<Member>, TablesError> {
        let key = rows::member_key(id, user);
        let row = self.tables.members.get(&self.txn, &key)?;
        row.map(|row| rows::read_member(&key, row)).transpose().map_err(in_table("members"))
    }

    pub fn members(&self, id: ConversationId) -> Result<Members, TablesError> {
        let mut members = Vec::new();
        for found in self.tables.members.prefix_iter(&self.txn, id.as_bytes())? {
            let (key, row) = found?;
            members.push(rows::read_member(key, row).map_err(in_table("members"))?);
        }
        Ok(Members::from_unsorted(members))
    }

    pub fn user(&self, id: &UserId) -> Result<Option<User>, TablesError> {
        let row = self.tables.users.get(&self.txn, id.as_str().as_bytes())?;
        let read = |row| rows::unseal(row).and_then(|mut reader| rows::read_user(&mut reader, id.clone()));
        row.map(read).transpose().map_err(in_table("users"))
    }

    /// The stored bytes of somebody's inbox row.
    pub fn inbox_row(&self, user: &UserId, id: ConversationId) -> Result<Option<Vec<u8>>, TablesError> {
        Ok(self.tables.inbox.get(&self.txn, &rows::inbox_key(user, id))?.map(<[u8]>::to_vec))
    }

    /// Gives each record of `range` to `visit`, oldest first.
    pub fn records(
        &self,
        id: ConversationId,
        range: RangeInclusive<Seq>,
        mut visit: impl FnMut(Seq, &[u8]) -> Result<(), DecodeError>,
    ) -> Result<(), TablesError> {
        let below = rows::chunk_key(id, *range.start());
        let lowest = rows::chunk_key(id, Seq::ZERO);
        let bounds = (Bound::Included(&lowest[..]), Bound::Included(&below[..]));
        let Some(first) = self.tables.chunks.rev_range(&self.txn, &bounds)?.next() else { return Ok(()) };
        let first_key: [u8; 24] = first?.0.try_into().expect("a chunk key has 24 bytes");
        let last_key = rows::chunk_key(id, *range.end());
        let bounds = (Bound::Included(&first_key[..]), Bound::Included(&last_key[..]));
        for found in self.tables.chunks.range(&self.txn, &bounds)? {
            let (key, bytes) = found?;
            let mut read = || -> Result<(), DecodeError> {
                let first_seq = rows::chunk_first_seq(key)?;
                let unpacked = chunk::unpack(&chunk::Header::read(bytes)?)?;
                for (record, seq) in unpacked.records().zip(first_seq.get()..) {
                    if range.contains(&Seq::new(seq)) {
                        visit(Seq::new(seq), record)?;
                    }
                }
                Ok(())
            };
            read().map_err(in_table("chunks"))?;
        }
        Ok(())
    }

    /// Gives chunk headers to `visit`, newest first, until it answers `false`.
    pub fn headers_backwards(
        &self,
        id: ConversationId,
        mut visit: impl FnMut(Seq, chunk::Header<'_>) -> bool,
    ) -> Result<(), TablesError> {
        for found in self.tables.chunks.rev_prefix_iter(&self.txn, id.as_bytes())? {
            let (key, bytes) = found?;
            let first_seq = rows::chunk_first_seq(key).map_err(in_table("chunks"))?;
            let header = chunk::Header::read(bytes).map_err(in_table("chunks"))?;
            if !visit(first_seq, header) {
                break;
            }
        }
        Ok(())
    }
}

/// Changes that become durable together.
pub struct Update<'t> {
    tables: &'t Engine,
    txn: RwTxn<'t>,
    bytes: usize,
}

impl Update<'_> {
    /// How much was put so far.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    pub fn put_conversation(&mut self, stored: &StoredConversation) -> Result<(), TablesError> {
        let key = stored.conversation.id;
        self.put(self.tables.conversations, key.as_bytes(), &rows::conversation_row(stored))
    }

    pub fn put_member(&mut self, id: ConversationId, member: &Member) -> Result<(), TablesError> {
        self.put(self.tables.members, &rows::member_key(id, &member.user), &rows::member_row(member))
    }

    pub fn delete_member(&mut self, id: ConversationId, user: &UserId) -> Result<(), TablesError> {
        self.tables.members.delete(&mut self.txn, &rows::member_key(id, user))?;
        Ok(())
    }

    pub fn put_chunk(&mut self, id: ConversationId, first_seq: Seq, chunk: &[u8]) -> Result<(), TablesError> {
        self.put(self.tables.chunks, &rows::chunk_key(id, first_seq), chunk)
    }

    pub fn last_chunk(&self, id: ConversationId) -> Result<Option<(Seq, &[u8])>, TablesError> {
        let Some(found) = self.tables.chunks.rev_prefix_iter(&self.txn, id.as_bytes())?.next() else {
            return Ok(None);
        };
        let (key, bytes) = found?;
        Ok(Some((rows::chunk_first_seq(key).map_err(in_table("chunks"))?, bytes)))
    }

    pub fn put_inbox_row(&mut self, key: &[u8], row: &[u8]) -> Result<(), TablesError> {
        self.put(self.tables.inbox, key, row)
    }

    pub fn delete_inbox_row(&mut self, key: &[u8]) -> Result<(), TablesError> {
        self.tables.inbox.delete(&mut self.txn, key)?;
        Ok(())
    }

    pub fn put_user(&mut self, user: &User) -> Result<(), TablesError> {
        self.put(self.tables.users, user.id.as_str().as_bytes(), &rows::user_row(user))
    }

    pub fn set_checkpoint(&mut self, through: BatchNumber) -> Result<(), TablesError> {
        self.put(self.tables.meta, CHECKPOINT_KEY, &through.0.to_le_bytes())
    }

    fn put(&mut self, table: Table, key: &[u8], row: &[u8]) -> Result<(), TablesError> {
        self.bytes += key.len() + row.len();
        Ok(table.put(&mut self.txn, key, row)?)
    }

    /// Durable when it returns.
    pub fn commit(self) -> Result<(), TablesError> {
        Ok(self.txn.commit()?)
    }
}

#[cfg(test)]
mod tests {
    use bluetick_core::{Role, Timestamp};
    use tempfile::TempDir;

    use super::*;
    use crate::codec::chunk::{Entry, Fingerprint, Packer};

    const ID: fn(u8) -> ConversationId = |number| ConversationId::group([number; 15]);

    fn tables() -> (TempDir, Engine) {
        let directory = TempDir::new().unwrap();
        let tables = Engine::open(directory.path()).unwrap();
        (directory, tables)
    }

    /// Chunks of the given sizes, whose records are their seqs as text.
    fn fill(tables: &Engine, id: ConversationId, sizes: &[u64]) {
        let mut update = tables.update().unwrap();
        let mut first = 1;
        for size in sizes {
            let records: Vec<String> = (first..first + size).map(|seq| seq.to_string()).collect();
            let entries: Vec<_> = records
                .iter()
                .map(|record| Entry { record: record.as_bytes(), fingerprint: Fingerprint(7) })
                .collect();
            let mut packed = Vec::new();
            Packer::default().pack(&entries, Timestamp::from_millis(first as i64), &mut packed);
            update.put_chunk(id, Seq::new(first), &packed).unwrap();
            first += size;
        }
        update.commit().unwrap();
    }

    fn read(tables: &Engine, id: ConversationId, range: RangeInclusive<u64>) -> Vec<u64> {
        let mut seen = Vec::new();
        let range = Seq::new(*range.start())..=Seq::new(*range.end());
        let snapshot = tables.snapshot().unwrap();
        snapshot
            .records(id, range, |seq, record| {
                assert_eq!(record, seq.to_string().as_bytes());
                seen.push(seq.get());
                Ok(())
            })
            .unwrap();
        seen
    }

    #[test]
    fn a_range_is_read_from_every_chunk_it_touches_and_from_no_other_conversation() {
        let (_directory, tables) = tables();
        fill(&tables, ID(1), &[5]);
        fill(&tables, ID(2), &[64, 64, 3]);
        fill(&tables, ID(3), &[9]);
        assert_eq!(read(&tables, ID(2), 60..=70), (60..=70).collect::<Vec<_>>());
        assert_eq!(read(&tables, ID(2), 1..=131), (1..=131).collect::<Vec<_>>());
        assert_eq!(read(&tables, ID(2), 131..=200), [131]);
        assert_eq!(read(&tables, ID(2), 132..=200), [0; 0]);
        assert_eq!(read(&tables, ID(4), 1..=9), [0; 0]);
    }

    #[test]
    fn headers_come_newest_first_until_they_are_not_wanted() {
        let (_directory, tables) = tables();
        fill(&tables, ID(2), &[64, 64, 3]);
        fill(&tables, ID(3), &[1]);
        let mut seen = Vec::new();
        let snapshot = tables.snapshot().unwrap();
        snapshot
            .headers_backwards(ID(2), |first, header| {
                seen.push((first.get(), header.count));
                seen.len() < 2
            })
            .unwrap();
        assert_eq!(seen, [(129, 3), (65, 64)]);
    }

    #[test]
    fn the_members_of_one_conversation_are_not_mixed_with_the_next() {
        let (_directory, tables) = tables();
        let member =
            |name: &str| Member { user: name.parse().unwrap(), role: Role::Member, joined_seq: Seq::FIRST };
        let mut update = tables.update().unwrap();
        update.put_member(ID(1), &member("alice")).unwrap();
        update.put_member(ID(1), &member("bob")).unwrap();
        update.put_member(ID(2), &member("carol")).unwrap();
        update.delete_member(ID(1), &"bob".parse().unwrap()).unwrap();
        update.commit().unwrap();
        let members = tables.snapshot().unwrap().members(ID(1)).unwrap();
        assert_eq!(members, Members::from_unsorted(vec![member("alice")]));
    }

    #[test]
    fn an_update_that_is_not_committed_never_was() {
        let (_directory, tables) = tables();
        let mut update = tables.update().unwrap();
        update.set_checkpoint(BatchNumber(9)).unwrap();
        drop(update);
        assert_eq!(tables.checkpoint().unwrap(), BatchNumber::NONE);
    }

    #[test]
    fn tables_of_a_newer_format_are_refused_and_not_misread() {
        let (_directory, tables) = tables();
        let mut txn = tables.env.write_txn().unwrap();
        tables.meta.put(&mut txn, IDENTITY_KEY, &(FORMAT_VERSION + 1).to_le_bytes()).unwrap();
        txn.commit().unwrap();
        assert!(matches!(tables.identity(), Err(TablesError::TooNew { found: 2 })));
    }

    #[test]
    fn tables_can_be_opened_again_while_others_read() {
        let directory = TempDir::new().unwrap();
        let tables = Arc::new(Tables::open(directory.path()).unwrap());
        fill(&tables.current().unwrap(), ID(1), &[64, 64, 3]);
        let readers: Vec<_> = (0..4)
            .map(|_| {
                let tables = Arc::clone(&tables);
                std::thread::spawn(move || {
                    for _ in 0..500 {
                        assert_eq!(read(&tables.current().unwrap(), ID(1), 60..=70).len(), 11);
                    }
                })
            })
            .collect();
        for _ in 0..5 {
            tables.reopen().unwrap();
        }
        for reader in readers {
            reader.join().unwrap();
        }
        fill(&tables.current().unwrap(), ID(2), &[1]);
        assert_eq!(read(&tables.current().unwrap(), ID(2), 1..=9), [1]);
    }
}
