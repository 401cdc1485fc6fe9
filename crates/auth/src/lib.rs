//! Who somebody is: signed tokens, passwords, and the operator's admin key.
//!
//! Knows nothing of HTTP or WebSockets, and never reads a clock: the moment is handed in. What a person may do once
//! it is known who they are belongs to `bluetick-core`.

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
