//! Password rules and argon2id password hashes. Hashing is slow on purpose: callers must run it off
//! the threads that serve connections, and bound its concurrency.

mod common;

use std::fmt;
use std::sync::Arc;

use argon2::password_hash::phc::{Output, ParamsString, PasswordHash, Salt};
use argon2::{Algorithm, Argon2, Block, Params, Version};
use bluetick_core::ports::Random;
use parking_lot::Mutex;
use thiserror::Error;

use self::common::is_common;

#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum WeakPassword {
    #[error("a password has {min_bytes} to {} bytes", Passwords::MAX_BYTES)]
    Length { min_bytes: usize },
    #[error("this password is one of the most common ones; choose another")]
    Common,
    #[error("the password is the user_id; choose another")]
    IsUserId,
}

/// Rules for new passwords. Log-in does not apply them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PasswordRules {
    /// Minimum length in bytes of UTF-8. [`Passwords::MAX_BYTES`] caps it.
    pub min_bytes: usize,
}

impl Default for PasswordRules {
    fn default() -> Self {
        PasswordRules { min_bytes: 8 }
    }
}

impl PasswordRules {
    pub fn check(&self, user_id: &str, password: &str) -> Result<(), WeakPassword> {
        let min_bytes = self.min_bytes.min(Passwords::MAX_BYTES);
        if !(min_bytes..=Passwords::MAX_BYTES).contains(&password.len()) {
            return Err(WeakPassword::Length { min_bytes });
        }
        if password.to_lowercase() == user_id.to_lowercase() {
            return Err(WeakPassword::IsUserId);
        }
        if is_common(password) || is_common(password.trim()) {
            return Err(WeakPassword::Common);
        }
        Ok(())
    }
}

/// Hashes and verifies passwords, and reuses the memory of the hash function.
pub struct Passwords {
    rules: PasswordRules,
    random: Arc<dyn Random>,
    /// Verified in place of a missing hash, so that an unknown user takes as long as a known one.
    dummy_hash: String,
    /// Free memory buffers of the hash function. Their number is the peak concurrency, which the
    /// caller bounds.
    memory: Mutex<Vec<Vec<Block>>>,
}

/// Length of the random salt of a hash, in bytes (RFC 9106 recommends 16). With a short salt, users
/// with the same password can get the same hash.
const SALT_BYTES: usize = 16;

impl Passwords {
    /// Upper bound on a password, in bytes of UTF-8. It stops clients from making the server hash
    /// megabytes.
    pub const MAX_BYTES: usize = 1024;

    pub fn new(random: Arc<dyn Random>, rules: PasswordRules) -> Passwords {
        let (dummy_hash, memory) = (String::new(), Mutex::default());
        let mut passwords = Passwords { rules, random, dummy_hash, memory };
        passwords.dummy_hash = passwords.hash("nobody's password");
        passwords
    }

    pub fn rules(&self) -> PasswordRules {
        self.rules
    }

    /// Hashes a password and blocks for tens of milliseconds. The result names its algorithm,
    /// parameters and salt, so that a later version can change them.
    pub fn hash(&self, password: &str) -> String {
        let mut salt = [0; SALT_BYTES];
        self.random.fill(&mut salt);
        let hasher = Argon2::default();
        let lawful = "the parameters are constants and the salt has a valid length";
        let hash = PasswordHash {
            algorithm: Algorithm::default().ident(),
            version: Some(Version::default().into()),
            params: ParamsString::try_from(hasher.params()).expect(lawful),
            salt: Some(Salt::new(&salt).expect(lawful)),
            hash: Some(self.work(&hasher, password, &salt, Params::DEFAULT_OUTPUT_LEN).expect(lawful)),
        };
        hash.to_string()
    }

    /// Verifies a password and blocks as long as [`Passwords::hash`]. A missing or unreadable hash
    /// takes the same time and fails, so neither the answer nor its timing reveals whether the user
    /// exists. A password above [`Passwords::MAX_BYTES`] fails at once.
    pub fn verify(&self, stored: Option<&str>, password: &str) -> bool {
        if password.len() > Passwords::MAX_BYTES {
            return false;
        }
        let parsed = stored.and_then(|hash| PasswordHash::new(hash).ok());
        let known = parsed.is_some();
        let hash =
            parsed.unwrap_or_else(|| PasswordHash::new(&self.dummy_hash).expect("this hasher made the hash"));
        let fits = self.fits(&hash, password).unwrap_or(false);
        known && fits
    }

    /// Compares a password with a hash. Returns `None` when the hash has an unknown algorithm,
    /// version or parameters.
    fn fits(&self, stored: &PasswordHash, password: &str) -> Option<bool> {
        let algorithm = Algorithm::try_from(stored.algorithm.as_str()).ok()?;
        let version = Version::try_from(stored.version?).ok()?;
        let hasher = Argon2::new(algorithm, version, Params::try_from(stored).ok()?);
        let (salt, expected) = (stored.salt.as_ref()?, stored.hash.as_ref()?);
        // `Output` compares in constant time.
        Some(self.work(&hasher, password, salt, expected.len())? == *expected)
    }

    /// Computes the hash in a reused buffer. Allocating and freeing 19 MiB for each password on
    /// varying threads makes the allocator keep hundreds of megabytes.
    fn work(&self, hasher: &Argon2<'_>, password: &str, salt: &[u8], bytes: usize) -> Option<Output> {
        let mut memory = self.memory.lock().pop().unwrap_or_default();
        memory.resize(hasher.params().block_count(), Block::default());
        let mut buffer = [0; Output::MAX_LENGTH];
        let out = buffer.get_mut(..bytes)?;
        let done = hasher.hash_password_into_with_memory(password.as_bytes(), salt, out, &mut memory[..]);
        let output = done.ok().and_then(|()| Output::new(out).ok());
        self.memory.lock().push(memory);
        output
    }
}

impl fmt::Debug for Passwords {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Passwords").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use argon2::password_hash::PasswordHasher;
    use bluetick_core::ports::SystemRandom;

    use super::*;

    fn passwords() -> Passwords {
        Passwords::new(Arc::new(SystemRandom), PasswordRules::default())
    }

    #[test]
    fn correct_password_verifies_and_a_wrong_one_does_not() {
        let passwords = passwords();
        let stored = passwords.hash("correct horse");
        assert!(passwords.verify(Some(&stored), "correct horse"));
        assert!(!passwords.verify(Some(&stored), "correct horsf"));
        assert!(!passwords.verify(Some(&stored), ""));
    }

    #[test]
    fn hash_is_argon2id_with_parameters_and_a_unique_salt() {
        let passwords = passwords();
        let stored = passwords.hash("correct horse");
        assert!(stored.starts_with("$argon2id$v=19$m=19456,t=2,p=1$"), "{stored}");
        assert_ne!(stored, passwords.hash("correct horse"));
    }

    #[test]
    fn hash_with_other_parameters_still_verifies() {
        // `correct horse` with m=8192,t=1,p=1, as an earlier or later version might store it.
        let other = Argon2::new(Algorithm::Argon2id, Version::V0x13, Params::new(8192, 1, 1, None).unwrap());
        let stored: PasswordHash =
            other.hash_password_with_salt(b"correct horse", b"sixteen bytes ok").unwrap();
        assert!(passwords().verify(Some(&stored.to_string()), "correct horse"));
    }

    #[test]
    fn unknown_user_never_verifies_even_with_the_dummy_password() {
        let passwords = passwords();
        assert!(!passwords.verify(None, "nobody's password"));
        assert!(!passwords.verify(Some("damaged"), "nobody's password"));
    }

    #[test]
    fn unknown_user_costs_the_same_hash_work_as_a_known_user() {
        let passwords = passwords();
        let stored = passwords.hash("correct horse");
        let fastest = |stored: Option<&str>| {
            let timed = |_| {
                let start = std::time::Instant::now();
                passwords.verify(stored, "wrong password");
                start.elapsed()
            };
            (0..5).map(timed).min().expect("five rounds")
        };
        let (known, unknown) = (fastest(Some(&stored)), fastest(None));
        // Skipping the work would change the time by a factor of thousands. Even on a busy machine,
        // the fastest of five runs varies by less than a factor of ten.
        assert!(unknown * 10 > known && known * 10 > unknown, "known {known:?}, unknown {unknown:?}");
    }

    #[test]
    fn hash_memory_is_reused_by_the_next_password() {
        let passwords = passwords();
        let stored = passwords.hash("correct horse");
        for _ in 0..3 {
            assert!(passwords.verify(Some(&stored), "correct horse"));
        }
        assert_eq!(passwords.memory.lock().len(), 1);
    }

    #[test]
    fn hash_verifies_with_the_argon2_library() {
        use argon2::password_hash::PasswordVerifier;
        let stored = passwords().hash("correct horse");
        let hash = PasswordHash::new(&stored).unwrap();
        assert!(Argon2::default().verify_password(b"correct horse", &hash).is_ok());
        assert!(Argon2::default().verify_password(b"correct horsf", &hash).is_err());
    }

    #[test]
    fn password_length_is_limited_to_8_to_1024_bytes() {
        let rules = PasswordRules::default();
        for (length, fits) in [(0, false), (7, false), (8, true), (1024, true), (1025, false)] {
            assert_eq!(rules.check("alice", &"y".repeat(length)).is_ok(), fits, "{length}");
        }
        let weak = rules.check("alice", "short").unwrap_err();
        assert_eq!(weak.to_string(), "a password has 8 to 1024 bytes");
    }

    #[test]
    fn minimum_password_length_is_configurable_and_capped_at_the_maximum() {
        let rules = PasswordRules { min_bytes: 12 };
        assert_eq!(rules.check("alice", "eleven bytes"), Ok(()));
        assert_eq!(rules.check("alice", "ten bytes!"), Err(WeakPassword::Length { min_bytes: 12 }));
        assert_eq!(PasswordRules { min_bytes: 5_000 }.check("alice", &"é".repeat(512)), Ok(()));
    }

    #[test]
    fn common_passwords_and_the_user_id_are_refused() {
        let rules = PasswordRules::default();
        assert_eq!(rules.check("alice", "PassWord"), Err(WeakPassword::Common));
        assert_eq!(rules.check("alice-liddell", "Alice-Liddell"), Err(WeakPassword::IsUserId));
        assert_eq!(rules.check("alice", "correct horse"), Ok(()));
    }
}
