//! The epoch of a restored store.

use bluetick_core::Epoch;
use bluetick_core::ports::Random;
use bluetick_core::time::Clock;

/// Number of random bits at the end of an epoch. Two restores in the same second collide once in
/// two million; clients would then keep an invalid cache.
const RANDOM_BITS: u32 = 21;
/// Upper bound on an epoch. Clients read it as a JSON number, which is exact up to here. Above it,
/// two epochs could look equal.
const MAX_EPOCH: u64 = (1 << 53) - 1;

/// Returns an epoch above `before` that differs from those of other restores of the same store: the
/// current second, followed by random bits. If `before` is ahead of the clock, random bits are
/// added to `before + 1`. Returns `None` if no epoch is left.
pub fn epoch_after(before: Epoch, clock: &dyn Clock, random: &dyn Random) -> Option<Epoch> {
    let seconds = u64::try_from(clock.now().millis() / 1000).unwrap_or_default();
    let base = seconds.checked_mul(1 << RANDOM_BITS)?.max(before.get().checked_add(1)?);
    let mut bits = [0; 8];
    random.fill(&mut bits);
    let epoch = base.checked_add(u64::from_le_bytes(bits) >> (64 - RANDOM_BITS))?;
    (epoch <= MAX_EPOCH).then_some(Epoch::new(epoch))
}

#[cfg(test)]
mod tests {
    use bluetick_core::Timestamp;
    use bluetick_core::ports::SystemRandom;
    use bluetick_core::time::ManualClock;

    use super::*;

    #[test]
    fn restores_in_the_same_second_get_different_epochs_above_the_old_one() {
        let clock = ManualClock::at(Timestamp::from_millis(1_790_000_000_000));
        for before in [1, 1_790_000_000, 1_790_000_000 << 21, (1_800_000_000 << 21) + 5].map(Epoch::new) {
            let mut epochs: Vec<u64> =
                (0..4).map(|_| epoch_after(before, &clock, &SystemRandom).unwrap().get()).collect();
            assert!(epochs.iter().all(|epoch| (before.get() + 1..=MAX_EPOCH).contains(epoch)), "{epochs:?}");
            epochs.sort_unstable();
            epochs.dedup();
            assert_eq!(epochs.len(), 4, "{epochs:?}");
        }
    }

    #[test]
    fn epoch_never_exceeds_the_json_integer_limit() {
        let clock = ManualClock::at(Timestamp::from_millis(1_790_000_000_000));
        assert_eq!(epoch_after(Epoch::new(MAX_EPOCH), &clock, &SystemRandom), None);
        assert_eq!(epoch_after(Epoch::new(u64::MAX), &clock, &SystemRandom), None);
    }
}
