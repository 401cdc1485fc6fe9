//! Authentication: signed tokens, passwords, and the operator's admin key.
//!
//! This crate does not know HTTP or WebSockets, and never reads a clock: callers pass the current
//! time. Authorization of an authenticated user belongs to `bluetick-core`.

mod admin_key;
mod error;
mod passwords;
mod secret_file;
mod settings;
mod tokens;

pub use admin_key::AdminKey;
pub use error::AuthSetupError;
pub use passwords::{PasswordRules, Passwords, WeakPassword};
pub use settings::{AdminSettings, AuthSettings};
pub use tokens::{CannotMint, Claims, MintedToken, TokenError, Tokens};
