//! The first frame: who is it?

use axum::extract::ws::Message;
use bluetick_auth::{Claims, TokenError};
use bluetick_wire::CloseCode;
use bluetick_wire::frame::ClientFrame;
use tokio::sync::watch;

use super::pipe::{Pipe, PipeEvent};
use crate::app::App;
use crate::drain::{Phase, reached};
use crate::settings::seconds;

/// Why there is no session: a code to close with, or none when the client is gone.
pub(super) type NoHello = Option<CloseCode>;

pub(super) async fn receive(
    pipe: &mut Pipe,
    app: &App,
    phase: &mut watch::Receiver<Phase>,
) -> Result<Claims, NoHello> {
    let deadline = async {
        match seconds(app.limits.hello_seconds) {
            Some(time) => tokio::time::sleep(time).await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        claims = first_frame(pipe, app) => claims,
        () = deadline => Err(Some(CloseCode::HelloTimeout)),
        () = reached(phase, Phase::Draining) => Err(Some(CloseCode::Restarting)),
    }
}

async fn first_frame(pipe: &mut Pipe, app: &App) -> Result<Claims, NoHello> {
    loop {
        match pipe.next(true, |_| ()).await {
            PipeEvent::Heard(Message::Text(text)) => return authenticate(&text, app).map_err(Some),
            PipeEvent::Heard(Message::Binary(_)) => return Err(Some(CloseCode::HelloExpected)),
            PipeEvent::Heard(Message::Close(_)) | PipeEvent::Ended(None) => return Err(None),
            PipeEvent::Heard(Message::Ping(_) | Message::Pong(_)) | PipeEvent::Flushed => {}
            PipeEvent::Ended(Some(error)) => return Err(super::farewell::code_for(error)),
        }
    }
}

fn authenticate(text: &str, app: &App) -> Result<Claims, CloseCode> {
    let Ok(ClientFrame::Hello(hello)) = ClientFrame::decode(text) else {
        return Err(CloseCode::HelloExpected);
    };
    app.tokens.verify(&hello.token, app.clock.now()).map_err(|error| match error {
        TokenError::Expired => CloseCode::TokenExpired,
        _ => CloseCode::Unauthenticated,
    })
}
