//! The server's keys: the verification keys, the signing key, and the selection of keys for a
//! token.

use std::fmt;
use std::fs;
use std::path::Path;

use bluetick_core::ports::Random;
use jsonwebtoken::{Algorithm, EncodingKey, Header};

use super::crypto::{self, PreparedKey};
use super::public_key::{self, NamedKey};
use crate::{AuthSettings, AuthSetupError, secret_file};

/// Minimum length of `auth.hs256_secret`, in bytes (RFC 7518, section 3.2). An attacker with one
/// token can guess a shorter secret offline.
const LEAST_SECRET_BYTES: usize = 32;

/// The file of the generated signing key in the data directory. With another name, the server
/// generates a new key, and all tokens become invalid.
const FILE_NAME: &str = "token.key";

/// The algorithm of tokens signed with the generated key or with the operator's shared secret. It
/// must match `PreparedKey::hs256`, or no signed token verifies.
pub const SIGNING_ALGORITHM: Algorithm = Algorithm::HS256;

/// The verification keys, and the signing key if there is one.
pub struct KeyRing {
    verifying: Vec<VerifyingKey>,
    signing: Option<EncodingKey>,
}

/// A verification key for one algorithm, with its optional name.
struct VerifyingKey {
    kid: Option<String>,
    key: PreparedKey,
}

impl KeyRing {
    /// Opens the configured keys. If none is configured, it reads or creates the server's own key
    /// in `data_dir`.
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

    /// Checks whether [`KeyRing::open`] would succeed, without creating a key.
    pub fn check(settings: &AuthSettings, data_dir: &Path) -> Result<(), AuthSetupError> {
        if KeyRing::of_the_operator(settings)?.verifying.is_empty() {
            secret_file::read(&data_dir.join(FILE_NAME))?;
        }
        Ok(())
    }

    /// Reads the configured keys, possibly none. Fails if a file is unusable or the secret is too
    /// short.
    pub fn of_the_operator(settings: &AuthSettings) -> Result<KeyRing, AuthSetupError> {
        crypto::install();
        let mut keys = KeyRing { verifying: Vec::new(), signing: None };
        if let Some(path) = &settings.public_key_file {
            let key = public_key::from_pem(read(path)?.as_bytes())
                .map_err(|reason| AuthSetupError::BadFile { path: path.clone(), reason })?;
            keys.verifying.push(VerifyingKey { kid: None, key });
        }
        if let Some(path) = &settings.jwks_file {
            let set = public_key::from_jwks(&read(path)?)
                .map_err(|reason| AuthSetupError::BadFile { path: path.clone(), reason })?;
            let named = |NamedKey { kid, key }| VerifyingKey { kid, key };
            keys.verifying.extend(set.into_iter().map(named));
        }
        match settings.hs256_secret.as_deref() {
            Some(secret) if secret.len() < LEAST_SECRET_BYTES => {
                let reason = "it needs at least 32 bytes: a shorter secret can be guessed from a token";
                return Err(AuthSetupError::BadSetting { setting: "auth.hs256_secret", reason });
            }
            Some(secret) => keys.sign_with(secret.as_bytes()),
            None => {}
        }
        Ok(keys)
    }

    fn sign_with(&mut self, secret: &[u8]) {
        self.verifying.push(VerifyingKey { kid: None, key: PreparedKey::hs256(secret) });
        self.signing = Some(EncodingKey::from_secret(secret));
    }

    pub fn signing(&self) -> Option<&EncodingKey> {
        self.signing.as_ref()
    }

    /// Returns the keys of the token's algorithm. If both the token and a key have a `kid`, the two
    /// must match.
    pub fn candidates(&self, header: &Header) -> impl Iterator<Item = &PreparedKey> {
        let names_fit = |key: &VerifyingKey| match (&key.kid, &header.kid) {
            (Some(ours), Some(theirs)) => ours == theirs,
            _ => true,
        };
        let fits = move |key: &&VerifyingKey| key.key.algorithm() == header.alg && names_fit(key);
        self.verifying.iter().filter(fits).map(|key| &key.key)
    }
}

fn read(path: &Path) -> Result<String, AuthSetupError> {
    fs::read_to_string(path).map_err(|source| AuthSetupError::Read { path: path.into(), source })
}

impl fmt::Debug for KeyRing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let algorithms: Vec<Algorithm> = self.verifying.iter().map(|key| key.key.algorithm()).collect();
        f.debug_struct("KeyRing")
            .field("verifies", &algorithms)
            .field("signs", &self.signing.is_some())
            .finish()
    }
}
