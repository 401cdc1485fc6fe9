//! Receives and authenticates the first frame, `hello`.

use bluetick_auth::{Claims, TokenError};
use bluetick_core::ports::Position;
use bluetick_wire::frame::{ClientFrame, FrameError, Hello, encode_error};
use bluetick_wire::{CloseCode, ErrorCode};
use tungstenite::Message;

use super::connection::{Connection, SocketEvent};
use crate::app::App;
use crate::delivery::EncodedFrame;
use crate::drain::{DrainPhase, phase_reached};
use crate::settings::seconds;

/// Maximum number of control frames before `hello`. Before `hello`, no user's budget can be
/// charged. More control frames close the connection.
const MAX_CONTROL_FRAMES: usize = 16;

/// An authenticated client, and the positions of its device.
pub(super) struct AuthenticatedHello {
    pub claims: Claims,
    pub positions: Vec<Position>,
}

/// Why no session starts: the code to close with, or `None` if the client disconnected.
pub(super) type HelloFailure = Option<CloseCode>;

/// Waits for `hello`, until the deadline or the start of a drain.
pub(super) async fn receive(
    connection: &mut Connection,
    app: &App,
) -> Result<AuthenticatedHello, HelloFailure> {
    let mut phase = app.lifecycle.watch();
    let deadline = async {
        match seconds(app.limits.hello_seconds) {
            Some(time) => tokio::time::sleep(time).await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        hello = first_frame(connection, app) => hello,
        () = deadline => Err(Some(CloseCode::HelloTimeout)),
        () = phase_reached(&mut phase, DrainPhase::Draining) => Err(Some(CloseCode::Restarting)),
    }
}

async fn first_frame(connection: &mut Connection, app: &App) -> Result<AuthenticatedHello, HelloFailure> {
    let mut control_frames = 0;
    loop {
        match connection.next(true, |_| ()).await {
            SocketEvent::Received(Message::Text(text)) => {
                return match ClientFrame::decode(&text) {
                    Ok(ClientFrame::Hello(hello)) => authenticate(&hello, app).await.map_err(Some),
                    Err(FrameError::Invalid(bad)) => {
                        // Sent before the close code, which cannot name the invalid field.
                        let error = encode_error(ErrorCode::InvalidFrame, &bad.to_string(), None, None);
                        connection.write(EncodedFrame::from(error));
                        app.metrics.rejected(ErrorCode::InvalidFrame);
                        Err(Some(CloseCode::HelloExpected))
                    }
                    _ => Err(Some(CloseCode::HelloExpected)),
                };
            }
            SocketEvent::Received(Message::Binary(_)) => return Err(Some(CloseCode::HelloExpected)),
            SocketEvent::Received(Message::Close(_)) | SocketEvent::Ended(None) => return Err(None),
            SocketEvent::Received(Message::Ping(_) | Message::Pong(_) | Message::Frame(_)) => {
                control_frames += 1;
                if control_frames > MAX_CONTROL_FRAMES {
                    return Err(Some(CloseCode::Flood));
                }
            }
            SocketEvent::Flushed => {}
            SocketEvent::Ended(Some(error)) => return Err(super::close::code_for(&error)),
        }
    }
}

async fn authenticate(hello: &Hello<'_>, app: &App) -> Result<AuthenticatedHello, CloseCode> {
    let claims = app.tokens.verify(&hello.token, app.clock.now()).map_err(|error| match error {
        TokenError::Expired => CloseCode::TokenExpired,
        _ => CloseCode::Unauthenticated,
    })?;
    // Apply the rate limit before any access to the store.
    if app.budgets.of(&claims.user).connect().is_err() {
        return Err(CloseCode::ConnectsTooOften);
    }
    check_revocation(&claims, app).await?;
    Ok(AuthenticatedHello { claims, positions: hello.positions_in(app.store.epoch()) })
}

/// Checks that the token is not revoked. If that is unknown, returns a code that lets the client
/// reconnect.
pub(super) async fn check_revocation(claims: &Claims, app: &App) -> Result<(), CloseCode> {
    app.revocation_check.check(claims).await.map_err(|problem| match problem.code {
        ErrorCode::TokenRevoked => CloseCode::TokenRevoked,
        ErrorCode::Draining => CloseCode::Restarting,
        _ => CloseCode::InternalError,
    })
}
