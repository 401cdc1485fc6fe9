//! A person known to this server. Users of the operator's own product need no row here: their token is enough.

use std::fmt;
use std::sync::Arc;

use crate::{Timestamp, UserId};

#[derive(Clone, PartialEq, Eq)]
pub struct User {
    pub id: UserId,
    pub display_name: Option<Arc<str>>,
    /// An argon2id hash in its usual text form; `None` for people who cannot log in here.
    pub password_hash: Option<Arc<str>>,
    pub created_at: Timestamp,
}

impl User {
    pub const DISPLAY_NAME_MAX_BYTES: usize = 128;

    /// A user without a password and without a display name.
    pub fn named(id: UserId, created_at: Timestamp) -> User {
        User { id, display_name: None, password_hash: None, created_at }
    }
}

/// By hand, so that no password hash ever reaches a log.
impl fmt::Debug for User {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("User")
            .field("id", &self.id)
            .field("display_name", &self.display_name)
            .finish_non_exhaustive()
    }
}
