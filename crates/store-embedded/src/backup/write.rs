//! Writes a backup.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use bluetick_archive::{BackupDestination, BackupLocation};
use bluetick_core::ports::{ArchiveError, Backup, BackupReport, Progress, Stage};
use bluetick_core::{Cause, Seq, StoreError};
use bytes::Bytes;
use tokio::sync::mpsc;

use super::manifest::{MANIFEST, Manifest, Part, PartKind};
use super::parts::PartBuilder;
use super::{KEY_FILES, at_destination};
use crate::check::row_problem;
use crate::codec::Reader;
use crate::codec::event::{self, LogEvent};
use crate::log::{self, BatchNumber, LogError, Spares, StoreTag};
use crate::store::EmbeddedStore;
use crate::tables::{Snapshot, Tables, verified};

/// Upper bound on the parts that wait for upload. Bounds the memory of a backup, together with
/// `PART_RAW_BYTES`.
const PARTS_AHEAD: usize = 1;
/// Number of rows between two progress reports and checks for shutdown. A larger number delays
/// shutdown.
const ROWS_BETWEEN_STOP_CHECKS: u64 = 1_000;

/// Reads the store on a blocking thread and sends finished parts to the uploader.
struct SnapshotSource {
    tables: Arc<Tables>,
    spares: Arc<Spares>,
    log_directory: PathBuf,
    tag: StoreTag,
    stopping: Arc<AtomicBool>,
    progress: Arc<dyn Progress>,
    parts: mpsc::Sender<(PartKind, Bytes)>,
}

/// Totals of the copied data.
#[derive(Default)]
struct CopiedParts {
    checkpoint: BatchNumber,
    through: BatchNumber,
    accounts: u64,
    conversations: u64,
    messages: u64,
    archived_messages: u64,
    damaged_rows: u64,
}

impl From<LogError> for ArchiveError {
    fn from(error: LogError) -> ArchiveError {
        match error {
            LogError::Damaged { .. } => StoreError::Damaged(Cause::of(error)).into(),
            other => StoreError::Failed(Cause::of(other)).into(),
        }
    }
}

impl EmbeddedStore {
    /// Writes a backup to an empty destination, reads every part back, and writes the manifest
    /// last. Runs as an archive job. An error before that leaves no manifest, so the files are no
    /// backup.
    pub(crate) async fn make_backup(
        &self,
        backup: Backup,
        progress: Arc<dyn Progress>,
    ) -> Result<BackupReport, ArchiveError> {
        let started = Instant::now();
        let destination = self.destination_for(&backup).await?;
        let _job = self.archiver.begin()?;
        // A checkpoint first reduces the log to copy. If the tables cannot be written, the log
        // still has everything.
        if let Err(error) = self.archiver.checkpoint().await {
            tracing::warn!(%error, "checkpoint before the backup failed; the backup copies more of the log");
        }
        let (sender, mut receiver) = mpsc::channel(PARTS_AHEAD);
        let source = SnapshotSource {
            tables: Arc::clone(&self.tables),
            spares: Arc::clone(&self.spares),
            log_directory: self.data_dir.join("log"),
            tag: self.identity.tag,
            stopping: self.archiver.stopping(),
            progress: Arc::clone(&progress),
            parts: sender,
        };
        let copying = tokio::task::spawn_blocking(move || source.copy());
        let mut parts = Vec::new();
        let mut put = Ok(());
        while let Some((kind, bytes)) = receiver.recv().await {
            let part = Part::of(name_of(kind, &parts), kind, &bytes);
            put = destination.put(&part.name, &bytes).await.map_err(at_destination);
            if put.is_err() {
                // Closing the channel stops the copying thread at its next part.
                receiver.close();
                break;
            }
            parts.push(part);
        }
        drop(receiver);
        let copied = copying.await.unwrap_or_else(|error| Err(StoreError::Failed(Cause::of(error)).into()));
        put?;
        let copied = copied?;
        if backup.keys.unwrap_or(destination.is_directory()) {
            self.put_keys(&destination, &mut parts).await?;
        }
        // Keys from the settings have no file to copy.
        let with_keys = parts.iter().any(|part| part.kind == PartKind::Key);
        self.read_back(&destination, &parts, &*progress).await?;
        let archive = self
            .archiver
            .object_archive
            .as_ref()
            .map_or_else(String::new, |object_archive| object_archive.place());
        let manifest = Manifest {
            format: Manifest::FORMAT.to_owned(),
            version: Manifest::VERSION,
            program: env!("CARGO_PKG_VERSION").to_owned(),
            made_at: self.archiver.clock.now().millis(),
            store: self.identity.tag.0.iter().map(|byte| format!("{byte:02x}")).collect(),
            epoch: self.identity.epoch.get(),
            checkpoint: copied.checkpoint.0,
            through: copied.through.0,
            accounts: copied.accounts,
            conversations: copied.conversations,
            messages: copied.messages,
            archived_messages: copied.archived_messages,
            archive,
            damaged_rows: copied.damaged_rows,
            parts,
            sha256: String::new(),
        };
        let (bytes, objects) = (manifest.bytes(), manifest.parts.len() as u64 + 1);
        let encoded = Bytes::from(manifest.encode());
        destination.put(MANIFEST, &encoded).await.map_err(at_destination)?;
        if destination.get(MANIFEST).await.map_err(at_destination)? != encoded {
            return Err(read_back_differs(MANIFEST));
        }
        Ok(BackupReport {
            place: destination.place().to_string(),
            accounts: copied.accounts,
            conversations: copied.conversations,
            messages: copied.messages,
            archived_messages: copied.archived_messages,
            objects,
            bytes: bytes + encoded.len() as u64,
            with_keys,
            damaged_rows: copied.damaged_rows,
            took: started.elapsed(),
        })
    }

    /// Opens the destination. Refuses one that is not empty, a relative path, and a path in the
    /// data directory.
    async fn destination_for(&self, backup: &Backup) -> Result<BackupDestination, ArchiveError> {
        let location: BackupLocation = backup.to.parse().map_err(ArchiveError::Refused)?;
        if let BackupLocation::Directory(directory) = &location {
            if !directory.is_absolute() {
                return Err(ArchiveError::Refused("the path of the directory must be absolute".to_owned()));
            }
            if is_inside(directory, &self.data_dir) {
                let why = "a backup in the data directory itself would be lost with it";
                return Err(ArchiveError::Refused(why.to_owned()));
            }
        }
        let destination =
            BackupDestination::open(&location, &self.archiver.settings, true).map_err(at_destination)?;
        match destination.is_empty().await.map_err(at_destination)? {
            true => {
                if destination.is_open_to_others() {
                    tracing::warn!(destination = %location, "backup directory is accessible to other users; restrict it to its owner");
                }
                Ok(destination)
            }
            false => Err(ArchiveError::Refused(format!(
                "{location} is not empty; name an empty or new location, because no backup is overwritten"
            ))),
        }
    }

    async fn put_keys(
        &self,
        destination: &BackupDestination,
        parts: &mut Vec<Part>,
    ) -> Result<(), ArchiveError> {
        for name in KEY_FILES {
            let bytes = match std::fs::read(self.data_dir.join(name)) {
                Ok(bytes) => Bytes::from(bytes),
                // This key comes from the settings.
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
                Err(error) => return Err(StoreError::Failed(format!("{name}: {error}").into()).into()),
            };
            destination.put(name, &bytes).await.map_err(at_destination)?;
            parts.push(Part::of(name.to_owned(), PartKind::Key, &bytes));
        }
        Ok(())
    }

    async fn read_back(
        &self,
        destination: &BackupDestination,
        parts: &[Part],
        progress: &dyn Progress,
    ) -> Result<(), ArchiveError> {
        let stopping = self.archiver.stopping();
        for (done, part) in parts.iter().enumerate() {
            if stopping.load(Ordering::Relaxed) {
                return Err(ArchiveError::Stopped);
            }
            let bytes = destination.get(&part.name).await.map_err(at_destination)?;
            if part.problem_with(&bytes).is_some() {
                return Err(read_back_differs(&part.name));
            }
            progress.advanced(Stage::ReadingBack, done as u64 + 1, parts.len() as u64);
        }
        Ok(())
    }
}

fn read_back_differs(name: &str) -> ArchiveError {
    ArchiveError::Unavailable(format!(
        "{name} reads back with other bytes than were written; the backup is unusable"
    ))
}

fn name_of(kind: PartKind, before: &[Part]) -> String {
    let number = before.iter().filter(|part| part.kind == kind).count() + 1;
    let kind = if kind == PartKind::Log { "log" } else { "rows" };
    format!("{kind}-{number:06}.part")
}

/// Returns whether `path` equals `directory` or is inside it. `path` need not exist.
fn is_inside(path: &Path, directory: &Path) -> bool {
    let Ok(directory) = directory.canonicalize() else { return false };
    let known = path.ancestors().find_map(|ancestor| ancestor.canonicalize().ok());
    known.is_some_and(|known| known.starts_with(directory))
}

impl SnapshotSource {
    fn copy(self) -> Result<CopiedParts, ArchiveError> {
        // Hold the log segments before reading the position, so that no batch after it is deleted.
        let hold = self.spares.hold();
        let engine = self.tables.current()?;
        let space = engine.space()?;
        let total = space.file_bytes.saturating_sub(space.free_bytes);
        let snapshot = engine.snapshot()?;
        let mut copied = CopiedParts { checkpoint: snapshot.checkpoint()?, ..CopiedParts::default() };
        self.progress.advanced(Stage::Copying, 0, total);
        self.copy_log(&snapshot, &mut copied)?;
        drop(hold);
        copied.archived_messages = engine.cold_count()?.messages;
        let (mut pack, mut seen, mut done) = (PartBuilder::default(), 0, 0);
        snapshot.rows(|table, key, row| {
            if row_problem(table, key, row).is_some() {
                copied.damaged_rows += 1;
            }
            match table {
                "conversations" => {
                    copied.conversations += 1;
                    let id = key.try_into().ok().and_then(bluetick_core::ConversationId::from_bytes);
                    let stored = id
                        .zip(verified(key, row).ok())
                        .and_then(|(id, row)| crate::codec::rows::read_conversation(row, id).ok());
                    copied.messages += stored.map_or(0, |stored| stored.conversation.head.get());
                }
                "users" => copied.accounts += 1,
                _ => {}
            }
            pack.row(table, key, row);
            done += (key.len() + row.len()) as u64;
            seen += 1;
            if pack.is_full() {
                self.give(PartKind::Rows, &mut pack)?;
            }
            if seen % ROWS_BETWEEN_STOP_CHECKS == 0 {
                self.progress.advanced(Stage::Copying, done.min(total), total);
                if self.stopping.load(Ordering::Relaxed) {
                    return Err(ArchiveError::Stopped);
                }
            }
            Ok(())
        })?;
        self.give(PartKind::Rows, &mut pack)?;
        self.progress.advanced(Stage::Copying, total, total);
        Ok(copied)
    }

    /// Copies the batches after the position. Counts messages, conversations and accounts that are
    /// not in the rows.
    fn copy_log(&self, snapshot: &Snapshot<'_>, copied: &mut CopiedParts) -> Result<(), ArchiveError> {
        let mut pack = PartBuilder::default();
        let (mut created, mut joined) = (HashSet::new(), HashSet::new());
        let durable = self.spares.durable();
        let end = log::copy(&self.log_directory, self.tag, copied.checkpoint, durable, |frame, bytes| {
            let mut reader = Reader(frame.payload);
            let in_batch = |error: crate::codec::DecodeError| {
                ArchiveError::from(StoreError::Damaged(
                    format!("batch {} of the log: {error}", frame.number.0).into(),
                ))
            };
            while let Some(event) = event::next_event(&mut reader).map_err(in_batch)? {
                match event {
                    LogEvent::Message { conversation, seq, .. } => {
                        let stored = snapshot.conversation(conversation)?;
                        let head = stored.map_or(Seq::ZERO, |stored| stored.conversation.head);
                        copied.messages += u64::from(seq > head);
                    }
                    LogEvent::Created { conversation, .. } => {
                        let is_new = snapshot.conversation(conversation.id)?.is_none();
                        copied.conversations += u64::from(is_new && created.insert(conversation.id));
                    }
                    LogEvent::User(user) => {
                        let is_new = snapshot.user(&user.id)?.is_none();
                        copied.accounts += u64::from(is_new && joined.insert(user.id));
                    }
                    _ => {}
                }
            }
            pack.batch(bytes);
            if pack.is_full() { self.give(PartKind::Log, &mut pack) } else { Ok(()) }
        })?;
        copied.through = end.through;
        self.give(PartKind::Log, &mut pack)
    }

    fn give(&self, kind: PartKind, pack: &mut PartBuilder) -> Result<(), ArchiveError> {
        if pack.is_empty() {
            return Ok(());
        }
        // The receiver is closed if an earlier part failed. The uploader reports that error.
        self.parts.blocking_send((kind, Bytes::from(pack.take()))).map_err(|_| ArchiveError::Stopped)
    }
}
