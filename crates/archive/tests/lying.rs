//! Object stores that acknowledge puts which they did not perform, or return wrong bytes.

#![expect(clippy::unwrap_used, reason = "a test stops where its own set-up fails")]

mod common;

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use bluetick_archive::object_store::memory::InMemory;
use bluetick_archive::object_store::path::Path;
use bluetick_archive::object_store::{
    CopyOptions, Error, GetOptions, GetResult, GetResultPayload, ListResult, MultipartUpload, ObjectMeta,
    ObjectStore, PutMode, PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};
use bluetick_archive::{ObjectArchive, ObjectArchiveError, Put};
use bytes::Bytes;
use common::segment_of;
use futures_util::StreamExt;
use futures_util::stream::BoxStream;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Lie {
    /// Stores half of each object.
    HalfIsKept,
    /// Ignores the condition of a put and overwrites.
    ConditionIsIgnored,
    /// Refuses conditional puts as unsupported.
    ConditionIsRefused,
    /// Answers every read with other bytes of the same length.
    SomethingElse,
    /// Answers every read with too many bytes.
    TooMuch,
    /// Acknowledges every put and stores nothing.
    NothingIsKept,
}

#[derive(Debug)]
struct Liar {
    objects: InMemory,
    lie: Lie,
}

impl fmt::Display for Liar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "that lies")
    }
}

#[async_trait]
impl ObjectStore for Liar {
    async fn put_opts(&self, at: &Path, payload: PutPayload, mut options: PutOptions) -> Result<PutResult> {
        let mut bytes = Bytes::from(payload);
        match (self.lie, &options.mode) {
            (Lie::HalfIsKept, _) => bytes.truncate(bytes.len() / 2),
            (Lie::ConditionIsIgnored, _) => options.mode = PutMode::Overwrite,
            (Lie::ConditionIsRefused, PutMode::Create) => {
                return Err(Error::NotImplemented { operation: "create".into(), implementer: "liar".into() });
            }
            (Lie::NothingIsKept, _) => {
                return self.objects.put_opts(&"elsewhere".into(), bytes.into(), options).await;
            }
            _ => {}
        }
        self.objects.put_opts(at, bytes.into(), options).await
    }

    async fn get_opts(&self, at: &Path, options: GetOptions) -> Result<GetResult> {
        let mut result = self.objects.get_opts(at, options).await?;
        let length = usize::try_from(result.range.end - result.range.start).unwrap();
        let other = match self.lie {
            Lie::SomethingElse => vec![b'<'; length],
            Lie::TooMuch => vec![b'<'; length + 1],
            _ => return Ok(result),
        };
        result.payload = GetResultPayload::Stream(futures_util::stream::iter([Ok(other.into())]).boxed());
        Ok(result)
    }

    async fn put_multipart_opts(
        &self,
        at: &Path,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.objects.put_multipart_opts(at, options).await
    }

    fn delete_stream(&self, paths: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        self.objects.delete_stream(paths)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.objects.list(prefix)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.objects.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.objects.copy_opts(from, to, options).await
    }
}

fn object_archive(lie: Lie) -> ObjectArchive {
    ObjectArchive::over(Arc::new(Liar { objects: InMemory::new(), lie }), "", 1 << 20)
}

#[tokio::test]
async fn put_that_is_stored_incompletely_fails() {
    for lie in [Lie::HalfIsKept, Lie::NothingIsKept, Lie::SomethingElse, Lie::TooMuch] {
        let (name, sealed, _) = segment_of(1);
        let put = object_archive(lie).put(&name, sealed.bytes).await;
        assert!(matches!(put, Err(ObjectArchiveError::Unavailable(_))), "{lie:?}: {put:?}");
    }
}

#[tokio::test]
async fn puts_work_on_a_store_without_conditional_put() {
    let (name, sealed, _) = segment_of(1);
    let (_, other, _) = segment_of(2);
    let ignoring = object_archive(Lie::ConditionIsIgnored);
    for bytes in [&sealed.bytes, &sealed.bytes, &other.bytes] {
        assert_eq!(
            ignoring.put(&name, bytes.clone()).await,
            Ok(Put::New),
            "without conditions, the store reports every put as new"
        );
        assert_eq!(ignoring.segment(&name).await.as_ref(), Ok(bytes));
    }
    let refusing = object_archive(Lie::ConditionIsRefused);
    for (bytes, expected) in
        [(&sealed.bytes, Put::New), (&sealed.bytes, Put::AlreadyThere), (&other.bytes, Put::Replaced)]
    {
        assert_eq!(refusing.put(&name, bytes.clone()).await, Ok(expected));
        assert_eq!(refusing.segment(&name).await.as_ref(), Ok(bytes));
    }
}

#[tokio::test]
async fn wrong_bytes_for_a_block_are_damage_and_not_cached() {
    for lie in [Lie::SomethingElse, Lie::TooMuch] {
        let object_archive = object_archive(lie);
        let (name, sealed, _) = segment_of(1);
        let _ = object_archive.put(&name, sealed.bytes).await;
        for attempt in 1..=2 {
            let read = object_archive.block(&name, sealed.blocks[0]).await;
            assert!(matches!(read, Err(ObjectArchiveError::Damaged { .. })), "{lie:?}: {read:?}");
            let counters = object_archive.counters();
            assert_eq!(
                (counters.fetches, counters.damaged),
                (attempt, attempt),
                "{lie:?}: damage is not kept"
            );
        }
    }
}

#[tokio::test]
async fn replaced_segment_is_removed_from_the_cache() {
    let object_archive = object_archive(Lie::ConditionIsRefused);
    let (name, sealed, _) = segment_of(1);
    object_archive.put(&name, sealed.bytes.clone()).await.unwrap();
    object_archive.block(&name, sealed.blocks[0]).await.unwrap();
    object_archive.put(&name, Bytes::from_static(b"another")).await.unwrap();
    let read = object_archive.block(&name, sealed.blocks[0]).await;
    assert!(matches!(read, Err(ObjectArchiveError::Damaged { .. })), "{read:?}");
}
