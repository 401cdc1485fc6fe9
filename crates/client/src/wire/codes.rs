//! Error codes and close codes, and the reaction to each. The full table is `docs/errors.md`; tests
//! compare both.

use std::fmt;

/// Error code: the conversation does not exist, or the user is not a member.
pub const CONVERSATION_NOT_FOUND: &str = "conversation_not_found";

/// The reaction that an error requires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Remedy {
    /// Repeat the request after a pause.
    Retry,
    /// The request is wrong. It fails until its content changes.
    Fix,
    /// Get another token, then repeat the request.
    Login,
    /// Reconnect, then repeat the request.
    Reconnect,
    /// Do not repeat the request.
    GiveUp,
}

impl Remedy {
    /// Whether the unchanged request may succeed later.
    pub fn may_succeed_later(self) -> bool {
        matches!(self, Remedy::Retry | Remedy::Login | Remedy::Reconnect)
    }
}

/// The reaction to an error code. An unknown code comes from a newer server and maps to `Fix`, so
/// that the user decides.
pub fn remedy(code: &str) -> Remedy {
    match code {
        "request_timeout"
        | "rate_limited"
        | "internal"
        | "archive_busy"
        | "archive_unavailable"
        | "audit_unavailable"
        | "store_unavailable"
        | "overloaded"
        | "too_many_connections" => Remedy::Retry,
        "draining" => Remedy::Reconnect,
        "unauthenticated" | "token_expired" | "token_revoked" => Remedy::Login,
        "signup_disabled"
        | "login_disabled"
        | "not_an_admin"
        | "origin_not_allowed"
        | "host_not_allowed"
        | "not_found"
        | "conversation_not_found"
        | "user_not_found"
        | "message_not_found"
        | "member_not_found"
        | "archive_off"
        | "direct_is_fixed"
        | "group_full" => Remedy::GiveUp,
        _ => Remedy::Fix,
    }
}

/// The close code of a WebSocket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CloseCode(pub u16);

impl CloseCode {
    /// A frame was larger than the operator allows.
    pub const FRAME_TOO_LARGE: CloseCode = CloseCode(1009);
    /// The server is shutting down. A `come_back` frame may say when to reconnect.
    pub const RESTARTING: CloseCode = CloseCode(1012);
    /// The first frame was not a valid `hello`.
    pub const HELLO_EXPECTED: CloseCode = CloseCode(4400);
    /// The token is not valid.
    pub const UNAUTHENTICATED: CloseCode = CloseCode(4401);
    /// The token was revoked.
    pub const TOKEN_REVOKED: CloseCode = CloseCode(4402);
    /// The token has expired.
    pub const TOKEN_EXPIRED: CloseCode = CloseCode(4403);
    /// The user has too many open connections.
    pub const TOO_MANY_CONNECTIONS: CloseCode = CloseCode(4409);
    /// The user reconnected too often. Use a growing pause.
    pub const CONNECTS_TOO_OFTEN: CloseCode = CloseCode(4411);
    /// The client kept sending far above its rate limit.
    pub const FLOOD: CloseCode = CloseCode(4429);

    /// Whether the client needs another token before it reconnects.
    pub fn asks_for_login(self) -> bool {
        matches!(self, CloseCode::UNAUTHENTICATED | CloseCode::TOKEN_REVOKED | CloseCode::TOKEN_EXPIRED)
    }

    /// Whether an early reconnect would end the same way, so that the client has to wait at least
    /// 30 seconds.
    pub fn asks_for_a_long_pause(self) -> bool {
        matches!(self, CloseCode::HELLO_EXPECTED | CloseCode::TOO_MANY_CONNECTIONS | CloseCode::FLOOD)
    }
}

impl fmt::Display for CloseCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use bluetick_wire::ErrorCode;

    use super::*;

    #[test]
    fn error_codes_have_the_remedies_of_the_server() {
        for code in ErrorCode::ALL {
            let named = match code.remedy() {
                bluetick_wire::Remedy::Retry => Remedy::Retry,
                bluetick_wire::Remedy::Fix => Remedy::Fix,
                bluetick_wire::Remedy::Login => Remedy::Login,
                bluetick_wire::Remedy::Reconnect => Remedy::Reconnect,
                bluetick_wire::Remedy::GiveUp => Remedy::GiveUp,
            };
            assert_eq!(remedy(code.as_str()), named, "{code}");
        }
    }

    #[test]
    fn close_codes_match_the_server() {
        for (code, of_server) in [
            (CloseCode::FRAME_TOO_LARGE, bluetick_wire::CloseCode::FrameTooLarge),
            (CloseCode::RESTARTING, bluetick_wire::CloseCode::Restarting),
            (CloseCode::HELLO_EXPECTED, bluetick_wire::CloseCode::HelloExpected),
            (CloseCode::UNAUTHENTICATED, bluetick_wire::CloseCode::Unauthenticated),
            (CloseCode::TOKEN_EXPIRED, bluetick_wire::CloseCode::TokenExpired),
            (CloseCode::TOO_MANY_CONNECTIONS, bluetick_wire::CloseCode::TooManyConnections),
            (CloseCode::CONNECTS_TOO_OFTEN, bluetick_wire::CloseCode::ConnectsTooOften),
            (CloseCode::FLOOD, bluetick_wire::CloseCode::Flood),
        ] {
            assert_eq!(code.0, of_server.number());
        }
    }
}
