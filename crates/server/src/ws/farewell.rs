//! Ending a connection: with a code, in bounded time, and with the client's own goodbye where it comes.

use std::time::Duration;

use bluetick_wire::CloseCode;
use bluetick_wire::frame::encode_come_back;
use tokio::time::timeout;
use tungstenite::error::ProtocolError;
use tungstenite::protocol::CloseFrame;
use tungstenite::{Error, Message};

use super::pipe::{Pipe, PipeEvent};
use crate::hub::Frame;

/// A client that reads gets its code well within this; one that does not is cut off.
const WRITING: Duration = Duration::from_secs(5);
/// How long the client's own close frame is waited for.
const ANSWERING: Duration = Duration::from_secs(1);

/// The code for a connection that broke; `None` when the client is simply gone.
pub(super) fn code_for(error: &Error) -> Option<CloseCode> {
    match error {
        Error::Capacity(_) => Some(CloseCode::FrameTooLarge),
        Error::Protocol(ProtocolError::ResetWithoutClosingHandshake) => None,
        Error::Utf8(_) => Some(CloseCode::NotUtf8),
        Error::Protocol(_) => Some(CloseCode::ProtocolError),
        _ => None,
    }
}

pub(super) struct Goodbye {
    pub code: CloseCode,
    /// When the client is asked to come back.
    pub come_back: Option<Duration>,
    /// How long the shutdown as a whole may take.
    pub drain: Duration,
}

/// Writes what is queued and the close frame, and waits for the client to agree.
pub(super) async fn close(mut pipe: Box<Pipe>, Goodbye { code, come_back, drain }: Goodbye) {
    if let Some(after) = come_back {
        pipe.write(Frame::from(encode_come_back(after)));
    }
    if code == CloseCode::Normal {
        pipe.write_close_answer();
    } else {
        pipe.close(CloseFrame { code: code.number().into(), reason: code.as_str().into() });
    }
    // At a restart there may be much to write first, and the drain's own deadline ends it.
    let patience = if code == CloseCode::Restarting { drain.max(WRITING) } else { WRITING };
    // Whoever broke the protocol is not waited for: it may have been its own goodbye that was broken, and no other comes.
    let is_broken = matches!(code, CloseCode::ProtocolError | CloseCode::NotUtf8);
    if timeout(patience, written(&mut pipe)).await == Ok(true) && !is_broken {
        let _ = timeout(ANSWERING, answered(&mut pipe)).await;
    }
}

/// `false` when the connection broke. Not reading: after a frame that was too large, that only fails again.
async fn written(pipe: &mut Pipe) -> bool {
    matches!(pipe.next(false, |_| ()).await, PipeEvent::Flushed)
}

async fn answered(pipe: &mut Pipe) {
    while !matches!(pipe.next(true, |_| ()).await, PipeEvent::Heard(Message::Close(_)) | PipeEvent::Ended(_))
    {
    }
}
