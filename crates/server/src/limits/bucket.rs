//! A token bucket stored as one atomic integer: the time at which the bucket is full again.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use bluetick_core::Timestamp;

/// Refill rate and capacity of a bucket.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RefillRate {
    /// Microseconds per token; 0 if the limit is disabled.
    interval_us: i64,
    /// Microseconds to refill an empty bucket.
    capacity_us: i64,
}

impl RefillRate {
    /// Allows `count` per `period` on average and `burst` at once. A count of 0 disables the limit.
    pub fn new(count: u32, period: Duration, burst: u32) -> RefillRate {
        if count == 0 {
            return RefillRate { interval_us: 0, capacity_us: 0 };
        }
        let period_us = i64::try_from(period.as_micros()).unwrap_or(i64::MAX);
        let interval_us = (period_us / i64::from(count)).max(1);
        RefillRate { interval_us, capacity_us: interval_us.saturating_mul(i64::from(burst.max(1))) }
    }

    /// Returns whether `tokens` is more than a full bucket holds.
    pub fn exceeds(self, tokens: usize) -> bool {
        let tokens = i64::try_from(tokens).unwrap_or(i64::MAX);
        self.interval_us > 0 && self.interval_us.saturating_mul(tokens) > self.capacity_us
    }

    /// Returns the cost of the tokens in microseconds, at most the capacity of the bucket.
    fn cost_us(self, tokens: usize) -> i64 {
        let tokens = i64::try_from(tokens).unwrap_or(i64::MAX);
        self.interval_us.saturating_mul(tokens).min(self.capacity_us)
    }
}

/// A token bucket. The default is full. Safe for concurrent use without a lock.
#[derive(Debug, Default)]
pub(crate) struct Bucket {
    full_at_us: AtomicI64,
}

impl Bucket {
    /// Takes one token, or returns the time until one is available.
    pub fn take(&self, rate: RefillRate, now: Timestamp) -> Result<(), Duration> {
        self.take_many(1, rate, now)
    }

    /// Takes all tokens or none. Returns the time until enough are available. Caps the cost at the
    /// capacity, so a request above it succeeds when the bucket is full.
    pub fn take_many(&self, tokens: usize, rate: RefillRate, now: Timestamp) -> Result<(), Duration> {
        if rate.interval_us == 0 || tokens == 0 {
            return Ok(());
        }
        let cost_us = rate.cost_us(tokens);
        let now_us = now.millis().saturating_mul(1_000);
        let mut full_at_us = self.full_at_us.load(Ordering::Relaxed);
        loop {
            let after_us = debt_us(full_at_us, now_us, rate) + cost_us;
            if after_us > rate.capacity_us {
                let wait_us = u64::try_from(after_us - rate.capacity_us).unwrap_or(0);
                return Err(Duration::from_micros(wait_us));
            }
            let next = now_us.saturating_add(after_us);
            match self.full_at_us.compare_exchange_weak(
                full_at_us,
                next,
                Ordering::Relaxed,
                Ordering::Relaxed,
            ) {
                Ok(_) => return Ok(()),
                Err(current) => full_at_us = current,
            }
        }
    }

    /// Returns whether [`Bucket::take`] would succeed.
    pub fn has_token(&self, rate: RefillRate, now: Timestamp) -> bool {
        let now_us = now.millis().saturating_mul(1_000);
        let debt_us = debt_us(self.full_at_us.load(Ordering::Relaxed), now_us, rate);
        rate.interval_us == 0 || debt_us.saturating_add(rate.cost_us(1)) <= rate.capacity_us
    }

    /// Returns tokens that [`Bucket::take_many`] took for an operation that did not happen.
    pub fn give_back(&self, tokens: usize, rate: RefillRate) {
        self.full_at_us.fetch_sub(rate.cost_us(tokens), Ordering::Relaxed);
    }

    /// Returns whether the bucket is full, so that dropping it changes nothing.
    pub fn is_full(&self, rate: RefillRate, now: Timestamp) -> bool {
        debt_us(self.full_at_us.load(Ordering::Relaxed), now.millis().saturating_mul(1_000), rate) == 0
    }
}

/// Returns the missing tokens in microseconds of refill time. A value above the capacity means that
/// the clock was set back. The real debt is then unknown and counts as zero; otherwise every bucket
/// would refuse until the clock catches up.
fn debt_us(full_at_us: i64, now_us: i64, rate: RefillRate) -> i64 {
    let owed = full_at_us.saturating_sub(now_us).max(0);
    if owed > rate.capacity_us { 0 } else { owed }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: i64) -> Timestamp {
        Timestamp::from_millis(1_000_000 + millis)
    }

    fn taken(bucket: &Bucket, rate: RefillRate, now: Timestamp) -> usize {
        (0..1_000).take_while(|_| bucket.take(rate, now).is_ok()).count()
    }

    #[test]
    fn bucket_allows_a_burst_after_a_pause_and_then_only_the_rate() {
        let (bucket, rate) = (Bucket::default(), RefillRate::new(10, Duration::from_secs(1), 5));
        assert_eq!(taken(&bucket, rate, at(0)), 5);
        assert_eq!(taken(&bucket, rate, at(100)), 1);
        assert_eq!(taken(&bucket, rate, at(350)), 2);
        assert_eq!(taken(&bucket, rate, at(10_000)), 5);
    }

    #[test]
    fn refusal_returns_the_time_until_the_next_token() {
        let (bucket, rate) = (Bucket::default(), RefillRate::new(10, Duration::from_secs(1), 1));
        assert_eq!(bucket.take(rate, at(0)), Ok(()));
        assert_eq!(bucket.take(rate, at(30)), Err(Duration::from_millis(70)));
        assert_eq!(bucket.take(rate, at(100)), Ok(()));
    }

    #[test]
    fn take_many_takes_all_or_none_and_succeeds_on_a_full_bucket() {
        let (bucket, rate) = (Bucket::default(), RefillRate::new(10, Duration::from_secs(1), 5));
        assert_eq!(bucket.take_many(3, rate, at(0)), Ok(()));
        assert_eq!(bucket.take_many(3, rate, at(0)), Err(Duration::from_millis(100)));
        assert_eq!(taken(&bucket, rate, at(0)), 2);
        assert_eq!(bucket.take_many(1_000, rate, at(10_000)), Ok(()));
        assert_eq!(taken(&bucket, rate, at(10_000)), 0);
    }

    #[test]
    fn has_token_is_true_exactly_when_take_succeeds() {
        let (bucket, rate) = (Bucket::default(), RefillRate::new(10, Duration::from_secs(1), 5));
        for now in [0, 0, 0, 0, 0, 0, 99, 100, 100, 250].map(at) {
            let has_token = bucket.has_token(rate, now);
            assert_eq!(bucket.take(rate, now).is_ok(), has_token, "{now:?}");
        }
        assert!(!bucket.has_token(rate, at(250)));
        assert!(bucket.has_token(RefillRate::new(0, Duration::from_secs(1), 1), at(250)));
    }

    #[test]
    fn returned_tokens_can_be_taken_again() {
        let (bucket, rate) = (Bucket::default(), RefillRate::new(10, Duration::from_secs(1), 5));
        assert_eq!(bucket.take_many(5, rate, at(0)), Ok(()));
        bucket.give_back(2, rate);
        assert_eq!(taken(&bucket, rate, at(0)), 2);
    }

    #[test]
    fn rate_of_zero_disables_the_bucket() {
        let (bucket, rate) = (Bucket::default(), RefillRate::new(0, Duration::from_secs(1), 1));
        assert_eq!(taken(&bucket, rate, at(0)), 1_000);
    }

    #[test]
    fn clock_set_back_by_a_year_leaves_buckets_full() {
        let rate = RefillRate::new(10, Duration::from_secs(1), 5);
        let year_ago = at(-365 * 24 * 3_600_000);
        for spent in 1..=5 {
            let bucket = Bucket::default();
            (0..spent).for_each(|_| bucket.take(rate, at(0)).unwrap());
            assert!(bucket.is_full(rate, year_ago));
            assert_eq!(taken(&bucket, rate, year_ago), 5);
            assert!(!bucket.is_full(rate, year_ago));
            assert_eq!(taken(&bucket, rate, year_ago.plus_millis(100)), 1);
        }
    }

    #[test]
    fn clock_set_back_briefly_delays_refill_by_that_time_at_most() {
        let (bucket, rate) = (Bucket::default(), RefillRate::new(10, Duration::from_secs(1), 5));
        bucket.take(rate, at(0)).unwrap();
        assert_eq!(taken(&bucket, rate, at(-200)), 2);
    }
}
