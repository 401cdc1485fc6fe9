//! How many partitions a conversation needs, by the rate at which its owner stores rows.

use std::time::Duration;

use bluetick_core::Seq;
use tokio::time::Instant;

/// One partition takes 1,000 writes a second. Spreading begins below that, because the rate is
/// known only afterwards.
pub const WRITES_PER_PARTITION: u64 = 800;

/// The time over which a rate is measured. A shorter one takes a burst for a rate.
const MEASURED: Duration = Duration::from_secs(1);

/// How long the rate must have been lower before a conversation is spread over fewer partitions.
/// Each change is an epoch that readers keep for good.
const COOLING: Duration = Duration::from_secs(600);

/// The rate of one conversation at its owner, which stores all of its rows.
#[derive(Debug)]
pub struct SpreadMeter {
    writes_per_partition: u64,
    began: (Instant, Seq),
    /// The end of the last interval in which the current number of partitions was needed.
    last_needed: Instant,
}

impl SpreadMeter {
    pub fn new(writes_per_partition: u64, head: Seq, now: Instant) -> SpreadMeter {
        SpreadMeter { writes_per_partition, began: (now, head), last_needed: now }
    }

    /// Records the head, and returns the number of partitions if it should change.
    pub fn observe(&mut self, head: Seq, current: u16, most: u16, now: Instant) -> Option<u16> {
        let (began, first) = self.began;
        let elapsed = now.saturating_duration_since(began);
        if elapsed < MEASURED {
            return None;
        }
        self.began = (now, head);
        let millis = u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX);
        let rate = head.distance_from(first).saturating_mul(1_000) / millis;
        let needed = rate.div_ceil(self.writes_per_partition.max(1)).clamp(1, u64::from(most.max(1)));
        let needed = u16::try_from(needed).unwrap_or(most);
        if needed >= current {
            self.last_needed = now;
            return (needed > current).then_some(needed);
        }
        if now.saturating_duration_since(self.last_needed) < COOLING {
            return None;
        }
        self.last_needed = now;
        Some(needed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn partitions_follow_a_rising_rate_at_once_and_a_falling_one_after_a_while() {
        let start = Instant::now();
        let mut meter = SpreadMeter::new(800, Seq::ZERO, start);
        let mut observe = |second: u64, head: u64, current| {
            meter.observe(Seq::new(head), current, 64, start + Duration::from_secs(second))
        };
        assert_eq!(observe(1, 700, 1), None);
        assert_eq!(observe(2, 3_000, 1), Some(3));
        assert_eq!(observe(3, 5_200, 3), None, "still as busy");
        assert_eq!(observe(4, 5_300, 3), None, "calm for a second");
        assert_eq!(observe(700, 5_400, 3), Some(1));
    }

    #[tokio::test(start_paused = true)]
    async fn partitions_are_bounded() {
        let start = Instant::now();
        let mut meter = SpreadMeter::new(800, Seq::ZERO, start);
        let later = start + Duration::from_secs(1);
        assert_eq!(meter.observe(Seq::new(1_000_000), 1, 64, later), Some(64));
    }
}
