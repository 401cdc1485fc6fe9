//! The claims of a token, and their validity at a given time. The caller has already verified the
//! signature.

use bluetick_core::{Timestamp, TokenFacts, TokenPrint, UserId};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::serial::Serial;
use super::{Claims, TokenError, Tokens};

/// Minimum tolerated skew of an issuer's clock for `iat`, in milliseconds. It applies even if
/// `auth.leeway_seconds` is lower. Without it, slight skew would reject fresh tokens.
const LEAST_ISSUER_LEEWAY_MS: i64 = 60_000;

/// The claims of a token as they appear in its JSON payload.
#[derive(Deserialize, Serialize)]
pub struct SignedClaims {
    sub: String,
    exp: NumericDate,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    nbf: Option<NumericDate>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    iat: Option<NumericDate>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    iss: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    aud: Option<Audience>,
    /// Makes each token unique, so that one can be revoked without another. Other issuers may use a
    /// non-string value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    jti: Option<Value>,
}

/// Seconds since the Unix epoch, whole or with a fraction (RFC 7519, section 2).
#[derive(Clone, Copy, Deserialize, Serialize)]
#[serde(transparent)]
struct NumericDate(f64);

impl NumericDate {
    /// Keeps milliseconds, so that a token lives exactly as long as requested. An f64 represents
    /// milliseconds accurately until the year 200,000.
    #[expect(clippy::cast_precision_loss)]
    fn from_timestamp(at: Timestamp) -> NumericDate {
        NumericDate(at.millis() as f64 / 1000.0)
    }

    /// Rounds to milliseconds. Dates out of range saturate.
    #[expect(clippy::cast_possible_truncation)]
    fn timestamp(self) -> Timestamp {
        Timestamp::from_millis((self.0 * 1000.0).round() as i64)
    }
}

#[derive(Deserialize, Serialize)]
#[serde(untagged)]
enum Audience {
    One(String),
    Many(Vec<String>),
}

impl Audience {
    fn includes(&self, wanted: &str) -> bool {
        match self {
            Audience::One(one) => one == wanted,
            Audience::Many(many) => many.iter().any(|one| one == wanted),
        }
    }
}

impl SignedClaims {
    pub fn minted(
        tokens: &Tokens,
        user: &UserId,
        issued_at: Timestamp,
        expires_at: Timestamp,
    ) -> SignedClaims {
        SignedClaims {
            sub: user.as_str().into(),
            exp: NumericDate::from_timestamp(expires_at),
            nbf: None,
            iat: Some(NumericDate::from_timestamp(issued_at)),
            iss: tokens.issuer.clone(),
            aud: tokens.audience.clone().map(Audience::One),
            jti: Some(Value::String(tokens.serial.next())),
        }
    }

    /// Checks the validity period, then issuer, audience and subject, and returns the first error.
    pub fn check(
        self,
        print: TokenPrint,
        tokens: &Tokens,
        now: Timestamp,
    ) -> Result<VerifiedClaims, TokenError> {
        let expires_at = self.exp.timestamp().plus_millis(tokens.leeway_ms);
        let not_before = self.nbf.map(|not_before| not_before.timestamp().plus_millis(-tokens.leeway_ms));
        // A revocation covers tokens issued up to a time, so a token must not claim a later issue
        // time than the real one. Tokens of this server or another node are exempt. After a clock
        // was set back, their issue time above the last revocation is in the future.
        let name = self.jti.as_ref().and_then(Value::as_str);
        let made_here = name.is_some_and(Serial::is_ours) && tokens.can_mint();
        let issued = self.iat.filter(|_| !made_here).map(NumericDate::timestamp);
        let issued = issued.map(|issued| issued.plus_millis(-tokens.leeway_ms.max(LEAST_ISSUER_LEEWAY_MS)));
        let valid = TokenValidity { not_before: not_before.max(issued), expires_at };
        valid.check(now)?;
        if tokens.issuer.is_some() && self.iss != tokens.issuer {
            return Err(TokenError::WrongIssuer);
        }
        if let Some(wanted) = &tokens.audience
            && !self.aud.is_some_and(|audience| audience.includes(wanted))
        {
            return Err(TokenError::WrongAudience);
        }
        let user = self.sub.parse().map_err(|_| TokenError::BadSubject)?;
        let issued_at = self.iat.map_or(Timestamp::from_millis(0), NumericDate::timestamp);
        Ok(VerifiedClaims { user, valid, issued_at, print })
    }
}

/// The facts of a verified token, which stay true while the keys stay the same, and its validity
/// period.
#[derive(Clone)]
pub struct VerifiedClaims {
    pub user: UserId,
    pub valid: TokenValidity,
    pub issued_at: Timestamp,
    pub print: TokenPrint,
}

impl VerifiedClaims {
    /// Returns the claims if the token is valid at `now`.
    pub fn at(self, now: Timestamp) -> Result<Claims, TokenError> {
        self.valid.check(now)?;
        let VerifiedClaims { user, valid: TokenValidity { expires_at, .. }, issued_at, print } = self;
        Ok(Claims { user, token: TokenFacts { print, issued_at, expires_at } })
    }
}

/// The validity period of a token. Both ends include the leeway for clock skew.
#[derive(Clone, Copy)]
pub struct TokenValidity {
    pub not_before: Option<Timestamp>,
    pub expires_at: Timestamp,
}

impl TokenValidity {
    fn check(self, now: Timestamp) -> Result<(), TokenError> {
        if now >= self.expires_at {
            return Err(TokenError::Expired);
        }
        if self.not_before.is_some_and(|not_before| now < not_before) {
            return Err(TokenError::NotYetValid);
        }
        Ok(())
    }
}
