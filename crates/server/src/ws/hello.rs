//! Receives and authenticates the first frame, `hello`.

use bluetick_auth::{Claims, TokenError};
use bluetick_core::ports::Position;
use bluetick_wire::frame::{ClientFrame, FrameError, Hello, encode_error};
use bluetick_wire::{CloseCode, ErrorCode};
use tungstenite::Message;

use super::pipe::{Pipe, PipeEvent};
use crate::app::App;
use crate::drain::{Phase, reached};
use crate::hub::Frame;
use crate::settings::seconds;

/// Maximum number of control frames before `hello`. Until then there is no user whose budget could
/// be charged; more of them close the connection.
const CONTROL_FRAMES: usize = 16;

/// An authenticated client, and the positions of its device.
pub(super) struct Greeting {
    pub claims: Claims,
    pub positions: Vec<Position>,
}

/// Why there is no session: the code to close with, or `None` if the client is gone.
pub(super) type NoHello = Option<CloseCode>;

/// Waits for `hello`, until the deadline or the start of a drain.
pub(super) async fn receive(pipe: &mut Pipe, app: &App) -> Result<Greeting, NoHello> {
    let mut phase = app.lifecycle.watch();
    let deadline = async {
        match seconds(app.limits.hello_seconds) {
            Some(time) => tokio::time::sleep(time).await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        greeting = first_frame(pipe, app) => greeting,
        () = deadline => Err(Some(CloseCode::HelloTimeout)),
        () = reached(&mut phase, Phase::Draining) => Err(Some(CloseCode::Restarting)),
    }
}

async fn first_frame(pipe: &mut Pipe, app: &App) -> Result<Greeting, NoHello> {
    let mut control_frames = 0;
    loop {
        match pipe.next(true, |_| ()).await {
            PipeEvent::Heard(Message::Text(text)) => {
                return match ClientFrame::decode(&text) {
                    Ok(ClientFrame::Hello(hello)) => authenticate(&hello, app).await.map_err(Some),
                    Err(FrameError::Invalid(bad)) => {
                        // Sent before the close code, which cannot say what is wrong.
                        let error = encode_error(ErrorCode::InvalidFrame, &bad.to_string(), None, None);
                        pipe.write(Frame::from(error));
                        app.metrics.rejected(ErrorCode::InvalidFrame);
                        Err(Some(CloseCode::HelloExpected))
                    }
                    _ => Err(Some(CloseCode::HelloExpected)),
                };
            }
            PipeEvent::Heard(Message::Binary(_)) => return Err(Some(CloseCode::HelloExpected)),
            PipeEvent::Heard(Message::Close(_)) | PipeEvent::Ended(None) => return Err(None),
            PipeEvent::Heard(Message::Ping(_) | Message::Pong(_) | Message::Frame(_)) => {
                control_frames += 1;
                if control_frames > CONTROL_FRAMES {
                    return Err(Some(CloseCode::Flood));
                }
            }
            PipeEvent::Flushed => {}
            PipeEvent::Ended(Some(error)) => return Err(super::farewell::code_for(&error)),
        }
    }
}

async fn authenticate(hello: &Hello<'_>, app: &App) -> Result<Greeting, CloseCode> {
    let claims = app.tokens.verify(&hello.token, app.clock.now()).map_err(|error| match error {
        TokenError::Expired => CloseCode::TokenExpired,
        _ => CloseCode::Unauthenticated,
    })?;
    // Apply the rate limit before any access to the store.
    if app.budgets.of(&claims.user).connect().is_err() {
        return Err(CloseCode::ConnectsTooOften);
    }
    admit(&claims, app).await?;
    Ok(Greeting { claims, positions: hello.positions_in(app.store.epoch()) })
}

/// Checks that the token is not revoked. If that is unknown, returns a code that lets the client
/// reconnect.
pub(super) async fn admit(claims: &Claims, app: &App) -> Result<(), CloseCode> {
    app.gate.admit(claims).await.map_err(|problem| match problem.code {
        ErrorCode::TokenRevoked => CloseCode::TokenRevoked,
        ErrorCode::Draining => CloseCode::Restarting,
        _ => CloseCode::InternalError,
    })
}
