//! Seeded random numbers.

/// A SplitMix64 generator. Each component of a run has its own generator, so removing one does not
/// change the others.
#[derive(Clone, Debug)]
pub struct Dice {
    seed: u64,
    state: u64,
}

impl Dice {
    pub fn new(seed: u64) -> Dice {
        Dice { seed, state: seed }
    }

    /// Derives a generator from the seed and the name. It does not depend on the numbers drawn so
    /// far.
    pub fn of(&self, part: &str) -> Dice {
        // FNV-1a hash.
        let hash = part.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        let mut dice = Dice::new(self.seed ^ hash);
        let seed = dice.throw();
        Dice::new(seed)
    }

    pub fn throw(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    pub fn below(&mut self, limit: u64) -> u64 {
        self.throw() % limit.max(1)
    }

    /// Returns a number between `least` and `most`, both included.
    pub fn between(&mut self, least: u64, most: u64) -> u64 {
        least + self.below(most.saturating_sub(least) + 1)
    }

    pub fn one_in(&mut self, chances: u64) -> bool {
        self.below(chances) == 0
    }

    pub fn pick<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        let index = self.below(of.len() as u64);
        &of[usize::try_from(index).expect("a slice is no longer than memory")]
    }

    pub fn millis(&mut self, least: u64, most: u64) -> std::time::Duration {
        std::time::Duration::from_millis(self.between(least, most))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seed_gives_a_stable_sequence_and_independent_parts() {
        let (mut one, mut other) = (Dice::new(7), Dice::new(7));
        let mut before = one.of("network");
        assert_eq!(
            (0..5).map(|_| one.throw()).collect::<Vec<_>>(),
            (0..5).map(|_| other.throw()).collect::<Vec<_>>()
        );
        let mut after = one.of("network");
        assert_eq!(before.throw(), after.throw());
        assert_ne!(one.of("disk").throw(), one.of("network").throw());
    }
}
