//! One WebSocket: both directions of a socket behind one poll function. A slow write does not block
//! the connection's other events, and cancelling a poll loses nothing.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::task::{Context, Poll};

use axum::body::Bytes;
use tungstenite::error::CapacityError;
use tungstenite::protocol::{CloseFrame, Role, WebSocketConfig, WebSocketContext};
use tungstenite::{Error, Message};

use super::socket_writer::{SocketWriter, WriteProgress};
use crate::delivery::EncodedFrame;
use crate::listener::ClientStream;

/// Size in bytes of the protocol's read buffer, which each connection keeps. It is small because
/// most connections are idle; [`SocketWriter`] reads larger chunks.
const READ_BUFFER_BYTES: usize = 512;

/// Bytes allowed for control frames between two messages. If this is too low, the pongs of a quiet
/// client eventually end its connection.
const MAX_CONTROL_BYTES: usize = 1024 * 1024;

/// An event of the socket.
pub(super) enum SocketEvent {
    /// A message arrived.
    Received(Message),
    /// All queued frames are written.
    Flushed,
    /// No more input follows. Contains the error unless the connection ended normally.
    Ended(Option<Error>),
}

/// A WebSocket: its byte stream and its protocol state.
pub(super) struct Connection {
    writer: SocketWriter<ClientStream>,
    protocol: WebSocketContext,
    /// The protocol has output that the socket writer has not accepted yet.
    unflushed: bool,
}

impl Connection {
    /// `read` holds bytes that arrived after the handshake. Client frames may have up to
    /// `frame_bytes`.
    pub fn new(stream: ClientStream, read: Bytes, frame_bytes: usize) -> Connection {
        let config = WebSocketConfig::default()
            .read_buffer_size(READ_BUFFER_BYTES)
            // The socket writer does the buffering of writes.
            .write_buffer_size(0)
            .max_frame_size(Some(frame_bytes))
            .max_message_size(Some(frame_bytes));
        let protocol = WebSocketContext::new(Role::Server, Some(config));
        Connection { writer: SocketWriter::new(stream, read), protocol, unflushed: false }
    }

    /// Queues a frame, which is written while [`Connection::next`] is awaited.
    pub fn write(&mut self, frame: EncodedFrame) {
        self.writer.queue().push_back(frame);
    }

    /// The queue of frames to write.
    pub fn queue(&mut self) -> &mut VecDeque<EncodedFrame> {
        self.writer.queue()
    }

    pub fn ping(&mut self) {
        self.write_message(Message::Ping(Bytes::new()));
    }

    pub fn close(&mut self, frame: CloseFrame) {
        self.write_message(Message::Close(Some(frame)));
    }

    /// Queues a message through the protocol. Discarded if the connection has ended.
    pub(super) fn write_message(&mut self, message: Message) {
        let mut cx = Context::from_waker(std::task::Waker::noop());
        // A later flush writes what the socket writer does not accept now, and reports the error.
        let _ = self.protocol.write(&mut self.writer.sync_io(&mut cx), message);
        self.unflushed = true;
    }

    pub fn is_writing(&self) -> bool {
        self.unflushed || self.writer.is_writing()
    }

    /// Sends only the protocol's prepared answer to the client's close frame.
    pub fn write_close_answer(&mut self) {
        self.writer.drop_queued();
        self.unflushed = true;
    }

    /// Drops the queued frames. A partly written frame is completed.
    pub fn drop_queued(&mut self) {
        self.writer.drop_queued();
    }

    /// Writes the queued frames and, if `reading`, waits for the client. Dropping the future loses
    /// nothing. Calls `written` with the outbox cost of the frames that the stream has accepted.
    pub async fn next(&mut self, reading: bool, mut written: impl FnMut(usize)) -> SocketEvent {
        poll_fn(|cx| self.poll(cx, reading, &mut written)).await
    }

    pub fn poll(
        &mut self,
        cx: &mut Context<'_>,
        reading: bool,
        written: &mut impl FnMut(usize),
    ) -> Poll<SocketEvent> {
        match self.poll_write(cx, written) {
            Poll::Ready(Ok(true)) => return Poll::Ready(SocketEvent::Flushed),
            Poll::Ready(Err(error)) => return Poll::Ready(SocketEvent::Ended(Some(error))),
            Poll::Ready(Ok(false)) | Poll::Pending => {}
        }
        if !reading {
            return Poll::Pending;
        }
        match self.protocol.read(&mut self.writer.sync_io(cx)) {
            Ok(message) => {
                if message.is_text() || message.is_binary() {
                    self.writer.message_ended();
                }
                Poll::Ready(SocketEvent::Received(message))
            }
            // Reading may have queued an answer such as a pong. Write it now, because no later
            // wake-up would.
            Err(Error::Io(error)) if error.kind() == std::io::ErrorKind::WouldBlock => {
                if let Some(error) = self.overlong_message() {
                    return Poll::Ready(SocketEvent::Ended(Some(error)));
                }
                match self.poll_write(cx, written) {
                    Poll::Ready(Ok(true)) => Poll::Ready(SocketEvent::Flushed),
                    Poll::Ready(Err(error)) => Poll::Ready(SocketEvent::Ended(Some(error))),
                    Poll::Ready(Ok(false)) | Poll::Pending => Poll::Pending,
                }
            }
            Err(Error::ConnectionClosed | Error::AlreadyClosed) => Poll::Ready(SocketEvent::Ended(None)),
            Err(error) => Poll::Ready(SocketEvent::Ended(Some(error))),
        }
    }

    /// Returns an error for a message that never ends. Fragments may be empty, so the size limit
    /// alone does not end such a message. One-byte fragments add six bytes of header each, so a
    /// valid message stays below 16 times the limit.
    fn overlong_message(&self) -> Option<Error> {
        let max_size = self.protocol.get_config().max_message_size.unwrap_or(usize::MAX);
        let size = self.writer.unfinished_bytes();
        let is_overlong = size > max_size.saturating_mul(16).saturating_add(MAX_CONTROL_BYTES);
        is_overlong.then(|| CapacityError::MessageTooLong { size, max_size }.into())
    }

    /// Returns `true` when everything was written just now, `false` when there was nothing to
    /// write.
    fn poll_write(
        &mut self,
        cx: &mut Context<'_>,
        written: &mut impl FnMut(usize),
    ) -> Poll<Result<bool, Error>> {
        if !self.is_writing() {
            return Poll::Ready(Ok(false));
        }
        loop {
            if self.unflushed {
                match self.protocol.flush(&mut self.writer.sync_io(cx)) {
                    Ok(()) => self.unflushed = false,
                    // The client's close frame has been answered.
                    Err(Error::ConnectionClosed | Error::AlreadyClosed) => self.unflushed = false,
                    Err(error) => return Poll::Ready(Err(error)),
                }
            }
            let WriteProgress { cost, is_all } = std::task::ready!(self.writer.poll_write(cx))?;
            if cost > 0 {
                written(cost);
            }
            if is_all && !self.unflushed {
                return Poll::Ready(Ok(true));
            }
        }
    }
}
