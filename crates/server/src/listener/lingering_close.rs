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

use super::PermittedTransport;
use super::transport::Transport;

/// Maximum number of concurrent lingering closes. Above it, a socket is closed immediately and its
/// client may lose the last response.
const MAX_LINGERING: usize = 256;
/// Upper bound on one lingering close. If it is too long, clients that keep sending hold connection
/// permits and delay the shutdown.
const LINGER_TIMEOUT: Duration = Duration::from_secs(1);
/// Upper bound on the bytes that one lingering close reads and discards. With a lower one, a client
/// that is still sending a large body gets a reset instead of the response.
const MAX_DRAINED_BYTES: usize = 4 * 1024 * 1024;

/// Runs lingering closes in the background. The server owns the tasks and joins them with
/// [`LingeringCloser::finish`]. One pointer wide, because every connection holds a clone.
#[derive(Clone)]
pub(crate) struct LingeringCloser(Arc<LingeringTasks>);

struct LingeringTasks {
    tasks: TaskTracker,
    permits: Arc<Semaphore>,
    runtime: tokio::runtime::Handle,
}

impl LingeringCloser {
    /// Panics outside a tokio runtime.
    pub fn new() -> LingeringCloser {
        let permits = Arc::new(Semaphore::new(MAX_LINGERING));
        let runtime = tokio::runtime::Handle::current();
        LingeringCloser(Arc::new(LingeringTasks { tasks: TaskTracker::new(), permits, runtime }))
    }

    /// Starts a lingering close and returns immediately. Drops the connection if `MAX_LINGERING`
    /// are running.
    pub(super) fn start(&self, connection: PermittedTransport) {
        let Ok(permit) = Arc::clone(&self.0.permits).try_acquire_owned() else { return };
        self.0.tasks.spawn_on(linger(connection, permit), &self.0.runtime);
    }

    /// Waits until all lingering closes have ended.
    pub async fn finish(&self) {
        self.0.tasks.close();
        self.0.tasks.wait().await;
    }
}

/// Closes one connection. Holds its connection permit until the end.
async fn linger((transport, _connection_permit): PermittedTransport, _permit: OwnedSemaphorePermit) {
    let _ = timeout(LINGER_TIMEOUT, async {
        if let Ok(Some(stream)) = shut_down_writes(transport).await {
            drain_input(stream).await;
        }
    })
    .await;
}

/// Reads and discards until the client closes, an error occurs or `MAX_DRAINED_BYTES` are read.
async fn drain_input(stream: TcpStream) {
    let mut buffer = [0; 1024];
    let mut left = MAX_DRAINED_BYTES;
    while left > 0 && stream.readable().await.is_ok() {
        match stream.try_read(&mut buffer) {
            Ok(0) => return,
            Ok(bytes) => left = left.saturating_sub(bytes),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(_) => return,
        }
    }
}

/// Shuts down the write side. Returns the socket to drain, or `None` for an in-memory connection.
async fn shut_down_writes(transport: Transport) -> io::Result<Option<TcpStream>> {
    match transport {
        Transport::Tcp(stream) => {
            let stream = stream.into_std()?;
            stream.shutdown(std::net::Shutdown::Write)?;
            TcpStream::from_std(stream).map(Some)
        }
        Transport::Tls(mut stream) => {
            // Sends the TLS `close_notify`, which proves that the data was not truncated, and shuts
            // down the socket.
            poll_fn(|cx| Pin::new(&mut *stream).poll_shutdown(cx)).await?;
            Ok(Some(stream.into_inner().0))
        }
        // An in-memory stream keeps written bytes readable after one end is dropped.
        Transport::InMemory(_) => Ok(None),
    }
}
