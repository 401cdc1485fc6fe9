//! One connection: an event loop from `hello` to the close.

use std::future::poll_fn;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::task::{Context, Poll};

use bluetick_core::chat::ChatError;
use bluetick_core::ports::{Accepted, Appended, Position};
use bluetick_core::{ProfileUpdate, UserId};
use bluetick_wire::CloseCode;
use bluetick_wire::frame::encode_welcome;
use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Shared, join};
use prometheus_client::metrics::gauge::Gauge;
use tungstenite::Message;

use super::catch_up::{CatchingUp, catch_up};
use super::farewell::Goodbye;
use super::flights::Flights;
use super::frames::{FloodWatch, InFlight, Sending, Submitting};
use super::hello::Greeting;
use super::pipe::{Pipe, PipeEvent};
use super::receipts::{PendingReceipts, ReceiptDone};
use super::timers::{Due, Timers};
use super::typing::{Members, Typing};
use super::{farewell, hello};
use crate::app::App;
use crate::hub::{Frame, Outbox, Overflowed, Session};
use crate::limits::UserBudget;
use crate::settings::at_most;

/// Maximum number of frames held for their seqs in a backlog. At the maximum, the connection is not
/// read from. It bounds the memory for a client that sends during catch-up.
const MOST_HELD_FRAMES: usize = 1_024;

/// An event of the connection's loop.
enum Event {
    Pipe(PipeEvent),
    /// The outbox exceeded its limit.
    FellBehind,
    /// The server is closing its connections.
    Closing,
    /// The session must close, for example because its token was revoked.
    Ending(CloseCode),
    Submitted(Sending, Result<Accepted, ChatError>),
    SendDone(Sending, Result<Appended, ChatError>),
    ReceiptDone(ReceiptDone),
    TypingMembers(Members),
    CaughtUp(Result<(), CloseCode>),
    TimerFired,
}

/// Why a connection ended: the code to close with, or `None` if the client is gone.
pub(super) type End = Option<CloseCode>;

/// The state of an authenticated connection.
pub(super) struct Connection {
    pub app: Arc<App>,
    pub session: Arc<Session>,
    pub budget: UserBudget,
    pub flood: FloodWatch,
    /// The send that waits for the store to accept it. Until then, the next frame is not read.
    pub submitting: Option<Submitting>,
    pub sends: Flights<InFlight>,
    most_sends: usize,
    pub pending_receipts: PendingReceipts,
    pub typing: Typing,
    /// The catch-up while it runs.
    catching_up: Option<CatchingUp>,
    timers: Timers,
    /// An error was queued for the client in this iteration of the loop.
    pub was_refused: bool,
    /// Number of polls so far.
    turns: u32,
}

/// Number of polls after which the timers are checked before other events. Without this check, the
/// timers of a constantly busy connection would never fire.
const TURNS_BETWEEN_TIMERS: u32 = 64;

/// Runs a connection. The `hello` and the close need several times the memory of the loop between
/// them, so each is boxed and freed when it completes.
pub(super) async fn run(mut pipe: Box<Pipe>, app: Arc<App>) {
    match Box::pin(hello::receive(&mut pipe, &app)).await {
        Ok(greeting) => attend(pipe, &app, greeting).await,
        Err(end) => Box::pin(say_goodbye(pipe, &app, end)).await,
    }
}

async fn say_goodbye(pipe: Box<Pipe>, app: &App, end: End) {
    if let Some(code) = end {
        app.metrics.closed(code);
        let goodbye = Goodbye {
            code,
            come_back: (code == CloseCode::Restarting)
                .then(|| app.lifecycle.next_return(app.settings.latest_return())),
            drain: app.settings.drain(),
        };
        farewell::close(pipe, goodbye).await;
    }
}

/// Runs an authenticated connection from its registration to its close.
async fn attend(mut pipe: Box<Pipe>, app: &Arc<App>, greeting: Greeting) {
    let Greeting { claims, positions } = greeting;
    let outbox = Outbox::new(at_most(app.limits.outbox_bytes), app.metrics.outbox_bytes.clone());
    let limit = at_most(app.limits.connections_per_user);
    let sessions = app.hub.sessions();
    let id = sessions.next_id();
    let welcome = encode_welcome(&claims.user, &id.to_string(), app.store.epoch(), app.clock.now());
    outbox.push(Frame::from(welcome));
    // Register the session before asking what the device missed: everything committed from here on
    // reaches it.
    let Ok(registration) = sessions.register(id, claims.user.clone(), claims.token, outbox, limit) else {
        return Box::pin(say_goodbye(pipe, app, Some(CloseCode::TooManyConnections))).await;
    };
    // Check again: a revocation from now on finds this session, and this check sees every earlier
    // one.
    if let Err(code) = Box::pin(hello::admit(&claims, app)).await {
        let (user, is_first) = (registration.session.user.clone(), registration.is_first);
        let was_last = registration.end();
        return Box::pin(join(say_goodbye(pipe, app, Some(code)), stand_in(app, &user, is_first, was_last)))
            .map(|_| ())
            .await;
    }
    let session = Arc::clone(&registration.session);
    let came = came(app, &session, registration.is_first);
    let counted = Counted::new(&app.metrics.connections);
    tracing::debug!(session = %session.id, user = %session.user, "connected");
    let mut connection = Connection {
        app: Arc::clone(app),
        budget: app.budgets.of(&claims.user),
        flood: FloodWatch::new(app.limits.flood_rejections),
        submitting: None,
        sends: Flights::none(),
        most_sends: at_most(app.limits.in_flight_sends_per_connection),
        pending_receipts: PendingReceipts::new(app, &session),
        typing: Typing::new(),
        catching_up: Some(arrive(app, &session, positions, registration.is_first, came.clone())),
        timers: Timers::new(&app.limits, Arc::clone(&app.clock), claims.expires_at()),
        was_refused: false,
        turns: 0,
        session: Arc::clone(&session),
    };
    let conversation = AssertUnwindSafe(connection.run(&mut pipe)).catch_unwind();
    let end = conversation.await.unwrap_or(Some(CloseCode::InternalError));
    // Remove the session from the hub before the client is told anything.
    let was_last = registration.end();
    let Connection { pending_receipts, .. } = connection;
    drop(counted);
    tracing::debug!(session = %session.id, end = end.map(tracing::field::display), "disconnected");
    Box::pin(part(app, pipe, end, Parting { session, came, pending_receipts, was_last })).await;
}

/// Updates presence after the second check refused a connection. Another connection of the user may
/// have relied on it: an ended one, to report the disconnect, or a new one, to report the connect.
async fn stand_in(app: &App, user: &UserId, is_first: bool, was_last: bool) {
    if was_last && !is_first {
        leave(app, user, std::future::ready(())).await;
    } else if is_first && !was_last && !app.whereabouts.user_connected(user, true).await {
        app.hub.user_connected(user);
    }
}

/// The state that an ended connection still has to clean up.
struct Parting {
    session: Arc<Session>,
    came: Came,
    pending_receipts: PendingReceipts,
    was_last: bool,
}

async fn part(app: &App, pipe: Box<Pipe>, end: End, parting: Parting) {
    let Parting { session, came, pending_receipts, was_last } = parting;
    let settled = async {
        // The connection may end before the fleet has registered it; let that finish first.
        let _ = came.await;
        pending_receipts.finish().await;
    };
    let left = async {
        match was_last {
            true => leave(app, &session.user, settled).await,
            false => settled.await,
        }
    };
    join(say_goodbye(pipe, app, end), left).await;
}

/// Registers the user with the fleet, and announces it to its peers unless another node already has
/// it. Runs once, and to completion even if the connection ends before.
type Came = Shared<BoxFuture<'static, Result<(), CloseCode>>>;

fn came(app: &Arc<App>, session: &Arc<Session>, is_first: bool) -> Came {
    let (app, session) = (Arc::clone(app), Arc::clone(session));
    let told = async move {
        let was_elsewhere = app.whereabouts.user_connected(&session.user, is_first).await;
        if is_first && !was_elsewhere {
            app.hub.user_connected(&session.user);
        }
    };
    AssertUnwindSafe(told)
        .catch_unwind()
        .map(|told| told.map_err(|_| CloseCode::InternalError))
        .boxed()
        .shared()
}

/// Registers with the fleet first, so that new messages reach this node, then sends the backlog.
/// For a user's first connection, also stores `last_seen_at` now, in case the server is killed
/// later. A rate limit skips this for users who reconnect often; their disconnect stores it.
fn arrive(
    app: &Arc<App>,
    session: &Arc<Session>,
    positions: Vec<Position>,
    is_first: bool,
    came: Came,
) -> CatchingUp {
    let catching_up = catch_up(Arc::clone(app), Arc::clone(session), positions);
    let (app, session) = (Arc::clone(app), Arc::clone(session));
    Box::pin(async move {
        let caught_up = async {
            came.await?;
            catching_up.await
        };
        match is_first && app.budgets.of(&session.user).notes_arrival() {
            true => join(caught_up, seen(&app, &session.user)).await.0,
            false => caught_up.await,
        }
    })
}

/// Handles the end of the user's last connection. Receipts are `settled` before the fleet is told,
/// so that acknowledged messages do not become pending.
async fn leave(app: &App, user: &UserId, settled: impl Future<Output = ()>) {
    let told = async {
        settled.await;
        app.whereabouts.user_disconnected(user).await;
    };
    join(seen(app, user), told).await;
    app.hub.user_disconnected(user);
}

/// Stores the current time as the user's `last_seen_at`. A failure is only logged.
async fn seen(app: &App, user: &UserId) {
    let last_seen_at = Some(app.clock.now());
    let update = ProfileUpdate { last_seen_at, ..ProfileUpdate::of(user.clone()) };
    if let Err(error) = app.chat.update_profile(update).await {
        tracing::debug!(%user, %error, "when a user was last here could not be stored");
    }
}

/// Keeps a gauge incremented while this value lives.
pub(super) struct Counted<'a>(&'a Gauge);

impl<'a> Counted<'a> {
    pub fn new(gauge: &'a Gauge) -> Counted<'a> {
        gauge.inc();
        Counted(gauge)
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.dec();
    }
}

impl Connection {
    async fn run(&mut self, pipe: &mut Pipe) -> End {
        loop {
            let ended = match poll_fn(|cx| self.poll_event(cx, pipe)).await {
                Event::Pipe(PipeEvent::Heard(message)) => self.heard(message),
                Event::Pipe(PipeEvent::Flushed) => {
                    self.refill(pipe).map_err(|Overflowed| Some(CloseCode::SlowConsumer))
                }
                Event::Closing => self.last_words(pipe),
                Event::Ending(why) => Err(Some(why)),
                Event::FellBehind => Err(Some(CloseCode::SlowConsumer)),
                Event::Pipe(PipeEvent::Ended(error)) => Err(error.as_ref().and_then(farewell::code_for)),
                Event::Submitted(sending, result) => {
                    self.submitted(sending, result);
                    Ok(())
                }
                Event::SendDone(sending, result) => {
                    self.send_done(sending, result);
                    Ok(())
                }
                Event::ReceiptDone(done) => {
                    self.mark_done(done);
                    Ok(())
                }
                Event::TypingMembers(members) => {
                    self.typing_members(members);
                    Ok(())
                }
                Event::CaughtUp(result) => {
                    self.catching_up = None;
                    result.map_err(Some)
                }
                Event::TimerFired => self.timer_fired(pipe),
            };
            if let Err(end) = ended {
                if end != Some(CloseCode::Restarting) {
                    pipe.forget_queued();
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
    fn poll_event(&mut self, cx: &mut Context<'_>, pipe: &mut Pipe) -> Poll<Event> {
        if self.session.outbox.poll_pushed(cx).is_ready() {
            if self.app.lifecycle.is_closing() {
                return Poll::Ready(Event::Closing);
            }
            if let Some(why) = self.session.ending() {
                return Poll::Ready(Event::Ending(why));
            }
            if self.refill(pipe).is_err() {
                return Poll::Ready(Event::FellBehind);
            }
        }
        self.turns = self.turns.wrapping_add(1);
        if self.turns.is_multiple_of(TURNS_BETWEEN_TIMERS) && self.timers.poll_fired(cx).is_ready() {
            return Poll::Ready(Event::TimerFired);
        }
        if let Some(submitting) = &mut self.submitting
            && let Poll::Ready((sending, result)) = submitting.as_mut().poll(cx)
        {
            self.submitting = None;
            return Poll::Ready(Event::Submitted(sending, result));
        }
        if let Poll::Ready((sending, result)) = self.sends.poll(cx) {
            return Poll::Ready(Event::SendDone(sending, result));
        }
        if let Poll::Ready(done) = self.pending_receipts.poll(cx) {
            return Poll::Ready(Event::ReceiptDone(done));
        }
        if let Poll::Ready(members) = self.typing.poll(cx) {
            return Poll::Ready(Event::TypingMembers(members));
        }
        if let Some(catching_up) = &mut self.catching_up
            && let Poll::Ready(result) = catching_up.as_mut().poll(cx)
        {
            return Poll::Ready(Event::CaughtUp(result));
        }
        let (reading, outbox) = (self.is_listening(), &self.session.outbox);
        if let Poll::Ready(event) = pipe.poll(cx, reading, &mut |cost| outbox.written(cost)) {
            return Poll::Ready(Event::Pipe(event));
        }
        self.timers.poll_fired(cx).map(|()| Event::TimerFired)
    }

    /// Whether to read from the client. Too many pending sends, receipts or held frames stop
    /// reading, and TCP flow control then slows down the client.
    fn is_listening(&self) -> bool {
        self.submitting.is_none()
            && self.sends.len() < self.most_sends
            && !self.pending_receipts.are_too_many()
            && self.session.catch_up.held_frames() < MOST_HELD_FRAMES
    }

    /// Moves frames from the outbox to the socket writer once it has written the previous ones.
    fn refill(&mut self, pipe: &mut Pipe) -> Result<(), Overflowed> {
        let outbox = &self.session.outbox;
        if pipe.is_writing() {
            return if outbox.overflowed() { Err(Overflowed) } else { Ok(()) };
        }
        outbox.take(pipe.waiting())
    }

    fn heard(&mut self, message: Message) -> Result<(), End> {
        self.timers.heard();
        if self.timers.token_expired() {
            return Err(Some(CloseCode::TokenExpired));
        }
        match message {
            Message::Text(text) => self.text(&text).map_err(Some),
            Message::Binary(_) => self.binary().map_err(Some),
            // The protocol answers pings by itself; they still count as requests. So do pongs: the
            // few that answer our own pings make no difference.
            Message::Ping(_) | Message::Pong(_) | Message::Frame(_) => self.control_frame().map_err(Some),
            Message::Close(_) => Err(Some(CloseCode::Normal)),
        }
    }

    fn timer_fired(&mut self, pipe: &mut Pipe) -> Result<(), End> {
        if !self.is_listening() {
            // The server is not reading, so it cannot call the client idle.
            self.timers.heard();
        }
        match self.timers.due() {
            Due::Nothing => Ok(()),
            Due::Ping => {
                pipe.ping();
                // The connection is idle, so free unused memory.
                self.sends.rest();
                self.pending_receipts.rest();
                self.typing.rest();
                Ok(())
            }
            Due::Close(code) => Err(Some(code)),
        }
    }

    /// Takes the last frames at the end of a drain. The outbox then contains everything that was
    /// committed.
    fn last_words(&mut self, pipe: &mut Pipe) -> Result<(), End> {
        // If the outbox has overflowed, only the close is sent.
        let _ = self.session.outbox.take(pipe.waiting());
        Err(Some(CloseCode::Restarting))
    }
}
