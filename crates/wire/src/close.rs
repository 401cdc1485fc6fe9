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
        "The client closed the connection and the server agrees.";
    ProtocolError = 1002, "protocol_error", Fix,
        "What came in is not WebSocket: a broken frame.";
    NotUtf8 = 1007, "not_utf8", Fix,
        "A text frame was not UTF-8.";
    FrameTooLarge = 1009, "frame_too_large", Fix,
        "A frame had more bytes than the operator allows.";
    InternalError = 1011, "internal_error", Reconnect,
        "The server failed on this connection. Come back with a pause that grows; resend what was not acknowledged.";
    Restarting = 1012, "restarting", Reconnect,
        "The server is shutting down. Come back after what the `come_back` frame just before says; without one, after 0.5 to 3 seconds, chosen at random.";
    HelloExpected = 4400, "hello_expected", Fix,
        "The first frame was not a valid hello. Where one of its fields is wrong, an `invalid_frame` error says which, just before.";
    Unauthenticated = 4401, "unauthenticated", Login,
        "The token in the hello is not valid here.";
    TokenRevoked = 4402, "token_revoked", Login,
        "The token was revoked, before the hello or while the connection was open: somebody logged out with it or everywhere, or the operator ended it.";
    TokenExpired = 4403, "token_expired", Login,
        "The token has expired, in the hello or while the connection was open.";
    HelloTimeout = 4408, "hello_timeout", Reconnect,
        "No hello came in time.";
    TooManyConnections = 4409, "too_many_connections", GiveUp,
        "The user holds as many connections as one user may.";
    IdleTimeout = 4410, "idle_timeout", Reconnect,
        "Nothing was heard from the client for too long, not even an answer to a ping.";
    ConnectsTooOften = 4411, "connects_too_often", Reconnect,
        "The user came again too often. Come back with a pause that grows.";
    SlowConsumer = 4413, "slow_consumer", Reconnect,
        "The client read more slowly than messages came in, and too much was waiting. Come back and read on from the last seq.";
    Flood = 4429, "flood", Fix,
        "The client went on sending far above its rate limit.";
}

impl fmt::Display for CloseCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.number(), self.as_str())
    }
}
