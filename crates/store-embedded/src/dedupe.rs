//! The dedupe window: how long the store remembers message ids, in the store's own time.
//!
//! The wall clock can jump, so it cannot measure the age of an id. The store counts its *life*
//! instead: the time for which it was open, by the monotonic clock. Checkpoints persist it. The
//! time while the store is closed does not count, nor does the time between the last checkpoint and
//! a crash. So ids are kept longer, never shorter.
//!
//! Chunk headers contain wall-clock times, so [`DedupeClock::floor`] translates: the store
//! remembers the lowest `received_at` of each part of the window.
//!
//! **Invariant:** a message that was stored less than a window of life ago has
//! `received_at >= floor()`. This holds across wall-clock jumps, crashes and restarts.
//!
//! A header's time is the highest `received_at` up to the end of its chunk. So no chunk that holds
//! an id of the window, and no chunk above it, has a time below the floor. A scan from the newest
//! header down that ends at the first time below the floor has therefore seen every id of the
//! window.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bluetick_core::Timestamp;
use bluetick_core::time::Clock;
use parking_lot::{Mutex, MutexGuard};

use crate::codec::rows::{seal, unseal};
use crate::codec::{DecodeError, put_varint};

/// The number of samples in a window. A higher number makes the floor rise in smaller steps and the
/// stored row larger. With a lower one, ids are kept longer than the window.
const SAMPLES_IN_WINDOW: u64 = 32;

/// A part of the store's life in which messages were stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct StoragePeriod {
    /// The store's life at the first and at the last message, in milliseconds.
    since_ms: u64,
    until_ms: u64,
    /// The lowest `received_at` of these messages.
    lowest: Timestamp,
}

/// The persisted state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DedupeRow {
    life_ms: u64,
    samples: Vec<StoragePeriod>,
}

impl DedupeRow {
    /// Returns the state of a store without a persisted row. Earlier versions measured the age of
    /// ids by the wall clock, so ids received after `floor` are kept for a whole window.
    fn starting_at(floor: Timestamp) -> DedupeRow {
        DedupeRow { life_ms: 0, samples: vec![StoragePeriod { since_ms: 0, until_ms: 0, lowest: floor }] }
    }

    pub fn encode(&self) -> Vec<u8> {
        seal(|out| {
            put_varint(out, self.life_ms);
            put_varint(out, self.samples.len() as u64);
            for sample in &self.samples {
                put_varint(out, sample.since_ms);
                put_varint(out, sample.until_ms);
                out.extend_from_slice(&sample.lowest.millis().to_le_bytes());
            }
        })
    }

    pub fn read(row: &[u8]) -> Result<DedupeRow, DecodeError> {
        let mut reader = unseal(row)?;
        let life_ms = reader.varint()?;
        let mut samples = Vec::new();
        for _ in 0..reader.varint()? {
            samples.push(StoragePeriod {
                since_ms: reader.varint()?,
                until_ms: reader.varint()?,
                lowest: Timestamp::from_millis(i64::from_le_bytes(reader.array()?)),
            });
        }
        Ok(DedupeRow { life_ms, samples })
    }
}

pub struct DedupeClock {
    clock: Arc<dyn Clock>,
    window_ms: u64,
    opened_at: Duration,
    life_before_ms: u64,
    /// Oldest first.
    samples: Mutex<VecDeque<StoragePeriod>>,
}

impl DedupeClock {
    /// Continues from the row of the last checkpoint. `row` is `None` if the store has none yet.
    pub fn resume(clock: Arc<dyn Clock>, window_ms: u64, row: Option<DedupeRow>) -> DedupeClock {
        let row = row.unwrap_or_else(|| DedupeRow::starting_at(before(clock.now(), window_ms)));
        let opened_at = clock.monotonic();
        let samples = Mutex::new(row.samples.into());
        DedupeClock { clock, window_ms, opened_at, life_before_ms: row.life_ms, samples }
    }

    /// Starts without the row, because it is damaged. Every id is kept for a whole window.
    pub fn resume_without_row(clock: Arc<dyn Clock>, window_ms: u64) -> DedupeClock {
        let row = DedupeRow::starting_at(Timestamp::from_millis(i64::MIN));
        DedupeClock::resume(clock, window_ms, Some(row))
    }

    pub fn window_ms(&self) -> u64 {
        self.window_ms
    }

    fn interval_ms(&self) -> u64 {
        (self.window_ms / SAMPLES_IN_WINDOW).max(1)
    }

    fn life_ms(&self) -> u64 {
        let open = self.clock.monotonic().saturating_sub(self.opened_at);
        self.life_before_ms.saturating_add(u64::try_from(open.as_millis()).unwrap_or(u64::MAX))
    }

    /// Records that a message is being stored, and returns the store's life in milliseconds. Must
    /// be called before the message is durable, and at startup for the lowest `received_at` that
    /// recovery replayed.
    pub fn observe(&self, received_at: Timestamp) -> u64 {
        let life_ms = self.life_ms();
        let mut samples = self.samples();
        match samples.back_mut() {
            Some(last) if life_ms.saturating_sub(last.since_ms) < self.interval_ms() => {
                last.until_ms = life_ms;
                last.lowest = last.lowest.min(received_at);
            }
            _ => {
                samples.retain(|sample| self.is_within(sample, life_ms));
                samples.push_back(StoragePeriod {
                    since_ms: life_ms,
                    until_ms: life_ms,
                    lowest: received_at,
                });
            }
        }
        life_ms
    }

    /// Returns a lower bound of `received_at` for all messages of the window. The bound is at most
    /// the wall clock minus the window, so that a longer window in the settings takes effect at
    /// once.
    pub fn floor(&self) -> Timestamp {
        let life_ms = self.life_ms();
        let by_day = before(self.clock.now(), self.window_ms);
        let samples = self.samples();
        let lowest =
            samples.iter().filter(|sample| self.is_within(sample, life_ms)).map(|sample| sample.lowest);
        lowest.min().map_or(by_day, |lowest| lowest.min(by_day))
    }

    /// Returns the row that a checkpoint persists.
    pub fn row(&self) -> DedupeRow {
        let life_ms = self.life_ms();
        let samples = self.samples();
        let samples = samples.iter().filter(|sample| self.is_within(sample, life_ms)).copied().collect();
        DedupeRow { life_ms, samples }
    }

    fn is_within(&self, sample: &StoragePeriod, life_ms: u64) -> bool {
        sample.until_ms.saturating_add(self.window_ms) > life_ms
    }

    fn samples(&self) -> MutexGuard<'_, VecDeque<StoragePeriod>> {
        self.samples.lock()
    }
}

fn before(now: Timestamp, window_ms: u64) -> Timestamp {
    now.plus_millis(-i64::try_from(window_ms).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use bluetick_core::time::ManualClock;

    use super::*;

    const DAY: i64 = 24 * 3_600_000;
    const WINDOW: u64 = 7 * DAY as u64;

    fn at(day: i64) -> Timestamp {
        Timestamp::from_millis(1_750_000_000_000 + day * DAY)
    }

    #[test]
    fn floor_follows_time_that_passed_and_not_the_time_of_day() {
        let clock = Arc::new(ManualClock::at(at(0)));
        let dedupe = DedupeClock::resume(Arc::clone(&clock) as _, WINDOW, None);
        // Advance beyond what an earlier version may have stored.
        clock.advance_millis(8 * DAY);
        dedupe.observe(at(8));
        for jump in [16, 24, 400, -30] {
            clock.set(at(jump));
            assert!(dedupe.floor() <= at(8), "{jump}");
        }
        clock.set(at(24));
        dedupe.observe(at(24));
        clock.advance_millis(6 * DAY);
        assert_eq!(dedupe.floor(), at(8));
        clock.advance_millis(DAY);
        assert_eq!(dedupe.floor(), at(24), "a week has passed since");
    }

    #[test]
    fn time_while_the_store_is_closed_does_not_count_towards_the_window() {
        let clock = Arc::new(ManualClock::at(at(0)));
        let dedupe = DedupeClock::resume(Arc::clone(&clock) as _, WINDOW, None);
        clock.advance_millis(8 * DAY);
        dedupe.observe(at(8));
        let row = DedupeRow::read(&dedupe.row().encode()).unwrap();
        assert_eq!(row, dedupe.row());
        clock.advance_millis(100 * DAY);
        let dedupe = DedupeClock::resume(Arc::clone(&clock) as _, WINDOW, Some(row));
        assert_eq!(dedupe.floor(), at(8));
        clock.advance_millis(7 * DAY);
        assert_eq!(dedupe.floor(), at(8 + 100 + 7 - 7));
    }

    #[test]
    fn sample_count_is_bounded_for_any_number_of_messages() {
        let clock = Arc::new(ManualClock::at(at(0)));
        for window in [0, 1, 50, WINDOW] {
            let dedupe = DedupeClock::resume(Arc::clone(&clock) as _, window, None);
            for _ in 0..20_000 {
                clock.advance_millis(window as i64 / 1_000 + 1);
                dedupe.observe(clock.now());
            }
            assert!(dedupe.row().samples.len() as u64 <= SAMPLES_IN_WINDOW + 19, "{window}");
        }
    }

    #[test]
    fn damaged_clock_row_keeps_every_id_for_a_whole_window() {
        let clock = Arc::new(ManualClock::at(at(0)));
        let dedupe = DedupeClock::resume_without_row(Arc::clone(&clock) as _, WINDOW);
        assert_eq!(dedupe.floor(), Timestamp::from_millis(i64::MIN));
        clock.advance_millis(7 * DAY);
        assert_eq!(dedupe.floor(), at(0));
    }
}
