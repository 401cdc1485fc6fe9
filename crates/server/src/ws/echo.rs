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

use super::farewell::{self, Goodbye};
use super::pipe::{Pipe, PipeEvent};
use super::upgrade::open;
use crate::app::App;
use crate::hub::Frame;
use crate::problem::Problem;

pub(crate) async fn echo(State(app): State<Arc<App>>, request: Request<Body>) -> Result<Response, Problem> {
    open(app, request, run)
}

async fn run(mut pipe: Box<Pipe>, app: Arc<App>) {
    let code = loop {
        // Read the next message only after the previous one is echoed, as backpressure.
        match pipe.next(!pipe.is_writing(), |_| ()).await {
            PipeEvent::Heard(Message::Text(text)) => pipe.write(Frame::from(text.as_str())),
            PipeEvent::Heard(binary @ Message::Binary(_)) => pipe.say(binary),
            PipeEvent::Heard(Message::Ping(_) | Message::Pong(_) | Message::Frame(_))
            | PipeEvent::Flushed => {}
            PipeEvent::Heard(Message::Close(_)) => break Some(CloseCode::Normal),
            PipeEvent::Ended(error) => break error.as_ref().and_then(farewell::code_for),
        }
    };
    if let Some(code) = code {
        farewell::close(pipe, Goodbye { code, come_back: None, drain: app.settings.drain() }).await;
    }
}
