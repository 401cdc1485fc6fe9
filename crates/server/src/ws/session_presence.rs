//! Presence updates of one connection: registration with the fleet, announcements to peers, and the
//! stored `last_seen_at`.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use bluetick_core::ports::Position;
use bluetick_core::{ProfileUpdate, UserId};
use bluetick_wire::CloseCode;
use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Shared, join};

use super::catch_up::{self, CatchingUp};
use crate::app::App;
use crate::delivery::WebSocketSession;

/// Registers the user with the fleet, and announces the user to its peers unless another node
/// already has a connection of the user. Runs once, and to completion even if the connection ends
/// before.
pub(super) type FleetRegistration = Shared<BoxFuture<'static, Result<(), CloseCode>>>;

pub(super) fn register(app: &Arc<App>, session: &Arc<WebSocketSession>, is_first: bool) -> FleetRegistration {
    let (app, session) = (Arc::clone(app), Arc::clone(session));
    let registered = async move {
        let was_elsewhere = app.presence_directory.user_connected(&session.user, is_first).await;
        if is_first && !was_elsewhere {
            app.hub.user_connected(&session.user);
        }
    };
    AssertUnwindSafe(registered)
        .catch_unwind()
        .map(|registered| registered.map_err(|_| CloseCode::InternalError))
        .boxed()
        .shared()
}

/// Waits for the registration with the fleet, so that new messages reach this node, then sends the
/// backlog. For a user's first connection, also stores `last_seen_at` now, in case the server is
/// killed later. A rate limit skips this for users who reconnect often; their disconnect stores it.
pub(super) fn catch_up(
    app: &Arc<App>,
    session: &Arc<WebSocketSession>,
    positions: Vec<Position>,
    is_first: bool,
    registered: FleetRegistration,
) -> CatchingUp {
    let catching_up = catch_up::catch_up(Arc::clone(app), Arc::clone(session), positions);
    let (app, session) = (Arc::clone(app), Arc::clone(session));
    Box::pin(async move {
        let caught_up = async {
            registered.await?;
            catching_up.await
        };
        match is_first && app.budgets.of(&session.user).records_last_seen() {
            true => join(caught_up, store_last_seen(&app, &session.user)).await.0,
            false => caught_up.await,
        }
    })
}

/// Updates presence after the second revocation check refused a connection. Another connection of
/// the user may have relied on the refused one. An ended connection relies on it to report the
/// disconnect; a new connection, to report the connect.
pub(super) async fn after_refusal(app: &App, user: &UserId, is_first: bool, was_last: bool) {
    if was_last && !is_first {
        disconnect(app, user, std::future::ready(())).await;
    } else if is_first && !was_last && !app.presence_directory.user_connected(user, true).await {
        app.hub.user_connected(user);
    }
}

/// Handles the end of the user's last connection. `receipts_stored` completes before the fleet
/// removes the user, so that acknowledged messages do not become pending.
pub(super) async fn disconnect(app: &App, user: &UserId, receipts_stored: impl Future<Output = ()>) {
    let removed = async {
        receipts_stored.await;
        app.presence_directory.user_disconnected(user).await;
    };
    join(store_last_seen(app, user), removed).await;
    app.hub.user_disconnected(user);
}

/// Stores the current time as the user's `last_seen_at`. A failure is only logged.
async fn store_last_seen(app: &App, user: &UserId) {
    let last_seen_at = Some(app.clock.now());
    let update = ProfileUpdate { last_seen_at, ..ProfileUpdate::of(user.clone()) };
    if let Err(error) = app.chat.update_profile(update).await {
        tracing::debug!(%user, %error, "last_seen_at could not be stored");
    }
}
