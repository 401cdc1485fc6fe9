//! The operator's admin key, which authorizes minting tokens and creating users. User tokens and
//! passwords belong to other modules.

use std::fmt;
use std::path::{Path, PathBuf};

use bluetick_core::ports::Random;
use ring::{digest, hmac};

use crate::{AdminSettings, AuthSetupError, secret_file};

/// The key file in the data directory. With another name, the server generates a new key, and the
/// old one is refused.
const FILE_NAME: &str = "admin.key";

/// Minimum length of the setting `admin.key`, in bytes. The key grants full access, and an attacker
/// can guess a shorter one online.
const LEAST_BYTES: usize = 16;

/// Verifies the admin key. Only a keyed digest of the key stays in memory. Comparing digests takes
/// constant time, for any length of the presented key.
pub struct AdminKey {
    digest_key: hmac::Key,
    digest: hmac::Tag,
    /// Identifies the key in the audit log. It is too short to reveal the key.
    fingerprint: String,
}

impl AdminKey {
    /// Opens the configured key, or the one in the data directory, which it creates (mode 0600) if
    /// missing. Fails if the configured key is invalid or the file is unusable.
    pub fn open(
        settings: &AdminSettings,
        data_dir: &Path,
        random: &dyn Random,
    ) -> Result<AdminKey, AuthSetupError> {
        let key = match configured(settings)? {
            Some(key) => key,
            None => secret_file::read_or_create(&AdminKey::file_in(data_dir), random)?,
        };
        let fingerprint = fingerprint(&key);
        let mut secret = [0; 32];
        random.fill(&mut secret);
        let digest_key = hmac::Key::new(hmac::HMAC_SHA256, &secret);
        let digest = hmac::sign(&digest_key, key.as_bytes());
        Ok(AdminKey { digest_key, digest, fingerprint })
    }

    /// Checks the configured key without reading or writing any file.
    pub fn check(settings: &AdminSettings) -> Result<(), AuthSetupError> {
        configured(settings).map(|_| ())
    }

    pub fn matches(&self, presented: &str) -> bool {
        hmac::verify(&self.digest_key, presented.as_bytes(), self.digest.as_ref()).is_ok()
    }

    /// Returns a short digest of the key. Different keys can have the same fingerprint, but rarely
    /// do.
    pub fn fingerprint(&self) -> &str {
        &self.fingerprint
    }

    /// Returns the key, for a command-line tool that presents it to a running server. Returns
    /// `None` if no key exists yet.
    pub fn read(settings: &AdminSettings, data_dir: &Path) -> Result<Option<String>, AuthSetupError> {
        match configured(settings)? {
            Some(key) => Ok(Some(key)),
            None => AdminKey::read_from(data_dir),
        }
    }

    /// Returns the generated key in the data directory, even if the settings configure another one.
    pub fn read_from(data_dir: &Path) -> Result<Option<String>, AuthSetupError> {
        secret_file::read(&AdminKey::file_in(data_dir))
    }

    pub fn file_in(data_dir: &Path) -> PathBuf {
        data_dir.join(FILE_NAME)
    }
}

/// Returns the first four bytes of a digest of the key, in hex. Four bytes reveal too little to
/// recover the key.
fn fingerprint(key: &str) -> String {
    let digest = digest::digest(&digest::SHA256, format!("bluetick admin key {key}").as_bytes());
    digest.as_ref()[..4].iter().map(|byte| format!("{byte:02x}")).collect()
}

fn configured(settings: &AdminSettings) -> Result<Option<String>, AuthSetupError> {
    let Some(key) = &settings.key else { return Ok(None) };
    let reason = if !key.bytes().all(|byte| byte.is_ascii_graphic()) {
        "it is sent in an HTTP header, so it must contain visible ASCII characters only"
    } else if key.len() < LEAST_BYTES {
        "it needs at least 16 bytes: a shorter key can be guessed"
    } else {
        return Ok(Some(key.clone()));
    };
    Err(AuthSetupError::BadSetting { setting: "admin.key", reason })
}

impl fmt::Debug for AdminKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AdminKey").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use bluetick_core::ports::SystemRandom;

    use super::*;

    fn configured_as(key: &str) -> AdminSettings {
        AdminSettings { key: Some(key.into()) }
    }

    #[test]
    fn only_the_configured_admin_key_matches() {
        let directory = tempfile::tempdir().unwrap();
        let key =
            AdminKey::open(&configured_as("open-sesame-open"), directory.path(), &SystemRandom).unwrap();
        assert!(key.matches("open-sesame-open"));
        for wrong in ["", "open-sesame-ope", "open-sesame-open ", "Open-sesame-open", "open-sesame-openopen"]
        {
            assert!(!key.matches(wrong), "{wrong:?}");
        }
        assert!(!AdminKey::file_in(directory.path()).exists(), "a configured key is not stored");
    }

    #[test]
    fn missing_admin_key_is_generated_once_and_kept() {
        let directory = tempfile::tempdir().unwrap();
        let settings = AdminSettings::default();
        assert_eq!(AdminKey::read_from(directory.path()).unwrap(), None);
        AdminKey::open(&settings, directory.path(), &SystemRandom).unwrap();
        let text = AdminKey::read(&settings, directory.path()).unwrap().unwrap();
        assert!(AdminKey::open(&settings, directory.path(), &SystemRandom).unwrap().matches(&text));
    }

    #[test]
    fn admin_key_invalid_in_a_header_is_refused_without_showing_it() {
        for bad in ["", "two words", "schlüssel", "line\nbreak"] {
            let directory = tempfile::tempdir().unwrap();
            let error =
                AdminKey::open(&configured_as(bad), directory.path(), &SystemRandom).unwrap_err().to_string();
            assert!(error.contains("admin.key") && (bad.is_empty() || !error.contains(bad)), "{error}");
        }
    }

    #[test]
    fn admin_key_below_16_bytes_is_refused_and_names_the_setting() {
        let directory = tempfile::tempdir().unwrap();
        let open = |key: &str| AdminKey::open(&configured_as(key), directory.path(), &SystemRandom);
        let error = open(&"x".repeat(15)).unwrap_err().to_string();
        assert!(error.contains("admin.key") && error.contains("16 bytes"), "{error}");
        assert!(AdminKey::check(&configured_as(&"x".repeat(15))).is_err());
        assert!(open(&"x".repeat(16)).is_ok());
    }

    #[test]
    fn debug_output_shows_no_admin_key() {
        let directory = tempfile::tempdir().unwrap();
        let settings = configured_as("open-sesame-open");
        let key = AdminKey::open(&settings, directory.path(), &SystemRandom).unwrap();
        assert!(!format!("{key:?} {settings:?}").contains("sesame"));
    }
}
