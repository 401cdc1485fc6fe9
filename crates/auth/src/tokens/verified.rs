//! Tokens that were found to be good, so that a client that asks again and again is not checked from scratch each time.
//!
//! What a signature says never changes while the keys stay the same, so this belongs to the keys that checked it. Moments
//! are held against the clock on every use. Nothing is kept of a token that was refused: whoever makes up tokens fills
//! nothing.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::{fmt, mem};

use super::claims::Proven;

/// The whole text of a token, and what it proved.
pub struct Verified {
    shards: [Mutex<Generations>; SHARDS],
}

/// Requests on several threads rarely meet in one of them.
const SHARDS: usize = 16;
/// In each generation of a shard: 8,192 tokens altogether.
const TOKENS: usize = 256;
/// Of text in each generation of a shard: 8 MiB altogether.
const TEXT_BYTES: usize = 256 * 1024;

/// Two, so that a full one is forgotten whole, and not before the other is full as well: what is in use meanwhile comes
/// over, and there is nothing to be sorted or searched.
#[derive(Default)]
struct Generations {
    young: Generation,
    old: Generation,
}

#[derive(Default)]
struct Generation {
    tokens: HashMap<Box<str>, Proven>,
    text_bytes: usize,
}

impl Default for Verified {
    fn default() -> Verified {
        Verified { shards: std::array::from_fn(|_| Mutex::default()) }
    }
}

impl Verified {
    pub fn find(&self, token: &str) -> Option<Proven> {
        let mut shard = self.shard(token);
        if let Some(proven) = shard.young.tokens.get(token) {
            return Some(proven.clone());
        }
        let (text, proven) = shard.old.tokens.remove_entry(token)?;
        shard.old.text_bytes -= text.len();
        let forgotten = shard.keep(text, proven.clone());
        // Thousands of texts are freed after the lock, not under it.
        drop(shard);
        drop(forgotten);
        Some(proven)
    }

    pub fn keep(&self, token: &str, proven: Proven) {
        let forgotten = self.shard(token).keep(token.into(), proven);
        drop(forgotten);
    }

    fn shard(&self, token: &str) -> MutexGuard<'_, Generations> {
        // A token ends in its signature, which is as good as random; its very last letter is not.
        let letters = token.as_bytes().iter().rev().skip(1).take(2);
        let sum: usize = letters.map(|&letter| usize::from(letter)).sum();
        // Whoever panicked left a map that is whole, and at worst a count that is too high.
        self.shards[sum % SHARDS].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Generations {
    /// Returns what is forgotten for it.
    fn keep(&mut self, token: Box<str>, proven: Proven) -> Generation {
        let mut forgotten = Generation::default();
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

    use super::super::claims::Validity;
    use super::*;

    fn proven() -> Proven {
        let valid = Validity { not_before: None, expires_at: Timestamp::from_millis(1) };
        let (issued_at, print) = (Timestamp::from_millis(0), TokenPrint::default());
        Proven { user: "alice".parse().unwrap(), valid, issued_at, print }
    }

    /// Tokens and bytes of text that are kept, and whether the counts are true.
    fn kept(verified: &Verified) -> (usize, usize) {
        let mut kept = (0, 0);
        for shard in &verified.shards {
            let shard = shard.lock().unwrap();
            for generation in [&shard.young, &shard.old] {
                let bytes = generation.tokens.keys().map(|text| text.len()).sum::<usize>();
                assert_eq!(generation.text_bytes, bytes);
                kept = (kept.0 + generation.tokens.len(), kept.1 + bytes);
            }
        }
        kept
    }

    #[test]
    fn however_many_tokens_there_are_few_are_kept() {
        let verified = Verified::default();
        for number in 0..50_000 {
            verified.keep(&format!("token {number:06}"), proven());
        }
        let (tokens, _) = kept(&verified);
        assert!((1_000..=2 * SHARDS * TOKENS).contains(&tokens), "{tokens}");
    }

    #[test]
    fn however_long_tokens_are_little_text_is_kept() {
        let verified = Verified::default();
        for number in 0..3_000 {
            verified.keep(&format!("{}{number:06}", "x".repeat(16_000)), proven());
        }
        let (_, bytes) = kept(&verified);
        assert!((1_000_000..=2 * SHARDS * TEXT_BYTES).contains(&bytes), "{bytes}");
    }

    #[test]
    fn a_token_in_use_outlives_thousands_that_are_not() {
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
    fn only_the_whole_text_finds_a_token_and_keeping_it_twice_counts_once() {
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
