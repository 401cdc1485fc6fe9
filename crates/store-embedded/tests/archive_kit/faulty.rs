//! An object store with injected faults: it is down, hangs, is full, or returns other bytes than
//! were put.

use std::fmt;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::stream::{self, BoxStream, StreamExt};
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Trouble {
    #[default]
    None,
    /// Every request fails.
    Down,
    /// No request is answered.
    Hanging,
    /// Every put fails.
    Full,
    /// Every put succeeds and stores nothing.
    Forgetful,
    /// Every put stores half of its bytes.
    Truncating,
    /// Every request fails after this many more requests.
    DownAfter(u64),
}

#[derive(Debug, Default)]
pub struct Faulty {
    pub inner: Arc<InMemory>,
    trouble: Mutex<Trouble>,
    pub gets: AtomicU64,
    pub puts: AtomicU64,
    /// Delay of each get, in milliseconds.
    pub get_takes_ms: AtomicU64,
    /// Holds the next get.
    held: Mutex<Option<Arc<HeldRequest>>>,
}

/// A request that waits until the test opens it.
#[derive(Debug, Default)]
pub struct HeldRequest {
    reached: tokio::sync::Notify,
    open: tokio::sync::Notify,
}

impl HeldRequest {
    pub async fn reached(&self) {
        self.reached.notified().await;
    }

    pub fn open(&self) {
        self.open.notify_one();
    }
}

impl Faulty {
    pub fn new() -> Arc<Faulty> {
        Arc::default()
    }

    pub fn set(&self, trouble: Trouble) {
        *self.trouble.lock().unwrap() = trouble;
    }

    pub fn get_count(&self) -> u64 {
        self.gets.load(Ordering::SeqCst)
    }

    /// Holds the next get until the test opens it. Later gets pass.
    pub fn hold_next_get(&self) -> Arc<HeldRequest> {
        let held = Arc::new(HeldRequest::default());
        *self.held.lock().unwrap() = Some(Arc::clone(&held));
        held
    }

    async fn pass_gate(&self) {
        let held = self.held.lock().unwrap().take();
        if let Some(held) = held {
            held.reached.notify_one();
            held.open.notified().await;
        }
    }

    /// Returns the fault planted for this request.
    async fn met(&self) -> Result<Trouble> {
        let now = {
            let mut trouble = self.trouble.lock().unwrap();
            if let Trouble::DownAfter(left) = *trouble {
                *trouble = if left == 0 { Trouble::Down } else { Trouble::DownAfter(left - 1) };
            }
            *trouble
        };
        match now {
            Trouble::Down => Err(refusal("connection refused")),
            Trouble::Hanging => std::future::pending().await,
            other => Ok(other),
        }
    }
}

fn refusal(why: &str) -> Error {
    Error::Generic { store: "Faulty", source: why.to_owned().into() }
}

impl fmt::Display for Faulty {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Faulty")
    }
}

#[async_trait]
impl ObjectStore for Faulty {
    async fn put_opts(&self, location: &Path, payload: PutPayload, options: PutOptions) -> Result<PutResult> {
        self.puts.fetch_add(1, Ordering::SeqCst);
        match self.met().await? {
            Trouble::Full => Err(refusal("no space left on device")),
            Trouble::Forgetful => {
                Ok(PutResult { e_tag: None, version: None, extensions: Default::default() })
            }
            Trouble::Truncating => {
                let whole: Bytes = payload.into();
                self.inner.put_opts(location, whole.slice(..whole.len() / 2).into(), options).await
            }
            _ => self.inner.put_opts(location, payload, options).await,
        }
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.met().await?;
        self.inner.put_multipart_opts(location, options).await
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        self.gets.fetch_add(1, Ordering::SeqCst);
        self.pass_gate().await;
        self.met().await?;
        let takes = self.get_takes_ms.load(Ordering::SeqCst);
        if takes > 0 {
            tokio::time::sleep(std::time::Duration::from_millis(takes)).await;
        }
        self.inner.get_opts(location, options).await
    }

    async fn get_ranges(&self, location: &Path, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        self.gets.fetch_add(1, Ordering::SeqCst);
        self.met().await?;
        self.inner.get_ranges(location, ranges).await
    }

    fn delete_stream(&self, locations: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        match *self.trouble.lock().unwrap() {
            Trouble::Down => stream::once(async { Err(refusal("connection refused")) }).boxed(),
            Trouble::Hanging => stream::pending().boxed(),
            _ => self.inner.delete_stream(locations),
        }
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        match *self.trouble.lock().unwrap() {
            Trouble::Down => stream::once(async { Err(refusal("connection refused")) }).boxed(),
            Trouble::Hanging => stream::pending().boxed(),
            _ => self.inner.list(prefix),
        }
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.met().await?;
        self.inner.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.met().await?;
        self.inner.copy_opts(from, to, options).await
    }
}
