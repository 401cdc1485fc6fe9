//! Outgoing frames, and the handling of frames that the server refused.

use std::time::Duration;

use bluetick_types::{ConversationKind, MessageId};
use tokio::time::{Instant, timeout};

use super::connection::{ACK_WITHIN, ConnectionPhase, LivenessAction};
use super::{ACK_AFTER, Driver};
use crate::backoff::{Ending, growing};
use crate::link::{ClientFrame, ErrorFrame, SendFrame};
use crate::state::outbox::{OutboxItem, SendFailure};
use crate::storage_writer::{Order, StorageBatch};
use crate::stored_state::outbox_change;
use crate::wire::codes::{CONVERSATION_NOT_FOUND, Remedy, remedy};

/// Timeout for writing a batch of frames. The driver then reconnects. If it is too short, large
/// messages never pass a slow network.
const SAY_WITHIN: Duration = Duration::from_secs(20);
/// Backoff bound after the first temporary refusal; it doubles with each further one. Half of it is
/// added to every pause, so that a retry never follows at once.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// Largest backoff bound after temporary refusals. A larger one delays messages after an outage.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

impl Driver {
    /// Sends all frames that are due: pings, receipts, typing and messages.
    ///
    /// # Errors
    ///
    /// Returns the `Ending` if the connection has to be dropped: the server is silent, an answer is
    /// late, or the write timed out.
    pub(super) async fn say(&mut self, now: Instant) -> Result<(), Ending> {
        let caught_up = self.shared.read(|state| state.connection.caught_up);
        let is_late = self.shared.read(|state| {
            state.outbox.oldest_in_flight().is_some_and(|since| now.duration_since(since) > ACK_WITHIN)
        });
        let broken = self.ending(None);
        let ConnectionPhase::Open(open) = &mut self.line else { return Ok(()) };
        let care = open.vigil.care(now);
        if is_late || care == LivenessAction::GiveUp {
            return Err(broken);
        }
        if !open.vigil.welcomed {
            return Ok(());
        }
        let mut frames: Vec<ClientFrame<'_>> = Vec::new();
        if care == LivenessAction::Ping {
            frames.push(ClientFrame::Ping);
        }
        let has_acks = self.shared.read(|state| !state.todo.acks.is_empty());
        match self.ack_at {
            None if has_acks => self.ack_at = Some(now + ACK_AFTER),
            Some(at) if at <= now => {
                self.ack_at = None;
                if !std::mem::take(&mut self.acks_held) {
                    self.ack_refusals = 0;
                }
                frames.extend(self.shared.arrange(|state| state.take_acks()));
            }
            _ => {}
        }
        let mut going = Vec::new();
        if caught_up {
            let typing = self.shared.arrange(|state| state.signals.take_to_tell());
            frames.extend(typing.into_iter().map(|conversation_id| ClientFrame::Typing { conversation_id }));
            if self.shared.read(|state| !state.outbox.is_empty()) {
                going = self.shared.arrange(|state| state.outbox.next_to_send(now));
            }
        }
        frames.extend(going.iter().map(|(item, again)| send_frame(item, *again)));
        if frames.is_empty() {
            return Ok(());
        }
        let said = async {
            for frame in &frames {
                open.link.feed(frame).await?;
            }
            open.link.flush().await
        };
        match timeout(SAY_WITHIN, said).await {
            Ok(Ok(())) if going.is_empty() => Ok(()),
            Ok(Ok(())) => {
                // Publish the new `Sending` state of the messages.
                self.shared.change_as_driver(|_| ());
                Ok(())
            }
            // Do not drop the connection yet. Frames that the server sent before closing are still
            // unread, and reading reports the end.
            Ok(Err(_)) => Ok(()),
            Err(_) => Err(broken),
        }
    }

    /// Handles an `error` frame.
    ///
    /// A temporary refusal holds the conversation and retries with backoff. A permanent refusal
    /// fails the message. If it is unclear which message the server refused, sends the messages one
    /// at a time to find out.
    pub(super) async fn refused(&mut self, error: &ErrorFrame, now: Instant) {
        let about = match &error.message_id {
            Some(id) => vec![MessageId::from_stored(id)],
            None if error.conversation_id.is_some() => return self.mark_refused(error, now),
            // The error can concern any message in flight.
            None => self.shared.read(|state| state.outbox.in_flight()),
        };
        let may_succeed_later = remedy(&error.code).may_succeed_later();
        let is_certain = error.message_id.is_some() || about.len() == 1;
        if may_succeed_later || !is_certain {
            let random = &self.shared.random;
            let first = if remedy(&error.code) == Remedy::Retry { FIRST_PAUSE } else { FIRST_PAUSE / 2 };
            self.shared.change_as_driver(|state| {
                if !may_succeed_later {
                    state.outbox.go_solo();
                }
                for id in &about {
                    let pause =
                        |refusals| first / 2 + growing(first, LONGEST_PAUSE, refusals, random.as_ref());
                    state.outbox.hold(id, now, pause);
                }
            });
            return;
        }
        let failure = SendFailure { code: error.code.clone(), message: error.message.clone() };
        for id in about {
            self.fail(&id, failure.clone()).await;
        }
    }

    /// Handles an `error` frame about a receipt or a typing frame, which it cannot tell apart. A
    /// temporary refusal queues the receipts of the conversation again. Typing is never resent.
    fn mark_refused(&mut self, error: &ErrorFrame, now: Instant) {
        let Some(id) = error.conversation_id else { return };
        if !remedy(&error.code).may_succeed_later() {
            return;
        }
        self.shared.arrange(|state| state.tell_again(id));
        // Receipts sent together are often refused together. Count and delay them once.
        if self.acks_held {
            return;
        }
        let pause = growing(FIRST_PAUSE, LONGEST_PAUSE, self.ack_refusals, self.shared.random.as_ref());
        self.ack_at = Some(now + FIRST_PAUSE / 2 + pause);
        self.ack_refusals += 1;
        self.acks_held = true;
    }

    /// Handles a close with code 1009. Fails the message if it is the only one in flight. Otherwise
    /// sends one message at a time from now on, to find the one that is too large.
    pub(super) async fn frame_was_too_large(&mut self) {
        match self.shared.read(|state| state.outbox.in_flight()).as_slice() {
            [id] => {
                let failure = SendFailure {
                    code: "content_too_large".into(),
                    message: "the message is larger than the server accepts".into(),
                };
                self.fail(id, failure).await;
            }
            _ => self.shared.arrange(|state| state.outbox.go_solo()),
        }
    }

    /// Marks a message as failed and stores it. If the conversation is a group that is gone, gives
    /// up all of its messages instead.
    async fn fail(&mut self, id: &MessageId, failure: SendFailure) {
        let failed = self.shared.change_as_driver(|state| {
            let is_gone = failure.code == CONVERSATION_NOT_FOUND;
            let failed = state.outbox.fail(id, failure)?;
            if is_gone && failed.conversation_id.kind() == ConversationKind::Group {
                state.gone(failed.conversation_id);
                return None;
            }
            Some(failed)
        });
        if let Some(item) = failed {
            let changes = vec![outbox_change(&item)];
            // An error means that the storage writer has ended and the client is shutting down.
            let _ordered = self
                .shared
                .orders
                .send(Order::Write(StorageBatch { changes, ..StorageBatch::default() }))
                .await;
        }
    }
}

fn send_frame(item: &OutboxItem, again: bool) -> ClientFrame<'_> {
    ClientFrame::Send(SendFrame {
        conversation_id: item.conversation_id,
        message_id: item.message_id.clone(),
        content: &item.content,
        content_type: item.content_type.as_deref(),
        timestamp: Some(item.timestamp),
        retry: again,
        after_seq: again.then_some(item.after_seq),
    })
}
