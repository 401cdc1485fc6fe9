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
/// Buffer of an in-memory connection, in bytes per direction. The same as a socket's, so that tests
/// without a network see the same backpressure.
const IN_MEMORY_BUFFER_BYTES: usize = SEND_BUFFER_BYTES;

/// Yields new connections from both sources.
pub(crate) struct ConnectionSource {
    /// `None` if the server does not listen on the network.
    listener: Option<TcpListener>,
    in_memory: mpsc::UnboundedReceiver<(DuplexStream, IpAddr)>,
}

/// Opens in-memory connections from within this process. The queue is unbounded.
pub(crate) struct InMemoryConnector(mpsc::UnboundedSender<(DuplexStream, IpAddr)>);

/// A new connection, before TLS and HTTP.
pub(super) enum IncomingStream {
    Tcp(TcpStream),
    InMemory(DuplexStream),
}

impl InMemoryConnector {
    /// Opens a connection and returns the client's end. After the server has stopped, that end
    /// reads as closed.
    pub fn connect(&self, from: IpAddr) -> DuplexStream {
        let (server_end, client_end) = tokio::io::duplex(IN_MEMORY_BUFFER_BYTES);
        let _ = self.0.send((server_end, from));
        client_end
    }
}

impl ConnectionSource {
    /// Combines an optional TCP listener with in-memory connections.
    pub fn new(listener: Option<TcpListener>) -> (ConnectionSource, InMemoryConnector) {
        let (sender, in_memory) = mpsc::unbounded_channel();
        (ConnectionSource { listener, in_memory }, InMemoryConnector(sender))
    }

    /// Returns whether connections arrive from the network.
    pub fn listens(&self) -> bool {
        self.listener.is_some()
    }

    /// Returns the next connection and its peer address. Cancel-safe: dropping the future loses no
    /// connection. Returns the error of a failed accept.
    pub(super) async fn next(&mut self) -> io::Result<(IncomingStream, SocketAddr)> {
        tokio::select! {
            biased;
            Some((stream, from)) = self.in_memory.recv() => {
                Ok((IncomingStream::InMemory(stream), SocketAddr::new(from, 0)))
            }
            accepted = accept(self.listener.as_ref()) => {
                let (stream, from) = accepted?;
                let _ = stream.set_nodelay(true);
                let _ = SockRef::from(&stream).set_send_buffer_size(SEND_BUFFER_BYTES);
                Ok((IncomingStream::Tcp(stream), from))
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
