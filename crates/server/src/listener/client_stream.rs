//! A connection stream that starts a lingering close when any layer drops it.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Sleep;

use super::lingering_close::LingeringCloser;
use super::transport::Transport;
use super::{ConnectionPermit, PermittedTransport};

/// Time after which a blocked HTTP write fails, so that a client that stops reading does not hold
/// the response in memory. A shorter time cuts off slow clients.
const WRITE_TIMEOUT: Duration = Duration::from_secs(30);

/// A connection with its permit, a write timeout and a lingering close on drop.
pub(crate) struct ClientStream {
    /// `None` only during the drop.
    connection: Option<PermittedTransport>,
    lingering_closer: LingeringCloser,
    /// The client has closed its side, or the connection has failed. A lingering close is then
    /// pointless.
    input_ended: bool,
    is_websocket: bool,
    /// The write timeout. Set only while a write is blocked.
    write_timeout: Option<Pin<Box<Sleep>>>,
}

impl ClientStream {
    pub(super) fn new(
        transport: Transport,
        permit: ConnectionPermit,
        lingering_closer: LingeringCloser,
    ) -> ClientStream {
        let connection = Some((transport, permit));
        ClientStream {
            connection,
            lingering_closer,
            input_ended: false,
            is_websocket: false,
            write_timeout: None,
        }
    }

    /// Disables the write timeout. A WebSocket has a bounded outbox and ping timeouts of its own,
    /// and closes with a code.
    pub fn mark_as_websocket(&mut self) {
        self.is_websocket = true;
    }

    /// Returns the result of a write, or `TimedOut` if writes have been blocked for
    /// `WRITE_TIMEOUT`.
    fn check_timeout<T>(&mut self, cx: &mut Context<'_>, polled: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if polled.is_ready() || self.is_websocket {
            self.write_timeout = None;
            return polled;
        }
        let write_timeout =
            self.write_timeout.get_or_insert_with(|| Box::pin(tokio::time::sleep(WRITE_TIMEOUT)));
        ready!(write_timeout.as_mut().poll(cx));
        // The client does not read, so a lingering close cannot deliver anything.
        self.input_ended = true;
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }

    /// Panics if called during the drop.
    fn transport(&mut self) -> Pin<&mut Transport> {
        let (transport, _) = self.connection.as_mut().expect("only the drop takes the connection");
        Pin::new(transport)
    }
}

impl Drop for ClientStream {
    fn drop(&mut self) {
        let connection = self.connection.take().expect("only the drop takes the connection");
        if !self.input_ended {
            self.lingering_closer.start(connection);
        }
    }
}

impl AsyncRead for ClientStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let polled = self.transport().poll_read(cx, buffer);
        if let Poll::Ready(result) = &polled {
            self.input_ended |=
                result.is_err() || (buffer.filled().len() == before && buffer.remaining() > 0);
        }
        polled
    }
}

impl AsyncWrite for ClientStream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let polled = self.transport().poll_write(cx, bytes);
        self.check_timeout(cx, polled)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let polled = self.transport().poll_write_vectored(cx, slices);
        self.check_timeout(cx, polled)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        // With TLS, the flush blocks when the client does not read: writes only fill the TLS
        // buffer.
        let polled = self.transport().poll_flush(cx);
        self.check_timeout(cx, polled)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.transport().poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tokio::io::AsyncWriteExt;
    use tokio::net::{TcpListener, TcpStream};
    use tokio::time::{Instant, timeout};

    use super::*;

    async fn pair() -> (ClientStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (stream, _) = listener.accept().await.unwrap();
        let server = Arc::new(tokio::sync::Semaphore::new(1)).acquire_owned().await.unwrap();
        let permit = ConnectionPermit::new(server, None);
        (ClientStream::new(Transport::Tcp(stream), permit, LingeringCloser::new()), client)
    }

    /// More bytes than the kernel buffers hold.
    const MANY_BYTES: usize = 64 * 1024 * 1024;

    #[tokio::test(start_paused = true)]
    async fn unread_response_times_out() {
        let (mut server, _client) = pair().await;
        let start = Instant::now();
        let written = timeout(WRITE_TIMEOUT * 10, server.write_all(&vec![b'x'; MANY_BYTES])).await;
        let error = written.expect("the write timeout fires first").unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert!(start.elapsed() >= WRITE_TIMEOUT);
    }

    #[tokio::test(start_paused = true)]
    async fn slowly_read_response_does_not_time_out() {
        let (mut server, _client) = pair().await;
        let mut cx = Context::from_waker(std::task::Waker::noop());
        for _ in 0..5 {
            assert!(server.check_timeout::<()>(&mut cx, Poll::Pending).is_pending());
            tokio::time::advance(WRITE_TIMEOUT / 2).await;
            assert!(server.check_timeout::<()>(&mut cx, Poll::Pending).is_pending());
            assert!(matches!(server.check_timeout(&mut cx, Poll::Ready(Ok(()))), Poll::Ready(Ok(()))));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn websocket_write_has_no_http_timeout() {
        let (mut server, _client) = pair().await;
        server.mark_as_websocket();
        let stuck = timeout(WRITE_TIMEOUT * 10, server.write_all(&vec![b'x'; MANY_BYTES])).await;
        assert!(stuck.is_err());
    }
}
