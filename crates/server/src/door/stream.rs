//! A connection that parts politely, whoever lets go of it and however deep it was buried in layers.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::OwnedSemaphorePermit;

use super::parting::Partings;

pub(super) struct DoorStream {
    /// `None` only while it is being dropped.
    guest: Option<(TcpStream, OwnedSemaphorePermit)>,
    partings: Partings,
    /// The client has said that it sends no more, or is gone.
    heard_end: bool,
}

impl DoorStream {
    pub fn new(stream: TcpStream, place: OwnedSemaphorePermit, partings: Partings) -> DoorStream {
        DoorStream { guest: Some((stream, place)), partings, heard_end: false }
    }

    fn stream(&mut self) -> Pin<&mut TcpStream> {
        let (stream, _) = self.guest.as_mut().expect("it is there until the drop");
        Pin::new(stream)
    }
}

impl Drop for DoorStream {
    fn drop(&mut self) {
        let guest = self.guest.take().expect("it is there until the drop");
        if !self.heard_end {
            self.partings.see_off(guest);
        }
    }
}

impl AsyncRead for DoorStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let polled = self.stream().poll_read(cx, buffer);
        if let Poll::Ready(result) = &polled {
            self.heard_end |= result.is_err() || (buffer.filled().len() == before && buffer.remaining() > 0);
        }
        polled
    }
}

impl AsyncWrite for DoorStream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.stream().poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.stream().poll_write_vectored(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream().poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream().poll_shutdown(cx)
    }
}
