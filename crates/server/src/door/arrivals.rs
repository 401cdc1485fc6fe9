//! Sources of new connections: the TCP listener, and in-memory connections from this process.

use std::future::pending;
use std::io;
use std::net::{IpAddr, SocketAddr};

use socket2::SockRef;
use tokio::io::DuplexStream;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;

/// Kernel send buffer per connection, in bytes. With auto-tuning it grows to megabytes, which a
/// slow reader would have to drain before it sees the close code.
const SEND_BUFFER_BYTES: usize = 256 * 1024;
/// Buffer of an in-memory connection, in bytes per direction.
const IN_MEMORY_BYTES: usize = SEND_BUFFER_BYTES;

/// Yields new connections from both sources.
pub(crate) struct Arrivals {
    /// `None` if the server does not listen on the network.
    listener: Option<TcpListener>,
    from_within: mpsc::UnboundedReceiver<(DuplexStream, IpAddr)>,
}

/// Opens in-memory connections from within this process. The queue is unbounded.
pub(crate) struct SideDoor(mpsc::UnboundedSender<(DuplexStream, IpAddr)>);

/// A new connection, before TLS and HTTP.
pub(super) enum Arrival {
    Tcp(TcpStream),
    InMemory(DuplexStream),
}

impl SideDoor {
    /// Opens a connection and returns the client's end. After the server has stopped, that end
    /// reads as closed.
    pub fn connect(&self, from: IpAddr) -> DuplexStream {
        let (here, there) = tokio::io::duplex(IN_MEMORY_BYTES);
        let _ = self.0.send((here, from));
        there
    }
}

impl Arrivals {
    /// Combines an optional TCP listener with in-memory connections.
    pub fn new(listener: Option<TcpListener>) -> (Arrivals, SideDoor) {
        let (side_door, from_within) = mpsc::unbounded_channel();
        (Arrivals { listener, from_within }, SideDoor(side_door))
    }

    /// Returns the next connection and its peer address. Cancel-safe: dropping the future loses no
    /// connection. Returns the error of a failed accept.
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

/// Accepts a TCP connection; never returns if there is no listener.
async fn accept(listener: Option<&TcpListener>) -> io::Result<(TcpStream, SocketAddr)> {
    match listener {
        Some(listener) => listener.accept().await,
        None => pending().await,
    }
}
