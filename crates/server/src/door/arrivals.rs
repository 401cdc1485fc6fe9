//! Who comes: over the network, and from within this process.

use std::future::pending;
use std::io;
use std::net::{IpAddr, SocketAddr};

use socket2::SockRef;
use tokio::io::DuplexStream;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;

/// What the kernel holds for one client. Left to itself it grows to megabytes, which a slow reader would have to get
/// through before it comes to the close code.
const SEND_BUFFER_BYTES: usize = 256 * 1024;
/// The same for a connection in memory, in each direction.
const IN_MEMORY_BYTES: usize = SEND_BUFFER_BYTES;

pub(crate) struct Arrivals {
    listener: Option<TcpListener>,
    from_within: mpsc::UnboundedReceiver<(DuplexStream, IpAddr)>,
}

/// The way in for this process itself. As many wait as it opens.
pub(crate) struct SideDoor(mpsc::UnboundedSender<(DuplexStream, IpAddr)>);

pub(super) enum Arrival {
    Tcp(TcpStream),
    InMemory(DuplexStream),
}

impl SideDoor {
    /// The other end of a connection that the door has. When the server is gone it reads as closed.
    pub fn connect(&self, from: IpAddr) -> DuplexStream {
        let (here, there) = tokio::io::duplex(IN_MEMORY_BYTES);
        let _ = self.0.send((here, from));
        there
    }
}

impl Arrivals {
    pub fn new(listener: Option<TcpListener>) -> (Arrivals, SideDoor) {
        let (side_door, from_within) = mpsc::unbounded_channel();
        (Arrivals { listener, from_within }, SideDoor(side_door))
    }

    /// Dropping the future loses nobody.
    pub(super) async fn next(&mut self) -> io::Result<(Arrival, SocketAddr)> {
        tokio::select! {
            biased;
            Some((stream, from)) = self.from_within.recv() => {
                Ok((Arrival::InMemory(stream), SocketAddr::new(from, 0)))
            }
            accepted = accept(self.listener.as_ref()) => {
                let (stream, from) = accepted?;
                let _ = stream.set_nodelay(true);
                let _ = SockRef::from(&stream).set_send_buffer_size(SEND_BUFFER_BYTES);
                Ok((Arrival::Tcp(stream), from))
            }
        }
    }
}

async fn accept(listener: Option<&TcpListener>) -> io::Result<(TcpStream, SocketAddr)> {
    match listener {
        Some(listener) => listener.accept().await,
        None => pending().await,
    }
}
