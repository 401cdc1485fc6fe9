//! The operator's own key, which mints tokens and makes users. A person's tokens and passwords are not here.

use std::fmt;
use std::path::{Path, PathBuf};

use bluetick_core::ports::Random;
use ring::{digest, hmac};

use crate::{AdminSettings, AuthSetupError, secret_file};

const FILE_NAME: &str = "admin.key";

/// Minimum length of `admin.key`, in bytes. The key grants full access, and an attacker can guess a
/// shorter one online.
const LEAST_BYTES: usize = 16;

/// Knows the key when it sees it, and does not keep it: only a keyed digest stays in memory. Comparing digests
/// also takes the same time wherever two keys differ, and whatever their lengths.
pub struct AdminKey {
    digest_key: hmac::Key,
    digest: hmac::Tag,
    /// What it is known by where it is written down who did something: too little to find the key by.
    fingerprint: String,
}

impl AdminKey {
    /// The configured key, else the one in the data directory, which is made (mode 0600) when it is not there.
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

    /// Whether [`AdminKey::open`] could work with these settings, as far as that shows without writing anything.
    pub fn check(settings: &AdminSettings) -> Result<(), AuthSetupError> {
        configured(settings).map(|_| ())
    }

    pub fn matches(&self, presented: &str) -> bool {
        hmac::verify(&self.digest_key, presented.as_bytes(), self.digest.as_ref()).is_ok()
    }

    /// Tells two keys apart, in most cases.
    pub fn fingerprint(&self) -> &str {
        &self.fingerprint
    }

    /// The key itself, for a command-line tool that presents it to a running server; `None` when none was made yet.
    pub fn read(settings: &AdminSettings, data_dir: &Path) -> Result<Option<String>, AuthSetupError> {
        match configured(settings)? {
            Some(key) => Ok(Some(key)),
            None => AdminKey::read_from(data_dir),
        }
    }

    /// The key that was generated into the data directory, whatever the settings say.
    pub fn read_from(data_dir: &Path) -> Result<Option<String>, AuthSetupError> {
        secret_file::read(&AdminKey::file_in(data_dir))
    }

    pub fn file_in(data_dir: &Path) -> PathBuf {
        data_dir.join(FILE_NAME)
    }
}

/// Four bytes: of a key that can be guessed at all, they tell no more than a guess or two.
fn fingerprint(key: &str) -> String {
    let digest = digest::digest(&digest::SHA256, format!("bluetick admin key {key}").as_bytes());
    digest.as_ref()[..4].iter().map(|byte| format!("{byte:02x}")).collect()
}

fn configured(settings: &AdminSettings) -> Result<Option<String>, AuthSetupError> {
    let Some(key) = &settings.key else { return Ok(None) };
    let reason = if !key.bytes().all(|byte| byte.is_ascii_graphic()) {
        "it travels in an HTTP header, so it has visible ASCII characters only"
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
    fn the_configured_key_matches_and_nothing_else_does() {
        let directory = tempfile::tempdir().unwrap();
        let key =
            AdminKey::open(&configured_as("open-sesame-open"), directory.path(), &SystemRandom).unwrap();
        assert!(key.matches("open-sesame-open"));
        for wrong in ["", "open-sesame-ope", "open-sesame-open ", "Open-sesame-open", "open-sesame-openopen"]
        {
            assert!(!key.matches(wrong), "{wrong:?}");
        }
        assert!(!AdminKey::file_in(directory.path()).exists(), "a configured key is not written down");
    }

    #[test]
    fn without_a_configured_key_one_is_made_and_survives_reopening() {
        let directory = tempfile::tempdir().unwrap();
        let settings = AdminSettings::default();
        assert_eq!(AdminKey::read_from(directory.path()).unwrap(), None);
        AdminKey::open(&settings, directory.path(), &SystemRandom).unwrap();
        let text = AdminKey::read(&settings, directory.path()).unwrap().unwrap();
        assert!(AdminKey::open(&settings, directory.path(), &SystemRandom).unwrap().matches(&text));
    }

    #[test]
    fn a_key_that_no_header_can_carry_is_refused_without_showing_it() {
        for bad in ["", "two words", "schlüssel", "line\nbreak"] {
            let directory = tempfile::tempdir().unwrap();
            let error =
                AdminKey::open(&configured_as(bad), directory.path(), &SystemRandom).unwrap_err().to_string();
            assert!(error.contains("admin.key") && (bad.is_empty() || !error.contains(bad)), "{error}");
        }
    }

    #[test]
    fn key_below_16_bytes_is_refused_and_names_the_setting() {
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
