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

use super::pipe::Pipe;
use super::session;
use crate::app::App;
use crate::door::DoorStream;
use crate::http::Peer;
use crate::http::cors::is_allowed;
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
    run: impl FnOnce(Box<Pipe>, Arc<App>) -> Run + Send + 'static,
) -> Result<Response, Problem> {
    let (mut parts, _) = request.into_parts();
    let not_websocket = || Problem::new(ErrorCode::UpgradeRequired, "this path speaks WebSocket only");
    let Handshake { accept, upgrading } = Handshake::read(&mut parts).ok_or_else(not_websocket)?;
    if !origin_allowed(&parts.headers, &app.settings.allowed_origins, app.settings.tls.is_on()) {
        let message = "web pages of this origin may not connect; see server.allowed_origins";
        return Err(Problem::new(ErrorCode::OriginNotAllowed, message));
    }
    if app.lifecycle.is_draining() {
        return Err(Problem::draining());
    }
    // Taken here and held until the socket ends, so that a drain also waits for a handshake in
    // progress.
    let place = app.lifecycle.sockets.token();
    if app.lifecycle.sockets.len() > at_most(app.limits.connections) {
        let message = "the server holds as many connections as it may";
        let retry_after = Some(Duration::from_secs(5));
        return Err(Problem { retry_after, ..Problem::new(ErrorCode::TooManyConnections, message) });
    }
    let Peer(peer) = parts.extensions.get().copied().expect("the door says where a connection comes from");
    let forwarded = app.addresses.admit_forwarded(peer.ip(), &parts.headers)?;
    let socket = Arc::clone(&app);
    app.lifecycle.attend(Box::pin(async move {
        if let Some(pipe) = pipe(upgrading, at_most(socket.limits.frame_bytes)).await {
            run(pipe, socket).await;
        }
        drop((place, forwarded));
    }));
    Ok(switching_protocols(accept))
}

/// Returns `None` if the client disconnected before the upgrade.
async fn pipe(upgrading: OnUpgrade, frame_bytes: usize) -> Option<Box<Pipe>> {
    let upgraded = upgrading.await.ok()?;
    let parts = upgraded.downcast::<TokioIo<DoorStream>>();
    let parts = parts.expect("every connection came in through the door");
    let mut stream = parts.io.into_inner();
    stream.becomes_websocket();
    Some(Box::new(Pipe::new(stream, parts.read_buf, frame_bytes)))
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
        let says = |name, value: &str| tokens(headers, name).any(|token| token.eq_ignore_ascii_case(value));
        let wants_websocket = parts.method == Method::GET
            && says(header::CONNECTION, "upgrade")
            && says(header::UPGRADE, "websocket")
            && says(header::SEC_WEBSOCKET_VERSION, "13")
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

/// Checks the `Origin` header. Browsers send the origin of the page; other clients send none and
/// have no cookies that a page could abuse. With TLS, the server's own pages are `https` only: an
/// attacker on the network could have written an `http` page.
fn origin_allowed(headers: &HeaderMap, allowed: &[String], tls: bool) -> bool {
    let mut origins = headers.get_all(header::ORIGIN).iter();
    let Some(origin) = origins.next() else { return true };
    // With two origins, a proxy in front of this server may have checked the other one.
    let (Ok(origin), None) = (origin.to_str(), origins.next()) else { return false };
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok());
    let same = |host: &str| {
        let page = origin.split_once("://").filter(|(scheme, _)| !tls || *scheme == "https");
        page.is_some_and(|(_, page)| page.eq_ignore_ascii_case(host))
    };
    host.is_some_and(same) || is_allowed(origin, allowed)
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    fn allowed(origin: Option<&'static str>, list: &[&str]) -> bool {
        allowed_with(false, origin, list)
    }

    fn allowed_with(tls: bool, origin: Option<&'static str>, list: &[&str]) -> bool {
        let mut headers = HeaderMap::new();
        headers.insert(header::HOST, HeaderValue::from_static("chat.example.org:8080"));
        if let Some(origin) = origin {
            headers.insert(header::ORIGIN, HeaderValue::from_static(origin));
        }
        origin_allowed(&headers, &list.iter().map(|origin| origin.to_string()).collect::<Vec<_>>(), tls)
    }

    #[test]
    fn a_page_of_the_same_host_or_an_allowed_origin_may_connect_and_no_other_page() {
        assert!(allowed(Some("http://chat.example.org:8080"), &[]));
        assert!(!allowed(Some("http://chat.example.org"), &[]));
        assert!(!allowed(Some("https://evil.example"), &[]));
        assert!(!allowed(Some("null"), &[]));
        assert!(allowed(Some("https://app.example"), &["https://app.example/"]));
        assert!(!allowed(Some("https://app.example.evil"), &["https://app.example"]));
        assert!(allowed(None, &[]));
    }

    #[test]
    fn a_server_with_tls_has_no_page_without() {
        assert!(allowed_with(true, Some("https://chat.example.org:8080"), &[]));
        assert!(!allowed_with(true, Some("http://chat.example.org:8080"), &[]));
        assert!(allowed_with(true, Some("http://app.example"), &["http://app.example"]));
    }

    #[test]
    fn two_origins_are_none() {
        let mut headers = HeaderMap::new();
        headers.insert(header::HOST, HeaderValue::from_static("chat.example.org"));
        let origin = HeaderValue::from_static("https://chat.example.org");
        headers.insert(header::ORIGIN, origin.clone());
        assert!(origin_allowed(&headers, &[], true));
        headers.append(header::ORIGIN, origin);
        assert!(!origin_allowed(&headers, &[], true));
    }
}
