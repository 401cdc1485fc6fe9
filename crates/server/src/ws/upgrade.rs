//! `GET /v1/ws`: the checks before a WebSocket opens, when the client is not authenticated yet.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::State;
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, Request, StatusCode, header};
use axum::response::Response;
use bluetick_wire::ErrorCode;
use bluetick_wire::http::ErrorBody;
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use tungstenite::handshake::derive_accept_key;

use super::connection::Connection;
use super::session;
use crate::app::App;
use crate::http::Peer;
use crate::http::cors::is_own_or_allowed;
use crate::listener::ClientStream;
use crate::problem::Problem;
use crate::settings::at_most;

/// Open a WebSocket
///
/// Upgrades the connection. The first frame of the client is `hello` and contains the token.
/// `/asyncapi.json` describes every frame.
#[utoipa::path(
    get, path = "/v1/ws", operation_id = "open_websocket", tag = "messages",
    responses((status = 101, description = "The connection is a WebSocket now"),
              (status = "default", description = "An error", body = ErrorBody)),
)]
pub(crate) async fn upgrade(
    State(app): State<Arc<App>>,
    request: Request<Body>,
) -> Result<Response, Problem> {
    open(app, request, session::run)
}

/// Checks the handshake, the origin and the limits, then runs `run` on the WebSocket.
pub(super) fn open<Run: Future<Output = ()> + Send>(
    app: Arc<App>,
    request: Request<Body>,
    run: impl FnOnce(Box<Connection>, Arc<App>) -> Run + Send + 'static,
) -> Result<Response, Problem> {
    let (mut parts, _) = request.into_parts();
    let not_websocket =
        || Problem::new(ErrorCode::UpgradeRequired, "this path accepts WebSocket connections only");
    let Handshake { accept, upgrading } = Handshake::read(&mut parts).ok_or_else(not_websocket)?;
    if !is_own_or_allowed(&parts.headers, &app.settings.allowed_origins, app.settings.tls.is_on()) {
        let message = "web pages of this origin may not connect; see server.allowed_origins";
        return Err(Problem::new(ErrorCode::OriginNotAllowed, message));
    }
    if app.lifecycle.is_draining() {
        return Err(Problem::draining());
    }
    // Taken here and held until the socket ends, so that a drain also waits for a handshake in
    // progress.
    let drain_token = app.lifecycle.sockets.token();
    if app.lifecycle.sockets.len() > at_most(app.limits.connections) {
        let message = "the server has reached its maximum number of connections";
        let retry_after = Some(Duration::from_secs(5));
        return Err(Problem { retry_after, ..Problem::new(ErrorCode::TooManyConnections, message) });
    }
    let Peer(peer) =
        parts.extensions.get().copied().expect("the listener adds the peer address to every request");
    let forwarded = app.address_limits.admit_forwarded(peer.ip(), &parts.headers)?;
    let task_app = Arc::clone(&app);
    app.lifecycle.spawn_on_listener(Box::pin(async move {
        if let Some(connection) = upgraded(upgrading, at_most(task_app.limits.frame_bytes)).await {
            run(connection, task_app).await;
        }
        drop((drain_token, forwarded));
    }));
    Ok(switching_protocols(accept))
}

/// Returns `None` if the client disconnected before the upgrade.
async fn upgraded(upgrading: OnUpgrade, frame_bytes: usize) -> Option<Box<Connection>> {
    let upgraded = upgrading.await.ok()?;
    let parts = upgraded.downcast::<TokioIo<ClientStream>>();
    let parts = parts.expect("the listener creates every connection as a `ClientStream`");
    let mut stream = parts.io.into_inner();
    stream.mark_as_websocket();
    Some(Box::new(Connection::new(stream, parts.read_buf, frame_bytes)))
}

fn switching_protocols(accept: HeaderValue) -> Response {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    let headers = response.headers_mut();
    headers.insert(header::CONNECTION, HeaderValue::from_static("upgrade"));
    headers.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
    headers.insert(header::SEC_WEBSOCKET_ACCEPT, accept);
    response
}

/// A WebSocket handshake request (RFC 6455, section 4.2.1).
struct Handshake {
    /// The `Sec-WebSocket-Accept` value for the client's key.
    accept: HeaderValue,
    upgrading: OnUpgrade,
}

impl Handshake {
    fn read(parts: &mut Parts) -> Option<Handshake> {
        let headers = &parts.headers;
        let has_token =
            |name, value: &str| tokens(headers, name).any(|token| token.eq_ignore_ascii_case(value));
        let wants_websocket = parts.method == Method::GET
            && has_token(header::CONNECTION, "upgrade")
            && has_token(header::UPGRADE, "websocket")
            && has_token(header::SEC_WEBSOCKET_VERSION, "13")
            // A handshake must not have a body, which could smuggle another request.
            && !headers.contains_key(header::TRANSFER_ENCODING);
        let key = headers.get(header::SEC_WEBSOCKET_KEY).filter(|_| wants_websocket)?;
        let accept = HeaderValue::try_from(derive_accept_key(key.as_bytes())).ok()?;
        Some(Handshake { accept, upgrading: parts.extensions.remove::<OnUpgrade>()? })
    }
}

/// The elements of a comma-separated header.
fn tokens(headers: &HeaderMap, name: HeaderName) -> impl Iterator<Item = &str> {
    let values = headers.get_all(name).into_iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).map(str::trim)
}
