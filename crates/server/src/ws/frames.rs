//! Handles the frames of a client. An invalid frame gets an error. A client that exceeds its rate
//! limits too often is disconnected.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bluetick_core::chat::ChatError;
use bluetick_core::ports::{Accepted, Appended, Origin};
use bluetick_core::{ConversationId, MessageId};
use bluetick_wire::frame::{
    ClientFrame, FrameError, SendFrame, encode_ack, encode_error, encode_pong, readable_message_id,
};
use bluetick_wire::{BadInput, CloseCode, ErrorCode};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tokio::time::Instant;

use super::session_loop::SessionLoop;
use crate::delivery::{EncodedFrame, RepeatedAck};
use crate::drain::WorkGuard;
use crate::problem::Problem;

/// A send that waits for the store to accept it. A connection has at most one, which keeps the
/// order of its sends.
pub(super) type SubmitFuture =
    Pin<Box<dyn Future<Output = (PendingSend, Result<Accepted, ChatError>)> + Send>>;

/// A send that the store has accepted or found stored.
pub(super) enum InFlightSend {
    /// Being stored. The `PendingSend` is taken when the outcome is known.
    Storing(Option<PendingSend>, Accepted),
    /// A duplicate whose ack waits for space in the fan-out queue.
    Repeating(BoxFuture<'static, SendOutcome>),
}

pub(super) type SendOutcome = (PendingSend, Result<Appended, ChatError>);

impl Future for InFlightSend {
    type Output = SendOutcome;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<SendOutcome> {
        match &mut *self {
            InFlightSend::Storing(pending, accepted) => {
                let outcome = ready!(accepted.as_mut().poll(cx)).map_err(ChatError::from);
                Poll::Ready((
                    pending.take().expect("the executor does not poll a future after it is ready"),
                    outcome,
                ))
            }
            InFlightSend::Repeating(repeating) => repeating.as_mut().poll(cx),
        }
    }
}

/// The state of a send until it is answered.
pub(super) struct PendingSend {
    conversation: ConversationId,
    message_id: MessageId,
    started: Instant,
    /// The ack of the duplicate is with the fan-out.
    is_answered: bool,
    /// Held until the answer is in the outbox or with the fan-out, so that a drain waits for it.
    _work: WorkGuard,
}

impl SessionLoop {
    pub fn text(&mut self, text: &str) -> Result<(), CloseCode> {
        let frame = ClientFrame::decode(text);
        let allowed = match &frame {
            // Receipts have their own budget.
            Ok(ClientFrame::Receipt(..)) => Ok(()),
            _ => self.budget.request(),
        };
        if let Err(problem) = allowed {
            return self.rate_limited(problem, readable_message_id(text).as_ref());
        }
        match frame {
            Ok(ClientFrame::Send(send)) => return self.send(send),
            Ok(ClientFrame::Receipt(kind, receipt)) => return self.apply_receipt(kind, &receipt),
            Ok(ClientFrame::Typing(typing)) => self.typing(&typing),
            Ok(ClientFrame::Ping) => self.session.outbox.push(EncodedFrame::from(encode_pong())),
            Ok(ClientFrame::Hello(_)) => {
                let problem = Problem::new(ErrorCode::InvalidFrame, "type: hello was already received");
                self.answer(problem, None);
            }
            Err(error) => self.answer(invalid_frame(&error), readable_message_id(text).as_ref()),
        }
        Ok(())
    }

    pub fn binary(&mut self) -> Result<(), CloseCode> {
        if let Err(problem) = self.budget.request() {
            return self.rate_limited(problem, None);
        }
        self.answer(
            Problem::new(ErrorCode::InvalidFrame, "send each frame as a JSON object in a text frame"),
            None,
        );
        Ok(())
    }

    pub fn control_frame(&mut self) -> Result<(), CloseCode> {
        match self.budget.request() {
            Ok(()) => Ok(()),
            Err(_) => self.flood.refused(),
        }
    }

    fn send(&mut self, send: SendFrame<'_>) -> Result<(), CloseCode> {
        let started = Instant::now();
        let message_id = match send.message_id() {
            Ok(message_id) => message_id,
            Err(invalid) => {
                self.refuse_send(invalid.into(), None);
                return Ok(());
            }
        };
        if let Err(problem) = self.budget.send() {
            self.app.metrics.refusals.inc();
            return self.rate_limited(problem, Some(&message_id));
        }
        match self.submit(send, &message_id, started) {
            // The store accepts most sends immediately.
            Ok(mut submitting) => match (&mut submitting).now_or_never() {
                Some((pending, result)) => self.submitted(pending, result),
                None => self.submitting = Some(submitting),
            },
            Err(problem) => self.refuse_send(problem, Some(&message_id)),
        }
        Ok(())
    }

    fn submit(
        &self,
        send: SendFrame<'_>,
        message_id: &MessageId,
        started: Instant,
    ) -> Result<SubmitFuture, Problem> {
        let conversation = send.conversation().ok_or_else(Problem::no_such_conversation)?;
        let request = send.into_request(conversation, message_id.clone(), Origin::from(self.session.id))?;
        let work = self.app.lifecycle.begin_work()?;
        self.session.catch_up.send_begins(conversation, message_id);
        let pending = PendingSend {
            conversation,
            message_id: message_id.clone(),
            started,
            is_answered: false,
            _work: work,
        };
        let (app, session) = (Arc::clone(&self.app), Arc::clone(&self.session));
        Ok(Box::pin(async move { (pending, app.chat.submit(&session.user, request).await) }))
    }

    pub fn submitted(&mut self, pending: PendingSend, result: Result<Accepted, ChatError>) {
        match result {
            Ok(accepted) => self.sends.push(InFlightSend::Storing(Some(pending), accepted)),
            Err(error) => self.send_done(pending, Err(error)),
        }
    }

    pub fn send_done(&mut self, pending: PendingSend, result: Result<Appended, ChatError>) {
        match result {
            // The fan-out sends the ack of a new message at the message's seq. The ack of a
            // duplicate also goes through the fan-out, so that it does not overtake messages that
            // the client has not received yet.
            Ok(found @ Appended { duplicate: true, .. }) if !pending.is_answered => {
                return self.send_repeated_ack(pending, found);
            }
            Ok(Appended { duplicate, .. }) => {
                self.app.metrics.acknowledged(pending.started.elapsed());
                if duplicate {
                    self.app.metrics.duplicates.inc();
                }
            }
            Err(error) => self.refuse_send(error.into(), Some(&pending.message_id)),
        }
        self.session.catch_up.send_ends(pending.conversation, &pending.message_id);
    }

    fn send_repeated_ack(&mut self, mut pending: PendingSend, found: Appended) {
        let (app, session) = (Arc::clone(&self.app), Arc::clone(&self.session));
        self.sends.push(InFlightSend::Repeating(Box::pin(async move {
            let conversation = pending.conversation;
            let frame = EncodedFrame::from(encode_ack(conversation, &pending.message_id, &found));
            app.hub.acknowledge(session, RepeatedAck { conversation, seq: found.seq, frame }).await;
            pending.is_answered = true;
            (pending, Ok(found))
        })));
    }

    fn refuse_send(&mut self, problem: Problem, message_id: Option<&MessageId>) {
        self.app.metrics.refusals.inc();
        self.answer(problem, message_id);
    }

    pub fn rate_limited(
        &mut self,
        problem: Problem,
        message_id: Option<&MessageId>,
    ) -> Result<(), CloseCode> {
        self.answer(problem, message_id);
        self.flood.refused()
    }

    pub fn answer(&mut self, problem: Problem, message_id: Option<&MessageId>) {
        self.refuse(problem, message_id, None);
    }

    /// Sends an error about a conversation instead of a message.
    pub fn answer_in(&mut self, conversation: Option<ConversationId>, problem: Problem) {
        self.refuse(problem, None, conversation);
    }

    fn refuse(&mut self, problem: Problem, message_id: Option<&MessageId>, of: Option<ConversationId>) {
        // HTTP has no frames and uses `InvalidRequest` for the same error.
        let code = match problem.code {
            ErrorCode::InvalidRequest => ErrorCode::InvalidFrame,
            code => code,
        };
        self.was_refused = true;
        self.app.metrics.rejected(code);
        let message_id = message_id.map(ToString::to_string);
        let error = encode_error(code, &problem.message, message_id.as_deref(), of);
        self.session.outbox.push(EncodedFrame::from(error));
    }
}

fn invalid_frame(error: &FrameError) -> Problem {
    match error {
        FrameError::Invalid(bad) => BadInput::clone(bad).into(),
        FrameError::UnknownType => Problem::new(error.code(), error.to_string()),
    }
}

/// Counts rate-limit refusals per window. More than `limit` in one window is a flood; 0 disables
/// the check.
pub(super) struct FloodWatch {
    limit: u32,
    refusals: u32,
    since: Instant,
}

impl FloodWatch {
    /// Length of the counting window. With a longer one, the same `limit` tolerates a lower rate of
    /// refusals.
    const WINDOW: Duration = Duration::from_secs(10);

    pub fn new(limit: u32) -> FloodWatch {
        FloodWatch { limit, refusals: 0, since: Instant::now() }
    }

    pub fn refused(&mut self) -> Result<(), CloseCode> {
        if self.since.elapsed() > FloodWatch::WINDOW {
            *self = FloodWatch::new(self.limit);
        }
        self.refusals = self.refusals.saturating_add(1);
        if self.limit > 0 && self.refusals > self.limit { Err(CloseCode::Flood) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn refusals_within_the_limit_are_tolerated_and_more_are_a_flood() {
        let mut watch = FloodWatch::new(3);
        for _ in 0..20 {
            assert_eq!((watch.refused(), watch.refused()), (Ok(()), Ok(())));
            tokio::time::advance(Duration::from_secs(11)).await;
        }
        let refusals: Vec<_> = (0..4).map(|_| watch.refused()).collect();
        assert_eq!(refusals, [Ok(()), Ok(()), Ok(()), Err(CloseCode::Flood)]);
    }
}
