//! Signed tokens (JWT): who somebody is, until when. Made here for sign-up, log-in and the operator's mint, or made
//! by the operator's own product and only verified here.
//!
//! One thing decides how a token is checked: the key. Each key knows its single algorithm, and what a token's header
//! says is only used to leave out keys of other algorithms, so nobody can talk a key into being something else.

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

/// What a good token says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claims {
    pub user: UserId,
    /// What it is known by, when it was issued, and from when on it is refused, which has the allowance for a foreign
    /// clock in it. Whether it was revoked meanwhile is for whoever keeps that to say.
    pub token: TokenFacts,
}

impl Claims {
    pub fn expires_at(&self) -> Timestamp {
        self.token.expires_at
    }
}

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

/// Why a token was refused, for logs and metrics. A client hears only whether it should log in again
/// ([`TokenError::Expired`]) or never was anybody.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum TokenError {
    #[error("not a signed token with the claims sub and exp")]
    Malformed,
    #[error("no key for this token's algorithm and kid")]
    UnknownKey,
    #[error("the signature does not fit")]
    BadSignature,
    #[error("expired")]
    Expired,
    #[error("not valid yet")]
    NotYetValid,
    #[error("made by another issuer")]
    WrongIssuer,
    #[error("meant for another audience")]
    WrongAudience,
    #[error("its subject cannot be a user_id")]
    BadSubject,
}

impl TokenError {
    /// A short name for a metric's label.
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
    #[error("a token lives at most {} seconds", max.as_secs())]
    TtlTooLong { max: Duration },
    #[error("a token lives at least a second")]
    TtlTooShort,
}

pub struct Tokens {
    keys: KeyRing,
    /// By these keys, this issuer and this audience; others begin with none.
    verified: Verified,
    issuer: Option<String>,
    audience: Option<String>,
    leeway_ms: i64,
    login_ttl: Duration,
    max_ttl: Duration,
    serial: Serial,
}

/// Longer ones are refused unread. The largest identity providers stay well below.
const MAX_TOKEN_BYTES: usize = 16 * 1024;
const MAX_LEEWAY_SECONDS: u64 = 60 * 60;

impl Tokens {
    /// Takes the operator's keys. When none is configured, the server's own, in `<data_dir>/token.key`, is used and
    /// made (mode 0600) when it is not there.
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
            leeway_ms: i64::try_from(settings.leeway_seconds).expect("bounded above") * 1000,
            login_ttl: Duration::from_secs(settings.token_ttl_seconds),
            max_ttl: Duration::from_secs(settings.max_token_ttl_seconds),
            serial: Serial::new(random),
        })
    }

    /// Whether [`Tokens::open`] could work with these settings, as far as that shows without writing anything.
    pub fn check(settings: &AuthSettings) -> Result<(), AuthSetupError> {
        check_bounds(settings)?;
        KeyRing::of_the_operator(settings).map(|_| ())
    }

    /// Like [`Tokens::check`]. Also checks the key that this server generated, if it exists and is
    /// in use.
    pub fn check_in(settings: &AuthSettings, data_dir: &Path) -> Result<(), AuthSetupError> {
        check_bounds(settings)?;
        KeyRing::check(settings, data_dir)
    }

    /// A token is good when one of our keys of its own algorithm signed it and it says who, and until when.
    pub fn verify(&self, token: &str, now: Timestamp) -> Result<Claims, TokenError> {
        if token.len() > MAX_TOKEN_BYTES {
            return Err(TokenError::Malformed);
        }
        if let Some(proven) = self.verified.find(token) {
            return proven.at(now);
        }
        let header = decode_header(token).map_err(|_| TokenError::Malformed)?;
        // Whoever marks a header as critical means that a reader who does not know it must refuse (RFC 7515, 4.1.11).
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
        // What makes it insecure is to skip what was done above.
        let claims = insecure_decode_claims(token).map_err(|_| TokenError::Malformed)?;
        Ok((claims, print(message)))
    }

    /// Signs a token with the operator's secret or with our own key.
    pub fn mint(&self, user: &UserId, ttl: Duration, now: Timestamp) -> Result<MintedToken, CannotMint> {
        self.mint_as_issued(user, ttl, now, now)
    }

    /// The same; `issued_at` may be a moment later than now, above all that was revoked.
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
            .expect("the key is of the header's algorithm and the claims are plain JSON");
        Ok(MintedToken { token, expires_at })
    }

    /// Without a secret to sign with there is no sign-up, no log-in and no mint: the operator's product makes the
    /// tokens.
    pub fn can_mint(&self) -> bool {
        self.keys.signing().is_some()
    }

    /// How long a token from sign-up or log-in is good.
    pub fn login_ttl(&self) -> Duration {
        self.login_ttl
    }

    /// The longest a minted token may live.
    pub fn max_ttl(&self) -> Duration {
        self.max_ttl
    }
}

/// Of what was signed, and not of the signature: the same claims may be signed in several ways, and are void in all of them.
fn print(message: &str) -> TokenPrint {
    let digest = ring::digest::digest(&ring::digest::SHA256, message.as_bytes());
    let half = digest.as_ref().first_chunk().expect("it has 32 bytes");
    TokenPrint::from_bytes(*half)
}

fn check_bounds(settings: &AuthSettings) -> Result<(), AuthSetupError> {
    let bad_setting = |setting, reason| Err(AuthSetupError::BadSetting { setting, reason });
    if settings.max_token_ttl_seconds == 0 {
        return bad_setting("auth.max_token_ttl_seconds", "a token lives at least a second");
    }
    if settings.token_ttl_seconds == 0 || settings.token_ttl_seconds > settings.max_token_ttl_seconds {
        return bad_setting("auth.token_ttl_seconds", "it lies between 1 and auth.max_token_ttl_seconds");
    }
    if settings.leeway_seconds > MAX_LEEWAY_SECONDS {
        return bad_setting("auth.leeway_seconds", "clocks that are an hour apart are wrong clocks");
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
