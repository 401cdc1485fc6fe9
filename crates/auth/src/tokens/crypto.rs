//! The three signature algorithms behind `jsonwebtoken`, each done by `ring`. Everything else, `none` included,
//! does not exist here.

use jsonwebtoken::crypto::{CryptoProvider, JwtSigner, JwtVerifier, KeyUtils};
use jsonwebtoken::errors::{ErrorKind, Result};
use jsonwebtoken::{Algorithm, AlgorithmFamily, DecodingKey, DecodingKeyKind, EncodingKey};
use ring::{hmac, signature as ring_signature};
use signature::{Error, Signer, Verifier};

/// To be called before the first token is read or made; again does no harm.
pub fn install() {
    // The only way to fail is that it was done before.
    let _already_installed = PROVIDER.install_default();
}

static PROVIDER: CryptoProvider = CryptoProvider {
    signer_factory: signer,
    verifier_factory: verifier,
    key_utils: KeyUtils::new_unimplemented(),
};

fn signer(algorithm: &Algorithm, key: &EncodingKey) -> Result<Box<dyn JwtSigner>> {
    match (algorithm, key.family()) {
        (Algorithm::HS256, AlgorithmFamily::Hmac) => Ok(Box::new(Hs256(hmac_key(key.as_bytes())))),
        _ => Err(ErrorKind::UnsupportedAlgorithm.into()),
    }
}

fn verifier(algorithm: &Algorithm, key: &DecodingKey) -> Result<Box<dyn JwtVerifier>> {
    match (algorithm, key.family(), key.kind()) {
        (Algorithm::HS256, AlgorithmFamily::Hmac, DecodingKeyKind::SecretOrDer(secret)) => {
            Ok(Box::new(Hs256(hmac_key(secret))))
        }
        (Algorithm::EdDSA, AlgorithmFamily::Ed, DecodingKeyKind::SecretOrDer(point)) => {
            let key = ring_signature::UnparsedPublicKey::new(&ring_signature::ED25519, point.clone());
            Ok(Box::new(Ed25519(key)))
        }
        (Algorithm::RS256, AlgorithmFamily::Rsa, DecodingKeyKind::RsaModulusExponent { n, e }) => {
            Ok(Box::new(Rs256(ring_signature::RsaPublicKeyComponents { n: n.clone(), e: e.clone() })))
        }
        _ => Err(ErrorKind::UnsupportedAlgorithm.into()),
    }
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

impl Verifier<Vec<u8>> for Hs256 {
    fn verify(&self, message: &[u8], tag: &Vec<u8>) -> std::result::Result<(), Error> {
        hmac::verify(&self.0, message, tag).map_err(|_| Error::new())
    }
}

impl JwtSigner for Hs256 {
    fn algorithm(&self) -> Algorithm {
        Algorithm::HS256
    }
}

impl JwtVerifier for Hs256 {
    fn algorithm(&self) -> Algorithm {
        Algorithm::HS256
    }
}

struct Ed25519(ring_signature::UnparsedPublicKey<Vec<u8>>);

impl Verifier<Vec<u8>> for Ed25519 {
    fn verify(&self, message: &[u8], signature: &Vec<u8>) -> std::result::Result<(), Error> {
        self.0.verify(message, signature).map_err(|_| Error::new())
    }
}

impl JwtVerifier for Ed25519 {
    fn algorithm(&self) -> Algorithm {
        Algorithm::EdDSA
    }
}

struct Rs256(ring_signature::RsaPublicKeyComponents<Vec<u8>>);

impl Verifier<Vec<u8>> for Rs256 {
    fn verify(&self, message: &[u8], signature: &Vec<u8>) -> std::result::Result<(), Error> {
        let algorithm = &ring_signature::RSA_PKCS1_2048_8192_SHA256;
        self.0.verify(algorithm, message, signature).map_err(|_| Error::new())
    }
}

impl JwtVerifier for Rs256 {
    fn algorithm(&self) -> Algorithm {
        Algorithm::RS256
    }
}
