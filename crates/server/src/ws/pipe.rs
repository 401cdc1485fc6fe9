//! The two directions of one socket as one thing that can be polled: writing never keeps the connection's loop from
//! hearing of anything else, and nothing is lost when the loop turns to something else in the middle.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll};

use axum::Error;
use axum::extract::ws::{Message, WebSocket};
use futures_util::{Sink, Stream};

use crate::hub::Frame;

pub(super) enum PipeEvent {
    /// Something came in.
    Heard(Message),
    /// All that was to be written has been.
    Flushed,
    /// No more will come; the reason, where it is not an ordinary end.
    Ended(Option<Error>),
}

pub(super) struct Pipe {
    socket: WebSocket,
    to_write: VecDeque<Message>,
    unflushed: bool,
}

impl Pipe {
    pub fn new(socket: WebSocket) -> Pipe {
        Pipe { socket, to_write: VecDeque::new(), unflushed: false }
    }

    /// Queues a message; it goes out while [`Pipe::next`] is awaited.
    pub fn write(&mut self, message: Message) {
        self.to_write.push_back(message);
    }

    pub fn is_writing(&self) -> bool {
        self.unflushed || !self.to_write.is_empty()
    }

    /// The client said goodbye and the socket has an answer ready, which only needs to be flushed.
    pub fn write_close_answer(&mut self) {
        self.to_write.clear();
        self.unflushed = true;
    }

    /// Gives up what is queued here. What the socket took over already still goes out.
    pub fn forget_queued(&mut self) {
        self.to_write.clear();
    }

    /// Writes what is queued and, if `reading`, waits for the client. Dropping the future loses nothing.
    /// `written` is told of each text the socket has taken over.
    pub async fn next(&mut self, reading: bool, mut written: impl FnMut(&Frame)) -> PipeEvent {
        poll_fn(|cx| self.poll(cx, reading, &mut written)).await
    }

    fn poll(
        &mut self,
        cx: &mut Context<'_>,
        reading: bool,
        written: &mut impl FnMut(&Frame),
    ) -> Poll<PipeEvent> {
        match self.poll_write(cx, written) {
            Poll::Ready(Ok(true)) => return Poll::Ready(PipeEvent::Flushed),
            Poll::Ready(Err(error)) => return Poll::Ready(PipeEvent::Ended(Some(error))),
            Poll::Ready(Ok(false)) | Poll::Pending => {}
        }
        if !reading {
            return Poll::Pending;
        }
        Pin::new(&mut self.socket).poll_next(cx).map(|heard| match heard {
            Some(Ok(message)) => PipeEvent::Heard(message),
            Some(Err(error)) => PipeEvent::Ended(Some(error)),
            None => PipeEvent::Ended(None),
        })
    }

    /// `true` when something was flushed just now, `false` when there was nothing to do.
    fn poll_write(
        &mut self,
        cx: &mut Context<'_>,
        written: &mut impl FnMut(&Frame),
    ) -> Poll<Result<bool, Error>> {
        if !self.is_writing() {
            return Poll::Ready(Ok(false));
        }
        let mut socket = Pin::new(&mut self.socket);
        while !self.to_write.is_empty() {
            std::task::ready!(socket.as_mut().poll_ready(cx))?;
            let Some(message) = self.to_write.pop_front() else { break };
            if let Message::Text(frame) = &message {
                written(frame);
            }
            self.unflushed = true;
            socket.as_mut().start_send(message)?;
        }
        std::task::ready!(socket.poll_flush(cx))?;
        self.unflushed = false;
        Poll::Ready(Ok(true))
    }
}
