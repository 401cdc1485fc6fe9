//! Parses the operator's public keys: PEM files and JSON Web Key Sets, with Ed25519 or RSA keys. It
//! rejects private keys, because the server does not need them.

use jsonwebtoken::DecodingKey;
use jsonwebtoken::jwk::{AlgorithmParameters, EllipticCurve, Jwk, KeyAlgorithm, PublicKeyUse};
use serde::Deserialize;

use super::crypto::PreparedKey;

pub struct NamedKey {
    pub kid: Option<String>,
    pub key: PreparedKey,
}

/// Valid length of an RSA modulus, in bytes. `ring` rejects other lengths, but only when it
/// verifies a token. This check reports them at startup.
const RSA_MODULUS_BYTES: std::ops::RangeInclusive<usize> = 256..=1024;
/// Length of an Ed25519 public key, in bytes (RFC 8032). Keys of another length are rejected at
/// startup.
const ED25519_KEY_BYTES: usize = 32;

/// Parses a PEM file. The error tells the operator what was expected.
pub fn from_pem(text: &[u8]) -> Result<PreparedKey, String> {
    let blocks = pem::parse_many(text).map_err(|_| "it is not a PEM file".to_owned())?;
    let block = match blocks.as_slice() {
        [] => return Err("it holds no PEM block".into()),
        [block] => block,
        _ => return Err("it holds several PEM blocks and one public key was expected".into()),
    };
    let key = match block.tag() {
        "PUBLIC KEY" => from_subject_public_key_info(block.contents()),
        "RSA PUBLIC KEY" => rsa_from_pkcs1(block.contents()),
        tag if tag.contains("PRIVATE") => {
            let advice = "give the server the public key only (openssl pkey -pubout)";
            return Err(format!("it holds a private key; {advice}"));
        }
        tag => return Err(format!("it holds a {tag} and a PUBLIC KEY was expected")),
    };
    key.ok_or_else(|| "an Ed25519 key, or an RSA key of 2048 to 8192 bits, was expected".into())
}

/// Parses a key set. It skips keys of other kinds and keys for encryption, as RFC 7517 section 5
/// recommends. Fails if no usable key remains.
pub fn from_jwks(text: &str) -> Result<Vec<NamedKey>, String> {
    #[derive(Deserialize)]
    struct KeySet {
        keys: Vec<serde_json::Value>,
    }
    let set: KeySet = serde_json::from_str(text)
        .map_err(|_| "a JSON object with a list of keys was expected, such as {\"keys\":[…]}".to_owned())?;
    let named = |value| {
        let jwk: Jwk = serde_json::from_value(value).ok()?;
        Some(NamedKey { key: from_jwk(&jwk)?, kid: jwk.common.key_id })
    };
    let keys: Vec<NamedKey> = set.keys.into_iter().filter_map(named).collect();
    if keys.is_empty() {
        return Err("it holds no Ed25519 key, and no RSA key of 2048 to 8192 bits, to verify with".into());
    }
    Ok(keys)
}

fn from_jwk(jwk: &Jwk) -> Option<PreparedKey> {
    if jwk.common.public_key_use.as_ref().is_some_and(|used_for| *used_for != PublicKeyUse::Signature) {
        return None;
    }
    let only_for = |algorithm| jwk.common.key_algorithm.is_none_or(|stated| stated == algorithm);
    match &jwk.algorithm {
        AlgorithmParameters::RSA(parameters) if only_for(KeyAlgorithm::RS256) => {
            let key = DecodingKey::from_rsa_components(&parameters.n, &parameters.e).ok()?;
            let jsonwebtoken::DecodingKeyKind::RsaModulusExponent { n, e } = key.kind() else { return None };
            rsa(n, e)
        }
        AlgorithmParameters::OctetKeyPair(parameters)
            if only_for(KeyAlgorithm::EdDSA) && parameters.curve == EllipticCurve::Ed25519 =>
        {
            let key = DecodingKey::from_ed_components(&parameters.x).ok()?;
            ed25519(key.try_get_as_bytes().ok()?)
        }
        _ => None,
    }
}

fn ed25519(point: &[u8]) -> Option<PreparedKey> {
    (point.len() == ED25519_KEY_BYTES).then(|| PreparedKey::ed25519(point))
}

fn rsa(modulus: &[u8], exponent: &[u8]) -> Option<PreparedKey> {
    let (modulus, exponent) = (without_leading_zeros(modulus), without_leading_zeros(exponent));
    let usable = RSA_MODULUS_BYTES.contains(&modulus.len()) && (1..=8).contains(&exponent.len());
    usable.then(|| PreparedKey::rs256(modulus, exponent))
}

fn without_leading_zeros(number: &[u8]) -> &[u8] {
    let zeros = number.iter().take_while(|byte| **byte == 0).count();
    &number[zeros..]
}

/// DER tag of an INTEGER (X.690). With a wrong tag, valid key files are rejected; this also holds
/// for the tags and object identifiers below.
const TAG_INTEGER: u8 = 0x02;
/// DER tag of a BIT STRING.
const TAG_BIT_STRING: u8 = 0x03;
/// DER tag of an OBJECT IDENTIFIER.
const TAG_OBJECT_ID: u8 = 0x06;
/// DER tag of a SEQUENCE.
const TAG_SEQUENCE: u8 = 0x30;
/// The DER encoding of 1.3.101.112 (Ed25519).
const OID_ED25519: &[u8] = &[0x2b, 0x65, 0x70];
/// The DER encoding of 1.2.840.113549.1.1.1 (RSA).
const OID_RSA: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x01];

/// Parses the structure of RFC 5280: `SEQUENCE { SEQUENCE { algorithm, … }, BIT STRING key }`.
fn from_subject_public_key_info(der: &[u8]) -> Option<PreparedKey> {
    let (info, []) = element(der, TAG_SEQUENCE)? else { return None };
    let (algorithm, rest) = element(info, TAG_SEQUENCE)?;
    let (algorithm, _parameters) = element(algorithm, TAG_OBJECT_ID)?;
    let ([0, key @ ..], []) = element(rest, TAG_BIT_STRING)? else { return None };
    match algorithm {
        OID_ED25519 => ed25519(key),
        OID_RSA => rsa_from_pkcs1(key),
        _ => None,
    }
}

/// Parses the structure of RFC 8017: `SEQUENCE { INTEGER modulus, INTEGER exponent }`.
fn rsa_from_pkcs1(der: &[u8]) -> Option<PreparedKey> {
    let (numbers, []) = element(der, TAG_SEQUENCE)? else { return None };
    let (modulus, rest) = element(numbers, TAG_INTEGER)?;
    let (exponent, []) = element(rest, TAG_INTEGER)? else { return None };
    rsa(modulus, exponent)
}

/// Splits off one DER element with this tag. Returns its content and the remaining bytes.
fn element(der: &[u8], tag: u8) -> Option<(&[u8], &[u8])> {
    let (&found, rest) = der.split_first()?;
    let (&first, rest) = rest.split_first()?;
    let (length, rest) = match first {
        0..=0x7f => (usize::from(first), rest),
        0x81 | 0x82 => {
            let (length, rest) = rest.split_at_checked(usize::from(first & 0x7f))?;
            (length.iter().fold(0, |length, byte| (length << 8) | usize::from(*byte)), rest)
        }
        _ => return None,
    };
    if found == tag { rest.split_at_checked(length) } else { None }
}
