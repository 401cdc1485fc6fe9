//! Typed names of users, conversations and devices: mixing them up does not compile.

use std::fmt;
use std::sync::Arc;

macro_rules! name {
    ($(#[$about:meta])* $name:ident) => {
        $(#[$about])*
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(Arc<str>);

        impl $name {
            pub fn new(name: &str) -> $name {
                $name(name.into())
            }

            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

name!(UserName);
name!(ConversationName);
name!(
    /// One of the devices of a user.
    DeviceName
);

/// A member of a conversation.
pub type Membership = (ConversationName, UserName);
