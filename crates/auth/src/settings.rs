//! The sections `[auth]` and `[admin]` of the settings. Reading files belongs to the parts that use them.

use std::fmt;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// Section `[auth]`: who may come in, and with which tokens.
#[derive(Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct AuthSettings {
    /// Anybody may make an account with `POST /v1/signup`.
    pub signup: bool,
    /// Sign-up stays open although tokens also come from the operator's own product.
    pub signup_beside_own_users: bool,
    /// How long a token from sign-up or log-in is good.
    pub token_ttl_seconds: u64,
    /// The longest a minted token may live.
    pub max_token_ttl_seconds: u64,
    /// A secret shared with the operator's own product: tokens are signed and verified with it (HS256).
    pub hs256_secret: Option<String>,
    /// A PEM file with an Ed25519 or RSA public key: tokens are verified with it, none are made here.
    pub public_key_file: Option<PathBuf>,
    /// A JSON Web Key Set with Ed25519 or RSA public keys, chosen by `kid`: verify only.
    pub jwks_file: Option<PathBuf>,
    /// When set, a token must name this issuer (`iss`).
    pub issuer: Option<String>,
    /// When set, a token must be meant for this audience (`aud`).
    pub audience: Option<String>,
    /// How far the clock of a token's maker may be off.
    pub leeway_seconds: u64,
}

const DAY_SECONDS: u64 = 24 * 60 * 60;

impl Default for AuthSettings {
    fn default() -> Self {
        AuthSettings {
            signup: true,
            signup_beside_own_users: false,
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

/// Section `[admin]`: the operator's own key.
#[derive(Clone, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct AdminSettings {
    /// Presented as `Authorization: Bearer …`; generated into the data directory when not given.
    pub key: Option<String>,
}

/// RFC 7518, section 3.2: a shorter secret can be guessed offline from a single token.
const ADVISED_SECRET_BYTES: usize = 32;
const ADVISED_ADMIN_KEY_BYTES: usize = 16;

impl AuthSettings {
    /// Whether anybody may make an account. Where the operator's product signs tokens for its own users, an open
    /// sign-up would let a stranger take the name of one of them and read their messages, so it has to be asked for.
    pub fn signup_is_open(&self) -> bool {
        self.signup && (self.hs256_secret.is_none() || self.signup_beside_own_users)
    }

    /// What works and is unwise, in a sentence for the operator.
    pub fn advice(&self) -> Option<String> {
        let short = self.hs256_secret.as_ref().is_some_and(|secret| secret.len() < ADVISED_SECRET_BYTES);
        short.then(|| {
            format!("auth.hs256_secret is shorter than {ADVISED_SECRET_BYTES} bytes, so it can be guessed from a token")
        })
    }
}

impl AdminSettings {
    /// What works and is unwise, in a sentence for the operator.
    pub fn advice(&self) -> Option<String> {
        let short = self.key.as_ref().is_some_and(|key| key.len() < ADVISED_ADMIN_KEY_BYTES);
        short.then(|| {
            format!("admin.key is shorter than {ADVISED_ADMIN_KEY_BYTES} bytes, so it can be guessed")
        })
    }
}

/// What stands in place of a secret wherever settings are shown.
const MASK: &str = "***";

/// By hand, so that no secret ever reaches a log.
impl fmt::Debug for AuthSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AuthSettings")
            .field("signup", &self.signup)
            .field("signup_beside_own_users", &self.signup_beside_own_users)
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
    fn an_operators_secret_closes_sign_up_unless_both_are_wanted() {
        let mut settings = AuthSettings::default();
        assert!(settings.signup_is_open());
        settings.hs256_secret = Some("x".repeat(32));
        assert!(!settings.signup_is_open());
        settings.signup_beside_own_users = true;
        assert!(settings.signup_is_open());
        settings.signup = false;
        assert!(!settings.signup_is_open());
    }

    #[test]
    fn short_secrets_work_and_are_advised_against() {
        let with_secret =
            |secret: &str| AuthSettings { hs256_secret: Some(secret.into()), ..AuthSettings::default() };
        assert!(
            with_secret(&"x".repeat(31)).advice().is_some_and(|advice| advice.contains("auth.hs256_secret"))
        );
        assert_eq!(with_secret(&"x".repeat(32)).advice(), None);
        assert_eq!(AuthSettings::default().advice(), None);
        let with_key = |key: &str| AdminSettings { key: Some(key.into()) };
        assert!(with_key("short").advice().is_some_and(|advice| advice.contains("admin.key")));
        assert_eq!(with_key(&"x".repeat(16)).advice(), None);
    }
}
