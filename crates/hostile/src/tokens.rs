//! Fuzz target for tokens. The server must reject every token that is not signed with its key, and
//! must not trust the claims of a signed one.

use std::sync::LazyLock;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bluetick_auth::{AuthSettings, Tokens};
use bluetick_core::Timestamp;
use bluetick_core::ports::SystemRandom;
use hmac::{Hmac, Mac};
use sha2::Sha256;

use crate::choice;

/// Secret that signs and verifies tokens. `auth` requires at least 32 bytes.
const SECRET: &str = "a secret of more than thirty-two bytes, for tests";
/// The fixed current time of every verification, so that a corpus input gives the same result.
const NOW: Timestamp = Timestamp::from_millis(1_800_000_000_250);

/// Verifier with a secret that an operator's product shares with the server.
static SHARED: LazyLock<Tokens> = LazyLock::new(|| opened(None, None));
/// The same verifier, restricted to one issuer and one audience.
static PARTICULAR: LazyLock<Tokens> = LazyLock::new(|| opened(Some("maker"), Some("chat")));

fn opened(issuer: Option<&str>, audience: Option<&str>) -> Tokens {
    let settings = AuthSettings {
        hs256_secret: Some(SECRET.into()),
        issuer: issuer.map(Into::into),
        audience: audience.map(Into::into),
        ..AuthSettings::default()
    };
    let nowhere = std::path::Path::new("/nonexistent");
    Tokens::open(&settings, nowhere, &SystemRandom).expect("a shared secret needs no file")
}

pub fn any_token(bytes: &[u8]) {
    let Some((way, rest)) = choice(bytes, 3) else { return };
    let Ok(text) = std::str::from_utf8(rest) else { return };
    match way {
        0 => whole(text),
        // An arbitrary header and arbitrary claims with a valid signature.
        1 => whole(&assembled(text, SECRET.as_bytes())),
        // The same with a signature by another key.
        _ => {
            let forged = assembled(text, b"another secret of more than thirty-two bytes");
            assert!(SHARED.verify(&forged, NOW).is_err(), "a forged token was accepted");
        }
    }
}

fn whole(token: &str) {
    let verified = SHARED.verify(token, NOW);
    assert_eq!(SHARED.verify(token, NOW), verified, "a second verification gave another result");
    if let Ok(claims) = &verified {
        assert!(is_signed(token), "a token without a valid signature was accepted");
        assert!(claims.expires_at() > NOW, "an expired token was accepted");
    }
    if PARTICULAR.verify(token, NOW).is_ok() {
        assert!(verified.is_ok(), "the stricter verifier accepted a token that the other refused");
    }
}

/// Builds a token from `header\nclaims`, both JSON, and signs it with `key`.
fn assembled(text: &str, key: &[u8]) -> String {
    let (header, claims) = text.split_once('\n').unwrap_or((r#"{"alg":"HS256"}"#, text));
    let message = format!("{}.{}", URL_SAFE_NO_PAD.encode(header), URL_SAFE_NO_PAD.encode(claims));
    let signature = mac(message.as_bytes(), key).finalize().into_bytes();
    format!("{message}.{}", URL_SAFE_NO_PAD.encode(signature))
}

fn is_signed(token: &str) -> bool {
    let Some((message, signature)) = token.rsplit_once('.') else { return false };
    let signature = URL_SAFE_NO_PAD.decode(signature);
    signature
        .is_ok_and(|signature| mac(message.as_bytes(), SECRET.as_bytes()).verify_slice(&signature).is_ok())
}

fn mac(message: &[u8], key: &[u8]) -> Hmac<Sha256> {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("HMAC accepts keys of any length");
    mac.update(message);
    mac
}
