//! The lifecycle of one connection: `hello`, registration, the event loop, the close. The event
//! loop itself belongs to `session_loop`, and presence updates to `session_presence`.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use bluetick_wire::CloseCode;
use bluetick_wire::frame::encode_welcome;
use futures_util::FutureExt;
use futures_util::future::join;
use prometheus_client::metrics::gauge::Gauge;

use super::close::CloseRequest;
use super::connection::Connection;
use super::hello::AuthenticatedHello;
use super::receipts::PendingReceipts;
use super::session_loop::SessionLoop;
use super::session_presence::{self, FleetRegistration};
use super::{close, hello};
use crate::app::App;
use crate::delivery::{ConnectionOutbox, EncodedFrame, WebSocketSession};
use crate::settings::at_most;

/// Why a connection ended: the code to close with, or `None` if the client disconnected.
pub(super) type End = Option<CloseCode>;

/// Runs a connection. The `hello` and the close need several times the memory of the loop between
/// them, so each is boxed and freed when it completes.
pub(super) async fn run(mut connection: Box<Connection>, app: Arc<App>) {
    match Box::pin(hello::receive(&mut connection, &app)).await {
        Ok(hello) => run_session(connection, &app, hello).await,
        Err(end) => Box::pin(close_with(connection, &app, end)).await,
    }
}

/// Closes the connection, unless the client has disconnected.
async fn close_with(connection: Box<Connection>, app: &App, end: End) {
    if let Some(code) = end {
        app.metrics.closed(code);
        let request = CloseRequest {
            code,
            reconnect_after: (code == CloseCode::Restarting)
                .then(|| app.lifecycle.next_reconnect_delay(app.settings.max_reconnect_delay())),
            drain: app.settings.drain(),
        };
        close::close(connection, request).await;
    }
}

/// Runs an authenticated connection from its registration to its close.
async fn run_session(mut connection: Box<Connection>, app: &Arc<App>, hello: AuthenticatedHello) {
    let AuthenticatedHello { claims, positions } = hello;
    let outbox = ConnectionOutbox::new(at_most(app.limits.outbox_bytes), app.metrics.outbox_bytes.clone());
    let limit = at_most(app.limits.connections_per_user);
    let sessions = app.hub.sessions();
    let id = sessions.next_id();
    let welcome = encode_welcome(&claims.user, &id.to_string(), app.store.epoch(), app.clock.now());
    outbox.push(EncodedFrame::from(welcome));
    // Register the session before asking what the device missed: everything committed from here on
    // reaches it.
    let Ok(registration) = sessions.register(id, claims.user.clone(), claims.token, outbox, limit) else {
        return Box::pin(close_with(connection, app, Some(CloseCode::TooManyConnections))).await;
    };
    // Check again: a revocation from now on finds this session, and this check sees every earlier
    // one.
    if let Err(code) = Box::pin(hello::check_revocation(&claims, app)).await {
        let (user, is_first) = (registration.session.user.clone(), registration.is_first);
        let was_last = registration.end();
        let presence = session_presence::after_refusal(app, &user, is_first, was_last);
        return Box::pin(join(close_with(connection, app, Some(code)), presence)).map(|_| ()).await;
    }
    let session = Arc::clone(&registration.session);
    let registered = session_presence::register(app, &session, registration.is_first);
    let gauge_guard = GaugeGuard::new(&app.metrics.connections);
    tracing::debug!(session = %session.id, user = %session.user, "connection opened");
    let catching_up =
        session_presence::catch_up(app, &session, positions, registration.is_first, registered.clone());
    let mut session_loop =
        SessionLoop::new(app, Arc::clone(&session), app.budgets.of(&claims.user), catching_up, &claims);
    let running = AssertUnwindSafe(session_loop.run(&mut connection)).catch_unwind();
    let end = running.await.unwrap_or(Some(CloseCode::InternalError));
    // Remove the session from the hub before the client receives the close code.
    let was_last = registration.end();
    let pending_receipts = session_loop.into_pending_receipts();
    drop(gauge_guard);
    tracing::debug!(session = %session.id, end = end.map(tracing::field::display), "connection closed");
    let ended = EndedSession { session, registered, pending_receipts, was_last };
    Box::pin(finish(app, connection, end, ended)).await;
}

/// The state that an ended connection still has to clean up.
struct EndedSession {
    session: Arc<WebSocketSession>,
    registered: FleetRegistration,
    pending_receipts: PendingReceipts,
    was_last: bool,
}

/// Closes the connection, stores its remaining receipts and updates presence.
async fn finish(app: &App, connection: Box<Connection>, end: End, ended: EndedSession) {
    let EndedSession { session, registered, pending_receipts, was_last } = ended;
    let receipts_stored = async {
        // The connection may end before the fleet has registered it; let that finish first.
        let _ = registered.await;
        pending_receipts.finish().await;
    };
    let disconnected = async {
        match was_last {
            true => session_presence::disconnect(app, &session.user, receipts_stored).await,
            false => receipts_stored.await,
        }
    };
    join(close_with(connection, app, end), disconnected).await;
}

/// Keeps a gauge incremented while this value lives.
pub(super) struct GaugeGuard<'a>(&'a Gauge);

impl<'a> GaugeGuard<'a> {
    pub fn new(gauge: &'a Gauge) -> GaugeGuard<'a> {
        gauge.inc();
        GaugeGuard(gauge)
    }
}

impl Drop for GaugeGuard<'_> {
    fn drop(&mut self) {
        self.0.dec();
    }
}
