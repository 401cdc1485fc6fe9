//! One request to the object store: bounded in time, and its failure sorted into what lasts and what passes.

use std::ops::Range;
use std::path::Path as FilePath;
use std::time::Duration;

use bytes::Bytes;
use object_store::path::Path;
use object_store::{Error as ObjectError, GetOptions, ObjectStore, ObjectStoreExt, PutMode, PutOptions};

use crate::engine::Engine;
use crate::error::{in_words, is_of_the_object, is_transport, status_of};
use crate::{FrameRef, VaultError};

/// An object store with a deadline.
pub(crate) struct Remote {
    engine: Engine,
    timeout: Duration,
}

/// An object store's own answer, before it is sorted.
type Answer<T> = Result<T, ObjectError>;

impl Remote {
    pub(crate) fn new(engine: Engine, timeout: Duration) -> Remote {
        Remote { engine, timeout }
    }

    pub(crate) fn engine(&self) -> &Engine {
        &self.engine
    }

    pub(crate) fn objects(&self) -> &dyn ObjectStore {
        &*self.engine.objects
    }

    /// Where something is kept that has this key below the prefix.
    pub(crate) fn path(&self, key: &str) -> Path {
        let prefix = &self.engine.prefix;
        if prefix.is_empty() { Path::from(key) } else { Path::from(format!("{prefix}/{key}")) }
    }

    /// Waits for one request and its retries together.
    pub(crate) async fn ask<T>(&self, request: impl Future<Output = T>) -> Result<T, VaultError> {
        self.ask_for(self.timeout, request).await
    }

    async fn ask_for<T>(&self, time: Duration, request: impl Future<Output = T>) -> Result<T, VaultError> {
        let answer = tokio::time::timeout(time, request).await;
        answer.map_err(|_| self.unavailable(&format!("no answer within {} s", self.timeout.as_secs_f64())))
    }

    /// One frame's bytes, as many as there are.
    pub(crate) async fn range(&self, path: &Path, name: &str, frame: &FrameRef) -> Result<Bytes, VaultError> {
        let end = frame.offset.saturating_add(frame.length.into());
        let answer = match tokio::time::timeout(self.timeout / 2, self.read(path, frame.offset..end)).await {
            Ok(answer) => answer,
            // A connection can fall silent where the next one would not, and somebody waits for the page.
            Err(_) => self.ask_for(self.timeout / 2, self.read(path, frame.offset..end)).await?,
        };
        let bytes = answer.map_err(|error| self.sorted(&error, name))?;
        if bytes.len() != frame.length as usize {
            let why = format!("it ends before byte {end}");
            return Err(VaultError::Damaged { name: name.to_owned(), why });
        }
        Ok(bytes)
    }

    async fn read(&self, path: &Path, range: Range<u64>) -> Answer<Bytes> {
        let error = match self.objects().get_range(path, range.clone()).await {
            Ok(bytes) => return Ok(bytes),
            Err(error) => error,
        };
        // Every store has its own words for a range beyond the end; all know how long the object is.
        let is_other = matches!(error, ObjectError::Generic { .. }) && !is_transport(&error);
        if is_other && self.objects().head(path).await.is_ok_and(|meta| meta.size < range.end) {
            return Ok(Bytes::new());
        }
        Err(error)
    }

    /// A whole object, however long it is.
    pub(crate) async fn whole(&self, path: &Path, name: &str) -> Result<Bytes, VaultError> {
        let request = async { self.objects().get_opts(path, GetOptions::default()).await?.bytes().await };
        self.ask(request).await?.map_err(|error| self.sorted(&error, name))
    }

    pub(crate) async fn write(
        &self,
        path: &Path,
        bytes: &Bytes,
        mode: PutMode,
    ) -> Result<Answer<()>, VaultError> {
        let put = self.objects().put_opts(path, bytes.clone().into(), PutOptions::from(mode));
        self.ask(async { put.await.map(drop) }).await
    }

    /// Does with the files what the object store does not; elsewhere there is nothing to do.
    pub(crate) async fn on_directory(
        &self,
        work: impl FnOnce(&FilePath) -> std::io::Result<u64> + Send + 'static,
    ) -> Result<u64, VaultError> {
        let Some(root) = self.engine.directory.clone() else { return Ok(0) };
        let done = self.ask(tokio::task::spawn_blocking(move || work(&root))).await?;
        let done = done.map_err(|_| self.unavailable("the work on its files was stopped"))?;
        done.map_err(|error| self.unavailable(&error.to_string()))
    }

    /// Where no object is looked for, none can be missing; a store that says so lacks the place itself.
    pub(crate) fn failed(&self, error: &ObjectError) -> VaultError {
        match self.sorted(error, "") {
            VaultError::Missing { .. } => self.unavailable(&in_words(error)),
            other => other,
        }
    }

    /// What a failure means for the object.
    pub(crate) fn sorted(&self, error: &ObjectError, name: &str) -> VaultError {
        match error {
            ObjectError::NotFound { .. } if !is_of_the_object(error) => self.unavailable(&in_words(error)),
            // A volume that is not mounted has lost nothing.
            ObjectError::NotFound { .. }
                if self.engine.directory.as_ref().is_some_and(|root| !root.is_dir()) =>
            {
                self.unavailable("it is not there")
            }
            ObjectError::NotFound { .. } => VaultError::Missing { name: name.to_owned() },
            _ => self.unavailable(&in_words(error)),
        }
    }

    pub(crate) fn unavailable(&self, why: &str) -> VaultError {
        let Engine { place, hint, .. } = &self.engine;
        VaultError::Unavailable(format!("{place}: {why}{hint}"))
    }
}

/// Whether the store said that something is there already, or that it knows no such condition.
pub(crate) fn was_not_new(error: &ObjectError) -> bool {
    const NOT_IMPLEMENTED: u16 = 501;
    matches!(
        error,
        ObjectError::AlreadyExists { .. }
            | ObjectError::Precondition { .. }
            | ObjectError::NotImplemented { .. }
            | ObjectError::NotSupported { .. }
    ) || status_of(error) == Some(NOT_IMPLEMENTED)
}
