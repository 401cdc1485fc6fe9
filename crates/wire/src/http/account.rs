//! Accounts and tokens. No type here implements `Debug`, so that passwords and tokens never reach a
//! log.

use std::sync::Arc;

use bluetick_core::names::without_bidi_controls;
use bluetick_core::{Timestamp, User, UserId};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{BadInput, text};

/// A request to create an account.
#[derive(Deserialize, ToSchema)]
#[schema(example = json!({"user_id": "alice", "password": "correct horse", "display_name": "Alice"}))]
pub struct SignupRequest {
    /// The id of the new user: 1 to 128 bytes of UTF-8 in normal form (NFKC), without spaces,
    /// control characters or format characters. Ids that look like an existing one are refused.
    #[schema(min_length = 1, max_length = 128, pattern = r"^\S+$")]
    pub user_id: String,
    /// The new password. Its minimum length is `password_min_length` of `GET /v1/server` (8 bytes
    /// by default), its maximum 1,024 bytes of UTF-8. A character beyond ASCII takes two to four
    /// bytes. Very common passwords and the user_id itself are refused.
    #[schema(max_length = 1024)]
    pub password: String,
    /// The name that other users see: 1 to 128 bytes of UTF-8. Bidi control characters are removed.
    #[schema(min_length = 1, max_length = 128)]
    pub display_name: Option<String>,
}

/// A request of the operator to create an account.
pub type NewUserRequest = SignupRequest;

impl SignupRequest {
    pub fn user(&self) -> Result<UserId, BadInput> {
        parse_user("user_id", &self.user_id)
    }

    pub fn display_name(&self) -> Result<Option<Arc<str>>, BadInput> {
        parse_display_name(self.display_name.as_deref())
    }
}

pub(super) fn parse_display_name(name: Option<&str>) -> Result<Option<Arc<str>>, BadInput> {
    let Some(name) = name.map(without_bidi_controls) else { return Ok(None) };
    let name = name.trim();
    if name.is_empty() || name.len() > User::DISPLAY_NAME_MAX_BYTES || name.chars().any(char::is_control) {
        return Err(BadInput::field("display_name", "must have 1 to 128 bytes and no control characters"));
    }
    Ok(Some(name.into()))
}

pub(crate) fn parse_user(field: &str, text: &str) -> Result<UserId, BadInput> {
    text.parse().map_err(|invalid| BadInput::field(field, invalid))
}

/// A user_id and its password.
#[derive(Deserialize, ToSchema)]
#[schema(example = json!({"user_id": "alice", "password": "correct horse"}))]
pub struct LoginRequest {
    /// The user who logs in: 1 to 128 bytes of UTF-8, without spaces, control characters or format
    /// characters.
    #[schema(min_length = 1, max_length = 128, pattern = r"^\S+$")]
    pub user_id: String,
    /// The password of the user.
    pub password: String,
}

impl LoginRequest {
    pub fn user(&self) -> Result<UserId, BadInput> {
        parse_user("user_id", &self.user_id)
    }
}

/// The scope of a log-out.
#[derive(Default, Deserialize, ToSchema)]
#[schema(example = json!({"everywhere": true}))]
pub struct LogoutRequest {
    /// True revokes all tokens of the user. False, the default, revokes only the token of this
    /// call.
    #[serde(default)]
    pub everywhere: bool,
}

impl LogoutRequest {
    /// Parses the body. An empty body revokes only the token of the call.
    pub fn parse(body: &[u8]) -> Result<LogoutRequest, BadInput> {
        if body.is_empty() { Ok(LogoutRequest::default()) } else { crate::decode(body) }
    }
}

/// A request to set a password.
#[derive(Deserialize, ToSchema)]
#[schema(example = json!({"password": "battery staple"}))]
pub struct NewPasswordRequest {
    /// The new password. Its minimum length is `password_min_length` of `GET /v1/server` (8 bytes
    /// by default), its maximum 1,024 bytes of UTF-8. A character beyond ASCII takes two to four
    /// bytes. Very common passwords and the user_id itself are refused.
    #[schema(max_length = 1024)]
    pub password: String,
}

/// A request for a token. The user is one of the operator's own product and needs no account here.
#[derive(Deserialize, ToSchema)]
#[schema(example = json!({"user_id": "alice", "ttl_s": 3600}))]
pub struct MintRequest {
    /// The user of the token: 1 to 128 bytes of UTF-8, without spaces, control characters or format
    /// characters.
    #[schema(min_length = 1, max_length = 128, pattern = r"^\S+$")]
    pub user_id: String,
    /// The lifetime of the token, in seconds. Default: the server's usual lifetime. A value above
    /// the operator's maximum is refused; the error message contains the maximum.
    #[schema(minimum = 1)]
    pub ttl_s: Option<u64>,
}

impl MintRequest {
    pub fn user(&self) -> Result<UserId, BadInput> {
        parse_user("user_id", &self.user_id)
    }
}

/// An access token.
#[derive(Serialize, ToSchema)]
#[schema(example = json!({"token": "eyJhbGciOi...", "user_id": "alice", "expires_at": 1767225600000i64}))]
pub struct TokenBody {
    /// The token, for the `Authorization: Bearer` header and the `hello` frame.
    pub token: String,
    /// The user of the token.
    #[serde(serialize_with = "text::shown")]
    #[schema(value_type = String)]
    pub user_id: UserId,
    /// When the token expires, in milliseconds since the Unix epoch.
    #[serde(serialize_with = "text::millis")]
    #[schema(value_type = i64)]
    pub expires_at: Timestamp,
}

/// An account, as the operator sees it.
#[derive(Serialize, ToSchema)]
#[schema(example = json!({"user_id": "alice", "display_name": "Alice", "created_at": 1767225600000i64, "has_password": true}))]
pub struct UserBody {
    /// The id of the user.
    pub user_id: String,
    /// The name that other users see; null if none is set.
    #[schema(required)]
    pub display_name: Option<String>,
    /// When the account was created, in milliseconds since the Unix epoch.
    pub created_at: i64,
    /// Whether the account has a password. A user without one cannot log in here.
    pub has_password: bool,
}

impl From<&User> for UserBody {
    fn from(user: &User) -> UserBody {
        UserBody {
            user_id: user.id.as_str().into(),
            display_name: user.display_name.as_deref().map(|name| without_bidi_controls(name).into_owned()),
            created_at: user.created_at.millis(),
            has_password: user.password_hash.is_some(),
        }
    }
}
