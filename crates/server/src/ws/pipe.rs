//! The two directions of one socket as one thing that can be polled: writing never keeps the connection's loop from
//! hearing of anything else, and nothing is lost when the loop turns to something else in the middle.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::task::{Context, Poll};

use axum::body::Bytes;
use tungstenite::error::CapacityError;
use tungstenite::protocol::{CloseFrame, Role, WebSocketConfig, WebSocketContext};
use tungstenite::{Error, Message};

use super::line::{Line, Written};
use crate::door::DoorStream;
use crate::hub::Frame;

/// Most connections are quiet, so what each holds while quiet is kept small; the line reads more at a time than this.
const READ_BUFFER_BYTES: usize = 512;

/// Pongs between two messages, for as long as a quiet client may live.
const MOST_CONTROL_BYTES: usize = 1024 * 1024;

pub(super) enum PipeEvent {
    /// Something came in.
    Heard(Message),
    /// All that was to be written has been.
    Flushed,
    /// No more will come; the reason, where it is not an ordinary end.
    Ended(Option<Error>),
}

pub(super) struct Pipe {
    line: Line<DoorStream>,
    protocol: WebSocketContext,
    /// The protocol has something to write that the line has not taken yet.
    unflushed: bool,
}

impl Pipe {
    /// `read` came in behind the handshake. Frames of clients may have `frame_bytes`.
    pub fn new(stream: DoorStream, read: Bytes, frame_bytes: usize) -> Pipe {
        let config = WebSocketConfig::default()
            .read_buffer_size(READ_BUFFER_BYTES)
            // The line gathers what is to be written.
            .write_buffer_size(0)
            .max_frame_size(Some(frame_bytes))
            .max_message_size(Some(frame_bytes));
        let protocol = WebSocketContext::new(Role::Server, Some(config));
        Pipe { line: Line::new(stream, read), protocol, unflushed: false }
    }

    /// Queues a text; it goes out while [`Pipe::next`] is awaited.
    pub fn write(&mut self, frame: Frame) {
        self.line.waiting().push_back(frame);
    }

    /// Where whole frames wait to be written.
    pub fn waiting(&mut self) -> &mut VecDeque<Frame> {
        self.line.waiting()
    }

    pub fn ping(&mut self) {
        self.say(Message::Ping(Bytes::new()));
    }

    pub fn close(&mut self, frame: CloseFrame) {
        self.say(Message::Close(Some(frame)));
    }

    /// A connection that is over has nobody to say it to.
    pub(super) fn say(&mut self, message: Message) {
        let mut cx = Context::from_waker(std::task::Waker::noop());
        // What the line does not take now is flushed later, and so is found what went wrong.
        let _ = self.protocol.write(&mut self.line.now(&mut cx), message);
        self.unflushed = true;
    }

    pub fn is_writing(&self) -> bool {
        self.unflushed || self.line.is_writing()
    }

    /// The client said goodbye and the protocol has an answer ready, which only needs to be flushed.
    pub fn write_close_answer(&mut self) {
        self.line.forget_queued();
        self.unflushed = true;
    }

    /// Gives up what is queued here. What is begun still goes out.
    pub fn forget_queued(&mut self) {
        self.line.forget_queued();
    }

    /// Writes what is queued and, if `reading`, waits for the client. Dropping the future loses nothing.
    /// `written` is told what the frames cost that the kernel has taken over.
    pub async fn next(&mut self, reading: bool, mut written: impl FnMut(usize)) -> PipeEvent {
        poll_fn(|cx| self.poll(cx, reading, &mut written)).await
    }

    pub fn poll(
        &mut self,
        cx: &mut Context<'_>,
        reading: bool,
        written: &mut impl FnMut(usize),
    ) -> Poll<PipeEvent> {
        match self.poll_write(cx, written) {
            Poll::Ready(Ok(true)) => return Poll::Ready(PipeEvent::Flushed),
            Poll::Ready(Err(error)) => return Poll::Ready(PipeEvent::Ended(Some(error))),
            Poll::Ready(Ok(false)) | Poll::Pending => {}
        }
        if !reading {
            return Poll::Pending;
        }
        match self.protocol.read(&mut self.line.now(cx)) {
            Ok(message) => {
                if message.is_text() || message.is_binary() {
                    self.line.message_ended();
                }
                Poll::Ready(PipeEvent::Heard(message))
            }
            // Hearing may have made it answer by itself: that goes out now, since nobody wakes us for it.
            Err(Error::Io(error)) if error.kind() == std::io::ErrorKind::WouldBlock => {
                if let Some(endless) = self.endless() {
                    return Poll::Ready(PipeEvent::Ended(Some(endless)));
                }
                match self.poll_write(cx, written) {
                    Poll::Ready(Ok(true)) => Poll::Ready(PipeEvent::Flushed),
                    Poll::Ready(Err(error)) => Poll::Ready(PipeEvent::Ended(Some(error))),
                    Poll::Ready(Ok(false)) | Poll::Pending => Poll::Pending,
                }
            }
            Err(Error::ConnectionClosed | Error::AlreadyClosed) => Poll::Ready(PipeEvent::Ended(None)),
            Err(error) => Poll::Ready(PipeEvent::Ended(Some(error))),
        }
    }

    /// A message may come in pieces, and pieces may be empty: then it grows no larger and never ends. What it is wrapped in
    /// is at most six bytes to each of its own where every one is a piece of its own, so far more than that is no message.
    fn endless(&self) -> Option<Error> {
        let max_size = self.protocol.get_config().max_message_size.unwrap_or(usize::MAX);
        let size = self.line.unfinished_bytes();
        let is_endless = size > max_size.saturating_mul(16).saturating_add(MOST_CONTROL_BYTES);
        is_endless.then(|| CapacityError::MessageTooLong { size, max_size }.into())
    }

    /// `true` when everything was written just now, `false` when there was nothing to do.
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
                match self.protocol.flush(&mut self.line.now(cx)) {
                    Ok(()) => self.unflushed = false,
                    // The other side's goodbye has been answered.
                    Err(Error::ConnectionClosed | Error::AlreadyClosed) => self.unflushed = false,
                    Err(error) => return Poll::Ready(Err(error)),
                }
            }
            let Written { cost, is_all } = std::task::ready!(self.line.poll_write(cx))?;
            if cost > 0 {
                written(cost);
            }
            if is_all && !self.unflushed {
                return Poll::Ready(Ok(true));
            }
        }
    }
}
