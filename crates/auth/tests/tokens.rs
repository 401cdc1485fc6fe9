//! Tokens through the public API: every kind of key, and forged tokens.

#![expect(clippy::unwrap_used, reason = "a test may stop where its own set-up fails")]

mod support;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bluetick_auth::{AuthSettings, CannotMint, Claims, TokenError, Tokens};
use bluetick_core::ports::SystemRandom;
use bluetick_core::{Timestamp, UserId};
use serde_json::{Value, json};
use support::{Ed25519, RSA_PUBLIC_PEM, Rsa, assemble, base64_url, hs256};
use tempfile::TempDir;

const NOW: Timestamp = Timestamp::from_millis(1_800_000_000_250);
const HOUR: Duration = Duration::from_secs(3600);
const SECRET: &str = "the operator's shared secret, 32+ bytes";

fn alice() -> UserId {
    "alice".parse().unwrap()
}

/// Claims of a token that is valid for another hour.
fn good() -> Value {
    json!({"sub": "alice", "exp": 1_800_003_600})
}

/// The user and the end of a token.
type TokenFact = (UserId, Timestamp);

fn good_claims() -> TokenFact {
    (alice(), Timestamp::from_millis(1_800_003_600_000))
}

fn said(claims: Claims) -> TokenFact {
    let until = claims.expires_at();
    (claims.user, until)
}

fn open_in(directory: &Path, settings: &AuthSettings) -> Tokens {
    Tokens::open(settings, directory, &SystemRandom).unwrap()
}

/// A data directory for the servers of one test.
struct World {
    directory: TempDir,
}

impl World {
    fn new() -> World {
        World { directory: tempfile::tempdir().unwrap() }
    }

    fn file(&self, name: &str, content: impl AsRef<[u8]>) -> Option<PathBuf> {
        let path = self.directory.path().join(name);
        fs::write(&path, content).unwrap();
        Some(path)
    }

    fn tokens(&self, settings: &AuthSettings) -> Tokens {
        open_in(self.directory.path(), settings)
    }

    fn shared_secret(&self) -> Tokens {
        self.tokens(&shared_secret())
    }

    fn public_key(&self, pem: &str) -> Tokens {
        self.tokens(&AuthSettings {
            public_key_file: self.file("public.pem", pem),
            ..AuthSettings::default()
        })
    }

    fn key_set(&self, keys: Value) -> Tokens {
        let jwks_file = self.file("keys.json", json!({ "keys": keys }).to_string());
        self.tokens(&AuthSettings { jwks_file, ..AuthSettings::default() })
    }

    fn refusal(&self, settings: &AuthSettings) -> String {
        Tokens::open(settings, self.directory.path(), &SystemRandom).unwrap_err().to_string()
    }
}

fn shared_secret() -> AuthSettings {
    AuthSettings { hs256_secret: Some(SECRET.into()), ..AuthSettings::default() }
}

fn signed_with_secret(claims: &Value) -> String {
    assemble(&json!({"alg": "HS256", "typ": "JWT"}), claims, |message| hs256(SECRET.as_bytes(), message))
}

#[test]
fn minted_token_has_user_and_expiry() {
    let world = World::new();
    let tokens = world.tokens(&AuthSettings::default());
    let minted = tokens.mint(&alice(), HOUR, NOW).unwrap();
    assert_eq!(minted.expires_at, NOW.plus_millis(3_600_000));
    let claims = (alice(), minted.expires_at);
    assert_eq!(tokens.verify(&minted.token, NOW).map(said), Ok(claims));
}

#[test]
fn minted_token_expires_at_the_requested_millisecond() {
    let world = World::new();
    let tokens = world.tokens(&AuthSettings::default());
    let token = tokens.mint(&alice(), Duration::from_secs(1), NOW).unwrap().token;
    assert!(tokens.verify(&token, NOW.plus_millis(999)).is_ok());
    assert_eq!(tokens.verify(&token, NOW.plus_millis(1000)), Err(TokenError::Expired));
}

#[test]
fn generated_token_key_has_mode_0600_and_survives_reopening() {
    let world = World::new();
    let token = world.tokens(&AuthSettings::default()).mint(&alice(), HOUR, NOW).unwrap().token;
    let mode = fs::metadata(world.directory.path().join("token.key")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    assert!(world.tokens(&AuthSettings::default()).verify(&token, NOW).is_ok());
}

#[test]
fn token_of_another_server_is_refused() {
    let token = World::new().tokens(&AuthSettings::default()).mint(&alice(), HOUR, NOW).unwrap().token;
    let here = World::new();
    assert_eq!(here.tokens(&AuthSettings::default()).verify(&token, NOW), Err(TokenError::BadSignature));
}

#[test]
fn operator_shared_secret_verifies_and_mints() {
    let world = World::new();
    let tokens = world.shared_secret();
    assert_eq!(tokens.verify(&signed_with_secret(&good()), NOW).map(said), Ok(good_claims()));
    let minted = tokens.mint(&alice(), HOUR, NOW).unwrap();
    assert!(tokens.verify(&minted.token, NOW).is_ok());
    assert!(
        !world.directory.path().join("token.key").exists(),
        "no key is generated next to the operator's secret"
    );
}

#[test]
fn ed25519_public_key_verifies_and_cannot_mint() {
    let key = Ed25519::generate();
    let world = World::new();
    let tokens = world.public_key(&key.public_pem());
    let token = assemble(&json!({"alg": "EdDSA"}), &good(), |message| key.sign(message));
    assert_eq!(tokens.verify(&token, NOW).map(said), Ok(good_claims()));
    assert!(!tokens.can_mint());
    assert_eq!(tokens.mint(&alice(), HOUR, NOW).unwrap_err(), CannotMint::VerifyOnly);
    let stranger = assemble(&json!({"alg": "EdDSA"}), &good(), |message| Ed25519::generate().sign(message));
    assert_eq!(tokens.verify(&stranger, NOW), Err(TokenError::BadSignature));
}

#[test]
fn rsa_public_key_verifies_in_both_pem_formats() {
    let key = Rsa::fixture();
    let token = assemble(&json!({"alg": "RS256"}), &good(), |message| key.sign(message));
    for pem in [RSA_PUBLIC_PEM, include_str!("fixtures/rsa_public_pkcs1.pem")] {
        let world = World::new();
        let tokens = world.public_key(pem);
        assert_eq!(tokens.verify(&token, NOW).map(said), Ok(good_claims()));
        assert!(!tokens.can_mint());
    }
}

#[test]
fn key_set_selects_the_key_by_kid() {
    let (first, second, rsa) = (Ed25519::generate(), Ed25519::generate(), Rsa::fixture());
    let world = World::new();
    let tokens = world.key_set(json!([first.jwk("one"), second.jwk("two"), rsa.jwk("three")]));
    let by_second =
        |kid| assemble(&json!({"alg": "EdDSA", "kid": kid}), &good(), |message| second.sign(message));
    assert_eq!(tokens.verify(&by_second("two"), NOW).map(said), Ok(good_claims()));
    assert_eq!(tokens.verify(&by_second("one"), NOW), Err(TokenError::BadSignature));
    assert_eq!(tokens.verify(&by_second("three"), NOW), Err(TokenError::UnknownKey));
    assert_eq!(tokens.verify(&by_second("four"), NOW), Err(TokenError::UnknownKey));
    let by_rsa = assemble(&json!({"alg": "RS256", "kid": "three"}), &good(), |message| rsa.sign(message));
    assert_eq!(tokens.verify(&by_rsa, NOW).map(said), Ok(good_claims()));
    let unnamed = assemble(&json!({"alg": "EdDSA"}), &good(), |message| second.sign(message));
    assert_eq!(tokens.verify(&unnamed, NOW).map(said), Ok(good_claims()));
}

#[test]
fn key_set_ignores_keys_that_are_not_for_signatures() {
    let key = Ed25519::generate();
    let encryption_key = Ed25519::generate();
    let mut for_encryption = encryption_key.jwk("e");
    for_encryption["use"] = json!("enc");
    let secret = json!({"kty": "oct", "kid": "s", "k": base64_url(SECRET)});
    let world = World::new();
    let tokens = world.key_set(json!([{"kty": "new kind"}, 7, secret, for_encryption, key.jwk("one")]));
    let token = assemble(&json!({"alg": "EdDSA", "kid": "one"}), &good(), |message| key.sign(message));
    assert!(tokens.verify(&token, NOW).is_ok());
    let misused =
        assemble(&json!({"alg": "EdDSA", "kid": "e"}), &good(), |message| encryption_key.sign(message));
    assert_eq!(tokens.verify(&misused, NOW), Err(TokenError::UnknownKey));
    assert_eq!(tokens.verify(&signed_with_secret(&good()), NOW), Err(TokenError::UnknownKey));
}

#[test]
fn algorithm_none_is_refused_with_every_key() {
    let world = World::new();
    for tokens in
        [world.shared_secret(), world.public_key(RSA_PUBLIC_PEM), world.tokens(&AuthSettings::default())]
    {
        for name in ["none", "None", "NONE", "nOnE", ""] {
            let token = assemble(&json!({ "alg": name }), &good(), |_| Vec::new());
            assert_eq!(tokens.verify(&token, NOW), Err(TokenError::Malformed), "{name}");
        }
    }
}

#[test]
fn public_key_is_never_used_as_a_shared_secret() {
    let ed25519 = Ed25519::generate();
    for pem in [RSA_PUBLIC_PEM.to_owned(), ed25519.public_pem()] {
        let world = World::new();
        let tokens = world.public_key(&pem);
        let der = pem::parse(&pem).unwrap();
        for secret in [pem.as_bytes(), pem.trim_end().as_bytes(), der.contents()] {
            let forged = assemble(&json!({"alg": "HS256"}), &good(), |message| hs256(secret, message));
            assert_eq!(tokens.verify(&forged, NOW), Err(TokenError::UnknownKey));
        }
    }
}

#[test]
fn signature_with_a_mismatched_algorithm_is_refused() {
    let world = World::new();
    for name in ["HS384", "HS512", "RS256", "EdDSA", "ES256"] {
        let token = assemble(&json!({ "alg": name }), &good(), |message| hs256(SECRET.as_bytes(), message));
        assert_eq!(world.shared_secret().verify(&token, NOW), Err(TokenError::UnknownKey), "{name}");
    }
}

#[test]
fn token_with_any_changed_byte_is_refused() {
    let world = World::new();
    let tokens = world.shared_secret();
    let token = signed_with_secret(&good());
    for at in 0..token.len() {
        let mut changed = token.clone().into_bytes();
        changed[at] = if changed[at] == b'A' { b'B' } else { b'A' };
        let changed = String::from_utf8(changed).unwrap();
        assert!(tokens.verify(&changed, NOW).is_err(), "at {at}");
    }
    let parts: Vec<&str> = token.split('.').collect();
    let other = base64_url(json!({"sub": "mallory", "exp": 1_800_003_600}).to_string());
    let swapped = format!("{}.{other}.{}", parts[0], parts[2]);
    assert_eq!(tokens.verify(&swapped, NOW), Err(TokenError::BadSignature));
    let unsigned = format!("{}.{}.", parts[0], parts[1]);
    assert_eq!(tokens.verify(&unsigned, NOW), Err(TokenError::BadSignature));
}

#[test]
fn cached_token_is_checked_for_expiry_again() {
    let world = World::new();
    let tokens = world.tokens(&AuthSettings { leeway_seconds: 5, ..shared_secret() });
    let token = signed_with_secret(&json!({"sub": "alice", "exp": 1_800_003_600, "nbf": 1_800_000_004}));
    let (from, until) =
        (Timestamp::from_millis(1_799_999_999_000), Timestamp::from_millis(1_800_003_605_000));
    let good = Ok((alice(), until));
    for _ in 0..3 {
        assert_eq!(tokens.verify(&token, NOW).map(said), good);
        assert_eq!(tokens.verify(&token, until), Err(TokenError::Expired));
        assert_eq!(tokens.verify(&token, until.plus_millis(-1)).map(said), good);
        assert_eq!(tokens.verify(&token, from).map(said), good);
        assert_eq!(tokens.verify(&token, from.plus_millis(-1)), Err(TokenError::NotYetValid));
    }
}

#[test]
fn cached_token_with_one_changed_letter_is_refused() {
    let world = World::new();
    let tokens = world.shared_secret();
    let token = signed_with_secret(&good());
    for at in 0..token.len() {
        assert_eq!(tokens.verify(&token, NOW).map(said), Ok(good_claims()));
        let mut changed = token.clone().into_bytes();
        changed[at] = if changed[at] == b'A' { b'B' } else { b'A' };
        let changed = String::from_utf8(changed).unwrap();
        for _ in 0..2 {
            assert!(tokens.verify(&changed, NOW).is_err(), "at {at}");
        }
    }
}

#[test]
fn token_cached_for_one_key_is_not_valid_for_another() {
    let world = World::new();
    let token = signed_with_secret(&good());
    assert_eq!(world.shared_secret().verify(&token, NOW).map(said), Ok(good_claims()));
    let other = world.tokens(&AuthSettings {
        hs256_secret: Some("another secret of 32 bytes and more".into()),
        ..shared_secret()
    });
    assert_eq!(other.verify(&token, NOW), Err(TokenError::BadSignature));
    let elsewhere = world.tokens(&AuthSettings { audience: Some("mail".into()), ..shared_secret() });
    assert_eq!(elsewhere.verify(&token, NOW), Err(TokenError::WrongAudience));
}

#[test]
fn text_that_is_no_token_is_malformed() {
    let world = World::new();
    let tokens = world.shared_secret();
    let huge = signed_with_secret(&json!({"sub": "alice", "exp": 1_800_003_600, "x": "x".repeat(20_000)}));
    for text in ["", ".", "..", "a.b", "a.b.c", "a.b.c.d", "\u{0}", "é.é.é", &huge] {
        assert_eq!(tokens.verify(text, NOW), Err(TokenError::Malformed), "{text:.20}");
    }
}

#[test]
fn token_without_valid_sub_and_exp_is_refused() {
    let world = World::new();
    for claims in [
        json!({"exp": 1_800_003_600}),
        json!({"sub": "alice"}),
        json!({"sub": "alice", "exp": null}),
        json!({"sub": "alice", "exp": "1800003600"}),
        json!({"sub": 7, "exp": 1_800_003_600}),
        json!({"sub": "alice", "exp": 1_800_003_600, "nbf": "now"}),
        json!([]),
    ] {
        let refused = world.shared_secret().verify(&signed_with_secret(&claims), NOW);
        assert_eq!(refused, Err(TokenError::Malformed), "{claims}");
    }
    for name in ["", "two words", "line\n", "al\u{200b}ice", "\u{202e}alice"] {
        let token = signed_with_secret(&json!({"sub": name, "exp": 1_800_003_600}));
        assert_eq!(world.shared_secret().verify(&token, NOW), Err(TokenError::BadSubject), "{name:?}");
    }
}

#[test]
fn token_times_are_compared_with_now_and_the_leeway() {
    let world = World::new();
    let strict = world.shared_secret();
    let lenient = world.tokens(&AuthSettings { leeway_seconds: 5, ..shared_secret() });
    let expired = signed_with_secret(&json!({"sub": "alice", "exp": 1_799_999_998}));
    assert_eq!(strict.verify(&expired, NOW), Err(TokenError::Expired));
    let until = Timestamp::from_millis(1_800_000_003_000);
    assert_eq!(lenient.verify(&expired, NOW).unwrap().expires_at(), until);
    assert_eq!(lenient.verify(&expired, until), Err(TokenError::Expired));

    let early = signed_with_secret(&json!({"sub": "alice", "exp": 1_800_003_600, "nbf": 1_800_000_004}));
    assert_eq!(strict.verify(&early, NOW), Err(TokenError::NotYetValid));
    assert!(lenient.verify(&early, NOW).is_ok());
}

/// A token issued in the future would survive a revocation before its `iat`, so the server refuses
/// it.
#[test]
fn iat_of_another_issuer_is_capped_one_minute_ahead() {
    let world = World::new();
    let (strict, lenient) =
        (world.shared_secret(), world.tokens(&AuthSettings { leeway_seconds: 90, ..shared_secret() }));
    let issued = |iat: i64| signed_with_secret(&json!({"sub": "alice", "exp": 1_800_003_600, "iat": iat}));
    assert!(strict.verify(&issued(1_800_000_060), NOW).is_ok());
    let ahead = issued(1_800_000_062);
    assert_eq!(strict.verify(&ahead, NOW), Err(TokenError::NotYetValid));
    assert!(strict.verify(&ahead, NOW.plus_millis(2_000)).is_ok(), "the token is valid after its iat");
    assert!(lenient.verify(&ahead, NOW).is_ok());
    assert_eq!(lenient.verify(&issued(1_800_000_092), NOW), Err(TokenError::NotYetValid));
    // A token minted by the server is newer than every revocation. This holds after any change of
    // its clock, and also if the operator has the same key.
    for own in [world.tokens(&AuthSettings::default()), strict] {
        let later = NOW.plus_millis(1_000_000);
        let minted = own.mint_as_issued(&alice(), Duration::from_secs(60), NOW, later).unwrap();
        assert!(own.verify(&minted.token, NOW).is_ok());
    }
}

#[test]
fn extreme_token_dates_do_not_panic() {
    let world = World::new();
    let tokens = world.tokens(&AuthSettings { leeway_seconds: 5, ..shared_secret() });
    let far = signed_with_secret(&json!({"sub": "alice", "exp": 1e300}));
    assert_eq!(tokens.verify(&far, NOW).unwrap().expires_at(), Timestamp::from_millis(i64::MAX));
    let past = signed_with_secret(&json!({"sub": "alice", "exp": -1e300}));
    assert_eq!(tokens.verify(&past, NOW), Err(TokenError::Expired));
}

#[test]
fn issuer_and_audience_are_checked_when_set() {
    let world = World::new();
    let tokens = world.tokens(&AuthSettings {
        issuer: Some("https://shop.example".into()),
        audience: Some("chat".into()),
        ..shared_secret()
    });
    let verify = |more: Value| {
        let mut claims = good();
        claims.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        tokens.verify(&signed_with_secret(&claims), NOW)
    };
    let issuer = "https://shop.example";
    assert_eq!(verify(json!({"iss": issuer, "aud": "chat"})).map(said), Ok(good_claims()));
    assert_eq!(verify(json!({"iss": issuer, "aud": ["mail", "chat"]})).map(said), Ok(good_claims()));
    assert_eq!(verify(json!({"iss": issuer, "aud": "mail"})), Err(TokenError::WrongAudience));
    assert_eq!(verify(json!({"iss": issuer, "aud": []})), Err(TokenError::WrongAudience));
    assert_eq!(verify(json!({"iss": issuer})), Err(TokenError::WrongAudience));
    assert_eq!(verify(json!({"iss": "https://shop.example/", "aud": "chat"})), Err(TokenError::WrongIssuer));
    assert_eq!(verify(json!({"aud": "chat"})), Err(TokenError::WrongIssuer));
    let minted = tokens.mint(&alice(), HOUR, NOW).unwrap();
    assert!(tokens.verify(&minted.token, NOW).is_ok(), "minted tokens pass verification");
}

#[test]
fn unknown_critical_header_is_refused() {
    let world = World::new();
    let header = json!({"alg": "HS256", "crit": ["b64"], "b64": false});
    let token = assemble(&header, &good(), |message| hs256(SECRET.as_bytes(), message));
    assert_eq!(world.shared_secret().verify(&token, NOW), Err(TokenError::Malformed));
}

#[test]
fn minting_outside_the_ttl_bounds_is_refused() {
    let world = World::new();
    let tokens = world.tokens(&AuthSettings {
        token_ttl_seconds: 60,
        max_token_ttl_seconds: 3600,
        ..AuthSettings::default()
    });
    assert!(tokens.mint(&alice(), HOUR, NOW).is_ok());
    let too_long = tokens.mint(&alice(), HOUR + Duration::from_secs(1), NOW).unwrap_err();
    assert_eq!(too_long, CannotMint::TtlTooLong { max: HOUR });
    assert_eq!(tokens.mint(&alice(), Duration::ZERO, NOW).unwrap_err(), CannotMint::TtlTooShort);
}

#[test]
fn unusable_key_file_is_named_with_the_expected_format() {
    let world = World::new();
    let private = "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n";
    for (content, expected) in [
        ("hello", "PEM"),
        (private, "private key"),
        (include_str!("fixtures/rsa_too_short.pem"), "2048"),
        (include_str!("fixtures/p256_public.pem"), "Ed25519"),
        ("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", "CERTIFICATE"),
        (&RSA_PUBLIC_PEM.repeat(2), "several"),
    ] {
        let public_key_file = world.file("public.pem", content);
        let error = world.refusal(&AuthSettings { public_key_file, ..AuthSettings::default() });
        assert!(error.contains("public.pem") && error.contains(expected), "{error}");
    }
    for content in ["hello", "{}", r#"{"keys":[]}"#, r#"{"keys":[{"kty":"EC"}]}"#] {
        let jwks_file = world.file("keys.json", content);
        let error = world.refusal(&AuthSettings { jwks_file, ..AuthSettings::default() });
        assert!(error.contains("keys.json"), "{error}");
    }
    let public_key_file = Some(world.directory.path().join("missing.pem"));
    let error = world.refusal(&AuthSettings { public_key_file, ..AuthSettings::default() });
    assert!(error.contains("missing.pem"), "{error}");
}

#[test]
fn invalid_auth_settings_are_named() {
    let world = World::new();
    let defaults = AuthSettings::default;
    for (settings, name) in [
        (AuthSettings { hs256_secret: Some(String::new()), ..defaults() }, "auth.hs256_secret"),
        (AuthSettings { hs256_secret: Some("x".repeat(31)), ..defaults() }, "auth.hs256_secret"),
        (AuthSettings { token_ttl_seconds: 0, ..defaults() }, "auth.token_ttl_seconds"),
        (AuthSettings { max_token_ttl_seconds: 60, ..defaults() }, "auth.token_ttl_seconds"),
        (AuthSettings { max_token_ttl_seconds: 0, ..defaults() }, "auth.max_token_ttl_seconds"),
        (AuthSettings { leeway_seconds: 1_000_000, ..defaults() }, "auth.leeway_seconds"),
    ] {
        let error = world.refusal(&settings);
        assert!(error.starts_with(name), "{error}");
    }
}

#[test]
fn debug_output_shows_no_secret_and_no_token() {
    let world = World::new();
    let tokens = world.shared_secret();
    let minted = tokens.mint(&alice(), HOUR, NOW).unwrap();
    assert!(tokens.verify(&minted.token, NOW).is_ok(), "the verified token is cached");
    let shown = format!("{tokens:?} {minted:?} {:?}", shared_secret());
    assert!(!shown.contains("operator's shared"), "{shown}");
    assert!(!shown.contains(&minted.token), "{shown}");
}

#[test]
fn tokens_minted_in_one_millisecond_differ_and_carry_iat() {
    let world = World::new();
    let tokens = world.tokens(&AuthSettings::default());
    let later = NOW.plus_millis(1);
    let [one, other] = [NOW, later].map(|issued_at| {
        let minted = tokens.mint_as_issued(&alice(), HOUR, NOW, issued_at).unwrap();
        assert_eq!(minted.expires_at, NOW.plus_millis(3_600_000));
        tokens.verify(&minted.token, NOW).unwrap().token
    });
    assert_eq!((one.issued_at, other.issued_at), (NOW, later), "to the millisecond");
    let same = tokens.verify(&tokens.mint(&alice(), HOUR, NOW).unwrap().token, NOW).unwrap().token;
    assert_eq!((same.issued_at, same.expires_at), (one.issued_at, one.expires_at));
    assert_ne!(same.print, one.print);
}

#[test]
fn token_without_iat_counts_as_the_oldest() {
    let world = World::new();
    let tokens = world.shared_secret();
    let issued = |claims: Value| tokens.verify(&signed_with_secret(&claims), NOW).unwrap().token.issued_at;
    assert_eq!(issued(good()), Timestamp::from_millis(0));
    let whole = json!({"sub": "alice", "exp": 1_800_003_600, "iat": 1_800_000_000, "jti": 7});
    assert_eq!(issued(whole), Timestamp::from_millis(1_800_000_000_000));
}

#[test]
fn token_fingerprint_depends_on_the_signed_part_only() {
    let world = World::new();
    let print = |tokens: &Tokens, secret: &[u8], claims: &Value| {
        let header = json!({"alg": "HS256", "typ": "JWT"});
        let token = assemble(&header, claims, |message| hs256(secret, message));
        tokens.verify(&token, NOW).unwrap().token.print
    };
    let [one, other] = ["one secret of 32 bytes or rather more", "another secret of 32 bytes and more"];
    let with = |secret: &str| AuthSettings { hs256_secret: Some(secret.into()), ..AuthSettings::default() };
    let first = print(&world.tokens(&with(one)), one.as_bytes(), &good());
    assert_eq!(print(&world.tokens(&with(other)), other.as_bytes(), &good()), first);
    let longer = json!({"sub": "alice", "exp": 1_800_003_601});
    assert_ne!(print(&world.tokens(&with(one)), one.as_bytes(), &longer), first);
}
