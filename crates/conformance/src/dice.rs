//! Chance that can be repeated: a case that fails prints the seed with which it fails again.

use bluetick_core::ports::{Random, SystemRandom};

/// Set to a number that was printed, it repeats that run.
const SEED_VARIABLE: &str = "BLUETICK_SEED";

pub struct Dice(u64);

impl Dice {
    /// Prints the seed.
    pub fn throw() -> Dice {
        let given = std::env::var(SEED_VARIABLE).ok().and_then(|text| text.parse().ok());
        let seed = given.unwrap_or_else(|| {
            let mut bytes = [0; 8];
            SystemRandom.fill(&mut bytes);
            u64::from_be_bytes(bytes)
        });
        println!("{SEED_VARIABLE}={seed} repeats this run");
        // Zero is the one state the generator never leaves.
        Dice(seed.max(1))
    }

    /// Below `bound`.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }

    pub fn one_of<T: Copy>(&mut self, choices: &[T]) -> T {
        let bound = choices.len() as u64;
        choices[usize::try_from(self.below(bound)).expect("below the number of choices")]
    }

    pub fn coin(&mut self) -> bool {
        self.below(2) == 0
    }
}
