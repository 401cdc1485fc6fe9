//! A user with an account on this server. Users of the operator's own product need no account;
//! their token is enough.

use std::fmt;
use std::sync::Arc;

use crate::{Timestamp, UserId};

#[derive(Clone, PartialEq, Eq)]
pub struct User {
    pub id: UserId,
    pub display_name: Option<Arc<str>>,
    /// An argon2id hash in PHC string format. `None` for users who cannot log in here.
    pub password_hash: Option<Arc<str>>,
    pub created_at: Timestamp,
}

impl User {
    /// Upper bound on a display name, in bytes of UTF-8. It bounds the account row and the search
    /// results.
    pub const DISPLAY_NAME_MAX_BYTES: usize = 128;

    /// Creates a user without a password and without a display name.
    pub fn named(id: UserId, created_at: Timestamp) -> User {
        User { id, display_name: None, password_hash: None, created_at }
    }
}

/// Implemented by hand to keep the password hash out of logs.
impl fmt::Debug for User {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("User")
            .field("id", &self.id)
            .field("display_name", &self.display_name)
            .finish_non_exhaustive()
    }
}
