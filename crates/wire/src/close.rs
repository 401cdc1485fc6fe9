//! The table of WebSocket close codes. The server uses no others.

use std::fmt;

use crate::Remedy;

macro_rules! close_codes {
    ($($variant:ident = $number:literal, $name:literal, $remedy:ident, $meaning:literal;)*) => {
        /// Why the server closed a WebSocket. The reason in the close frame is the name of the
        /// code.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum CloseCode { $($variant,)* }

        impl CloseCode {
            /// All close codes, in the order of the table. The documents and the metrics list them.
            pub const ALL: &'static [CloseCode] = &[$(CloseCode::$variant,)*];

            pub const fn number(self) -> u16 {
                match self { $(CloseCode::$variant => $number,)* }
            }

            pub const fn as_str(self) -> &'static str {
                match self { $(CloseCode::$variant => $name,)* }
            }

            pub const fn remedy(self) -> Remedy {
                match self { $(CloseCode::$variant => Remedy::$remedy,)* }
            }

            pub const fn meaning(self) -> &'static str {
                match self { $(CloseCode::$variant => $meaning,)* }
            }
        }
    };
}

close_codes! {
    Normal = 1000, "closed", GiveUp,
        "The client closed the connection, and the server confirms it.";
    ProtocolError = 1002, "protocol_error", Fix,
        "The client sent a frame that violates the WebSocket protocol.";
    NotUtf8 = 1007, "not_utf8", Fix,
        "A text frame was not UTF-8.";
    FrameTooLarge = 1009, "frame_too_large", Fix,
        "A frame exceeded the size limit that the operator set, in bytes.";
    InternalError = 1011, "internal_error", Reconnect,
        "The server failed on this connection. Reconnect with exponential backoff, and resend unacknowledged messages.";
    Restarting = 1012, "restarting", Reconnect,
        "The server is shutting down. Reconnect after the delay in the `come_back` frame before the close; without that frame, after a random delay of 0.5 to 3 seconds.";
    HelloExpected = 4400, "hello_expected", Fix,
        "The first frame was not a valid hello. If one of its fields is invalid, an `invalid_frame` error before the close names it.";
    Unauthenticated = 4401, "unauthenticated", Login,
        "The token in the hello is not valid on this server.";
    TokenRevoked = 4402, "token_revoked", Login,
        "The token was revoked, before the hello or while the connection was open: the user logged out, or the operator revoked it.";
    TokenExpired = 4403, "token_expired", Login,
        "The token has expired, in the hello or while the connection was open.";
    HelloTimeout = 4408, "hello_timeout", Reconnect,
        "The hello did not arrive in time.";
    TooManyConnections = 4409, "too_many_connections", GiveUp,
        "The user has reached the maximum number of connections per user.";
    IdleTimeout = 4410, "idle_timeout", Reconnect,
        "The client sent nothing for too long, not even an answer to a ping.";
    ConnectsTooOften = 4411, "connects_too_often", Reconnect,
        "The user opened connections too often. Reconnect with exponential backoff.";
    SlowConsumer = 4413, "slow_consumer", Reconnect,
        "The client read too slowly, and its outbox exceeded the limit. Reconnect and continue after the last received seq.";
    Flood = 4429, "flood", Fix,
        "The client kept sending far above its rate limit.";
}

impl fmt::Display for CloseCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.number(), self.as_str())
    }
}
