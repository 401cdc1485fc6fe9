//! A connection stream that starts a lingering close when it is dropped, in whichever layer that
//! happens.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Sleep;

use super::parting::Partings;
use super::wire::Wire;
use super::{Guest, Place};

/// Time after which a blocked HTTP write fails, so that a client that stops reading does not hold
/// the response in memory.
const STALLED: Duration = Duration::from_secs(30);

/// A connection with its permit, a write timeout and a lingering close on drop.
pub(crate) struct DoorStream {
    /// `None` only during the drop.
    guest: Option<Guest>,
    partings: Partings,
    /// The client has closed its side, or the connection has failed. A lingering close is then
    /// pointless.
    heard_end: bool,
    is_websocket: bool,
    /// The write timeout. Set only while a write is blocked.
    patience: Option<Pin<Box<Sleep>>>,
}

impl DoorStream {
    pub(super) fn new(wire: Wire, place: Place, partings: Partings) -> DoorStream {
        let guest = Some((wire, place));
        DoorStream { guest, partings, heard_end: false, is_websocket: false, patience: None }
    }

    /// Disables the write timeout. A WebSocket has a bounded outbox and ping timeouts of its own,
    /// and closes with a code.
    pub fn becomes_websocket(&mut self) {
        self.is_websocket = true;
    }

    /// Returns the result of a write, or `TimedOut` if writes have been blocked for `STALLED`.
    fn watch<T>(&mut self, cx: &mut Context<'_>, polled: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if polled.is_ready() || self.is_websocket {
            self.patience = None;
            return polled;
        }
        let patience = self.patience.get_or_insert_with(|| Box::pin(tokio::time::sleep(STALLED)));
        ready!(patience.as_mut().poll(cx));
        // The client does not read, so a lingering close cannot deliver anything.
        self.heard_end = true;
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }

    /// Panics if called during the drop.
    fn wire(&mut self) -> Pin<&mut Wire> {
        let (wire, _) = self.guest.as_mut().expect("it is there until the drop");
        Pin::new(wire)
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
        let polled = self.wire().poll_read(cx, buffer);
        if let Poll::Ready(result) = &polled {
            self.heard_end |= result.is_err() || (buffer.filled().len() == before && buffer.remaining() > 0);
        }
        polled
    }
}

impl AsyncWrite for DoorStream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let polled = self.wire().poll_write(cx, bytes);
        self.watch(cx, polled)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let polled = self.wire().poll_write_vectored(cx, slices);
        self.watch(cx, polled)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        // With TLS, the flush blocks when the client does not read: writes only fill the TLS
        // buffer.
        let polled = self.wire().poll_flush(cx);
        self.watch(cx, polled)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.wire().poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tokio::io::AsyncWriteExt;
    use tokio::net::{TcpListener, TcpStream};
    use tokio::time::{Instant, timeout};

    use super::*;

    async fn pair() -> (DoorStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (stream, _) = listener.accept().await.unwrap();
        let at_the_door = Arc::new(tokio::sync::Semaphore::new(1)).acquire_owned().await.unwrap();
        let place = Place::new(at_the_door, None);
        (DoorStream::new(Wire::Tcp(stream), place, Partings::new()), client)
    }

    /// More bytes than the kernel buffers hold.
    const MUCH: usize = 64 * 1024 * 1024;

    #[tokio::test(start_paused = true)]
    async fn an_answer_nobody_reads_is_given_up() {
        let (mut server, _client) = pair().await;
        let start = Instant::now();
        let written = timeout(STALLED * 10, server.write_all(&vec![b'x'; MUCH])).await;
        let error = written.expect("it does not wait for ever").unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert!(start.elapsed() >= STALLED);
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_that_is_read_slowly_is_not_given_up() {
        let (mut server, _client) = pair().await;
        let mut cx = Context::from_waker(std::task::Waker::noop());
        for _ in 0..5 {
            assert!(server.watch::<()>(&mut cx, Poll::Pending).is_pending());
            tokio::time::advance(STALLED / 2).await;
            assert!(server.watch::<()>(&mut cx, Poll::Pending).is_pending());
            assert!(matches!(server.watch(&mut cx, Poll::Ready(Ok(()))), Poll::Ready(Ok(()))));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_websocket_is_left_to_its_own_limits() {
        let (mut server, _client) = pair().await;
        server.becomes_websocket();
        let stuck = timeout(STALLED * 10, server.write_all(&vec![b'x'; MUCH])).await;
        assert!(stuck.is_err());
    }
}
