//! One connection: a loop over everything that can happen to it, until one of those things ends it.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use axum::extract::ws::{Message, WebSocket};
use bluetick_core::chat::ChatError;
use bluetick_core::ports::{Accepted, Appended, Position};
use bluetick_core::{ProfileUpdate, UserId};
use bluetick_wire::CloseCode;
use bluetick_wire::frame::encode_welcome;
use futures_util::future::{BoxFuture, Shared, join};
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt, StreamExt};
use prometheus_client::metrics::gauge::Gauge;
use tokio::sync::watch;

use super::catch_up::{CatchingUp, catch_up};
use super::farewell::Goodbye;
use super::frames::{FloodWatch, InFlight, Sending, Submitting};
use super::hello::Greeting;
use super::marks::{MarkDone, Marks};
use super::pipe::{Pipe, PipeEvent};
use super::timers::{Due, Timers};
use super::typing::{Members, Typing};
use super::{farewell, hello};
use crate::app::App;
use crate::drain::Phase;
use crate::hub::{Batch, Frame, Outbox, Session};
use crate::limits::UserBudget;
use crate::settings::at_most;

/// Frames are taken from the outbox about this much at a time, and written before they are flushed once.
const BATCH_BYTES: usize = 64 * 1024;

/// Acks that may wait for their places in a backlog; while that many do, the connection is not read from.
const MOST_HELD_FRAMES: usize = 1_024;

/// Everything that can happen to a connection.
enum Event {
    Pipe(PipeEvent),
    OutboxPushed,
    Submitted(Sending, Result<Accepted, ChatError>),
    SendDone(Sending, Result<Appended, ChatError>),
    MarkDone(MarkDone),
    TypingMembers(Members),
    CaughtUp(Result<(), CloseCode>),
    TimerFired,
    PhaseChanged,
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
    pub sends: FuturesUnordered<InFlight>,
    most_sends: usize,
    pub marks: Marks,
    pub typing: Typing,
    /// While there is one, the device is being sent what it missed.
    catching_up: Option<CatchingUp>,
    timers: Timers,
    phase: watch::Receiver<Phase>,
}

pub(super) async fn run(socket: WebSocket, app: Arc<App>) {
    let mut pipe = Pipe::new(socket);
    let mut phase = app.lifecycle.watch();
    match hello::receive(&mut pipe, &app, &mut phase).await {
        Ok(greeting) => attend(pipe, &app, greeting, phase).await,
        Err(end) => say_goodbye(pipe, &app, end).await,
    }
}

async fn say_goodbye(pipe: Pipe, app: &App, end: End) {
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
async fn attend(mut pipe: Pipe, app: &Arc<App>, greeting: Greeting, phase: watch::Receiver<Phase>) {
    let Greeting { claims, positions } = greeting;
    let outbox = Outbox::new(at_most(app.limits.outbox_bytes), app.metrics.outbox_bytes.clone());
    let limit = at_most(app.limits.connections_per_user);
    let sessions = app.hub.sessions();
    let id = sessions.next_id();
    let welcome = encode_welcome(&claims.user, &id.to_string(), app.store.epoch(), app.clock.now());
    outbox.push(Frame::from(welcome));
    // Registered before it is asked what the device missed: whatever is committed from here on reaches it.
    let Ok(registration) = sessions.register(id, claims.user.clone(), outbox, limit) else {
        return say_goodbye(pipe, app, Some(CloseCode::TooManyConnections)).await;
    };
    let session = Arc::clone(&registration.session);
    let came = came(app, &session, registration.is_first);
    let counted = Counted::new(&app.metrics.connections);
    tracing::debug!(session = %session.id, user = %session.user, "connected");
    let mut connection = Connection {
        app: Arc::clone(app),
        budget: app.budgets.of(&claims.user),
        flood: FloodWatch::new(app.limits.flood_rejections),
        submitting: None,
        sends: FuturesUnordered::new(),
        most_sends: at_most(app.limits.in_flight_sends_per_connection),
        marks: Marks::new(app, &session),
        typing: Typing::new(),
        catching_up: Some(arrive(app, &session, positions, registration.is_first, came.clone())),
        timers: Timers::new(&app.limits, Arc::clone(&app.clock), claims.expires_at),
        phase,
        session: Arc::clone(&session),
    };
    let conversation = AssertUnwindSafe(connection.run(&mut pipe)).catch_unwind();
    let end = conversation.await.unwrap_or(Some(CloseCode::InternalError));
    // The session is out of the hub before the client is told anything.
    let was_last = registration.end();
    let Connection { marks, .. } = connection;
    drop(counted);
    tracing::debug!(session = %session.id, end = end.map(tracing::field::display), "disconnected");
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
/// once: should the server be killed, nobody writes it later.
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
        match is_first {
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
    let update = ProfileUpdate { user: user.clone(), last_seen_at, hides_presence: None };
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
            let ended = match self.next_event(pipe).await {
                Event::Pipe(PipeEvent::Heard(message)) => self.heard(message),
                Event::Pipe(PipeEvent::Flushed) | Event::OutboxPushed => self.refill(pipe),
                Event::Pipe(PipeEvent::Ended(error)) => Err(error.and_then(farewell::code_for)),
                Event::Submitted(sending, result) => {
                    self.submitting = None;
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
                Event::PhaseChanged => self.phase_changed(pipe),
            };
            if let Err(end) = ended {
                if end != Some(CloseCode::Restarting) {
                    pipe.forget_queued();
                }
                return end;
            }
        }
    }

    async fn next_event(&mut self, pipe: &mut Pipe) -> Event {
        let reading = self.is_listening();
        let outbox = &self.session.outbox;
        let submitted = async {
            match &mut self.submitting {
                Some(submitting) => submitting.await,
                None => std::future::pending().await,
            }
        };
        let caught_up = async {
            match &mut self.catching_up {
                Some(catching_up) => catching_up.await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            event = pipe.next(reading, |frame| outbox.written(frame)) => Event::Pipe(event),
            () = outbox.pushed() => Event::OutboxPushed,
            (sending, result) = submitted => Event::Submitted(sending, result),
            Some((sending, result)) = self.sends.next() => Event::SendDone(sending, result),
            done = self.marks.done() => Event::MarkDone(done),
            members = self.typing.members() => Event::TypingMembers(members),
            result = caught_up => Event::CaughtUp(result),
            () = self.timers.fired() => Event::TimerFired,
            _ = self.phase.changed() => Event::PhaseChanged,
        }
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
    fn refill(&mut self, pipe: &mut Pipe) -> Result<(), End> {
        if pipe.is_writing() {
            return if self.session.outbox.overflowed() {
                Err(Some(CloseCode::SlowConsumer))
            } else {
                Ok(())
            };
        }
        match self.session.outbox.take(BATCH_BYTES) {
            Batch::Frames(frames) => frames.into_iter().for_each(|frame| pipe.write(Message::Text(frame))),
            Batch::Empty => {}
            Batch::Overflowed => return Err(Some(CloseCode::SlowConsumer)),
        }
        Ok(())
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
            Message::Ping(_) | Message::Pong(_) => self.control_frame().map_err(Some),
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
                pipe.write(Message::Ping(axum::body::Bytes::new()));
                Ok(())
            }
            Due::Close(code) => Err(Some(code)),
        }
    }

    /// At the end of a drain everything committed is in the outbox, so what is there now is all there will be.
    fn phase_changed(&mut self, pipe: &mut Pipe) -> Result<(), End> {
        if *self.phase.borrow_and_update() < Phase::Closing {
            return Ok(());
        }
        if let Batch::Frames(frames) = self.session.outbox.take(usize::MAX) {
            frames.into_iter().for_each(|frame| pipe.write(Message::Text(frame)));
        }
        Err(Some(CloseCode::Restarting))
    }
}
