//! The one table of error codes. HTTP bodies, error frames, metrics and `docs/errors.md` all follow it.

use std::fmt;

/// What a client does about an error. A few coarse kinds, so that a client needs to know no more than these.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Remedy {
    /// The same request may succeed later: after `Retry-After` where given, else after a pause that grows.
    Retry,
    /// The request is wrong and stays wrong until it is changed.
    Fix,
    /// Get a new token, then try again.
    Login,
    /// Open a new connection, then try again.
    Reconnect,
    /// It is not allowed or not there; asking again does not help.
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
            pub const ALL: &'static [ErrorCode] = &[$(ErrorCode::$variant,)*];

            /// As clients see it.
            pub const fn as_str(self) -> &'static str {
                match self { $(ErrorCode::$variant => $code,)* }
            }

            /// The HTTP status it comes with. An error frame carries the code alone.
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
        "The body is not a JSON object, or a field or parameter is missing, of the wrong type or out of range. The message says which. Fields and parameters this server does not know are passed over.";
    InvalidFrame = "invalid_frame", 400, Fix,
        "The frame is not a JSON object in text, or one of its fields is missing or wrong. The message says which.";
    UnknownType = "unknown_type", 400, Fix,
        "The frame's `type` is not one this server knows.";
    Unauthenticated = "unauthenticated", 401, Login,
        "There is no token, or it is not valid here; or the admin key is missing or wrong.";
    TokenExpired = "token_expired", 401, Login,
        "The token was valid and has expired.";
    TokenRevoked = "token_revoked", 401, Login,
        "The token was valid and was revoked: somebody logged out with it or everywhere, or the operator ended it.";
    InvalidCredentials = "invalid_credentials", 401, Fix,
        "User and password do not match. Which of the two is wrong is not told.";
    SignupDisabled = "signup_disabled", 403, GiveUp,
        "Sign-up is switched off on this server.";
    LoginDisabled = "login_disabled", 403, GiveUp,
        "This server only checks tokens and issues none; they come from the operator's own product.";
    NotAnAdmin = "not_an_admin", 403, GiveUp,
        "Only an admin of the group removes other members.";
    OriginNotAllowed = "origin_not_allowed", 403, GiveUp,
        "A web page of another origin tried to call the API or to open a WebSocket, and `server.allowed_origins` does not list that origin.";
    NotFound = "not_found", 404, GiveUp,
        "There is nothing at this path.";
    ConversationNotFound = "conversation_not_found", 404, GiveUp,
        "There is no such conversation, or one is not a member of it: the two look alike.";
    UserNotFound = "user_not_found", 404, GiveUp,
        "There is no such user on this server.";
    UnknownUser = "unknown_user", 404, Fix,
        "A named member does not exist. While sign-up is open, a conversation accepts only known users: those with an account, a profile, a token from the operator, or a conversation on this server.";
    MessageNotFound = "message_not_found", 404, GiveUp,
        "No message has that seq (a void is not a message), or the caller cannot see it.";
    MemberNotFound = "member_not_found", 404, GiveUp,
        "That user is not a member of the conversation.";
    MethodNotAllowed = "method_not_allowed", 405, Fix,
        "The path exists and does not know this method.";
    RequestTimeout = "request_timeout", 408, Retry,
        "The request took too long to arrive.";
    UserExists = "user_exists", 409, Fix,
        "The user_id is taken: another user has it, or has one that looks like it (the comparison ignores case and similar letters).";
    NameReserved = "name_reserved", 409, Fix,
        "The user_id is reserved for the operator, or looks like a reserved one.";
    MessageIdConflict = "message_id_conflict", 409, Fix,
        "The message_id was used before for a message with other content. A new message needs a new id.";
    DirectIsFixed = "direct_is_fixed", 409, GiveUp,
        "The members of a direct conversation never change.";
    GroupFull = "group_full", 409, GiveUp,
        "The group would have more members than the operator allows.";
    ArchiveOff = "archive_off", 409, GiveUp,
        "The operator has not set up an archive.";
    ArchiveBusy = "archive_busy", 409, Retry,
        "Another job of the archive is under way.";
    ContentTooLarge = "content_too_large", 413, Fix,
        "The content of the message has more bytes than the operator allows.";
    BodyTooLarge = "body_too_large", 413, Fix,
        "The request body has more bytes than the operator allows.";
    HostNotAllowed = "host_not_allowed", 421, GiveUp,
        "The server does not accept the name in `Host`. It listens on loopback, or the operator has configured a list of names without this one. The operator can add it to `server.hostnames`.";
    UpgradeRequired = "upgrade_required", 426, Fix,
        "This path speaks WebSocket only.";
    RateLimited = "rate_limited", 429, Retry,
        "The user exceeded a limit on requests, messages, log-ins, new conversations or group invitations, or the address exceeded a limit on log-ins or wrong admin keys. The operator sets these limits. Over HTTP, `Retry-After` says how long to wait.";
    Internal = "internal", 500, Retry,
        "The server failed. It is not known whether the request had an effect; a resend with the same message_id is safe.";
    StoreUnavailable = "store_unavailable", 503, Retry,
        "The store cannot write now (a full disk, for example), or the engine behind it did not answer in time. In the second case it is not known whether the request had an effect; a resend with the same message_id is safe in both.";
    AuditUnavailable = "audit_unavailable", 503, Retry,
        "The audit trail cannot be written, so the administrative act was not done.";
    ArchiveUnavailable = "archive_unavailable", 503, Retry,
        "The messages are in the archive, and its object store does not answer. Newer ones can be read, and everything can be sent.";
    Overloaded = "overloaded", 503, Retry,
        "More work is waiting than the server accepts. Nothing was done.";
    TooManyConnections = "too_many_connections", 503, Retry,
        "The server holds as many WebSocket connections as it may, or as many of one address.";
    Draining = "draining", 503, Reconnect,
        "The server is shutting down and takes no new work. Nothing was stored; come back in a moment.";
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
