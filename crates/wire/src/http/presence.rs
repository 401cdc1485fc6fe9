//! Who is there.

use std::borrow::Cow;
use std::sync::Arc;

use bluetick_core::names::without_bidi_controls;
use bluetick_core::{Profile, Timestamp, UserId};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::account::parse_display_name;
use crate::{BadInput, text};

/// Whether somebody is there, or when it last was. Of somebody who hides it: not there, never seen.
#[derive(Clone, Copy, Debug, Serialize, ToSchema)]
#[schema(example = json!({"user_id": "bob", "online": false, "last_seen_at": 1767225600123i64}))]
pub struct PresenceBody<'a> {
    pub user_id: &'a str,
    pub online: bool,
    /// When the last connection ended, in milliseconds since the Unix epoch; null where it is not known or not told.
    #[serde(serialize_with = "text::millis_if_any")]
    #[schema(value_type = Option<i64>, required)]
    pub last_seen_at: Option<Timestamp>,
}

impl<'a> PresenceBody<'a> {
    pub fn new(user: &'a UserId, online: bool, profile: &Profile) -> PresenceBody<'a> {
        let told = !profile.hides_presence;
        PresenceBody {
            user_id: user.as_str(),
            online: told && online,
            last_seen_at: profile.last_seen_at.filter(|_| told && !online),
        }
    }
}

/// Those of a conversation of whom something can be told.
#[derive(Debug, Serialize, ToSchema)]
#[schema(example = json!({"members": []}))]
pub struct PresencesBody<'a> {
    pub members: Vec<PresenceBody<'a>>,
}

/// What a user sets for itself, everywhere.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(example = json!({"show_presence": false}))]
pub struct ProfileRequest {
    /// What others see beside the user_id: 1 to 128 bytes of UTF-8. Bidi controls are removed.
    #[schema(min_length = 1, max_length = 128)]
    pub display_name: Option<String>,
    /// False: nobody is told whether the user is there or when it was.
    pub show_presence: Option<bool>,
}

impl ProfileRequest {
    pub fn display_name(&self) -> Result<Option<Arc<str>>, BadInput> {
        parse_display_name(self.display_name.as_deref())
    }
}

#[derive(Debug, Serialize, ToSchema)]
#[schema(example = json!({"user_id": "alice", "display_name": "Alice", "show_presence": true}))]
pub struct ProfileBody<'a> {
    pub user_id: &'a str,
    #[schema(required)]
    pub display_name: Option<Cow<'a, str>>,
    pub show_presence: bool,
}

impl<'a> ProfileBody<'a> {
    pub fn new(user: &'a UserId, display_name: Option<&'a str>, profile: &Profile) -> ProfileBody<'a> {
        let display_name = display_name.map(without_bidi_controls);
        ProfileBody { user_id: user.as_str(), display_name, show_presence: !profile.hides_presence }
    }
}
