//! One connection: a loop over everything that can happen to it, until one of those things ends it.

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
use super::marks::{MarkDone, Marks};
use super::pipe::{Pipe, PipeEvent};
use super::timers::{Due, Timers};
use super::typing::{Members, Typing};
use super::{farewell, hello};
use crate::app::App;
use crate::hub::{Frame, Outbox, Overflowed, Session};
use crate::limits::UserBudget;
use crate::settings::at_most;

/// Acks that may wait for their places in a backlog; while that many do, the connection is not read from.
const MOST_HELD_FRAMES: usize = 1_024;

/// Everything that can happen to a connection.
enum Event {
    Pipe(PipeEvent),
    /// More waits for the client than it may be behind.
    FellBehind,
    /// The server closes.
    Closing,
    /// The token is void, or something else speaks against going on.
    Ending(CloseCode),
    Submitted(Sending, Result<Accepted, ChatError>),
    SendDone(Sending, Result<Appended, ChatError>),
    MarkDone(MarkDone),
    TypingMembers(Members),
    CaughtUp(Result<(), CloseCode>),
    TimerFired,
}

/// Why a connection ended: a code to close with, or the client is gone.
pub(super) type End = Option<CloseCode>;

pub(super) struct Connection {
    pub app: Arc<App>,
    pub session: Arc<Session>,
    pub budget: UserBudget,
    pub flood: FloodWatch,
    /// While there is one, the next frame is not read.
    pub submitting: Option<Submitting>,
    pub sends: Flights<InFlight>,
    most_sends: usize,
    pub marks: Marks,
    pub typing: Typing,
    /// While there is one, the device is being sent what it missed.
    catching_up: Option<CatchingUp>,
    timers: Timers,
    /// It was told that something is wrong with what it says.
    pub was_refused: bool,
    /// How often it was looked at what has happened.
    turns: u32,
}

/// A connection on which something happens all the time still looks at its timers, once in so many turns.
const TURNS_BETWEEN_TIMERS: u32 = 64;

/// The first and the last things a connection does take several times the memory of what lies between, where it spends
/// its life: each is in a box of its own, for as long as it lasts.
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

/// From hello to goodbye.
async fn attend(mut pipe: Box<Pipe>, app: &Arc<App>, greeting: Greeting) {
    let Greeting { claims, positions } = greeting;
    let outbox = Outbox::new(at_most(app.limits.outbox_bytes), app.metrics.outbox_bytes.clone());
    let limit = at_most(app.limits.connections_per_user);
    let sessions = app.hub.sessions();
    let id = sessions.next_id();
    let welcome = encode_welcome(&claims.user, &id.to_string(), app.store.epoch(), app.clock.now());
    outbox.push(Frame::from(welcome));
    // Registered before it is asked what the device missed: whatever is committed from here on reaches it.
    let Ok(registration) = sessions.register(id, claims.user.clone(), claims.token, outbox, limit) else {
        return Box::pin(say_goodbye(pipe, app, Some(CloseCode::TooManyConnections))).await;
    };
    // Asked again now that a revocation finds it here: one that came before is known by now.
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
        marks: Marks::new(app, &session),
        typing: Typing::new(),
        catching_up: Some(arrive(app, &session, positions, registration.is_first, came.clone())),
        timers: Timers::new(&app.limits, Arc::clone(&app.clock), claims.expires_at()),
        was_refused: false,
        turns: 0,
        session: Arc::clone(&session),
    };
    let conversation = AssertUnwindSafe(connection.run(&mut pipe)).catch_unwind();
    let end = conversation.await.unwrap_or(Some(CloseCode::InternalError));
    // The session is out of the hub before the client is told anything.
    let was_last = registration.end();
    let Connection { marks, .. } = connection;
    drop(counted);
    tracing::debug!(session = %session.id, end = end.map(tracing::field::display), "disconnected");
    Box::pin(part(app, pipe, end, Parting { session, came, marks, was_last })).await;
}

/// A connection was turned away after all, while another one of the user's may have counted on it: one that went, to tell
/// that the user has gone, or one that came, to tell that it is here.
async fn stand_in(app: &App, user: &UserId, is_first: bool, was_last: bool) {
    if was_last && !is_first {
        leave(app, user, std::future::ready(())).await;
    } else if is_first && !was_last && !app.whereabouts.came(user, true).await {
        app.hub.came(user);
    }
}

/// What is left of a connection that has ended.
struct Parting {
    session: Arc<Session>,
    came: Came,
    marks: Marks,
    was_last: bool,
}

async fn part(app: &App, pipe: Box<Pipe>, end: End, parting: Parting) {
    let Parting { session, came, marks, was_last } = parting;
    let settled = async {
        // It may have ended before the fleet had heard that it came.
        let _ = came.await;
        marks.finish().await;
    };
    let left = async {
        match was_last {
            true => leave(app, &session.user, settled).await,
            false => settled.await,
        }
    };
    join(say_goodbye(pipe, app, end), left).await;
}

/// The fleet hears that the user is here, and unless it was elsewhere already, so do its friends. Begun once and brought
/// to its end also when the connection ends before.
type Came = Shared<BoxFuture<'static, Result<(), CloseCode>>>;

fn came(app: &Arc<App>, session: &Arc<Session>, is_first: bool) -> Came {
    let (app, session) = (Arc::clone(app), Arc::clone(session));
    let told = async move {
        let was_elsewhere = app.whereabouts.came(&session.user, is_first).await;
        if is_first && !was_elsewhere {
            app.hub.came(&session.user);
        }
    };
    AssertUnwindSafe(told)
        .catch_unwind()
        .map(|told| told.map_err(|_| CloseCode::InternalError))
        .boxed()
        .shared()
}

/// The device is sent what it missed, once everything that is new finds the way to it. That a user is here is noted at
/// once: should the server be killed, nobody writes it later. One who comes and goes all the time is noted when going.
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

/// The user's last connection has ended. What its devices have said is settled before the fleet hears of it, so that
/// nothing they have is taken for pending.
async fn leave(app: &App, user: &UserId, settled: impl Future<Output = ()>) {
    let told = async {
        settled.await;
        app.whereabouts.went(user).await;
    };
    join(seen(app, user), told).await;
    app.hub.went(user);
}

async fn seen(app: &App, user: &UserId) {
    let last_seen_at = Some(app.clock.now());
    let update = ProfileUpdate { last_seen_at, ..ProfileUpdate::of(user.clone()) };
    if let Err(error) = app.chat.update_profile(update).await {
        tracing::debug!(%user, %error, "when a user was last here could not be stored");
    }
}

/// Counts something for as long as it lives.
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
                Event::MarkDone(done) => {
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
            // Nonsense comes at no cost to whoever says it. All others have their turn before the next of it is heard.
            if std::mem::take(&mut self.was_refused) {
                tokio::task::yield_now().await;
            }
        }
    }

    /// What has happened. The client is heard last: one that says much does not keep anything else waiting.
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
        if let Poll::Ready(done) = self.marks.poll(cx) {
            return Poll::Ready(Event::MarkDone(done));
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

    /// While as much as is allowed waits for the store, or for its place in the backlog, the client waits too: TCP
    /// tells it to.
    fn is_listening(&self) -> bool {
        self.submitting.is_none()
            && self.sends.len() < self.most_sends
            && !self.marks.are_too_many()
            && self.session.catch_up.held_frames() < MOST_HELD_FRAMES
    }

    /// Moves frames from the outbox to the socket, once it has written those before.
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
            // The socket answers pings by itself; they still count as requests. So do pongs: the few that answer our
            // own pings make no difference.
            Message::Ping(_) | Message::Pong(_) | Message::Frame(_) => self.control_frame().map_err(Some),
            Message::Close(_) => Err(Some(CloseCode::Normal)),
        }
    }

    fn timer_fired(&mut self, pipe: &mut Pipe) -> Result<(), End> {
        if !self.is_listening() {
            // It is we who do not.
            self.timers.heard();
        }
        match self.timers.due() {
            Due::Nothing => Ok(()),
            Due::Ping => {
                pipe.ping();
                // It is quiet.
                self.sends.rest();
                self.marks.rest();
                self.typing.rest();
                Ok(())
            }
            Due::Close(code) => Err(Some(code)),
        }
    }

    /// At the end of a drain everything committed is in the outbox, so what is there now is all there will be.
    fn last_words(&mut self, pipe: &mut Pipe) -> Result<(), End> {
        // Should it have overflowed, there is nothing to be said before the goodbye.
        let _ = self.session.outbox.take(pipe.waiting());
        Err(Some(CloseCode::Restarting))
    }
}
