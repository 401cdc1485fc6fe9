//! What to do about an error code and a close code. The full table is the server's (`docs/errors.md`); a test holds
//! the two against each other.

use std::fmt;

/// There is no such conversation, or one is not in it any more.
pub const CONVERSATION_NOT_FOUND: &str = "conversation_not_found";

/// What a client does about an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Remedy {
    /// The same may succeed after a pause.
    Retry,
    /// It stays wrong until it is changed.
    Fix,
    /// Get a new token.
    Login,
    /// Open a new connection.
    Reconnect,
    /// Asking again does not help.
    GiveUp,
}

impl Remedy {
    /// Whether the same request, as it is, may succeed later.
    pub fn may_succeed_later(self) -> bool {
        matches!(self, Remedy::Retry | Remedy::Login | Remedy::Reconnect)
    }
}

/// A code this client does not know comes from a newer server; a person decides about it.
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

/// Why a WebSocket was closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CloseCode(pub u16);

impl CloseCode {
    pub const FRAME_TOO_LARGE: CloseCode = CloseCode(1009);
    pub const RESTARTING: CloseCode = CloseCode(1012);
    pub const HELLO_EXPECTED: CloseCode = CloseCode(4400);
    pub const UNAUTHENTICATED: CloseCode = CloseCode(4401);
    pub const TOKEN_REVOKED: CloseCode = CloseCode(4402);
    pub const TOKEN_EXPIRED: CloseCode = CloseCode(4403);
    pub const TOO_MANY_CONNECTIONS: CloseCode = CloseCode(4409);
    pub const CONNECTS_TOO_OFTEN: CloseCode = CloseCode(4411);
    pub const FLOOD: CloseCode = CloseCode(4429);

    /// A new token is needed first.
    pub fn asks_for_login(self) -> bool {
        matches!(self, CloseCode::UNAUTHENTICATED | CloseCode::TOKEN_REVOKED | CloseCode::TOKEN_EXPIRED)
    }

    /// Coming back soon would end the same way.
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
    fn every_code_of_the_server_has_the_remedy_the_server_names() {
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
    fn the_close_codes_that_matter_are_the_servers() {
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
