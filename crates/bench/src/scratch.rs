//! A directory for one run, and what can go wrong in it.

use std::path::{Path, PathBuf};

use bluetick_core::StoreError;
use bluetick_store_embedded::OpenError;
use bluetick_store_embedded::tables::TablesError;

#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    #[error("{}: {error}", path.display())]
    Io { path: PathBuf, error: std::io::Error },
    #[error("{} exists and is not empty; name another directory with --dir", .0.display())]
    NotEmpty(PathBuf),
    #[error(transparent)]
    Open(#[from] OpenError),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Tables(#[from] TablesError),
    #[error("the server under test: {0}")]
    Server(String),
    #[error("a client: {0}")]
    Client(String),
}

/// Runs `work` on a runtime of its own and removes the directory afterwards.
pub fn in_scratch<T>(
    directory: &Path,
    threads: usize,
    work: impl Future<Output = Result<T, BenchError>>,
) -> Result<T, BenchError> {
    let in_directory = |error| BenchError::Io { path: directory.to_owned(), error };
    if directory.read_dir().is_ok_and(|mut entries| entries.next().is_some()) {
        return Err(BenchError::NotEmpty(directory.to_owned()));
    }
    std::fs::create_dir_all(directory).map_err(in_directory)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(threads).enable_all().build();
    let result = runtime.map_err(in_directory).and_then(|runtime| runtime.block_on(work));
    std::fs::remove_dir_all(directory).map_err(in_directory)?;
    result
}

/// What a task of a set came to.
pub fn settle<T>(
    joined: Option<Result<Result<T, StoreError>, tokio::task::JoinError>>,
) -> Result<(), BenchError> {
    match joined {
        Some(Ok(Err(error))) => Err(error.into()),
        Some(Err(panic)) => std::panic::resume_unwind(panic.into_panic()),
        Some(Ok(Ok(_))) | None => Ok(()),
    }
}
