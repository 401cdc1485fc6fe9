//! `GET /v1/ws`: who may open a WebSocket at all, before anybody has said who they are.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::ws::WebSocketUpgrade;
use axum::extract::{FromRequestParts, State};
use axum::http::{HeaderMap, Request, header};
use axum::response::Response;
use bluetick_wire::ErrorCode;
use bluetick_wire::http::ErrorBody;

use super::session;
use crate::app::App;
use crate::drain::{Phase, reached};
use crate::http::cors::is_allowed;
use crate::problem::Problem;
use crate::settings::at_most;

/// Most connections are quiet, so what each holds while quiet is kept small; larger frames grow it for a while.
const READ_BUFFER_BYTES: usize = 2 * 1024;
/// Frames are gathered up to here before they go to the socket, which also happens whenever the outbox is empty.
const WRITE_BUFFER_BYTES: usize = 16 * 1024;

/// Open a WebSocket. Its frames are described in `/asyncapi.json`.
#[utoipa::path(
    get, path = "/v1/ws", operation_id = "open_websocket", tag = "messages",
    responses((status = 101, description = "Speak WebSocket now; the first frame is `hello`"),
              (status = "default", description = "An error", body = ErrorBody)),
)]
pub(crate) async fn upgrade(
    State(app): State<Arc<App>>,
    request: Request<axum::body::Body>,
) -> Result<Response, Problem> {
    let (mut parts, _) = request.into_parts();
    let not_websocket = |_| Problem::new(ErrorCode::UpgradeRequired, "this path speaks WebSocket only");
    let upgrade = WebSocketUpgrade::from_request_parts(&mut parts, &app).await.map_err(not_websocket)?;
    if !origin_allowed(&parts.headers, &app.settings.allowed_origins) {
        let message = "web pages of this origin may not connect; see server.allowed_origins";
        return Err(Problem::new(ErrorCode::OriginNotAllowed, message));
    }
    if app.lifecycle.is_draining() {
        return Err(Problem::draining());
    }
    // Taken here and held to the end, so that a drain also waits for a handshake that is being answered.
    let place = app.lifecycle.sockets.token();
    if app.lifecycle.sockets.len() > at_most(app.limits.connections) {
        let message = "the server holds as many connections as it may";
        let retry_after = Some(Duration::from_secs(5));
        return Err(Problem { retry_after, ..Problem::new(ErrorCode::TooManyConnections, message) });
    }
    let frame_bytes = at_most(app.limits.frame_bytes);
    let upgrade = upgrade
        .read_buffer_size(READ_BUFFER_BYTES)
        .write_buffer_size(WRITE_BUFFER_BYTES)
        .max_frame_size(frame_bytes)
        .max_message_size(frame_bytes);
    Ok(upgrade.on_upgrade(move |socket| async move {
        let mut phase = app.lifecycle.watch();
        tokio::select! {
            () = session::run(socket, app) => {}
            () = reached(&mut phase, Phase::Ended) => {}
        }
        drop(place);
    }))
}

/// Browsers name the page a socket was opened by; other programs name none and have no cookies to be tricked with.
fn origin_allowed(headers: &HeaderMap, allowed: &[String]) -> bool {
    let Some(origin) = headers.get(header::ORIGIN) else { return true };
    let Ok(origin) = origin.to_str() else { return false };
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok());
    let same = |host: &str| origin.split_once("://").is_some_and(|(_, page)| page.eq_ignore_ascii_case(host));
    host.is_some_and(same) || is_allowed(origin, allowed)
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    fn allowed(origin: Option<&'static str>, list: &[&str]) -> bool {
        let mut headers = HeaderMap::new();
        headers.insert(header::HOST, HeaderValue::from_static("chat.example.org:8080"));
        if let Some(origin) = origin {
            headers.insert(header::ORIGIN, HeaderValue::from_static(origin));
        }
        origin_allowed(&headers, &list.iter().map(|origin| origin.to_string()).collect::<Vec<_>>())
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
}
