//! One connection: typed frames out, frames in. It remembers nothing and never comes back by itself; that is what
//! `Client` adds. It costs next to nothing per frame, so that a benchmark can measure a server through it.

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

/// The largest frame that is taken from a server. A message has 64 KiB as a rule; an operator may allow more.
const MOST_FRAME_BYTES: usize = 16 * 1024 * 1024;

/// A server that has not shaken hands by then is not there.
const OPEN_WITHIN: Duration = Duration::from_secs(15);

/// Why there is no connection, or none any more.
#[derive(Debug, Error)]
pub enum LinkError {
    #[error("the server cannot be reached: {0}")]
    Unreachable(std::io::Error),
    #[error("the server refused the connection with status {0}")]
    Refused(u16),
    #[error("the server closed the connection with code {code}")]
    Closed { code: CloseCode },
    #[error("the connection was lost")]
    Lost,
    #[error("what the server says is no WebSocket: {0}")]
    Protocol(String),
}

impl LinkError {
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

pub struct Link {
    socket: WebSocketStream<Stream>,
}

impl Link {
    /// Connects. The first frame to send is a hello.
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

    pub async fn send(&mut self, frame: &ClientFrame<'_>) -> Result<(), LinkError> {
        self.socket.send(Packet::text(frame.encode())).await.map_err(failure)
    }

    /// Like `send`, and leaves it to a later `flush` to put it on the wire.
    pub async fn feed(&mut self, frame: &ClientFrame<'_>) -> Result<(), LinkError> {
        self.socket.feed(Packet::text(frame.encode())).await.map_err(failure)
    }

    pub async fn flush(&mut self) -> Result<(), LinkError> {
        self.socket.flush().await.map_err(failure)
    }

    /// The next frame. Dropping the future loses none.
    pub async fn next(&mut self) -> Result<Frame, LinkError> {
        next(&mut self.socket).await
    }

    /// Says good-bye, if the other side still listens.
    pub async fn close(mut self) {
        // Whoever is gone needs no good-bye.
        let _closed = self.socket.close(None).await;
    }

    /// For whoever sends and receives at the same time.
    pub fn split(self) -> (LinkSender, LinkReceiver) {
        let (sink, stream) = self.socket.split();
        (LinkSender(sink), LinkReceiver(stream))
    }
}

pub struct LinkSender(SplitSink<WebSocketStream<Stream>, Packet>);

impl LinkSender {
    pub async fn feed(&mut self, frame: &ClientFrame<'_>) -> Result<(), LinkError> {
        self.0.feed(Packet::text(frame.encode())).await.map_err(failure)
    }

    pub async fn flush(&mut self) -> Result<(), LinkError> {
        self.0.flush().await.map_err(failure)
    }
}

pub struct LinkReceiver(SplitStream<WebSocketStream<Stream>>);

impl LinkReceiver {
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
            // Pings are answered by the socket itself.
            Some(Ok(_)) => {}
            Some(Err(error)) => return Err(failure(error)),
        }
    }
}
