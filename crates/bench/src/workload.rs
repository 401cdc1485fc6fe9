//! Realistic messages: texts made of words, and a few popular conversations among many quiet ones.

use std::sync::Arc;

/// A small, fast pseudo-random generator (xorshift). The same seed gives the same numbers on every
/// platform.
#[derive(Clone, Copy, Debug)]
pub struct Dice(u64);

impl Dice {
    pub fn new(seed: u64) -> Dice {
        Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    pub fn below(&mut self, bound: usize) -> usize {
        ((u128::from(self.next()) * bound as u128) >> 64) as usize
    }

    fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// Picks conversation numbers with a Zipf-like distribution (exponent 1). Number 0 is the most
/// popular.
#[derive(Clone, Copy, Debug)]
pub struct Popularity {
    count: usize,
}

impl Popularity {
    pub fn new(count: usize) -> Popularity {
        Popularity { count }
    }

    /// Picks a number by inverting the continuous distribution, which is log-uniform over the
    /// ranks.
    pub fn pick(&self, dice: &mut Dice) -> usize {
        let rank = ((self.count as f64 + 1.0).ln() * dice.unit()).exp() - 1.0;
        (rank as usize).min(self.count - 1)
    }
}

/// Words that message texts are made of. A smaller choice lets texts compress better than real
/// ones.
const WORDS: &[&str] = &[
    "hey", "ok", "see", "you", "tomorrow", "at", "the", "station", "can", "we", "talk", "about", "dinner",
    "later", "thanks", "for", "photos", "love", "it", "running", "late", "five", "minutes", "did", "call",
    "your", "mother", "yes", "no", "maybe", "sounds", "good", "meeting", "moved", "to", "three", "please",
    "bring", "keys", "where", "are", "haha", "really", "train", "is", "delayed", "again", "happy",
    "birthday", "how", "was", "school", "today", "miss",
];

/// Returns `count` random texts of exactly `bytes` bytes each.
pub fn texts(bytes: usize, count: usize, dice: &mut Dice) -> Vec<Arc<str>> {
    let text = |dice: &mut Dice| {
        let mut text = String::with_capacity(bytes + 16);
        while text.len() < bytes {
            if !text.is_empty() {
                text.push(' ');
            }
            text.push_str(WORDS[dice.below(WORDS.len())]);
        }
        text.truncate(bytes);
        text.into()
    };
    (0..count).map(|_| text(dice)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn popularity_covers_every_rank_and_prefers_the_first() {
        let popularity = Popularity::new(10);
        let mut dice = Dice::new(1);
        let mut counts = [0; 10];
        for _ in 0..10_000 {
            counts[popularity.pick(&mut dice)] += 1;
        }
        assert!(counts.is_sorted_by(|a, b| *a as f64 > *b as f64 * 0.9), "{counts:?}");
        assert!(counts[9] > 0);
    }
}
