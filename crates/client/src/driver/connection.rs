//! The driver's connection: dialling, hello, liveness checks, and the reaction to its end.

use std::pin::Pin;
use std::time::Duration;

use bluetick_types::UserId;
use tokio::time::{Instant, sleep_until};

use super::Driver;
use crate::api::{IssuedToken, NoToken};
use crate::backoff::Ending;
use crate::link::{ClientFrame, Frame, Link, LinkError, ServerFrame};
use crate::state::{Event, Phase};
use crate::storage_writer::{Order, StorageBatch};
use crate::stored_state::outbox_change;
use crate::wire::codes::CloseCode;
use crate::wire::frames::Welcome;

/// Timeout for the `welcome` after the `hello`. The driver then reconnects. If it is too short, a
/// busy server gets the same `hello` again and again.
const WELCOME_WITHIN: Duration = Duration::from_secs(15);
/// Interval between pings. Must be shorter than `SILENT_FOR`, because the `pong` keeps an idle
/// connection alive.
const PING_EVERY: Duration = Duration::from_secs(25);
/// Time without any frame after which the driver drops the connection. A dead network can leave a
/// socket open for many minutes.
const SILENT_FOR: Duration = Duration::from_secs(40);
/// Timeout for the answer to a send. The driver then reconnects and sends the message again. If it
/// is too short, a slow store causes resends.
pub(super) const ACK_WITHIN: Duration = Duration::from_secs(30);

type ConnectAttempt = Pin<Box<dyn Future<Output = ConnectionEvent> + Send>>;

/// The phase of the driver's connection. `Pause` waits before the next attempt.
pub enum ConnectionPhase {
    Pause {
        until: Instant,
    },
    /// Getting a token and connecting.
    ConnectAttempt(ConnectAttempt),
    /// Connected; the `hello` is sent.
    Open(Box<OpenConnection>),
    /// Logged out, stopped, or the token belongs to another user. No further attempt follows.
    Closed,
}

/// An open connection.
pub struct OpenConnection {
    pub link: Link,
    given: IssuedToken,
    pub vigil: LivenessCheck,
    /// The reconnect pause that the server requested with `come_back`.
    hint: Option<Duration>,
}

/// Tracks whether the server is still alive.
pub struct LivenessCheck {
    pub welcomed: bool,
    since: Instant,
    heard_at: Instant,
    pinged_at: Instant,
}

/// The action that a liveness check requires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LivenessAction {
    Nothing,
    /// Send a ping.
    Ping,
    /// The server is silent; drop the connection.
    GiveUp,
}

impl LivenessCheck {
    fn new(now: Instant) -> LivenessCheck {
        LivenessCheck { welcomed: false, since: now, heard_at: now, pinged_at: now }
    }

    /// When `care` has to run next.
    fn next_timer(&self) -> Instant {
        if self.welcomed {
            (self.pinged_at + PING_EVERY).min(self.heard_at + SILENT_FOR)
        } else {
            self.since + WELCOME_WITHIN
        }
    }

    /// Checks the timeouts. Returns `Ping` at most once per `PING_EVERY`.
    pub fn care(&mut self, now: Instant) -> LivenessAction {
        let is_gone = if self.welcomed {
            now >= self.heard_at + SILENT_FOR
        } else {
            now >= self.since + WELCOME_WITHIN
        };
        if is_gone {
            return LivenessAction::GiveUp;
        }
        if self.welcomed && now >= self.pinged_at + PING_EVERY {
            self.pinged_at = now;
            return LivenessAction::Ping;
        }
        LivenessAction::Nothing
    }
}

/// An event of the connection.
pub enum ConnectionEvent {
    /// The reconnect pause has ended.
    PauseOver,
    Opened(Box<Link>, IssuedToken),
    NoToken(NoToken),
    /// Connecting failed.
    Failed(LinkError),
    Frame(Frame),
    /// An open connection ended.
    Ended(LinkError),
}

impl ConnectionPhase {
    /// Waits for the next event. Cancel-safe.
    pub async fn next(&mut self) -> ConnectionEvent {
        match self {
            ConnectionPhase::Pause { until } => {
                sleep_until(*until).await;
                ConnectionEvent::PauseOver
            }
            ConnectionPhase::ConnectAttempt(dialling) => dialling.await,
            ConnectionPhase::Open(open) => match open.link.next().await {
                Ok(frame) => ConnectionEvent::Frame(frame),
                Err(error) => ConnectionEvent::Ended(error),
            },
            ConnectionPhase::Closed => std::future::pending().await,
        }
    }

    /// Ends the reconnect pause.
    pub fn hurry(&mut self) {
        if let ConnectionPhase::Pause { until } = self {
            *until = Instant::now();
        }
    }

    /// When the liveness check has to run next.
    pub fn next_timer(&self) -> Option<Instant> {
        match self {
            ConnectionPhase::Open(open) => Some(open.vigil.next_timer()),
            _ => None,
        }
    }
}

impl Driver {
    /// Starts to get a token and to connect. A token that equals `refused_token` is renewed first.
    pub(super) fn dial(&mut self) {
        self.shared.set_phase(Phase::Connecting, None);
        let shared = std::sync::Arc::clone(&self.shared);
        let refused = self.refused_token.clone();
        self.line = ConnectionPhase::ConnectAttempt(Box::pin(async move {
            let given = match shared.api.token(refused.as_deref()).await {
                Ok(given) => given,
                Err(reason) => return ConnectionEvent::NoToken(reason),
            };
            match Link::open(&shared.server).await {
                Ok(link) => ConnectionEvent::Opened(Box::new(link), given),
                Err(error) => ConnectionEvent::Failed(error),
            }
        }));
    }

    /// Sends the `hello` with the device's positions.
    pub(super) async fn greet(&mut self, mut link: Link, given: IssuedToken) {
        let positions = self.shared.read(|state| state.positions());
        let device_id = self.shared.device_id.as_deref();
        let hello = ClientFrame::Hello { token: &given.token, device_id, positions };
        if let Err(error) = link.send(&hello).await {
            return self.lost(Ending { code: error.close_code(), ..Ending::default() }).await;
        }
        let vigil = LivenessCheck::new(Instant::now());
        self.line = ConnectionPhase::Open(Box::new(OpenConnection { link, given, vigil, hint: None }));
    }

    /// Handles one frame. Every frame counts as a sign of life.
    pub(super) async fn on_frame(&mut self, frame: &Frame) {
        let now = Instant::now();
        let ConnectionPhase::Open(open) = &mut self.line else { return };
        open.vigil.heard_at = now;
        // A frame that does not parse comes from a newer server. Ignore it like an unknown type.
        let Ok(frame) = frame.decode() else { return };
        match frame {
            ServerFrame::Welcome(welcome) if self.shared.read(|state| state.user != welcome.user_id) => {
                self.is_somebody_else(welcome.user_id);
            }
            ServerFrame::Welcome(welcome) => {
                open.vigil.welcomed = true;
                self.refused_token = None;
                self.welcomed(&welcome).await;
            }
            ServerFrame::ComeBack(come_back) => open.hint = Some(Duration::from_millis(come_back.after_ms)),
            ServerFrame::Error(error) => self.refused(&error, now).await,
            ServerFrame::Pong | ServerFrame::Unknown => {}
            other => self.shared.change_as_driver(|state| state.hear(other, now)),
        }
    }

    /// Handles `welcome`. If the server's epoch changed, removes the stored messages and rows and
    /// resets `after_seq` of the unsent messages.
    async fn welcomed(&mut self, welcome: &Welcome) {
        self.shared.set_phase(Phase::Online, None);
        let ledger = &mut self.ledger;
        let changes = self.shared.change_as_driver(|state| {
            if !state.welcome(welcome.epoch, welcome.server_time) {
                return Vec::new();
            }
            let mut changes = ledger.forget_messages();
            changes.extend(state.outbox.another_epoch().iter().map(outbox_change));
            changes.extend(ledger.changes(state));
            changes
        });
        if !changes.is_empty() {
            // An error means that the storage writer has ended and the client is shutting down.
            let _ordered = self
                .shared
                .orders
                .send(Order::Write(StorageBatch { changes, ..StorageBatch::default() }))
                .await;
        }
    }

    /// Describes the end of the current connection for the backoff.
    pub(super) fn ending(&self, code: Option<CloseCode>) -> Ending {
        match &self.line {
            ConnectionPhase::Open(open) => {
                Ending { code, hint: open.hint, lasted: open.vigil.since.elapsed() }
            }
            _ => Ending { code, ..Ending::default() },
        }
    }

    /// Handles the end of a connection or attempt: resets the connection state and schedules the
    /// next attempt.
    ///
    /// After a close code that asks for a login, reconnects at once with another token. Logs out
    /// instead if the token was already renewed and the server did not send `welcome`.
    pub(super) async fn lost(&mut self, ending: Ending) {
        if ending.code == Some(CloseCode::FRAME_TOO_LARGE) {
            self.frame_was_too_large().await;
        }
        if let ConnectionPhase::Open(open) = std::mem::replace(&mut self.line, ConnectionPhase::Closed)
            && ending.code.is_some_and(CloseCode::asks_for_login)
        {
            if open.given.is_renewed && !open.vigil.welcomed {
                return self.log_out();
            }
            self.refused_token = Some(open.given.token);
            self.shared.change_as_driver(|state| state.connection_lost());
            // Reconnect without backoff: the token source provides the new token, so waiting for
            // the server does not help.
            self.line = ConnectionPhase::Pause { until: Instant::now() };
            return;
        }
        self.shared.change_as_driver(|state| state.connection_lost());
        self.again.clear();
        (self.ack_at, self.acks_held) = (None, false);
        self.shared.set_phase(Phase::Offline, ending.code);
        let pause = self.backoff.pause(ending, self.shared.random.as_ref());
        self.line = ConnectionPhase::Pause { until: Instant::now() + pause };
    }

    /// Closes the connection for good, because the token belongs to another user. Otherwise the
    /// client would mix the chats of two users and send in the other user's name.
    fn is_somebody_else(&mut self, other: UserId) {
        self.shared.api.token_is_foreign();
        self.line = ConnectionPhase::Closed;
        self.shared.change_as_driver(|state| {
            state.connection_lost();
            state.todo.events.push(Event::OtherUser(other));
        });
        self.shared.set_phase(Phase::OtherUser, None);
    }

    /// Closes the connection for good, because no valid token is available.
    pub(super) fn log_out(&mut self) {
        self.shared.change_as_driver(|state| state.connection_lost());
        self.line = ConnectionPhase::Closed;
        self.shared.set_phase(Phase::LoggedOut, None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn unanswered_hello_ends_the_connection() {
        let start = Instant::now();
        let mut vigil = LivenessCheck::new(start);
        assert_eq!(vigil.care(start + Duration::from_secs(14)), LivenessAction::Nothing);
        assert_eq!(vigil.care(vigil.next_timer()), LivenessAction::GiveUp);
    }

    #[tokio::test]
    async fn quiet_connection_is_pinged_and_a_dead_one_is_closed() {
        let start = Instant::now();
        let mut vigil = LivenessCheck::new(start);
        vigil.welcomed = true;
        assert_eq!(vigil.care(start + Duration::from_secs(24)), LivenessAction::Nothing);
        assert_eq!(vigil.care(vigil.next_timer()), LivenessAction::Ping);
        assert_eq!(vigil.care(start + Duration::from_secs(26)), LivenessAction::Nothing);
        let mut answered = LivenessCheck { heard_at: start + Duration::from_secs(26), ..vigil };
        assert_eq!(answered.care(start + Duration::from_secs(50)), LivenessAction::Ping);
        let mut silent = LivenessCheck { heard_at: start, ..answered };
        assert_eq!(silent.care(start + Duration::from_secs(40)), LivenessAction::GiveUp);
    }
}
