//! How many wrong admin keys are written down: enough to see an attack, and not so many that it fills the trail.

use std::num::NonZeroU64;
use std::sync::Mutex;

use bluetick_core::Timestamp;

/// In a minute.
const MOST: u32 = 10;
const MINUTE_MS: i64 = 60_000;

#[derive(Default)]
pub(crate) struct FailedKeys(Mutex<Minute>);

#[derive(Default)]
struct Minute {
    number: i64,
    written: u32,
    left_out: u64,
}

impl FailedKeys {
    /// Whether to write one down, and how many were left out since the last.
    pub fn note(&self, now: Timestamp) -> Option<u64> {
        let mut minute = self.0.lock().expect("nothing panics while it holds the lock");
        let number = now.millis().div_euclid(MINUTE_MS);
        if minute.number != number {
            (minute.number, minute.written) = (number, 0);
        }
        if minute.written == MOST {
            minute.left_out += 1;
            return None;
        }
        minute.written += 1;
        Some(std::mem::take(&mut minute.left_out))
    }

    /// Counts a key that was refused before the comparison.
    pub fn leave_out(&self) {
        self.0.lock().expect("nothing panics while it holds the lock").left_out += 1;
    }

    /// How many were left out and not told of yet. Asked now and then, and at the end: there may be no later one to tell it
    /// with.
    pub fn left_out(&self) -> Option<NonZeroU64> {
        let mut minute = self.0.lock().expect("nothing panics while it holds the lock");
        NonZeroU64::new(std::mem::take(&mut minute.left_out))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ten_in_a_minute_are_written_down_and_the_rest_is_counted() {
        let keys = FailedKeys::default();
        let at = |millis| keys.note(Timestamp::from_millis(millis));
        assert!((0..10).all(|second| at(second * 1_000) == Some(0)));
        assert!((0..90).all(|_| at(59_999).is_none()));
        assert_eq!((at(60_000), at(60_000)), (Some(90), Some(0)));
        assert_eq!(keys.left_out(), None);
        assert_eq!((0..10).filter(|_| at(60_000).is_none()).count(), 2);
        assert_eq!((keys.left_out(), keys.left_out()), (NonZeroU64::new(2), None));
    }
}
