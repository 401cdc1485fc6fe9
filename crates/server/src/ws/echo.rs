//! A WebSocket that says everything back. It is opened, read, written and closed as those of clients are; only what is
//! said on it is not Bluetick's. For suites that test how WebSockets are spoken (`tests/websocket`).

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
        // As a connection does that has much to say: what came in before waits until it is written.
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
