//! The errors of a benchmark run.

use std::path::PathBuf;

use bluetick_core::StoreError;
use bluetick_store_embedded::OpenError;

use crate::data_directory::StoredCounts;

#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    #[error("{}: {error}", path.display())]
    Io { path: PathBuf, error: std::io::Error },
    #[error("{} exists and is not empty; name another directory with --dir", .0.display())]
    NotEmpty(PathBuf),
    #[error(
        "{} was filled with --stored-messages {} --stored-conversations {}",
        path.display(), found.messages, found.conversations
    )]
    OtherStore { path: PathBuf, found: StoredCounts },
    #[error(transparent)]
    Open(#[from] OpenError),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("the server under test: {0}")]
    Server(String),
    #[error("a client: {0}")]
    Client(String),
}

/// Converts the outcome of a joined task to a result. Resumes the panic of a task that panicked.
pub fn settle<T>(
    joined: Option<Result<Result<T, StoreError>, tokio::task::JoinError>>,
) -> Result<(), BenchError> {
    match joined {
        Some(Ok(Err(error))) => Err(error.into()),
        Some(Err(panic)) => std::panic::resume_unwind(panic.into_panic()),
        Some(Ok(Ok(_))) | None => Ok(()),
    }
}
