//! Checks whether a value that is sampled once a second stays flat.
//!
//! The trend is the median of the slopes between all pairs of samples (Theil–Sen). A sawtooth, a
//! burst or a spike does not move it; a leak per message or connection does. The check compares the
//! growth along the trend after warm-up with an allowance. The allowance is a fixed amount for
//! caches and the allocator plus a share of the median per hour. A rate alone does not work: noise
//! of a quarter megabyte in a minute is a rate of many megabytes an hour.

use std::fmt;

/// (second, value).
pub type TimedValue = (f64, f64);

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Allowance {
    /// Growth that is not a leak, whatever the length of the run.
    pub absolute: f64,
    /// Additional growth per hour, as a share of the median.
    pub share_an_hour: f64,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Flatness {
    pub median: f64,
    /// Growth along the trend, from the end of the warm-up to the last sample.
    pub growth: f64,
    pub allowed: f64,
    pub seconds: f64,
}

/// Share of the run that the check ignores, because caches fill and the first checkpoint and
/// segments are written. If it is too small, the warm-up counts as growth.
const WARM_UP_SHARE: f64 = 1.0 / 3.0;
/// Upper bound on the number of values whose pairs are compared, because their number is quadratic.
/// Longer runs use the median of each chunk of samples.
const MOST_STRETCHES: usize = 600;
/// One hour, in seconds.
const SECONDS_AN_HOUR: f64 = 3_600.0;

impl Flatness {
    /// Judges the samples. Returns `None` if fewer than three remain after the warm-up.
    pub fn of(samples: &[TimedValue], allowance: Allowance) -> Option<Flatness> {
        let (begin, end) = (samples.first()?.0, samples.last()?.0);
        let warm = begin + (end - begin) * WARM_UP_SHARE;
        let judged: Vec<TimedValue> = samples.iter().copied().filter(|(second, _)| *second >= warm).collect();
        if judged.len() < 3 {
            return None;
        }
        let stretch = judged.len().div_ceil(MOST_STRETCHES);
        let stretches: Vec<TimedValue> = judged.chunks(stretch).map(middle).collect();
        let mut slopes = Vec::with_capacity(stretches.len() * stretches.len() / 2);
        for (at, (second, value)) in stretches.iter().enumerate() {
            let later = stretches[at + 1..].iter().filter(|(then, _)| then > second);
            slopes.extend(later.map(|(then, value_then)| (value_then - value) / (then - second)));
        }
        let seconds = judged.last()?.0 - judged.first()?.0;
        let median = median(judged.iter().map(|(_, value)| *value).collect());
        let growth = self::median(slopes) * seconds;
        let hours = seconds / SECONDS_AN_HOUR;
        let allowed = allowance.absolute + allowance.share_an_hour * median * hours;
        Some(Flatness { median, growth, allowed, seconds })
    }

    pub fn is_flat(&self) -> bool {
        self.growth <= self.allowed
    }
}

impl fmt::Display for Flatness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Flatness { median, growth, allowed, seconds } = self;
        write!(f, "median {median:.1}, trend {growth:+.1} in {seconds:.0} s, allowed +{allowed:.1}")
    }
}

fn middle(stretch: &[TimedValue]) -> TimedValue {
    (
        median(stretch.iter().map(|(second, _)| *second).collect()),
        median(stretch.iter().map(|(_, value)| *value).collect()),
    )
}

fn median(mut values: Vec<f64>) -> f64 {
    if values.is_empty() {
        return 0.0;
    }
    let at = values.len() / 2;
    *values.select_nth_unstable_by(at, f64::total_cmp).1
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The allowance of every case.
    const ALLOWANCE: Allowance = Allowance { absolute: 4.0, share_an_hour: 0.1 };

    fn judged(seconds: u32, value: impl Fn(f64) -> f64) -> Flatness {
        let samples: Vec<TimedValue> =
            (0..seconds).map(|second| (f64::from(second), value(f64::from(second)))).collect();
        Flatness::of(&samples, ALLOWANCE).unwrap()
    }

    #[test]
    fn sawtooth_with_warm_up_and_spikes_counts_as_flat() {
        let saw = |second: f64| {
            let warming = 30.0 * (-second / 5.0).exp();
            let spike = if second % 17.0 == 0.0 { 40.0 } else { 0.0 };
            100.0 - warming + second % 7.0 + spike
        };
        for seconds in [60, 600, 3_600] {
            let flatness = judged(seconds, saw);
            assert!(flatness.is_flat(), "{seconds} s: {flatness}");
        }
    }

    #[test]
    fn slow_leak_below_the_noise_is_found_over_time() {
        let leak = |second: f64| 100.0 + second % 7.0 + 0.01 * second;
        assert!(judged(60, leak).is_flat(), "one minute is too short to see the leak");
        let flatness = judged(3_600, leak);
        assert!(!flatness.is_flat() && (flatness.growth - 24.0).abs() < 1.0, "{flatness}");
    }

    #[test]
    fn large_leak_is_found_within_a_minute_and_shrinking_is_none() {
        assert!(!judged(60, |second| 100.0 + second).is_flat());
        assert!(judged(60, |second| 100.0 - second).is_flat());
    }

    #[test]
    fn too_few_samples_give_no_verdict() {
        assert_eq!(Flatness::of(&[(0.0, 1.0), (1.0, 1.0)], ALLOWANCE), None);
    }
}
