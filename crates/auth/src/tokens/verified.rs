//! A cache of verified tokens, which saves repeated signature checks for a client that sends many
//! requests.
//!
//! A valid signature stays valid while the keys stay the same, so the cache belongs to its keys.
//! Callers check the validity period on every use. The cache never stores rejected tokens, so
//! forged tokens cannot fill it.

use std::collections::HashMap;
use std::{fmt, mem};

use super::claims::VerifiedClaims;
use parking_lot::{Mutex, MutexGuard};

/// Maps the full text of a token to its verified facts.
pub struct Verified {
    shards: [Mutex<CacheGenerations>; SHARDS],
}

/// Number of shards. Fewer shards increase lock contention between threads.
const SHARDS: usize = 16;
/// Upper bound on tokens per generation of a shard: 8,192 tokens in total. With fewer, tokens in
/// use are evicted, and their signatures are verified again.
const TOKENS: usize = 256;
/// Upper bound on token text per generation of a shard, in bytes: 8 MiB in total. It bounds memory
/// if tokens are long.
const TEXT_BYTES: usize = 256 * 1024;

/// Two generations, which approximate an LRU cache without sorting or searching. When `young` is
/// full, it replaces `old`, whose entries are evicted. A lookup moves an entry from `old` to
/// `young`, so tokens in use stay.
#[derive(Default)]
struct CacheGenerations {
    young: CacheGeneration,
    old: CacheGeneration,
}

#[derive(Default)]
struct CacheGeneration {
    tokens: HashMap<Box<str>, VerifiedClaims>,
    text_bytes: usize,
}

impl Default for Verified {
    fn default() -> Verified {
        Verified { shards: std::array::from_fn(|_| Mutex::default()) }
    }
}

impl Verified {
    pub fn find(&self, token: &str) -> Option<VerifiedClaims> {
        let mut shard = self.shard(token);
        if let Some(proven) = shard.young.tokens.get(token) {
            return Some(proven.clone());
        }
        let (text, proven) = shard.old.tokens.remove_entry(token)?;
        shard.old.text_bytes -= text.len();
        let forgotten = shard.keep(text, proven.clone());
        // Free the evicted entries after releasing the lock.
        drop(shard);
        drop(forgotten);
        Some(proven)
    }

    pub fn keep(&self, token: &str, proven: VerifiedClaims) {
        let forgotten = self.shard(token).keep(token.into(), proven);
        drop(forgotten);
    }

    fn shard(&self, token: &str) -> MutexGuard<'_, CacheGenerations> {
        // The signature at the end of a token is effectively random, except for its last character.
        let letters = token.as_bytes().iter().rev().skip(1).take(2);
        let sum: usize = letters.map(|&letter| usize::from(letter)).sum();
        // A panic leaves the map intact, and at worst a byte count that is too high.
        self.shards[sum % SHARDS].lock()
    }
}

impl CacheGenerations {
    /// Adds a token and returns the evicted generation, so that the caller can free it without the
    /// lock.
    fn keep(&mut self, token: Box<str>, proven: VerifiedClaims) -> CacheGeneration {
        let mut forgotten = CacheGeneration::default();
        if self.young.tokens.len() >= TOKENS || self.young.text_bytes + token.len() > TEXT_BYTES {
            forgotten = mem::replace(&mut self.old, mem::take(&mut self.young));
        }
        let bytes = token.len();
        if self.young.tokens.insert(token, proven).is_none() {
            self.young.text_bytes += bytes;
        }
        forgotten
    }
}

impl fmt::Debug for Verified {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Verified").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use bluetick_core::{Timestamp, TokenPrint};

    use super::super::claims::TokenValidity;
    use super::*;

    fn proven() -> VerifiedClaims {
        let valid = TokenValidity { not_before: None, expires_at: Timestamp::from_millis(1) };
        let (issued_at, print) = (Timestamp::from_millis(0), TokenPrint::default());
        VerifiedClaims { user: "alice".parse().unwrap(), valid, issued_at, print }
    }

    /// Returns the cached tokens and bytes of text. Panics if a byte count is wrong.
    fn kept(verified: &Verified) -> (usize, usize) {
        let mut kept = (0, 0);
        for shard in &verified.shards {
            let shard = shard.lock();
            for generation in [&shard.young, &shard.old] {
                let bytes = generation.tokens.keys().map(|text| text.len()).sum::<usize>();
                assert_eq!(generation.text_bytes, bytes);
                kept = (kept.0 + generation.tokens.len(), kept.1 + bytes);
            }
        }
        kept
    }

    #[test]
    fn verified_token_cache_is_bounded_by_count() {
        let verified = Verified::default();
        for number in 0..50_000 {
            verified.keep(&format!("token {number:06}"), proven());
        }
        let (tokens, _) = kept(&verified);
        assert!((1_000..=2 * SHARDS * TOKENS).contains(&tokens), "{tokens}");
    }

    #[test]
    fn verified_token_cache_is_bounded_by_bytes() {
        let verified = Verified::default();
        for number in 0..3_000 {
            verified.keep(&format!("{}{number:06}", "x".repeat(16_000)), proven());
        }
        let (_, bytes) = kept(&verified);
        assert!((1_000_000..=2 * SHARDS * TEXT_BYTES).contains(&bytes), "{bytes}");
    }

    #[test]
    fn token_in_use_stays_cached_among_thousands_of_unused_ones() {
        let verified = Verified::default();
        verified.keep("in use", proven());
        verified.keep("left alone", proven());
        for number in 0..50_000 {
            verified.keep(&format!("token {number:06}"), proven());
            assert!(verified.find("in use").is_some(), "after {number}");
        }
        assert!(verified.find("left alone").is_none());
    }

    #[test]
    fn cache_matches_the_whole_token_and_counts_it_once() {
        let verified = Verified::default();
        verified.keep("header.claims.signature", proven());
        verified.keep("header.claims.signature", proven());
        assert_eq!(kept(&verified), (1, "header.claims.signature".len()));
        for other in
            ["", "h", "header.claims.signaturE", "Header.claims.signature", "header.claims.signature "]
        {
            assert!(verified.find(other).is_none(), "{other}");
        }
        assert!(!format!("{verified:?}").contains("signature"));
    }
}
