//! The settings sections `[auth]` and `[admin]`. Other modules read the files that they name.

use std::fmt;
use std::path::PathBuf;

use bluetick_core::names::ReservedNames;
use serde::{Deserialize, Serialize};

use crate::PasswordRules;

/// Section `[auth]`: sign-up, passwords and tokens.
#[derive(Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct AuthSettings {
    /// Anyone can create an account with `POST /v1/signup`.
    pub signup: bool,
    /// Keeps sign-up open although the operator's product also signs tokens with `hs256_secret`.
    pub signup_beside_own_users: bool,
    /// Names that sign-up refuses, in addition to the built-in reserved names. The operator can
    /// still assign them to users.
    pub reserved_names: Vec<String>,
    /// The minimum length of a new password, in bytes: 1 to
    /// [`Passwords::MAX_BYTES`](crate::Passwords::MAX_BYTES).
    pub password_min_length: usize,
    /// The lifetime of a token from sign-up or log-in.
    pub token_ttl_seconds: u64,
    /// The maximum lifetime of a token that this server signs.
    pub max_token_ttl_seconds: u64,
    /// A secret shared with the operator's product. The server signs and verifies tokens with it
    /// (HS256).
    pub hs256_secret: Option<String>,
    /// A PEM file with an Ed25519 or RSA public key. The server only verifies tokens with it.
    pub public_key_file: Option<PathBuf>,
    /// A JSON Web Key Set with Ed25519 or RSA public keys, selected by `kid`. The server only
    /// verifies tokens with it.
    pub jwks_file: Option<PathBuf>,
    /// If set, a token must have this issuer (`iss`).
    pub issuer: Option<String>,
    /// If set, a token must have this audience (`aud`).
    pub audience: Option<String>,
    /// The tolerated clock skew of a token's issuer.
    pub leeway_seconds: u64,
}

/// One day, in seconds.
const DAY_SECONDS: u64 = 24 * 60 * 60;

impl Default for AuthSettings {
    fn default() -> Self {
        AuthSettings {
            signup: true,
            signup_beside_own_users: false,
            reserved_names: Vec::new(),
            password_min_length: PasswordRules::default().min_bytes,
            token_ttl_seconds: 7 * DAY_SECONDS,
            max_token_ttl_seconds: 90 * DAY_SECONDS,
            hs256_secret: None,
            public_key_file: None,
            jwks_file: None,
            issuer: None,
            audience: None,
            leeway_seconds: 0,
        }
    }
}

/// Section `[admin]`: the operator's key.
#[derive(Clone, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct AdminSettings {
    /// The key, sent as `Authorization: Bearer …`. If not set, the server generates one in the data
    /// directory.
    pub key: Option<String>,
}

impl AuthSettings {
    pub fn reserved_names(&self) -> ReservedNames {
        ReservedNames::with(self.reserved_names.iter().map(String::as_str))
    }

    pub fn password_rules(&self) -> PasswordRules {
        PasswordRules { min_bytes: self.password_min_length }
    }

    /// Returns whether the settings allow sign-up. With `hs256_secret`, the operator's product
    /// signs tokens for its own users. Open sign-up would let a stranger take the name of such a
    /// user and read its messages, so the operator must enable it explicitly.
    pub fn signup_is_open(&self) -> bool {
        self.signup && (self.hs256_secret.is_none() || self.signup_beside_own_users)
    }
}

/// Replaces a secret in debug output. It has a fixed length, so that it does not reveal the length
/// of the secret.
const MASK: &str = "***";

/// Implemented by hand to keep secrets out of logs.
impl fmt::Debug for AuthSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AuthSettings")
            .field("signup", &self.signup)
            .field("signup_beside_own_users", &self.signup_beside_own_users)
            .field("reserved_names", &self.reserved_names)
            .field("password_min_length", &self.password_min_length)
            .field("token_ttl_seconds", &self.token_ttl_seconds)
            .field("max_token_ttl_seconds", &self.max_token_ttl_seconds)
            .field("hs256_secret", &self.hs256_secret.as_ref().map(|_| MASK))
            .field("public_key_file", &self.public_key_file)
            .field("jwks_file", &self.jwks_file)
            .field("issuer", &self.issuer)
            .field("audience", &self.audience)
            .field("leeway_seconds", &self.leeway_seconds)
            .finish()
    }
}

impl fmt::Debug for AdminSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AdminSettings").field("key", &self.key.as_ref().map(|_| MASK)).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operator_secret_closes_sign_up_unless_both_are_enabled() {
        let mut settings = AuthSettings::default();
        assert!(settings.signup_is_open());
        settings.hs256_secret = Some("x".repeat(32));
        assert!(!settings.signup_is_open());
        settings.signup_beside_own_users = true;
        assert!(settings.signup_is_open());
        settings.signup = false;
        assert!(!settings.signup_is_open());
    }
}
