//! System notices: messages that the server itself writes into a group. Each notice has its own
//! seq.

use serde::Serialize;

use crate::UserId;

/// The content of a system notice. It is stored as JSON, so that clients can translate it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Notice<'a> {
    GroupCreated { by: &'a str, title: &'a str, member_count: usize },
    MemberAdded { by: &'a str, user_id: &'a str },
    MemberRemoved { by: &'a str, user_id: &'a str },
    MemberLeft { user_id: &'a str },
}

impl<'a> Notice<'a> {
    /// Returns [`Notice::MemberLeft`] if the actor removes itself, otherwise
    /// [`Notice::MemberRemoved`].
    pub fn departure(actor: &'a UserId, leaving: &'a UserId) -> Notice<'a> {
        if actor == leaving {
            Notice::MemberLeft { user_id: leaving.as_str() }
        } else {
            Notice::MemberRemoved { by: actor.as_str(), user_id: leaving.as_str() }
        }
    }

    pub fn content(&self) -> String {
        serde_json::to_string(self).expect("a notice holds strings and numbers only")
    }
}
