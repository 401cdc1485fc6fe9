//! The transport of a connection: TCP, TLS over TCP, or memory.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, DuplexStream, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::server::TlsStream;

/// A byte stream to the client.
pub(super) enum Transport {
    Tcp(TcpStream),
    /// Boxed, so that a plain connection is not as large as the TLS state.
    Tls(Box<TlsStream<TcpStream>>),
    /// The client is in this process: a simulated network, or a program that embeds the server.
    InMemory(DuplexStream),
}

// Calls the same method on whichever stream is inside.
macro_rules! each {
    ($self:ident, $stream:ident => $call:expr) => {
        match $self.get_mut() {
            Transport::Tcp(stream) => {
                let $stream = Pin::new(stream);
                $call
            }
            Transport::Tls(stream) => {
                let $stream = Pin::new(&mut **stream);
                $call
            }
            Transport::InMemory(stream) => {
                let $stream = Pin::new(stream);
                $call
            }
        }
    };
}

impl AsyncRead for Transport {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, to: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        each!(self, stream => stream.poll_read(cx, to))
    }
}

impl AsyncWrite for Transport {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        each!(self, stream => stream.poll_write(cx, bytes))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        each!(self, stream => stream.poll_write_vectored(cx, slices))
    }

    /// Always true: all variants support vectored writes. The constant avoids a match before every
    /// write.
    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        each!(self, stream => stream.poll_flush(cx))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        each!(self, stream => stream.poll_shutdown(cx))
    }
}
