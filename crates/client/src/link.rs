//! One WebSocket connection with typed frames.
//!
//! A link has no state and does not reconnect; [`Client`](crate::Client) adds both. It adds little
//! cost per frame, so that benchmarks can use it to measure a server.

use std::time::Duration;

use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{SinkExt, StreamExt};
use thiserror::Error;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_tungstenite::tungstenite::{self, Message as Packet};

use crate::transport::{Server, Stream};
use crate::wire::codes::CloseCode;

pub use crate::wire::frames::{
    Ack, AllMarks, Backlog, BadFrame, ClientFrame, ComeBack, ErrorFrame, Frame, FrameKind, Gone, Position,
    SendFrame, ServerFrame, Status, Typing, Welcome,
};

/// Largest accepted frame, in bytes. Messages are usually limited to 64 KiB, but operators can
/// raise that. A smaller value ends the connection on large messages.
const MOST_FRAME_BYTES: usize = 16 * 1024 * 1024;

/// Timeout for connecting, including the TLS and WebSocket handshakes. If it is too short, clients
/// on slow networks never connect.
const OPEN_WITHIN: Duration = Duration::from_secs(15);

/// Why a connection could not be opened, or why it ended.
#[derive(Debug, Error)]
pub enum LinkError {
    /// The connection could not be opened in time.
    #[error("the server cannot be reached: {0}")]
    Unreachable(std::io::Error),
    /// The server answered the WebSocket upgrade with this HTTP status.
    #[error("the server refused the connection with status {0}")]
    Refused(u16),
    /// The server closed the connection with a close code.
    #[error("the server closed the connection with code {code}")]
    Closed { code: CloseCode },
    /// The connection ended without a close code.
    #[error("the connection was lost")]
    Lost,
    #[error("the server did not answer as a WebSocket: {0}")]
    Protocol(String),
}

impl LinkError {
    /// The close code, if the server sent one.
    pub fn close_code(&self) -> Option<CloseCode> {
        match self {
            LinkError::Closed { code } => Some(*code),
            _ => None,
        }
    }
}

fn failure(error: tungstenite::Error) -> LinkError {
    match error {
        tungstenite::Error::ConnectionClosed
        | tungstenite::Error::AlreadyClosed
        | tungstenite::Error::Io(_)
        | tungstenite::Error::Protocol(_) => LinkError::Lost,
        tungstenite::Error::Http(answer) => LinkError::Refused(answer.status().as_u16()),
        other => LinkError::Protocol(other.to_string()),
    }
}

/// One open WebSocket connection.
pub struct Link {
    socket: WebSocketStream<Stream>,
}

impl Link {
    /// Connects to the server. The caller must send a `hello` as the first frame.
    pub async fn open(server: &Server) -> Result<Link, LinkError> {
        let opened = tokio::time::timeout(OPEN_WITHIN, Link::open_patiently(server)).await;
        opened.unwrap_or_else(|_| Err(LinkError::Unreachable(std::io::ErrorKind::TimedOut.into())))
    }

    async fn open_patiently(server: &Server) -> Result<Link, LinkError> {
        let stream = server.dial().await.map_err(LinkError::Unreachable)?;
        let config = WebSocketConfig::default()
            .max_message_size(Some(MOST_FRAME_BYTES))
            .max_frame_size(Some(MOST_FRAME_BYTES));
        let url = server.url.websocket();
        let opened = tokio_tungstenite::client_async_with_config(url, stream, Some(config)).await;
        Ok(Link { socket: opened.map_err(failure)?.0 })
    }

    /// Sends a frame and flushes it.
    pub async fn send(&mut self, frame: &ClientFrame<'_>) -> Result<(), LinkError> {
        self.socket.send(Packet::text(frame.encode())).await.map_err(failure)
    }

    /// Buffers a frame. Call `flush` to put it on the wire.
    pub async fn feed(&mut self, frame: &ClientFrame<'_>) -> Result<(), LinkError> {
        self.socket.feed(Packet::text(frame.encode())).await.map_err(failure)
    }

    /// Writes all buffered frames.
    pub async fn flush(&mut self) -> Result<(), LinkError> {
        self.socket.flush().await.map_err(failure)
    }

    /// Waits for the next frame. Cancel-safe: dropping the future loses no frame.
    pub async fn next(&mut self) -> Result<Frame, LinkError> {
        next(&mut self.socket).await
    }

    /// Sends a close frame. Ignores errors, because the connection may already be broken.
    pub async fn close(mut self) {
        let _closed = self.socket.close(None).await;
    }

    /// Splits the connection, so that one task can send while another receives.
    pub fn split(self) -> (LinkSender, LinkReceiver) {
        let (sink, stream) = self.socket.split();
        (LinkSender(sink), LinkReceiver(stream))
    }
}

/// The sending half of a [`Link`].
pub struct LinkSender(SplitSink<WebSocketStream<Stream>, Packet>);

impl LinkSender {
    /// Buffers a frame. Call `flush` to put it on the wire.
    pub async fn feed(&mut self, frame: &ClientFrame<'_>) -> Result<(), LinkError> {
        self.0.feed(Packet::text(frame.encode())).await.map_err(failure)
    }

    /// Writes all buffered frames.
    pub async fn flush(&mut self) -> Result<(), LinkError> {
        self.0.flush().await.map_err(failure)
    }
}

/// The receiving half of a [`Link`].
pub struct LinkReceiver(SplitStream<WebSocketStream<Stream>>);

impl LinkReceiver {
    /// Waits for the next frame. Cancel-safe.
    pub async fn next(&mut self) -> Result<Frame, LinkError> {
        next(&mut self.0).await
    }
}

async fn next(
    packets: &mut (impl StreamExt<Item = Result<Packet, tungstenite::Error>> + Unpin),
) -> Result<Frame, LinkError> {
    loop {
        match packets.next().await {
            Some(Ok(Packet::Text(text))) => return Ok(Frame::new(text)),
            Some(Ok(Packet::Close(Some(close)))) => {
                return Err(LinkError::Closed { code: CloseCode(close.code.into()) });
            }
            Some(Ok(Packet::Close(None))) | None => return Err(LinkError::Lost),
            // The WebSocket library answers pings.
            Some(Ok(_)) => {}
            Some(Err(error)) => return Err(failure(error)),
        }
    }
}
