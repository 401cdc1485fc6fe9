//! Seeded random numbers. Runs repeat only as far as the clock and the scheduler allow.

/// A random number generator that follows from its seed.
#[derive(Clone, Debug)]
pub struct Dice(u64);

impl Dice {
    pub fn new(seed: u64) -> Dice {
        Dice(seed)
    }

    fn next(&mut self) -> u64 {
        // SplitMix64: any seed is good, also adjacent ones.
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Derives an independent generator, so that the draws of one device do not affect the others.
    pub fn fork(&mut self) -> Dice {
        Dice(self.next())
    }

    pub fn below(&mut self, bound: u64) -> u64 {
        assert!(bound > 0, "the upper bound is above zero");
        self.next() % bound
    }

    /// Returns a number between `low` and `high`, both included.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high.max(low) - low + 1)
    }

    pub fn one_in(&mut self, bound: u64) -> bool {
        self.below(bound) == 0
    }

    pub fn pick<'a, T>(&mut self, choices: &'a [T]) -> Option<&'a T> {
        (!choices.is_empty()).then(|| &choices[self.below(choices.len() as u64) as usize])
    }

    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for end in (1..items.len()).rev() {
            items.swap(end, self.below(end as u64 + 1) as usize);
        }
    }
}
