//! The operator's side of token tests: private keys, and functions that sign arbitrary tokens.

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use ring::rand::SystemRandom;
use ring::signature::{Ed25519KeyPair, KeyPair, RSA_PKCS1_SHA256, RsaKeyPair};
use serde_json::{Value, json};

pub const RSA_PUBLIC_PEM: &str = include_str!("../fixtures/rsa_public.pem");

pub fn base64_url(bytes: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

/// Puts a token together from any header and any claims.
pub fn assemble(header: &Value, claims: &Value, sign: impl FnOnce(&[u8]) -> Vec<u8>) -> String {
    let message = format!("{}.{}", base64_url(header.to_string()), base64_url(claims.to_string()));
    let signature = sign(message.as_bytes());
    format!("{message}.{}", base64_url(signature))
}

pub fn hs256(secret: &[u8], message: &[u8]) -> Vec<u8> {
    let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, secret);
    ring::hmac::sign(&key, message).as_ref().to_vec()
}

pub struct Ed25519(Ed25519KeyPair);

impl Ed25519 {
    pub fn generate() -> Ed25519 {
        let pkcs8 = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).unwrap();
        Ed25519(Ed25519KeyPair::from_pkcs8(pkcs8.as_ref()).unwrap())
    }

    pub fn sign(&self, message: &[u8]) -> Vec<u8> {
        self.0.sign(message).as_ref().to_vec()
    }

    pub fn public_pem(&self) -> String {
        let prefix = [0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00];
        let der = [&prefix, self.0.public_key().as_ref()].concat();
        format!("-----BEGIN PUBLIC KEY-----\n{}\n-----END PUBLIC KEY-----\n", STANDARD.encode(der))
    }

    pub fn jwk(&self, kid: &str) -> Value {
        json!({"kty": "OKP", "crv": "Ed25519", "use": "sig", "kid": kid, "x": base64_url(self.0.public_key())})
    }
}

pub struct Rsa(RsaKeyPair);

impl Rsa {
    pub fn fixture() -> Rsa {
        Rsa(RsaKeyPair::from_der(include_bytes!("../fixtures/rsa_private.der")).unwrap())
    }

    pub fn sign(&self, message: &[u8]) -> Vec<u8> {
        let mut signature = vec![0; self.0.public().modulus_len()];
        self.0.sign(&RSA_PKCS1_SHA256, &SystemRandom::new(), message, &mut signature).unwrap();
        signature
    }

    pub fn jwk(&self, kid: &str) -> Value {
        let public = ring::rsa::PublicKeyComponents::<Vec<u8>>::from(self.0.public());
        json!({"kty": "RSA", "alg": "RS256", "kid": kid, "n": base64_url(public.n), "e": base64_url(public.e)})
    }
}
