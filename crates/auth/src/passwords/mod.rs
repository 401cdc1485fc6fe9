//! Passwords as argon2id hashes. Slow on purpose: callers keep this work off the threads that serve connections
//! and bound how much of it runs at once.

mod common;

use std::fmt;
use std::sync::{Arc, Mutex};

use argon2::password_hash::phc::{Output, ParamsString, PasswordHash, Salt};
use argon2::{Algorithm, Argon2, Block, Params, Version};
use bluetick_core::ports::Random;
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

/// Rules for new passwords. Log-in does not check them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PasswordRules {
    /// In bytes of UTF-8, at most [`Passwords::MAX_BYTES`].
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

pub struct Passwords {
    rules: PasswordRules,
    random: Arc<dyn Random>,
    /// Checked in place of the hash of somebody who is not there, so that the answer takes as long.
    dummy_hash: String,
    /// As many as were ever needed at once, which the caller bounds.
    memory: Mutex<Vec<Vec<Block>>>,
}

const SALT_BYTES: usize = 16;

impl Passwords {
    /// Long enough for any passphrase, short enough that nobody makes the server hash megabytes.
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

    /// Blocks for tens of milliseconds. The text names algorithm, parameters and salt, so that these may change later.
    pub fn hash(&self, password: &str) -> String {
        let mut salt = [0; SALT_BYTES];
        self.random.fill(&mut salt);
        let hasher = Argon2::default();
        let lawful = "the parameters are fixed and the salt has a lawful length";
        let hash = PasswordHash {
            algorithm: Algorithm::default().ident(),
            version: Some(Version::default().into()),
            params: ParamsString::try_from(hasher.params()).expect(lawful),
            salt: Some(Salt::new(&salt).expect(lawful)),
            hash: Some(self.work(&hasher, password, &salt, Params::DEFAULT_OUTPUT_LEN).expect(lawful)),
        };
        hash.to_string()
    }

    /// Blocks as long as [`Passwords::hash`]. Somebody unknown (`None`), or known without a password, costs the
    /// same work and is refused: neither the answer nor its time tells which part was wrong.
    pub fn verify(&self, stored: Option<&str>, password: &str) -> bool {
        if password.len() > Passwords::MAX_BYTES {
            return false;
        }
        let parsed = stored.and_then(|hash| PasswordHash::new(hash).ok());
        let known = parsed.is_some();
        let hash = parsed.unwrap_or_else(|| {
            PasswordHash::new(&self.dummy_hash).expect("it was made by the hasher that reads it")
        });
        let fits = self.fits(&hash, password).unwrap_or(false);
        known && fits
    }

    /// `None` when the hash is of a kind that is not known here.
    fn fits(&self, stored: &PasswordHash, password: &str) -> Option<bool> {
        let algorithm = Algorithm::try_from(stored.algorithm.as_str()).ok()?;
        let version = Version::try_from(stored.version?).ok()?;
        let hasher = Argon2::new(algorithm, version, Params::try_from(stored).ok()?);
        let (salt, expected) = (stored.salt.as_ref()?, stored.hash.as_ref()?);
        // Outputs are compared in constant time.
        Some(self.work(&hasher, password, salt, expected.len())? == *expected)
    }

    /// The work itself, in memory that is used again: 19 MiB taken and given back for each password, on whichever
    /// thread, would leave the allocator with hundreds of megabytes.
    fn work(&self, hasher: &Argon2<'_>, password: &str, salt: &[u8], bytes: usize) -> Option<Output> {
        let mut memory =
            self.memory.lock().expect("nobody panics while holding the memory").pop().unwrap_or_default();
        memory.resize(hasher.params().block_count(), Block::default());
        let mut buffer = [0; Output::MAX_LENGTH];
        let out = buffer.get_mut(..bytes)?;
        let done = hasher.hash_password_into_with_memory(password.as_bytes(), salt, out, &mut memory[..]);
        let output = done.ok().and_then(|()| Output::new(out).ok());
        self.memory.lock().expect("nobody panics while holding the memory").push(memory);
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
    fn a_password_is_known_again_and_another_is_not() {
        let passwords = passwords();
        let stored = passwords.hash("correct horse");
        assert!(passwords.verify(Some(&stored), "correct horse"));
        assert!(!passwords.verify(Some(&stored), "correct horsf"));
        assert!(!passwords.verify(Some(&stored), ""));
    }

    #[test]
    fn the_hash_is_argon2id_with_its_parameters_and_a_salt_of_its_own() {
        let passwords = passwords();
        let stored = passwords.hash("correct horse");
        assert!(stored.starts_with("$argon2id$v=19$m=19456,t=2,p=1$"), "{stored}");
        assert_ne!(stored, passwords.hash("correct horse"));
    }

    #[test]
    fn a_hash_with_other_parameters_is_still_understood() {
        // `correct horse` with m=8192,t=1,p=1, as an earlier or later version might have stored it.
        let other = Argon2::new(Algorithm::Argon2id, Version::V0x13, Params::new(8192, 1, 1, None).unwrap());
        let stored: PasswordHash =
            other.hash_password_with_salt(b"correct horse", b"sixteen bytes ok").unwrap();
        assert!(passwords().verify(Some(&stored.to_string()), "correct horse"));
    }

    #[test]
    fn nobody_logs_in_as_an_unknown_user_not_even_with_the_dummy_password() {
        let passwords = passwords();
        assert!(!passwords.verify(None, "nobody's password"));
        assert!(!passwords.verify(Some("damaged"), "nobody's password"));
    }

    #[test]
    fn an_unknown_user_costs_the_same_work_as_a_known_one() {
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
        // Skipping the work would make a factor of thousands; a busy machine does not make the fastest of five tenfold.
        assert!(unknown * 10 > known && known * 10 > unknown, "known {known:?}, unknown {unknown:?}");
    }

    #[test]
    fn the_memory_of_one_password_serves_the_next() {
        let passwords = passwords();
        let stored = passwords.hash("correct horse");
        for _ in 0..3 {
            assert!(passwords.verify(Some(&stored), "correct horse"));
        }
        assert_eq!(passwords.memory.lock().unwrap().len(), 1);
    }

    #[test]
    fn the_usual_library_calls_understand_the_hash() {
        use argon2::password_hash::PasswordVerifier;
        let stored = passwords().hash("correct horse");
        let hash = PasswordHash::new(&stored).unwrap();
        assert!(Argon2::default().verify_password(b"correct horse", &hash).is_ok());
        assert!(Argon2::default().verify_password(b"correct horsf", &hash).is_err());
    }

    #[test]
    fn passwords_have_8_to_1024_bytes() {
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
