//! Presence, and the profile of a user.

use std::borrow::Cow;
use std::sync::Arc;

use bluetick_core::names::without_bidi_controls;
use bluetick_core::{Profile, Timestamp, UserId};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::account::parse_display_name;
use crate::{BadInput, text};

/// Whether a user is online, and when the user was last online. A user who hides its presence
/// always appears offline and never seen.
#[derive(Clone, Copy, Debug, Serialize, ToSchema)]
#[schema(example = json!({"user_id": "bob", "online": false, "last_seen_at": 1767225600123i64}))]
pub struct PresenceBody<'a> {
    /// The user.
    pub user_id: &'a str,
    /// Whether the user has an open connection and shows its presence.
    pub online: bool,
    /// When the last connection of the user ended, in milliseconds since the Unix epoch. Null while
    /// the user is online, if it is unknown, and if the user hides its presence.
    #[serde(serialize_with = "text::millis_if_any")]
    #[schema(value_type = Option<i64>, required)]
    pub last_seen_at: Option<Timestamp>,
}

impl<'a> PresenceBody<'a> {
    pub fn new(user: &'a UserId, online: bool, profile: &Profile) -> PresenceBody<'a> {
        let is_visible = !profile.hides_presence;
        PresenceBody {
            user_id: user.as_str(),
            online: is_visible && online,
            last_seen_at: profile.last_seen_at.filter(|_| is_visible && !online),
        }
    }
}

/// The presence of the other members of a conversation.
#[derive(Debug, Serialize, ToSchema)]
#[schema(example = json!({"members": []}))]
pub struct PresencesBody<'a> {
    /// All other members. In conversations of more than 100 members: at most 100 members who are
    /// online and show it.
    pub members: Vec<PresenceBody<'a>>,
}

/// A change of your profile. Omitted fields keep their value.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(example = json!({"show_presence": false}))]
pub struct ProfileRequest {
    /// The name that other users see: 1 to 128 bytes of UTF-8. Bidi control characters are removed.
    #[schema(min_length = 1, max_length = 128)]
    pub display_name: Option<String>,
    /// False hides from all other users whether and when the user is online.
    pub show_presence: Option<bool>,
}

impl ProfileRequest {
    pub fn display_name(&self) -> Result<Option<Arc<str>>, BadInput> {
        parse_display_name(self.display_name.as_deref())
    }
}

/// The profile of the caller.
#[derive(Debug, Serialize, ToSchema)]
#[schema(example = json!({"user_id": "alice", "display_name": "Alice", "show_presence": true}))]
pub struct ProfileBody<'a> {
    /// The user of the token.
    pub user_id: &'a str,
    /// The name that other users see; null if none is set.
    #[schema(required)]
    pub display_name: Option<Cow<'a, str>>,
    /// Whether other users see whether and when the user is online.
    pub show_presence: bool,
}

impl<'a> ProfileBody<'a> {
    pub fn new(user: &'a UserId, display_name: Option<&'a str>, profile: &Profile) -> ProfileBody<'a> {
        let display_name = display_name.map(without_bidi_controls);
        ProfileBody { user_id: user.as_str(), display_name, show_presence: !profile.hides_presence }
    }
}
