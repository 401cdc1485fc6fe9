//! Users and their tokens. Nothing here is `Debug`: passwords and tokens never reach a log.

use std::sync::Arc;

use bluetick_core::names::without_bidi_controls;
use bluetick_core::{Timestamp, User, UserId};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{BadInput, text};

/// A new account.
#[derive(Deserialize, ToSchema)]
#[schema(example = json!({"user_id": "alice", "password": "correct horse", "display_name": "Alice"}))]
pub struct SignupRequest {
    /// 1 to 128 bytes of UTF-8 in normal form (NFKC), without spaces, control characters or format
    /// characters. Names that look like one in use are refused.
    #[schema(min_length = 1, max_length = 128, pattern = r"^\S+$")]
    pub user_id: String,
    /// At least `password_min_length` of `GET /v1/server` (8 by default), at most 1,024 bytes of UTF-8;
    /// characters beyond ASCII take two to four. Very common passwords and the user_id itself are refused.
    #[schema(max_length = 1024)]
    pub password: String,
    /// 1 to 128 bytes of UTF-8. Bidi controls are removed.
    #[schema(min_length = 1, max_length = 128)]
    pub display_name: Option<String>,
}

/// A new account, made by the operator.
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

#[derive(Deserialize, ToSchema)]
#[schema(example = json!({"user_id": "alice", "password": "correct horse"}))]
pub struct LoginRequest {
    /// 1 to 128 bytes of UTF-8, without spaces, control characters or format characters.
    #[schema(min_length = 1, max_length = 128, pattern = r"^\S+$")]
    pub user_id: String,
    pub password: String,
}

impl LoginRequest {
    pub fn user(&self) -> Result<UserId, BadInput> {
        parse_user("user_id", &self.user_id)
    }
}

/// How far to log out.
#[derive(Default, Deserialize, ToSchema)]
#[schema(example = json!({"everywhere": true}))]
pub struct LogoutRequest {
    /// All tokens of the user, and not only the one of this call.
    #[serde(default)]
    pub everywhere: bool,
}

impl LogoutRequest {
    /// Without a body: this token alone.
    pub fn parse(body: &[u8]) -> Result<LogoutRequest, BadInput> {
        if body.is_empty() { Ok(LogoutRequest::default()) } else { crate::decode(body) }
    }
}

#[derive(Deserialize, ToSchema)]
#[schema(example = json!({"password": "battery staple"}))]
pub struct NewPasswordRequest {
    /// At least `password_min_length` of `GET /v1/server` (8 by default), at most 1,024 bytes of UTF-8;
    /// characters beyond ASCII take two to four. Very common passwords and the user_id itself are refused.
    #[schema(max_length = 1024)]
    pub password: String,
}

/// A token for a user of the operator's own product; the user needs no account here.
#[derive(Deserialize, ToSchema)]
#[schema(example = json!({"user_id": "alice", "ttl_s": 3600}))]
pub struct MintRequest {
    /// 1 to 128 bytes of UTF-8, without spaces, control characters or format characters.
    #[schema(min_length = 1, max_length = 128, pattern = r"^\S+$")]
    pub user_id: String,
    /// How long the token is valid, in seconds; the server's usual time where it is not given. More than the operator
    /// allows is refused, and the message says how much that is.
    #[schema(minimum = 1)]
    pub ttl_s: Option<u64>,
}

impl MintRequest {
    pub fn user(&self) -> Result<UserId, BadInput> {
        parse_user("user_id", &self.user_id)
    }
}

/// A token, for the `Authorization` header and the hello frame.
#[derive(Serialize, ToSchema)]
#[schema(example = json!({"token": "eyJhbGciOi...", "user_id": "alice", "expires_at": 1767225600000i64}))]
pub struct TokenBody {
    pub token: String,
    #[serde(serialize_with = "text::shown")]
    #[schema(value_type = String)]
    pub user_id: UserId,
    /// Milliseconds since the Unix epoch.
    #[serde(serialize_with = "text::millis")]
    #[schema(value_type = i64)]
    pub expires_at: Timestamp,
}

#[derive(Serialize, ToSchema)]
#[schema(example = json!({"user_id": "alice", "display_name": "Alice", "created_at": 1767225600000i64, "has_password": true}))]
pub struct UserBody {
    pub user_id: String,
    #[schema(required)]
    pub display_name: Option<String>,
    /// Milliseconds since the Unix epoch.
    pub created_at: i64,
    /// Whether the user can log in here.
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
