//! Signed tokens (JWT), which name a user and an expiry time. This server signs tokens for sign-up,
//! log-in and the operator's mint, or only verifies tokens of the operator's product.
//!
//! The key alone decides how a token is verified: each key has exactly one algorithm. The algorithm
//! in a token's header only filters the keys, so a forged header cannot make a key verify with
//! another algorithm.

mod claims;
mod crypto;
mod keys;
mod public_key;
mod serial;
mod verified;

use std::fmt;
use std::path::Path;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bluetick_core::ports::Random;
use bluetick_core::{Timestamp, TokenFacts, TokenPrint, UserId};
use jsonwebtoken::dangerous::insecure_decode_claims;
use jsonwebtoken::{Header, decode_header};
use thiserror::Error;

use self::claims::SignedClaims;
use self::keys::KeyRing;
use self::serial::Serial;
use self::verified::Verified;
use crate::{AuthSettings, AuthSetupError};

/// The claims of a valid token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claims {
    pub user: UserId,
    /// The token's fingerprint, issue time and expiry. The expiry includes the leeway for clock
    /// skew. The caller must check revocations.
    pub token: TokenFacts,
}

impl Claims {
    pub fn expires_at(&self) -> Timestamp {
        self.token.expires_at
    }
}

/// A token that this server signed.
#[derive(Clone)]
pub struct MintedToken {
    pub token: String,
    pub expires_at: Timestamp,
}

impl fmt::Debug for MintedToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MintedToken").field("expires_at", &self.expires_at).finish_non_exhaustive()
    }
}

/// Why a token was rejected, for logs and metrics. A client learns only whether the token has
/// expired ([`TokenError::Expired`]) or is invalid.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum TokenError {
    #[error("not a signed token with the claims sub and exp")]
    Malformed,
    #[error("no key for this token's algorithm and kid")]
    UnknownKey,
    #[error("the signature is not valid")]
    BadSignature,
    #[error("expired")]
    Expired,
    #[error("not valid yet")]
    NotYetValid,
    #[error("issued by another issuer")]
    WrongIssuer,
    #[error("issued for another audience")]
    WrongAudience,
    #[error("its subject cannot be a user_id")]
    BadSubject,
}

impl TokenError {
    /// Returns the value of a metric label.
    pub const fn name(self) -> &'static str {
        match self {
            TokenError::Malformed => "malformed",
            TokenError::UnknownKey => "unknown_key",
            TokenError::BadSignature => "bad_signature",
            TokenError::Expired => "expired",
            TokenError::NotYetValid => "not_yet_valid",
            TokenError::WrongIssuer => "wrong_issuer",
            TokenError::WrongAudience => "wrong_audience",
            TokenError::BadSubject => "bad_subject",
        }
    }
}

#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum CannotMint {
    #[error("this server verifies tokens with a public key and has none to sign with")]
    VerifyOnly,
    #[error("the lifetime of a token is at most {} seconds", max.as_secs())]
    TtlTooLong { max: Duration },
    #[error("the lifetime of a token is at least one second")]
    TtlTooShort,
}

/// Signs and verifies tokens.
pub struct Tokens {
    keys: KeyRing,
    /// Cache of verified tokens. Its entries hold only for these keys, issuer and audience.
    verified: Verified,
    issuer: Option<String>,
    audience: Option<String>,
    leeway_ms: i64,
    login_ttl: Duration,
    max_ttl: Duration,
    serial: Serial,
}

/// Upper bound on a token, in bytes. Longer tokens are rejected unparsed, which bounds the work for
/// an unauthenticated client. Tokens of large identity providers are much shorter.
const MAX_TOKEN_BYTES: usize = 16 * 1024;
/// Upper bound on `auth.leeway_seconds`, in seconds. [`bluetick_core::Revocations`] keeps expired
/// tokens this long; a higher bound would make revoked tokens valid again.
const MAX_LEEWAY_SECONDS: u64 = 60 * 60;

impl Tokens {
    /// Opens the operator's keys. If none is configured, it uses the server's own key in
    /// `<data_dir>/token.key` and creates it (mode 0600) if missing.
    pub fn open(
        settings: &AuthSettings,
        data_dir: &Path,
        random: &dyn Random,
    ) -> Result<Tokens, AuthSetupError> {
        check_bounds(settings)?;
        Ok(Tokens {
            keys: KeyRing::open(settings, data_dir, random)?,
            verified: Verified::default(),
            issuer: settings.issuer.clone(),
            audience: settings.audience.clone(),
            leeway_ms: i64::try_from(settings.leeway_seconds).expect("bounded at startup") * 1000,
            login_ttl: Duration::from_secs(settings.token_ttl_seconds),
            max_ttl: Duration::from_secs(settings.max_token_ttl_seconds),
            serial: Serial::new(random),
        })
    }

    /// Checks the settings and the operator's key files, without the data directory and without
    /// writing anything.
    pub fn check(settings: &AuthSettings) -> Result<(), AuthSetupError> {
        check_bounds(settings)?;
        KeyRing::of_the_operator(settings).map(|_| ())
    }

    /// Like [`Tokens::check`], and also checks the generated key if it exists and is in use.
    pub fn check_in(settings: &AuthSettings, data_dir: &Path) -> Result<(), AuthSetupError> {
        check_bounds(settings)?;
        KeyRing::check(settings, data_dir)
    }

    /// Verifies a token: a key of the token's algorithm must have signed it, and its claims must be
    /// valid at `now`. Does not check revocations. Caches valid tokens.
    pub fn verify(&self, token: &str, now: Timestamp) -> Result<Claims, TokenError> {
        if token.len() > MAX_TOKEN_BYTES {
            return Err(TokenError::Malformed);
        }
        if let Some(proven) = self.verified.find(token) {
            return proven.at(now);
        }
        let header = decode_header(token).map_err(|_| TokenError::Malformed)?;
        // A verifier must reject a token with critical header parameters that it does not know (RFC
        // 7515, section 4.1.11). This one knows none.
        if header.crit.is_some() {
            return Err(TokenError::Malformed);
        }
        let (claims, print) = self.check_signature(token, &header)?;
        let proven = claims.check(print, self, now)?;
        self.verified.keep(token, proven.clone());
        proven.at(now)
    }

    fn check_signature(
        &self,
        token: &str,
        header: &Header,
    ) -> Result<(SignedClaims, TokenPrint), TokenError> {
        let mut candidates = self.keys.candidates(header).peekable();
        if candidates.peek().is_none() {
            return Err(TokenError::UnknownKey);
        }
        let (message, signature) = token.rsplit_once('.').ok_or(TokenError::Malformed)?;
        let signature = URL_SAFE_NO_PAD.decode(signature).map_err(|_| TokenError::Malformed)?;
        if !candidates.any(|key| key.verifies(message.as_bytes(), &signature)) {
            return Err(TokenError::BadSignature);
        }
        // This call skips signature verification, which is done above.
        let claims = insecure_decode_claims(token).map_err(|_| TokenError::Malformed)?;
        Ok((claims, print(message)))
    }

    /// Signs a token with the operator's secret or with the server's own key. Fails like
    /// [`Tokens::mint_as_issued`].
    pub fn mint(&self, user: &UserId, ttl: Duration, now: Timestamp) -> Result<MintedToken, CannotMint> {
        self.mint_as_issued(user, ttl, now, now)
    }

    /// Signs a token with a given issue time, which may be later than `now` to lie above the last
    /// revocation. Fails if the server has no signing key, or if `ttl` is out of range.
    pub fn mint_as_issued(
        &self,
        user: &UserId,
        ttl: Duration,
        now: Timestamp,
        issued_at: Timestamp,
    ) -> Result<MintedToken, CannotMint> {
        let signing = self.keys.signing().ok_or(CannotMint::VerifyOnly)?;
        if ttl < Duration::from_secs(1) {
            return Err(CannotMint::TtlTooShort);
        }
        if ttl > self.max_ttl {
            return Err(CannotMint::TtlTooLong { max: self.max_ttl });
        }
        let expires_at = now.plus_millis(i64::try_from(ttl.as_millis()).unwrap_or(i64::MAX));
        let claims = SignedClaims::minted(self, user, issued_at, expires_at);
        let token = jsonwebtoken::encode(&Header::new(keys::SIGNING_ALGORITHM), &claims, signing)
            .expect("the key has the algorithm of the header, and the claims always serialize");
        Ok(MintedToken { token, expires_at })
    }

    /// Returns whether the server has a signing key. Without one it offers no sign-up, log-in or
    /// mint, because the operator's product issues the tokens.
    pub fn can_mint(&self) -> bool {
        self.keys.signing().is_some()
    }

    /// Returns the lifetime of a token from sign-up or log-in.
    pub fn login_ttl(&self) -> Duration {
        self.login_ttl
    }

    /// Returns the maximum lifetime of a token that this server signs.
    pub fn max_ttl(&self) -> Duration {
        self.max_ttl
    }
}

/// Returns the fingerprint of a token: a digest of the signed part, without the signature. The same
/// claims can have several valid signatures, and a revocation must cover all of them.
fn print(message: &str) -> TokenPrint {
    let digest = ring::digest::digest(&ring::digest::SHA256, message.as_bytes());
    let half = digest.as_ref().first_chunk().expect("a SHA-256 digest has 32 bytes");
    TokenPrint::from_bytes(*half)
}

fn check_bounds(settings: &AuthSettings) -> Result<(), AuthSetupError> {
    let bad_setting = |setting, reason| Err(AuthSetupError::BadSetting { setting, reason });
    if settings.max_token_ttl_seconds == 0 {
        return bad_setting("auth.max_token_ttl_seconds", "the lifetime of a token is at least one second");
    }
    if settings.token_ttl_seconds == 0 || settings.token_ttl_seconds > settings.max_token_ttl_seconds {
        return bad_setting("auth.token_ttl_seconds", "it must be 1 to auth.max_token_ttl_seconds");
    }
    if settings.leeway_seconds > MAX_LEEWAY_SECONDS {
        return bad_setting("auth.leeway_seconds", "it must be at most 3600");
    }
    Ok(())
}

impl fmt::Debug for Tokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tokens")
            .field("keys", &self.keys)
            .field("issuer", &self.issuer)
            .finish_non_exhaustive()
    }
}
