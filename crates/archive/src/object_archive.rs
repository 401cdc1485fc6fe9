//! The object archive as the stores use it: put, read a block, list, delete.

use std::path::Path as FilePath;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bluetick_core::ConversationId;
use bytes::Bytes;
use futures_util::stream::{BoxStream, StreamExt};
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt, PutMode};

use crate::block_cache::BlockCache;
use crate::engine::{self, ObjectBackend};
use crate::fetch::{Remote, was_not_new};
use crate::marker::{self, Markers};
use crate::name::StoreText;
use crate::segment::{Block, decode_block};
use crate::silence::Silence;
use crate::{ArchiveSettings, BlockRef, ObjectArchiveError, SegmentName};

/// The object archive, with its block cache. Clones share one archive.
#[derive(Clone)]
pub struct ObjectArchive(Arc<Inner>);

/// Time for which readers fail fast after the object store did not answer. If it is too short,
/// every reader waits for a timeout; if it is too long, recovery is noticed late.
const PAUSE: Duration = Duration::from_secs(1);

/// The state that all clones share.
struct Inner {
    remote: Remote,
    blocks: BlockCache,
    markers: Markers,
    counts: ReadCounters,
    silence: Silence,
}

/// The result of a [`put`](ObjectArchive::put).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Put {
    /// The object did not exist.
    New,
    /// The same bytes existed already, from an interrupted run.
    AlreadyThere,
    /// Other bytes existed, to which no row referred.
    Replaced,
}

/// Counters since the start of the process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ObjectArchiveCounters {
    /// Calls of [`ObjectArchive::block`].
    pub block_reads: u64,
    /// Calls that were answered from the cache, or joined a fetch in progress.
    pub from_memory: u64,
    /// Reads from the object store, of a block or a whole segment.
    pub fetches: u64,
    pub fetched_bytes: u64,
    /// Fetches without an answer, or with an unusable one.
    pub failed_fetches: u64,
    /// Fetches that found the object missing or damaged.
    pub damaged: u64,
    /// Objects below a store's prefix whose name is not a segment name.
    pub foreign_names: u64,
}

#[derive(Default)]
struct ReadCounters {
    block_reads: AtomicU64,
    from_memory: AtomicU64,
    fetches: AtomicU64,
    fetched_bytes: AtomicU64,
    failed_fetches: AtomicU64,
    damaged: AtomicU64,
    foreign_names: AtomicU64,
}

fn add(counter: &AtomicU64, count: u64) {
    counter.fetch_add(count, Ordering::Relaxed);
}

/// Upper bound on one request of an archive created with [`ObjectArchive::over`]. A request to an
/// object store that hangs blocks its caller for that long.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(10);

impl ObjectArchive {
    /// Opens the archive from the settings. Returns `None` if it is off. Does not contact an S3
    /// server, so an outage does not prevent the start.
    pub fn open(
        settings: &ArchiveSettings,
        data_dir: &FilePath,
    ) -> Result<Option<ObjectArchive>, ObjectArchiveError> {
        ObjectArchive::open_with_environment(settings, data_dir, &|name| std::env::var(name).ok())
    }

    /// As [`open`](ObjectArchive::open), with environment variables from `variable`.
    pub fn open_with_environment(
        settings: &ArchiveSettings,
        data_dir: &FilePath,
        variable: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Option<ObjectArchive>, ObjectArchiveError> {
        let engine = engine::open(settings, data_dir, variable)?;
        Ok(engine.map(|engine| ObjectArchive::with(engine, settings.timeout(), settings.cache_bytes, PAUSE)))
    }

    /// Creates an archive over any object store, such as one that fails. It does not fail fast
    /// after errors.
    pub fn over(objects: Arc<dyn ObjectStore>, prefix: &str, cache_bytes: u64) -> ObjectArchive {
        let place = format!("object store {objects}");
        let engine = ObjectBackend { objects, place, prefix: prefix.to_owned(), directory: None, hint: "" };
        ObjectArchive::with(engine, DEFAULT_TIMEOUT, cache_bytes, Duration::ZERO)
    }

    fn with(engine: ObjectBackend, timeout: Duration, cache_bytes: u64, pause: Duration) -> ObjectArchive {
        let (remote, blocks) = (Remote::new(engine, timeout), BlockCache::new(cache_bytes));
        let (markers, counts, silence) = (Markers::default(), ReadCounters::default(), Silence::new(pause));
        ObjectArchive(Arc::new(Inner { remote, blocks, markers, counts, silence }))
    }

    /// Describes the location without secrets: "directory /x", "s3 bucket/prefix at http://…".
    pub fn place(&self) -> String {
        self.0.remote.engine().place.clone()
    }

    /// Fails unless this location holds the archive of the store. Call it before a job if rows
    /// refer to segments. In a wrong location every segment would look missing, and new segments
    /// would be lost later.
    pub async fn must_hold(&self, store: [u8; 8]) -> Result<(), ObjectArchiveError> {
        self.0.markers.must_be_there(&self.0.remote, store).await
    }

    /// Puts a segment if absent. Accepts existing equal bytes, and replaces other bytes: callers
    /// put only segments that no row refers to yet. Reads the object back and compares it, so that
    /// `Ok` means complete and durable.
    pub async fn put(&self, name: &SegmentName, bytes: Bytes) -> Result<Put, ObjectArchiveError> {
        let text = name.to_string();
        let path = self.0.remote.path(&text);
        self.0.remote.on_directory(crate::staging::is_there).await?;
        self.0.markers.make(&self.0.remote, name.store).await?;
        match self.0.remote.write(&path, &bytes, PutMode::Create).await? {
            Ok(()) => {
                self.0.compare(&path, &text, &bytes).await?;
                return Ok(Put::New);
            }
            Err(error) if was_not_new(&error) => {}
            Err(error) => return Err(self.0.remote.failed(&error)),
        }
        let result = match self.0.remote.whole(&path, &text).await {
            Ok(there) if there == bytes => {
                // The process that wrote it may have crashed before the fsync.
                self.0
                    .remote
                    .on_directory(move |root| crate::staging::settle_put(root, path.as_ref()))
                    .await?;
                return Ok(Put::AlreadyThere);
            }
            Ok(_) => Put::Replaced,
            // The object store does not support put-if-absent, or the object was deleted in
            // between.
            Err(ObjectArchiveError::Missing { .. }) => Put::New,
            Err(error) => return Err(error),
        };
        self.0
            .remote
            .write(&path, &bytes, PutMode::Overwrite)
            .await?
            .map_err(|error| self.0.remote.failed(&error))?;
        self.0.blocks.forget(name);
        self.0.compare(&path, &text, &bytes).await?;
        Ok(result)
    }

    /// Reads one block through the bounded cache. Concurrent readers share one fetch and its error;
    /// errors are not cached.
    pub async fn block(&self, name: &SegmentName, block: BlockRef) -> Result<Arc<Block>, ObjectArchiveError> {
        let counts = &self.0.counts;
        add(&counts.block_reads, 1);
        let inner = Arc::clone(&self.0);
        let name = *name;
        let fetch = async move { inner.silence.ask(inner.fetch_block(&name, &block)).await };
        let (answer, from_memory) = self.0.blocks.get(name, block, fetch).await;
        add(&counts.from_memory, from_memory.into());
        answer
    }

    /// Reads a whole object without checking it: use [`segment::open`](crate::segment::open).
    pub async fn segment(&self, name: &SegmentName) -> Result<Bytes, ObjectArchiveError> {
        let text = name.to_string();
        let fetched = self.0.remote.whole(&self.0.remote.path(&text), &text).await;
        let fetched = self.0.markers.judge(&self.0.remote, name.store, fetched).await;
        self.0.count(&fetched);
        fetched
    }

    /// Deletes an object and its cached blocks. Succeeds if the object does not exist.
    pub async fn delete(&self, name: &SegmentName) -> Result<(), ObjectArchiveError> {
        let text = name.to_string();
        let path = self.0.remote.path(&text);
        let remote = &self.0.remote;
        let deleted = remote.ask(remote.objects().delete(&path)).await?;
        let deleted = deleted.map_err(|error| remote.sorted(&error, &text));
        match self.0.markers.judge(remote, name.store, deleted).await {
            Ok(()) | Err(ObjectArchiveError::Missing { .. }) => {}
            Err(error) => return Err(error),
        }
        // Evict after the delete, so that no reader can fetch and cache the object again in
        // between.
        self.0.blocks.forget(name);
        self.0
            .remote
            .on_directory(move |root| crate::staging::settle_deletion(root, path.as_ref()))
            .await
            .map(drop)
    }

    /// Lists all segments of a store, or of one of its conversations, with their sizes. Other
    /// objects are counted and skipped.
    pub fn list(
        &self,
        store: [u8; 8],
        conversation: Option<ConversationId>,
    ) -> BoxStream<'_, Result<(SegmentName, u64), ObjectArchiveError>> {
        let below = match conversation {
            None => StoreText(store).to_string(),
            Some(conversation) => format!("{}/{conversation}", StoreText(store)),
        };
        let inner = &*self.0;
        let marker = inner.remote.path(&marker::key(store));
        let listed = inner.remote.objects().list(Some(&inner.remote.path(&below)));
        let answers = futures_util::stream::unfold(Some((listed, true)), move |listed| async move {
            let (mut listed, is_first) = listed?;
            if is_first && let Err(error) = inner.remote.on_directory(crate::staging::is_there).await {
                return Some((Err(error), None));
            }
            match inner.remote.ask(async { listed.next().await.transpose() }).await {
                Ok(Ok(None)) => None,
                Ok(Ok(Some(meta))) => Some((Ok(meta), Some((listed, false)))),
                Ok(Err(error)) => Some((Err(inner.remote.failed(&error)), None)),
                Err(error) => Some((Err(error), None)),
            }
        });
        let named = answers.filter_map(move |answer| {
            let named = match answer {
                Ok(meta) if meta.location == marker => None,
                Ok(meta) => {
                    let name = inner.name_of(&meta.location);
                    add(&inner.counts.foreign_names, name.is_none().into());
                    name.map(|name| Ok((name, meta.size)))
                }
                Err(error) => Some(Err(error)),
            };
            std::future::ready(named)
        });
        named.boxed()
    }

    /// Deletes temporary files of interrupted puts below a store's prefix, which no list shows, and
    /// returns their number. Call it only while this store puts nothing.
    pub async fn sweep_unfinished(&self, store: [u8; 8]) -> Result<u64, ObjectArchiveError> {
        let below = self.0.remote.path(&StoreText(store).to_string());
        self.0.remote.on_directory(move |root| crate::staging::sweep(root, below.as_ref())).await
    }

    pub fn counters(&self) -> ObjectArchiveCounters {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let counts = &self.0.counts;
        ObjectArchiveCounters {
            block_reads: read(&counts.block_reads),
            from_memory: read(&counts.from_memory),
            fetches: read(&counts.fetches),
            fetched_bytes: read(&counts.fetched_bytes),
            failed_fetches: read(&counts.failed_fetches),
            damaged: read(&counts.damaged),
            foreign_names: read(&counts.foreign_names),
        }
    }
}

impl Inner {
    /// Parses the path of an object; `None` if it is not a segment.
    fn name_of(&self, path: &Path) -> Option<SegmentName> {
        let prefix = &self.remote.engine().prefix;
        let text = path.as_ref();
        let below = if prefix.is_empty() { text } else { text.strip_prefix(prefix)?.strip_prefix('/')? };
        below.parse().ok()
    }

    /// Reads an object back and fails unless it equals `bytes`.
    async fn compare(&self, path: &Path, name: &str, bytes: &Bytes) -> Result<(), ObjectArchiveError> {
        match self.remote.whole(path, name).await {
            Ok(there) if there == *bytes => Ok(()),
            // No row refers to the object yet, so nothing is lost. The put has failed and can be
            // retried.
            Ok(_) => Err(self.remote.unavailable("the object reads back with other bytes than were put")),
            Err(ObjectArchiveError::Missing { .. }) => {
                Err(self.remote.unavailable("the object is missing after the put"))
            }
            Err(error) => Err(error),
        }
    }

    /// Fetches and decodes one block.
    async fn fetch_block(
        &self,
        name: &SegmentName,
        block: &BlockRef,
    ) -> Result<Arc<Block>, ObjectArchiveError> {
        let text = name.to_string();
        let fetched = self.remote.range(&self.remote.path(&text), &text, block).await;
        let fetched = self.markers.judge(&self.remote, name.store, fetched).await;
        self.count(&fetched);
        let decoded = decode_block(&fetched?, block);
        add(&self.counts.damaged, decoded.is_err().into());
        decoded.map(Arc::new).map_err(|why| ObjectArchiveError::Damaged { name: text, why: why.to_string() })
    }

    /// Updates the counters after a fetch.
    fn count(&self, fetched: &Result<Bytes, ObjectArchiveError>) {
        add(&self.counts.fetches, 1);
        match fetched {
            Ok(bytes) => add(&self.counts.fetched_bytes, bytes.len() as u64),
            Err(ObjectArchiveError::Missing { .. } | ObjectArchiveError::Damaged { .. }) => {
                add(&self.counts.damaged, 1)
            }
            Err(ObjectArchiveError::Unavailable(_) | ObjectArchiveError::Settings(_)) => {
                add(&self.counts.failed_fetches, 1)
            }
        }
    }
}
