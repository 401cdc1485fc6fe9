//! The running futures of one connection. Usually there are none, and then they take no memory.

use std::task::{Context, Poll};

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;

/// A set of running futures, allocated on first use.
pub(super) struct RunningFutures<F>(Option<Box<FuturesUnordered<F>>>);

impl<F: Future> RunningFutures<F> {
    pub fn none() -> RunningFutures<F> {
        RunningFutures(None)
    }

    pub fn push(&mut self, future: F) {
        self.0.get_or_insert_default().push(future);
    }

    pub fn len(&self) -> usize {
        self.0.as_ref().map_or(0, |futures| futures.len())
    }

    /// Polls for the next completed future. Pending while there is none.
    pub fn poll(&mut self, cx: &mut Context<'_>) -> Poll<F::Output> {
        match &mut self.0 {
            Some(futures) => match futures.poll_next_unpin(cx) {
                Poll::Ready(Some(done)) => Poll::Ready(done),
                Poll::Ready(None) | Poll::Pending => Poll::Pending,
            },
            None => Poll::Pending,
        }
    }

    /// Frees the memory if no future is running. Called on an idle connection.
    pub fn free_unused(&mut self) {
        if self.len() == 0 {
            self.0 = None;
        }
    }

    /// Returns the output of the next completed future, or `None` when none is left.
    pub async fn next(&mut self) -> Option<F::Output> {
        match &mut self.0 {
            Some(futures) => futures.next().await,
            None => None,
        }
    }
}
