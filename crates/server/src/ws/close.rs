//! Closes a connection: sends a close code and waits for the client's close frame, in bounded time.

use std::time::Duration;

use bluetick_wire::CloseCode;
use bluetick_wire::frame::encode_come_back;
use tokio::time::timeout;
use tungstenite::error::ProtocolError;
use tungstenite::protocol::CloseFrame;
use tungstenite::{Error, Message};

use super::connection::{Connection, SocketEvent};
use crate::delivery::EncodedFrame;

/// Time limit for writing the queued frames and the close frame. A client that does not read them
/// in time is cut off without a code.
const WRITE_TIMEOUT: Duration = Duration::from_secs(5);
/// How long to wait for the client's close frame. A longer time keeps more closed connections open.
const CLOSE_REPLY_TIMEOUT: Duration = Duration::from_secs(1);

/// The close code for a broken connection, or `None` if the client disconnected.
pub(super) fn code_for(error: &Error) -> Option<CloseCode> {
    match error {
        Error::Capacity(_) => Some(CloseCode::FrameTooLarge),
        Error::Protocol(ProtocolError::ResetWithoutClosingHandshake) => None,
        Error::Utf8(_) => Some(CloseCode::NotUtf8),
        Error::Protocol(_) => Some(CloseCode::ProtocolError),
        _ => None,
    }
}

/// How to close a connection.
pub(super) struct CloseRequest {
    pub code: CloseCode,
    /// When the client should reconnect.
    pub reconnect_after: Option<Duration>,
    /// Time limit of the whole shutdown.
    pub drain: Duration,
}

/// Writes the queued frames and the close frame, then waits for the client's close frame.
pub(super) async fn close(
    mut connection: Box<Connection>,
    CloseRequest { code, reconnect_after, drain }: CloseRequest,
) {
    if let Some(after) = reconnect_after {
        connection.write(EncodedFrame::from(encode_come_back(after)));
    }
    if code == CloseCode::Normal {
        connection.write_close_answer();
    } else {
        connection.close(CloseFrame { code: code.number().into(), reason: code.as_str().into() });
    }
    // A restart may leave many frames to write; the drain's own deadline ends it.
    let write_timeout = if code == CloseCode::Restarting { drain.max(WRITE_TIMEOUT) } else { WRITE_TIMEOUT };
    // Do not wait after a protocol error: the invalid frame may be the client's close frame, and no
    // other one follows.
    let is_broken = matches!(code, CloseCode::ProtocolError | CloseCode::NotUtf8);
    if timeout(write_timeout, all_written(&mut connection)).await == Ok(true) && !is_broken {
        let _ = timeout(CLOSE_REPLY_TIMEOUT, close_received(&mut connection)).await;
    }
}

/// Returns `false` if the connection broke. Does not read, because reading after an oversized frame
/// fails again.
async fn all_written(connection: &mut Connection) -> bool {
    matches!(connection.next(false, |_| ()).await, SocketEvent::Flushed)
}

async fn close_received(connection: &mut Connection) {
    while !matches!(
        connection.next(true, |_| ()).await,
        SocketEvent::Received(Message::Close(_)) | SocketEvent::Ended(_)
    ) {}
}
