//! Reproducible randomness: a failing case prints the seed that repeats it.

use bluetick_core::ports::{Random, SystemRandom};

/// Environment variable with the seed. Set it to a printed seed to repeat that run.
const SEED_VARIABLE: &str = "BLUETICK_SEED";

pub struct Dice(u64);

impl Dice {
    /// Creates a generator with the seed from the environment or a random seed, and prints the
    /// seed.
    pub fn throw() -> Dice {
        let given = std::env::var(SEED_VARIABLE).ok().and_then(|text| text.parse().ok());
        let seed = given.unwrap_or_else(|| {
            let mut bytes = [0; 8];
            SystemRandom.fill(&mut bytes);
            u64::from_be_bytes(bytes)
        });
        println!("{SEED_VARIABLE}={seed} repeats this run");
        // The generator never leaves the state zero.
        Dice(seed.max(1))
    }

    /// Returns a random number below `bound`.
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
