//! Rate-limits audit entries for wrong admin keys, so that an attack is visible but cannot fill the
//! trail.

use std::num::NonZeroU64;

use bluetick_core::Timestamp;
use parking_lot::Mutex;

/// Maximum number of wrong admin keys per minute with an audit entry of their own. A larger number
/// lets an attacker rotate other entries out of the trail.
const MAX_ENTRIES_PER_MINUTE: u32 = 10;
/// One minute in milliseconds.
const MINUTE_MS: i64 = 60_000;

/// Counts wrong admin keys, over all addresses.
#[derive(Default)]
pub(crate) struct FailedKeys(Mutex<Minute>);

/// The counters of the current minute. `omitted` continues into the next one.
#[derive(Default)]
struct Minute {
    number: i64,
    written: u32,
    omitted: u64,
}

impl FailedKeys {
    /// Counts a wrong key. Returns `None` if it gets no entry, else the number of keys omitted
    /// since the last entry.
    pub fn record(&self, now: Timestamp) -> Option<u64> {
        let mut minute = self.0.lock();
        let number = now.millis().div_euclid(MINUTE_MS);
        if minute.number != number {
            (minute.number, minute.written) = (number, 0);
        }
        if minute.written == MAX_ENTRIES_PER_MINUTE {
            minute.omitted += 1;
            return None;
        }
        minute.written += 1;
        Some(std::mem::take(&mut minute.omitted))
    }

    /// Counts a wrong key above the limit of its address, which gets no entry.
    pub fn omit(&self) {
        self.0.lock().omitted += 1;
    }

    /// Returns and resets the number of omitted keys that no entry has reported. The server calls
    /// it periodically and at shutdown, because a later wrong key, which would report them, may
    /// never arrive.
    pub fn take_omitted(&self) -> Option<NonZeroU64> {
        let mut minute = self.0.lock();
        NonZeroU64::new(std::mem::take(&mut minute.omitted))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ten_wrong_keys_per_minute_get_an_entry_and_the_rest_are_counted() {
        let keys = FailedKeys::default();
        let at = |millis| keys.record(Timestamp::from_millis(millis));
        assert!((0..10).all(|second| at(second * 1_000) == Some(0)));
        assert!((0..90).all(|_| at(59_999).is_none()));
        assert_eq!((at(60_000), at(60_000)), (Some(90), Some(0)));
        assert_eq!(keys.take_omitted(), None);
        assert_eq!((0..10).filter(|_| at(60_000).is_none()).count(), 2);
        assert_eq!((keys.take_omitted(), keys.take_omitted()), (NonZeroU64::new(2), None));
    }
}
