//! One connection: a loop over everything that can happen to it, until one of those things ends it.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use axum::extract::ws::{Message, WebSocket};
use bluetick_auth::Claims;
use bluetick_core::chat::ChatError;
use bluetick_core::ports::{Accepted, Appended};
use bluetick_wire::CloseCode;
use bluetick_wire::frame::{encode_caught_up, encode_welcome};
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt, StreamExt};
use prometheus_client::metrics::gauge::Gauge;
use tokio::sync::watch;

use super::frames::{FloodWatch, InFlight, Sending, Submitting};
use super::pipe::{Pipe, PipeEvent};
use super::timers::{Due, Timers};
use super::{farewell, hello};
use crate::app::App;
use crate::drain::Phase;
use crate::hub::{Batch, Frame, Outbox, Session};
use crate::limits::UserBudget;
use crate::settings::at_most;

/// Frames are taken from the outbox about this much at a time, and written before they are flushed once.
const BATCH_BYTES: usize = 64 * 1024;

/// Everything that can happen to a connection.
enum Event {
    Pipe(PipeEvent),
    OutboxPushed,
    Submitted(Sending, Result<Accepted, ChatError>),
    SendDone(Sending, Result<Appended, ChatError>),
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
    timers: Timers,
    phase: watch::Receiver<Phase>,
}

pub(super) async fn run(socket: WebSocket, app: Arc<App>) {
    let mut pipe = Pipe::new(socket);
    let mut phase = app.lifecycle.watch();
    let end = match hello::receive(&mut pipe, &app, &mut phase).await {
        Ok(claims) => {
            let conversation = AssertUnwindSafe(converse(&mut pipe, &app, claims, phase)).catch_unwind();
            conversation.await.unwrap_or(Some(CloseCode::InternalError))
        }
        Err(end) => end,
    };
    if let Some(code) = end {
        app.metrics.closed(code);
        farewell::close(pipe, code, app.settings.drain()).await;
    }
}

/// From hello to the end. The session is out of the hub when this returns.
async fn converse(pipe: &mut Pipe, app: &Arc<App>, claims: Claims, phase: watch::Receiver<Phase>) -> End {
    let outbox = Outbox::new(at_most(app.limits.outbox_bytes), app.metrics.outbox_bytes.clone());
    let limit = at_most(app.limits.connections_per_user);
    let sessions = app.hub.sessions();
    let id = sessions.next_id();
    let welcome = encode_welcome(&claims.user, &id.to_string(), app.store.epoch(), app.clock.now());
    outbox.push(Frame::from(welcome));
    outbox.push(Frame::from_static(encode_caught_up()));
    // Registered before anything is written: whatever is committed from here on follows in the outbox.
    let Ok(registration) = sessions.register(id, claims.user.clone(), outbox, limit) else {
        return Some(CloseCode::TooManyConnections);
    };
    let session = Arc::clone(&registration.session);
    let _counted = Counted::new(&app.metrics.connections);
    tracing::debug!(session = %session.id, user = %session.user, "connected");
    let mut connection = Connection {
        app: Arc::clone(app),
        budget: app.budgets.of(&claims.user),
        flood: FloodWatch::new(app.limits.flood_rejections),
        submitting: None,
        sends: FuturesUnordered::new(),
        most_sends: at_most(app.limits.in_flight_sends_per_connection),
        timers: Timers::new(&app.limits, Arc::clone(&app.clock), claims.expires_at),
        phase,
        session: Arc::clone(&session),
    };
    let end = connection.run(pipe).await;
    drop(registration);
    tracing::debug!(session = %session.id, end = end.map(tracing::field::display), "disconnected");
    end
}

/// Counts a connection for as long as it lives.
struct Counted<'a>(&'a Gauge);

impl<'a> Counted<'a> {
    fn new(gauge: &'a Gauge) -> Counted<'a> {
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
        // While as many sends as allowed wait for the store, the client waits too: TCP tells it to.
        let reading = self.submitting.is_none() && self.sends.len() < self.most_sends;
        let outbox = &self.session.outbox;
        let submitted = async {
            match &mut self.submitting {
                Some(submitting) => submitting.await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            event = pipe.next(reading, |frame| outbox.written(frame)) => Event::Pipe(event),
            () = outbox.pushed() => Event::OutboxPushed,
            (sending, result) = submitted => Event::Submitted(sending, result),
            Some((sending, result)) = self.sends.next() => Event::SendDone(sending, result),
            () = self.timers.fired() => Event::TimerFired,
            _ = self.phase.changed() => Event::PhaseChanged,
        }
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
        if self.submitting.is_some() || self.sends.len() >= self.most_sends {
            // It is we who do not listen.
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
