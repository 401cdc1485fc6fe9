//! Letting go of a client that may still be sending.
//!
//! Closing a socket with unread bytes makes the kernel reset the connection, and the reset can overtake the last
//! thing we said: the 413, or the close frame with its code. So we say that we are done, read and forget what still
//! comes for a moment, and only then close.

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

/// At most so many at a time; beyond that a socket is closed at once.
const AT_ONCE: usize = 256;
const PATIENCE: Duration = Duration::from_secs(1);
const FORGOTTEN_BYTES: usize = 4 * 1024 * 1024;

/// One pointer, since every connection has one.
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

    pub fn see_off(&self, guest: Guest) {
        let Ok(place) = Arc::clone(&self.0.places).try_acquire_owned() else { return };
        self.0.tasks.spawn_on(see_off(guest, place), &self.0.runtime);
    }

    pub async fn finish(&self) {
        self.0.tasks.close();
        self.0.tasks.wait().await;
    }
}

async fn see_off((wire, _at_the_door): Guest, _place: OwnedSemaphorePermit) {
    let _ = timeout(PATIENCE, async {
        if let Ok(Some(stream)) = stop_sending(wire).await {
            forget(stream).await;
        }
    })
    .await;
}

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

/// The socket that may still be read, where there is one.
async fn stop_sending(wire: Wire) -> io::Result<Option<TcpStream>> {
    match wire {
        Wire::Tcp(stream) => {
            let stream = stream.into_std()?;
            stream.shutdown(std::net::Shutdown::Write)?;
            TcpStream::from_std(stream).map(Some)
        }
        Wire::Tls(mut stream) => {
            // Says that nobody cut the end off, then what the plain socket says.
            poll_fn(|cx| Pin::new(&mut *stream).poll_shutdown(cx)).await?;
            Ok(Some(stream.into_inner().0))
        }
        // Memory does not forget what was said when one end goes away.
        Wire::InMemory(_) => Ok(None),
    }
}
