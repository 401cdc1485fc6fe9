//! Lingering close: shuts down the write side, drains the read side for a bounded time, then
//! closes.
//!
//! Closing a socket with unread bytes makes the kernel reset the connection. The reset can overtake
//! the last response, such as a 413 or a close frame with its code.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::AsyncWrite;
use tokio::net::TcpStream;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;
use tokio_util::task::TaskTracker;

use super::Guest;
use super::wire::Wire;

/// Maximum number of concurrent lingering closes. Above it, a socket is closed immediately and its
/// client may lose the last response.
const AT_ONCE: usize = 256;
/// Upper bound on one lingering close. If it is too long, clients that keep sending hold connection
/// permits and delay the shutdown.
const PATIENCE: Duration = Duration::from_secs(1);
/// Upper bound on the bytes that one lingering close reads and discards.
const FORGOTTEN_BYTES: usize = 4 * 1024 * 1024;

/// Runs lingering closes in the background. One pointer wide, because every connection holds a
/// clone.
#[derive(Clone)]
pub(super) struct Partings(Arc<Inner>);

struct Inner {
    tasks: TaskTracker,
    places: Arc<Semaphore>,
    runtime: tokio::runtime::Handle,
}

impl Partings {
    pub fn new() -> Partings {
        let places = Arc::new(Semaphore::new(AT_ONCE));
        let runtime = tokio::runtime::Handle::current();
        Partings(Arc::new(Inner { tasks: TaskTracker::new(), places, runtime }))
    }

    /// Starts a lingering close and returns immediately. Drops the connection if `AT_ONCE` are
    /// running.
    pub fn see_off(&self, guest: Guest) {
        let Ok(place) = Arc::clone(&self.0.places).try_acquire_owned() else { return };
        self.0.tasks.spawn_on(see_off(guest, place), &self.0.runtime);
    }

    /// Waits until all lingering closes have ended.
    pub async fn finish(&self) {
        self.0.tasks.close();
        self.0.tasks.wait().await;
    }
}

/// Closes one connection. Holds its connection permit until the end.
async fn see_off((wire, _at_the_door): Guest, _place: OwnedSemaphorePermit) {
    let _ = timeout(PATIENCE, async {
        if let Ok(Some(stream)) = stop_sending(wire).await {
            forget(stream).await;
        }
    })
    .await;
}

/// Reads and discards until the client closes, an error occurs or `FORGOTTEN_BYTES` are read.
async fn forget(stream: TcpStream) {
    let mut scrap = [0; 1024];
    let mut left = FORGOTTEN_BYTES;
    while left > 0 && stream.readable().await.is_ok() {
        match stream.try_read(&mut scrap) {
            Ok(0) => return,
            Ok(bytes) => left = left.saturating_sub(bytes),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(_) => return,
        }
    }
}

/// Shuts down the write side. Returns the socket to drain, or `None` for an in-memory connection.
async fn stop_sending(wire: Wire) -> io::Result<Option<TcpStream>> {
    match wire {
        Wire::Tcp(stream) => {
            let stream = stream.into_std()?;
            stream.shutdown(std::net::Shutdown::Write)?;
            TcpStream::from_std(stream).map(Some)
        }
        Wire::Tls(mut stream) => {
            // Sends the TLS `close_notify`, which proves that the data was not truncated, and shuts
            // down the socket.
            poll_fn(|cx| Pin::new(&mut *stream).poll_shutdown(cx)).await?;
            Ok(Some(stream.into_inner().0))
        }
        // An in-memory stream keeps written bytes readable after one end is dropped.
        Wire::InMemory(_) => Ok(None),
    }
}
