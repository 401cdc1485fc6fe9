//! Requests to the object store: applies a timeout, and classifies errors as permanent or
//! temporary.

use std::ops::Range;
use std::path::Path as FilePath;
use std::time::Duration;

use bytes::Bytes;
use object_store::path::Path;
use object_store::{Error as ObjectError, GetOptions, ObjectStore, ObjectStoreExt, PutMode, PutOptions};

use crate::engine::ObjectBackend;
use crate::error::{in_words, is_of_the_object, is_transport, status_of};
use crate::{BlockRef, ObjectArchiveError};

/// An object store with a timeout per request.
pub(crate) struct Remote {
    engine: ObjectBackend,
    timeout: Duration,
}

/// The result of the object store, before classification.
type ObjectResult<T> = Result<T, ObjectError>;

impl Remote {
    pub(crate) fn new(engine: ObjectBackend, timeout: Duration) -> Remote {
        Remote { engine, timeout }
    }

    pub(crate) fn engine(&self) -> &ObjectBackend {
        &self.engine
    }

    pub(crate) fn objects(&self) -> &dyn ObjectStore {
        &*self.engine.objects
    }

    /// Returns the path of a key below the prefix.
    pub(crate) fn path(&self, key: &str) -> Path {
        let prefix = &self.engine.prefix;
        if prefix.is_empty() { Path::from(key) } else { Path::from(format!("{prefix}/{key}")) }
    }

    /// Runs one request within the timeout, its retries included.
    pub(crate) async fn ask<T>(&self, request: impl Future<Output = T>) -> Result<T, ObjectArchiveError> {
        self.ask_for(self.timeout, request).await
    }

    async fn ask_for<T>(
        &self,
        time: Duration,
        request: impl Future<Output = T>,
    ) -> Result<T, ObjectArchiveError> {
        let answer = tokio::time::timeout(time, request).await;
        answer.map_err(|_| self.unavailable(&format!("no answer within {} s", self.timeout.as_secs_f64())))
    }

    /// Reads the bytes of one block. Sends a second request if the first does not answer within
    /// half of the timeout. Returns `Damaged` if the object is too short.
    pub(crate) async fn range(
        &self,
        path: &Path,
        name: &str,
        block: &BlockRef,
    ) -> Result<Bytes, ObjectArchiveError> {
        let end = block.offset.saturating_add(block.length.into());
        let answer = match tokio::time::timeout(self.timeout / 2, self.read(path, block.offset..end)).await {
            Ok(answer) => answer,
            // A single connection can stall while a new one works, and a reader waits for the page.
            Err(_) => self.ask_for(self.timeout / 2, self.read(path, block.offset..end)).await?,
        };
        let bytes = answer.map_err(|error| self.sorted(&error, name))?;
        if bytes.len() != block.length as usize {
            let why = format!("it ends before byte {end}");
            return Err(ObjectArchiveError::Damaged { name: name.to_owned(), why });
        }
        Ok(bytes)
    }

    async fn read(&self, path: &Path, range: Range<u64>) -> ObjectResult<Bytes> {
        let error = match self.objects().get_range(path, range.clone()).await {
            Ok(bytes) => return Ok(bytes),
            Err(error) => error,
        };
        // Object stores report a range beyond the end with different errors, so compare the length
        // of the object.
        let is_other = matches!(error, ObjectError::Generic { .. }) && !is_transport(&error);
        if is_other && self.objects().head(path).await.is_ok_and(|meta| meta.size < range.end) {
            return Ok(Bytes::new());
        }
        Err(error)
    }

    /// Reads a whole object of any length.
    pub(crate) async fn whole(&self, path: &Path, name: &str) -> Result<Bytes, ObjectArchiveError> {
        let request = async { self.objects().get_opts(path, GetOptions::default()).await?.bytes().await };
        self.ask(request).await?.map_err(|error| self.sorted(&error, name))
    }

    /// Puts an object. The outer error is a timeout; the inner result is not classified.
    pub(crate) async fn write(
        &self,
        path: &Path,
        bytes: &Bytes,
        mode: PutMode,
    ) -> Result<ObjectResult<()>, ObjectArchiveError> {
        let put = self.objects().put_opts(path, bytes.clone().into(), PutOptions::from(mode));
        self.ask(async { put.await.map(drop) }).await
    }

    /// Runs file operations that the object store does not offer, on a blocking thread. Returns 0
    /// without running them if the object store is not a directory.
    pub(crate) async fn on_directory(
        &self,
        work: impl FnOnce(&FilePath) -> std::io::Result<u64> + Send + 'static,
    ) -> Result<u64, ObjectArchiveError> {
        let Some(root) = self.engine.directory.clone() else { return Ok(0) };
        let done = self.ask(tokio::task::spawn_blocking(move || work(&root))).await?;
        let done = done.map_err(|_| self.unavailable("the file operation was cancelled"))?;
        done.map_err(|error| self.unavailable(&error.to_string()))
    }

    /// Classifies an error of a request that does not read an object. A "not found" then means that
    /// the location is missing, so it becomes `Unavailable`.
    pub(crate) fn failed(&self, error: &ObjectError) -> ObjectArchiveError {
        match self.sorted(error, "") {
            ObjectArchiveError::Missing { .. } => self.unavailable(&in_words(error)),
            other => other,
        }
    }

    /// Classifies an error of a request for an object.
    pub(crate) fn sorted(&self, error: &ObjectError, name: &str) -> ObjectArchiveError {
        match error {
            ObjectError::NotFound { .. } if !is_of_the_object(error) => self.unavailable(&in_words(error)),
            // An unmounted volume has lost nothing.
            ObjectError::NotFound { .. }
                if self.engine.directory.as_ref().is_some_and(|root| !root.is_dir()) =>
            {
                self.unavailable("no such directory")
            }
            ObjectError::NotFound { .. } => ObjectArchiveError::Missing { name: name.to_owned() },
            _ => self.unavailable(&in_words(error)),
        }
    }

    /// Builds an `Unavailable` error that names the location.
    pub(crate) fn unavailable(&self, why: &str) -> ObjectArchiveError {
        let ObjectBackend { place, hint, .. } = &self.engine;
        ObjectArchiveError::Unavailable(format!("{place}: {why}{hint}"))
    }
}

/// Returns whether a conditional put failed because the object exists or the store does not support
/// the condition.
pub(crate) fn was_not_new(error: &ObjectError) -> bool {
    /// HTTP status of an S3 server that does not support the condition. Without this case, puts to
    /// such a server fail.
    const NOT_IMPLEMENTED: u16 = 501;
    matches!(
        error,
        ObjectError::AlreadyExists { .. }
            | ObjectError::Precondition { .. }
            | ObjectError::NotImplemented { .. }
            | ObjectError::NotSupported { .. }
    ) || status_of(error) == Some(NOT_IMPLEMENTED)
}
