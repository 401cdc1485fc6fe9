//! The table of error codes. HTTP bodies, error frames, metrics and `docs/errors.md` all use it.

use std::fmt;

/// The action that a client should take on an error. A client needs to handle only these few kinds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Remedy {
    /// The same request may succeed later. Wait for `Retry-After` if it is given; otherwise use
    /// exponential backoff.
    Retry,
    /// The request is invalid. It fails again until it is changed.
    Fix,
    /// Get a new token, then retry.
    Login,
    /// Open a new connection, then retry.
    Reconnect,
    /// The request is not allowed, or its target does not exist. A retry does not help.
    GiveUp,
}

impl Remedy {
    pub const fn as_str(self) -> &'static str {
        match self {
            Remedy::Retry => "retry",
            Remedy::Fix => "fix the request",
            Remedy::Login => "log in again",
            Remedy::Reconnect => "reconnect",
            Remedy::GiveUp => "give up",
        }
    }
}

macro_rules! error_codes {
    ($($variant:ident = $code:literal, $status:literal, $remedy:ident, $meaning:literal;)*) => {
        /// Why a request or a frame was refused.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum ErrorCode { $($variant,)* }

        impl ErrorCode {
            /// All error codes, in the order of the table. The documents and the metrics list them.
            pub const ALL: &'static [ErrorCode] = &[$(ErrorCode::$variant,)*];

            /// Returns the code as clients see it.
            pub const fn as_str(self) -> &'static str {
                match self { $(ErrorCode::$variant => $code,)* }
            }

            /// Returns the HTTP status of the code. An error frame contains the code only.
            pub const fn status(self) -> u16 {
                match self { $(ErrorCode::$variant => $status,)* }
            }

            pub const fn remedy(self) -> Remedy {
                match self { $(ErrorCode::$variant => Remedy::$remedy,)* }
            }

            pub const fn meaning(self) -> &'static str {
                match self { $(ErrorCode::$variant => $meaning,)* }
            }
        }
    };
}

error_codes! {
    InvalidRequest = "invalid_request", 400, Fix,
        "The body is not a JSON object, or a field or parameter is missing, of the wrong type or out of range. The message says which. Unknown fields and parameters are ignored.";
    InvalidFrame = "invalid_frame", 400, Fix,
        "The frame is not a text frame with a JSON object, or a field is missing or invalid. The message says which.";
    UnknownType = "unknown_type", 400, Fix,
        "The server does not know the `type` of the frame.";
    Unauthenticated = "unauthenticated", 401, Login,
        "The token is missing or not valid on this server, or the admin key is missing or wrong.";
    TokenExpired = "token_expired", 401, Login,
        "The token has expired.";
    TokenRevoked = "token_revoked", 401, Login,
        "The token was revoked: the user logged out, or the operator revoked it.";
    InvalidCredentials = "invalid_credentials", 401, Fix,
        "The user_id and the password do not match. The server does not reveal which of the two is wrong.";
    SignupDisabled = "signup_disabled", 403, GiveUp,
        "Sign-up is disabled on this server.";
    LoginDisabled = "login_disabled", 403, GiveUp,
        "This server verifies tokens but does not issue them. They come from the operator's own product.";
    NotAnAdmin = "not_an_admin", 403, GiveUp,
        "Only an admin of the group can remove other members.";
    OriginNotAllowed = "origin_not_allowed", 403, GiveUp,
        "A web page of another origin tried to call the API or to open a WebSocket, and `server.allowed_origins` does not list that origin.";
    NotFound = "not_found", 404, GiveUp,
        "The path does not exist.";
    ConversationNotFound = "conversation_not_found", 404, GiveUp,
        "The conversation does not exist, or the caller is not a member. The server does not reveal which.";
    UserNotFound = "user_not_found", 404, GiveUp,
        "The user does not exist on this server.";
    UnknownUser = "unknown_user", 404, Fix,
        "A named member does not exist. While sign-up is open, a conversation accepts only known users: those with an account, a profile, a token from the operator, or a conversation on this server.";
    MessageNotFound = "message_not_found", 404, GiveUp,
        "No message has that seq (a void is not a message), or the caller cannot see it.";
    MemberNotFound = "member_not_found", 404, GiveUp,
        "That user is not a member of the conversation.";
    MethodNotAllowed = "method_not_allowed", 405, Fix,
        "The path does not support this method.";
    RequestTimeout = "request_timeout", 408, Retry,
        "The request took too long to arrive.";
    UserExists = "user_exists", 409, Fix,
        "The user_id is taken: another user has it, or has one that looks like it (the comparison ignores case and similar letters).";
    NameReserved = "name_reserved", 409, Fix,
        "The user_id is reserved for the operator, or looks like a reserved one.";
    MessageIdConflict = "message_id_conflict", 409, Fix,
        "The message_id belongs to an earlier message with different content. Use a new id for a new message.";
    DirectIsFixed = "direct_is_fixed", 409, GiveUp,
        "The members of a direct conversation cannot change.";
    GroupFull = "group_full", 409, GiveUp,
        "The group would have more members than the operator allows.";
    ArchiveOff = "archive_off", 409, GiveUp,
        "The archive is disabled. The operator has not configured a destination.";
    ArchiveBusy = "archive_busy", 409, Retry,
        "Another job is running. Only one archive, erasure or backup job runs at a time.";
    ContentTooLarge = "content_too_large", 413, Fix,
        "The content of the message exceeds the limit that the operator set, in bytes.";
    BodyTooLarge = "body_too_large", 413, Fix,
        "The request body exceeds its size limit, in bytes.";
    HostNotAllowed = "host_not_allowed", 421, GiveUp,
        "The server does not accept the name in `Host`. It listens on loopback, or the operator has configured a list of names without this one. The operator can add it to `server.hostnames`.";
    UpgradeRequired = "upgrade_required", 426, Fix,
        "This path accepts WebSocket connections only.";
    RateLimited = "rate_limited", 429, Retry,
        "The user exceeded a limit on requests, messages, log-ins, new conversations or group invitations, or the address exceeded a limit on log-ins or wrong admin keys. The operator sets these limits. Over HTTP, `Retry-After` says how long to wait.";
    Internal = "internal", 500, Retry,
        "The server failed. The request may or may not have taken effect. A resend with the same message_id is safe.";
    StoreUnavailable = "store_unavailable", 503, Retry,
        "The store cannot write now (a full disk, for example), or the engine behind it did not answer in time. In the second case, the request may or may not have taken effect. A resend with the same message_id is safe in both cases.";
    AuditUnavailable = "audit_unavailable", 503, Retry,
        "The server cannot write the audit log, so it did not perform the administrative action.";
    ArchiveUnavailable = "archive_unavailable", 503, Retry,
        "The messages are in the archive, and its object store does not respond. Newer messages can still be read, and sending still works.";
    Overloaded = "overloaded", 503, Retry,
        "The server's queue is full. The request had no effect.";
    TooManyConnections = "too_many_connections", 503, Retry,
        "The server has reached its limit on WebSocket connections, in total or for this address.";
    Draining = "draining", 503, Reconnect,
        "The server is shutting down and accepts no new work. Nothing was stored. Reconnect in a moment.";
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
