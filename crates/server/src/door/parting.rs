//! Letting go of a client that may still be sending.
//!
//! Closing a socket with unread bytes makes the kernel reset the connection, and the reset can overtake the last
//! thing we said: the 413, or the close frame with its code. So we say that we are done, read and forget what still
//! comes for a moment, and only then close.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;
use tokio_util::task::TaskTracker;

use super::Guest;

/// At most so many at a time; beyond that a socket is closed at once.
const AT_ONCE: usize = 256;
const PATIENCE: Duration = Duration::from_secs(1);
const FORGOTTEN_BYTES: usize = 4 * 1024 * 1024;

#[derive(Clone)]
pub(super) struct Partings {
    tasks: TaskTracker,
    places: Arc<Semaphore>,
    runtime: tokio::runtime::Handle,
}

impl Partings {
    pub fn new() -> Partings {
        let places = Arc::new(Semaphore::new(AT_ONCE));
        Partings { tasks: TaskTracker::new(), places, runtime: tokio::runtime::Handle::current() }
    }

    pub fn see_off(&self, guest: Guest) {
        let Ok(place) = Arc::clone(&self.places).try_acquire_owned() else { return };
        self.tasks.spawn_on(see_off(guest, place), &self.runtime);
    }

    pub async fn finish(&self) {
        self.tasks.close();
        self.tasks.wait().await;
    }
}

async fn see_off((stream, _at_the_door): Guest, _place: OwnedSemaphorePermit) {
    let _ = timeout(PATIENCE, forget(stream)).await;
}

async fn forget(stream: TcpStream) {
    let Ok(stream) = stop_sending(stream) else { return };
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

fn stop_sending(stream: TcpStream) -> io::Result<TcpStream> {
    let stream = stream.into_std()?;
    stream.shutdown(std::net::Shutdown::Write)?;
    TcpStream::from_std(stream)
}
