//! The keys of this server: which verify, which one signs, and which may try a given token.

use std::fmt;
use std::fs;
use std::path::Path;

use bluetick_core::ports::Random;
use jsonwebtoken::{Algorithm, DecodingKey, EncodingKey, Header, Validation};

use super::crypto;
use super::public_key::{self, PublicKey};
use crate::{AuthSettings, AuthSetupError, secret_file};

const FILE_NAME: &str = "token.key";

/// What this server's own tokens, and those of the operator's shared secret, are signed with.
pub const SIGNING_ALGORITHM: Algorithm = Algorithm::HS256;

pub struct KeyRing {
    verifying: Vec<VerifyingKey>,
    signing: Option<EncodingKey>,
}

/// A key and the one algorithm it is for.
pub struct VerifyingKey {
    kid: Option<String>,
    algorithm: Algorithm,
    pub decoding: DecodingKey,
    pub validation: Validation,
}

impl KeyRing {
    /// The operator's keys, or the server's own when there are none.
    pub fn open(
        settings: &AuthSettings,
        data_dir: &Path,
        random: &dyn Random,
    ) -> Result<KeyRing, AuthSetupError> {
        let mut keys = KeyRing::of_the_operator(settings)?;
        if keys.verifying.is_empty() {
            keys.sign_with(secret_file::read_or_create(&data_dir.join(FILE_NAME), random)?.as_bytes());
        }
        Ok(keys)
    }

    /// What is configured; possibly nothing.
    pub fn of_the_operator(settings: &AuthSettings) -> Result<KeyRing, AuthSetupError> {
        crypto::install();
        let mut keys = KeyRing { verifying: Vec::new(), signing: None };
        if let Some(path) = &settings.public_key_file {
            let key = public_key::from_pem(read(path)?.as_bytes())
                .map_err(|reason| AuthSetupError::BadFile { path: path.clone(), reason })?;
            keys.verifying.push(VerifyingKey::public(None, key));
        }
        if let Some(path) = &settings.jwks_file {
            let set = public_key::from_jwks(&read(path)?)
                .map_err(|reason| AuthSetupError::BadFile { path: path.clone(), reason })?;
            keys.verifying.extend(set.into_iter().map(|named| VerifyingKey::public(named.kid, named.key)));
        }
        match settings.hs256_secret.as_deref() {
            Some("") => {
                let reason = "an empty secret is known to everybody";
                return Err(AuthSetupError::BadSetting { setting: "auth.hs256_secret", reason });
            }
            Some(secret) => keys.sign_with(secret.as_bytes()),
            None => {}
        }
        Ok(keys)
    }

    fn sign_with(&mut self, secret: &[u8]) {
        let decoding = DecodingKey::from_secret(secret);
        self.verifying.push(VerifyingKey::new(None, SIGNING_ALGORITHM, decoding));
        self.signing = Some(EncodingKey::from_secret(secret));
    }

    pub fn signing(&self) -> Option<&EncodingKey> {
        self.signing.as_ref()
    }

    /// Those of the token's algorithm. Where both the token and a key have a name (`kid`), it must be the same one.
    pub fn candidates(&self, header: &Header) -> impl Iterator<Item = &VerifyingKey> {
        let names_fit = |key: &VerifyingKey| match (&key.kid, &header.kid) {
            (Some(ours), Some(theirs)) => ours == theirs,
            _ => true,
        };
        self.verifying.iter().filter(move |key| key.algorithm == header.alg && names_fit(key))
    }
}

impl VerifyingKey {
    fn new(kid: Option<String>, algorithm: Algorithm, decoding: DecodingKey) -> VerifyingKey {
        let mut validation = Validation::new(algorithm);
        // Times are held against the injected clock, and the other claims beside them (claims.rs).
        validation.required_spec_claims.clear();
        validation.validate_exp = false;
        validation.validate_nbf = false;
        validation.validate_aud = false;
        VerifyingKey { kid, algorithm, decoding, validation }
    }

    fn public(kid: Option<String>, key: PublicKey) -> VerifyingKey {
        match key {
            PublicKey::Ed25519(key) => VerifyingKey::new(kid, Algorithm::EdDSA, key),
            PublicKey::Rsa(key) => VerifyingKey::new(kid, Algorithm::RS256, key),
        }
    }
}

fn read(path: &Path) -> Result<String, AuthSetupError> {
    fs::read_to_string(path).map_err(|source| AuthSetupError::Read { path: path.into(), source })
}

impl fmt::Debug for KeyRing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let algorithms: Vec<Algorithm> = self.verifying.iter().map(|key| key.algorithm).collect();
        f.debug_struct("KeyRing")
            .field("verifies", &algorithms)
            .field("signs", &self.signing.is_some())
            .finish()
    }
}
