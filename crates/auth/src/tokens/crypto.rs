//! The three supported signature algorithms (HS256, Ed25519, RS256), implemented by `ring`.
//! `jsonwebtoken` signs through this module. All other algorithms, including `none`, are
//! unsupported.

use jsonwebtoken::crypto::{CryptoProvider, JwtSigner, JwtVerifier, KeyUtils};
use jsonwebtoken::errors::{ErrorKind, Result};
use jsonwebtoken::{Algorithm, AlgorithmFamily, DecodingKey, EncodingKey};
use ring::{hmac, signature as ring_signature};
use signature::{Error, Signer};

/// Installs the crypto provider for `jsonwebtoken`. Call it before signing the first token;
/// repeated calls have no effect.
pub fn install() {
    // It fails only if a provider is already installed.
    let _already_installed = PROVIDER.install_default();
}

static PROVIDER: CryptoProvider = CryptoProvider {
    signer_factory: signer,
    verifier_factory: no_verifier,
    key_utils: KeyUtils::new_unimplemented(),
};

fn signer(algorithm: &Algorithm, key: &EncodingKey) -> Result<Box<dyn JwtSigner>> {
    match (algorithm, key.family()) {
        (Algorithm::HS256, AlgorithmFamily::Hmac) => Ok(Box::new(Hs256(hmac_key(key.as_bytes())))),
        _ => Err(ErrorKind::UnsupportedAlgorithm.into()),
    }
}

/// Always fails: a [`PreparedKey`] verifies signatures instead, so that no key is parsed again for
/// every token.
fn no_verifier(_algorithm: &Algorithm, _key: &DecodingKey) -> Result<Box<dyn JwtVerifier>> {
    Err(ErrorKind::UnsupportedAlgorithm.into())
}

fn hmac_key(secret: &[u8]) -> hmac::Key {
    hmac::Key::new(hmac::HMAC_SHA256, secret)
}

struct Hs256(hmac::Key);

impl Signer<Vec<u8>> for Hs256 {
    fn try_sign(&self, message: &[u8]) -> std::result::Result<Vec<u8>, Error> {
        Ok(hmac::sign(&self.0, message).as_ref().to_vec())
    }
}

impl JwtSigner for Hs256 {
    fn algorithm(&self) -> Algorithm {
        Algorithm::HS256
    }
}

/// A verification key, parsed for exactly one algorithm.
pub enum PreparedKey {
    Hs256(hmac::Key),
    Ed25519(ring_signature::UnparsedPublicKey<Vec<u8>>),
    Rs256(ring_signature::RsaPublicKeyComponents<Vec<u8>>),
}

impl PreparedKey {
    pub fn hs256(secret: &[u8]) -> PreparedKey {
        PreparedKey::Hs256(hmac_key(secret))
    }

    pub fn ed25519(point: &[u8]) -> PreparedKey {
        let algorithm = &ring_signature::ED25519;
        PreparedKey::Ed25519(ring_signature::UnparsedPublicKey::new(algorithm, point.to_vec()))
    }

    pub fn rs256(modulus: &[u8], exponent: &[u8]) -> PreparedKey {
        let (n, e) = (modulus.to_vec(), exponent.to_vec());
        PreparedKey::Rs256(ring_signature::RsaPublicKeyComponents { n, e })
    }

    pub fn algorithm(&self) -> Algorithm {
        match self {
            PreparedKey::Hs256(_) => Algorithm::HS256,
            PreparedKey::Ed25519(_) => Algorithm::EdDSA,
            PreparedKey::Rs256(_) => Algorithm::RS256,
        }
    }

    /// Returns whether the signature of the message is valid for this key.
    pub fn verifies(&self, message: &[u8], signature: &[u8]) -> bool {
        let verified = match self {
            PreparedKey::Hs256(key) => hmac::verify(key, message, signature),
            PreparedKey::Ed25519(key) => key.verify(message, signature),
            PreparedKey::Rs256(key) => {
                key.verify(&ring_signature::RSA_PKCS1_2048_8192_SHA256, message, signature)
            }
        };
        verified.is_ok()
    }
}
