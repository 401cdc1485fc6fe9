//! The event loop of one authenticated connection. `frames`, `receipts` and `typing` handle the
//! frames that it reads.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll};

use bluetick_auth::Claims;
use bluetick_core::chat::ChatError;
use bluetick_core::ports::{Accepted, Appended};
use bluetick_wire::CloseCode;
use tungstenite::Message;

use super::catch_up::CatchingUp;
use super::close;
use super::connection::{Connection, SocketEvent};
use super::frames::{FloodWatch, InFlightSend, PendingSend, SubmitFuture};
use super::receipts::{PendingReceipts, ReceiptDone};
use super::running_futures::RunningFutures;
use super::session::End;
use super::timers::{Due, Timers};
use super::typing::{TypingMembersResult, TypingRequests};
use crate::app::App;
use crate::delivery::{OutboxOverflow, WebSocketSession};
use crate::limits::UserBudget;
use crate::settings::at_most;

/// Maximum number of frames held for their seqs in a backlog. At the maximum, the connection is not
/// read from. It bounds the memory for a client that sends during catch-up.
const MAX_HELD_FRAMES: usize = 1_024;

/// Number of polls after which the timers are checked before other events. Without this check, the
/// timers of a constantly busy connection would never fire.
const POLLS_BETWEEN_TIMER_CHECKS: u32 = 64;

/// An event of the connection's loop.
enum LoopEvent {
    Connection(SocketEvent),
    /// The outbox exceeded its limit.
    FellBehind,
    /// The server is closing its connections.
    Closing,
    /// The session must close, for example because its token was revoked.
    Ending(CloseCode),
    Submitted(PendingSend, Result<Accepted, ChatError>),
    SendDone(PendingSend, Result<Appended, ChatError>),
    ReceiptDone(ReceiptDone),
    TypingMembers(TypingMembersResult),
    CaughtUp(Result<(), CloseCode>),
    TimerFired,
}

/// The state of an authenticated connection.
pub(super) struct SessionLoop {
    pub app: Arc<App>,
    pub session: Arc<WebSocketSession>,
    pub budget: UserBudget,
    pub flood: FloodWatch,
    /// The send that waits for the store to accept it. Until then, the next frame is not read.
    pub submitting: Option<SubmitFuture>,
    pub sends: RunningFutures<InFlightSend>,
    max_sends: usize,
    pub pending_receipts: PendingReceipts,
    pub typing: TypingRequests,
    /// The catch-up while it runs.
    catching_up: Option<CatchingUp>,
    timers: Timers,
    /// An error was queued for the client in this iteration of the loop.
    pub was_refused: bool,
    /// Number of polls so far.
    polls: u32,
}

impl SessionLoop {
    pub fn new(
        app: &Arc<App>,
        session: Arc<WebSocketSession>,
        budget: UserBudget,
        catching_up: CatchingUp,
        claims: &Claims,
    ) -> SessionLoop {
        SessionLoop {
            app: Arc::clone(app),
            budget,
            flood: FloodWatch::new(app.limits.flood_rejections),
            submitting: None,
            sends: RunningFutures::none(),
            max_sends: at_most(app.limits.in_flight_sends_per_connection),
            pending_receipts: PendingReceipts::new(app, &session),
            typing: TypingRequests::new(),
            catching_up: Some(catching_up),
            timers: Timers::new(&app.limits, Arc::clone(&app.clock), claims.expires_at()),
            was_refused: false,
            polls: 0,
            session,
        }
    }

    /// Returns the receipts that are not stored yet, after the loop has ended.
    pub fn into_pending_receipts(self) -> PendingReceipts {
        self.pending_receipts
    }

    /// Runs until the connection ends. Returns the code to close with.
    pub async fn run(&mut self, connection: &mut Connection) -> End {
        loop {
            let ended = match poll_fn(|cx| self.poll_event(cx, connection)).await {
                LoopEvent::Connection(SocketEvent::Received(message)) => self.received(message),
                LoopEvent::Connection(SocketEvent::Flushed) => {
                    self.refill(connection).map_err(|OutboxOverflow| Some(CloseCode::SlowConsumer))
                }
                LoopEvent::Closing => self.take_final_frames(connection),
                LoopEvent::Ending(why) => Err(Some(why)),
                LoopEvent::FellBehind => Err(Some(CloseCode::SlowConsumer)),
                LoopEvent::Connection(SocketEvent::Ended(error)) => {
                    Err(error.as_ref().and_then(close::code_for))
                }
                LoopEvent::Submitted(pending, result) => {
                    self.submitted(pending, result);
                    Ok(())
                }
                LoopEvent::SendDone(pending, result) => {
                    self.send_done(pending, result);
                    Ok(())
                }
                LoopEvent::ReceiptDone(done) => {
                    self.receipt_done(done);
                    Ok(())
                }
                LoopEvent::TypingMembers(members) => {
                    self.typing_members(members);
                    Ok(())
                }
                LoopEvent::CaughtUp(result) => {
                    self.catching_up = None;
                    result.map_err(Some)
                }
                LoopEvent::TimerFired => self.timer_fired(connection),
            };
            if let Err(end) = ended {
                if end != Some(CloseCode::Restarting) {
                    connection.drop_queued();
                }
                return end;
            }
            // Invalid frames are free for the sender, so yield to other connections before reading
            // the next one.
            if std::mem::take(&mut self.was_refused) {
                tokio::task::yield_now().await;
            }
        }
    }

    /// Polls for the next event. The client is read after all other work, so that a busy client
    /// delays nothing else.
    fn poll_event(&mut self, cx: &mut Context<'_>, connection: &mut Connection) -> Poll<LoopEvent> {
        if self.session.outbox.poll_event(cx).is_ready() {
            if self.app.lifecycle.is_closing() {
                return Poll::Ready(LoopEvent::Closing);
            }
            if let Some(why) = self.session.ending() {
                return Poll::Ready(LoopEvent::Ending(why));
            }
            if self.refill(connection).is_err() {
                return Poll::Ready(LoopEvent::FellBehind);
            }
        }
        self.polls = self.polls.wrapping_add(1);
        if self.polls.is_multiple_of(POLLS_BETWEEN_TIMER_CHECKS) && self.timers.poll_fired(cx).is_ready() {
            return Poll::Ready(LoopEvent::TimerFired);
        }
        if let Some(submitting) = &mut self.submitting
            && let Poll::Ready((pending, result)) = submitting.as_mut().poll(cx)
        {
            self.submitting = None;
            return Poll::Ready(LoopEvent::Submitted(pending, result));
        }
        if let Poll::Ready((pending, result)) = self.sends.poll(cx) {
            return Poll::Ready(LoopEvent::SendDone(pending, result));
        }
        if let Poll::Ready(done) = self.pending_receipts.poll(cx) {
            return Poll::Ready(LoopEvent::ReceiptDone(done));
        }
        if let Poll::Ready(members) = self.typing.poll(cx) {
            return Poll::Ready(LoopEvent::TypingMembers(members));
        }
        if let Some(catching_up) = &mut self.catching_up
            && let Poll::Ready(result) = catching_up.as_mut().poll(cx)
        {
            return Poll::Ready(LoopEvent::CaughtUp(result));
        }
        let (reading, outbox) = (self.is_reading(), &self.session.outbox);
        if let Poll::Ready(event) = connection.poll(cx, reading, &mut |cost| outbox.written(cost)) {
            return Poll::Ready(LoopEvent::Connection(event));
        }
        self.timers.poll_fired(cx).map(|()| LoopEvent::TimerFired)
    }

    /// Whether to read from the client. Too many pending sends, receipts or held frames stop
    /// reading, and TCP flow control then slows down the client.
    fn is_reading(&self) -> bool {
        self.submitting.is_none()
            && self.sends.len() < self.max_sends
            && !self.pending_receipts.are_too_many()
            && self.session.catch_up.held_frames() < MAX_HELD_FRAMES
    }

    /// Moves frames from the outbox to the socket writer once it has written the previous ones.
    fn refill(&mut self, connection: &mut Connection) -> Result<(), OutboxOverflow> {
        let outbox = &self.session.outbox;
        if connection.is_writing() {
            return if outbox.overflowed() { Err(OutboxOverflow) } else { Ok(()) };
        }
        outbox.take(connection.queue())
    }

    fn received(&mut self, message: Message) -> Result<(), End> {
        self.timers.input_received();
        if self.timers.token_expired() {
            return Err(Some(CloseCode::TokenExpired));
        }
        match message {
            Message::Text(text) => self.text(&text).map_err(Some),
            Message::Binary(_) => self.binary().map_err(Some),
            // The protocol answers pings by itself; they still count as requests. So do pongs: the
            // few that answer the server's own pings make no difference.
            Message::Ping(_) | Message::Pong(_) | Message::Frame(_) => self.control_frame().map_err(Some),
            Message::Close(_) => Err(Some(CloseCode::Normal)),
        }
    }

    fn timer_fired(&mut self, connection: &mut Connection) -> Result<(), End> {
        if !self.is_reading() {
            // The server is not reading, so it cannot call the client idle.
            self.timers.input_received();
        }
        match self.timers.due() {
            Due::Nothing => Ok(()),
            Due::Ping => {
                connection.ping();
                // The connection is idle, so free unused memory.
                self.sends.free_unused();
                self.pending_receipts.free_unused();
                self.typing.free_unused();
                Ok(())
            }
            Due::Close(code) => Err(Some(code)),
        }
    }

    /// Takes the last frames at the end of a drain. The outbox then contains everything that was
    /// committed.
    fn take_final_frames(&mut self, connection: &mut Connection) -> Result<(), End> {
        // If the outbox has overflowed, only the close is sent.
        let _ = self.session.outbox.take(connection.queue());
        Err(Some(CloseCode::Restarting))
    }
}
