//! A WebSocket that echoes every message, for WebSocket conformance suites (`tests/websocket`). It
//! shares the handshake, the I/O and the close sequence with client connections, but not Bluetick's
//! frames.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::http::Request;
use axum::response::Response;
use bluetick_wire::CloseCode;
use tungstenite::Message;

use super::close::{self, CloseRequest};
use super::connection::{Connection, SocketEvent};
use super::upgrade::open;
use crate::app::App;
use crate::delivery::EncodedFrame;
use crate::problem::Problem;

pub(crate) async fn echo(State(app): State<Arc<App>>, request: Request<Body>) -> Result<Response, Problem> {
    open(app, request, run)
}

async fn run(mut connection: Box<Connection>, app: Arc<App>) {
    let code = loop {
        // Read the next message only after the previous one is echoed, as backpressure.
        match connection.next(!connection.is_writing(), |_| ()).await {
            SocketEvent::Received(Message::Text(text)) => connection.write(EncodedFrame::from(text.as_str())),
            SocketEvent::Received(binary @ Message::Binary(_)) => connection.write_message(binary),
            SocketEvent::Received(Message::Ping(_) | Message::Pong(_) | Message::Frame(_))
            | SocketEvent::Flushed => {}
            SocketEvent::Received(Message::Close(_)) => break Some(CloseCode::Normal),
            SocketEvent::Ended(error) => break error.as_ref().and_then(close::code_for),
        }
    };
    if let Some(code) = code {
        close::close(connection, CloseRequest { code, reconnect_after: None, drain: app.settings.drain() })
            .await;
    }
}
