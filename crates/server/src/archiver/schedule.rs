//! Computes when scheduled archive runs are due. Pure functions on timestamps; `scheduler` does the
//! waiting.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use bluetick_core::Timestamp;
use thiserror::Error;

/// Interval and daily time window of scheduled archive runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ArchiveSchedule {
    /// Interval between runs. Zero disables scheduled runs.
    pub every: Duration,
    /// Daily time window in which runs may start. `None` allows any time.
    pub between: Option<Hours>,
}

impl ArchiveSchedule {
    /// Returns when the run after the one at `last` is due; `None` if scheduled runs are disabled.
    /// `share`, from 0 to 1, shifts the interval by up to 10 % either way, so that servers started
    /// together do not run together.
    pub(super) fn next_run(&self, last: Timestamp, share: f64) -> Option<Timestamp> {
        if self.every.is_zero() {
            return None;
        }
        let wait = self.every.mul_f64(0.9 + 0.2 * share.clamp(0.0, 1.0));
        let due = last.plus_millis(i64::try_from(wait.as_millis()).unwrap_or(i64::MAX));
        Some(self.between.map_or(due, |hours| hours.opening(due)))
    }

    /// Returns whether `now` is in the time window.
    pub(super) fn is_open(&self, now: Timestamp) -> bool {
        self.between.is_none_or(|hours| hours.opening(now) == now)
    }
}

/// One day in milliseconds.
const DAY_MILLIS: i64 = 24 * 60 * 60 * 1000;
/// One minute in milliseconds.
const MINUTE_MILLIS: i64 = 60 * 1000;

/// A daily time window in UTC, such as `02:00-05:00`. It may span midnight, such as `22:00-04:00`.
/// The end is exclusive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hours {
    from_minute: u16,
    to_minute: u16,
}

/// The text is not a time window.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[error("hours must be a non-empty range HH:MM-HH:MM in UTC, such as 02:00-05:00")]
pub struct InvalidHours;

impl Hours {
    /// Returns `at` if it is in the window, else the next start of the window.
    fn opening(self, at: Timestamp) -> Timestamp {
        let (from, to) =
            (i64::from(self.from_minute) * MINUTE_MILLIS, i64::from(self.to_minute) * MINUTE_MILLIS);
        let of_day = at.millis().rem_euclid(DAY_MILLIS);
        let is_within = if from < to { (from..to).contains(&of_day) } else { of_day >= from || of_day < to };
        if is_within { at } else { at.plus_millis((from - of_day).rem_euclid(DAY_MILLIS)) }
    }
}

impl FromStr for Hours {
    type Err = InvalidHours;

    fn from_str(text: &str) -> Result<Hours, InvalidHours> {
        let minute = |text: &str| {
            let (hour, minute) = text.split_once(':')?;
            let number = |text: &str| {
                let is_two_digits = text.len() == 2 && text.bytes().all(|byte| byte.is_ascii_digit());
                is_two_digits.then(|| text.parse::<u16>().ok())?
            };
            let (hour, minute) = (number(hour)?, number(minute)?);
            (hour < 24 && minute < 60 || (hour, minute) == (24, 0)).then_some(hour * 60 + minute)
        };
        let (from, to) = text.split_once('-').ok_or(InvalidHours)?;
        let (from_minute, to_minute) = minute(from.trim()).zip(minute(to.trim())).ok_or(InvalidHours)?;
        // 24:00 is valid only as an end.
        if from_minute == to_minute || from_minute == 24 * 60 {
            return Err(InvalidHours);
        }
        Ok(Hours { from_minute, to_minute })
    }
}

impl fmt::Display for Hours {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Hours { from_minute, to_minute } = self;
        write!(
            f,
            "{:02}:{:02}-{:02}:{:02}",
            from_minute / 60,
            from_minute % 60,
            to_minute / 60,
            to_minute % 60
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A time on 1 January 2026; 24 hours and more mean the days after.
    fn at(hour: i64, minute: i64) -> Timestamp {
        Timestamp::from_millis(1_767_225_600_000 + (hour * 60 + minute) * MINUTE_MILLIS)
    }

    fn hourly(between: &str) -> ArchiveSchedule {
        ArchiveSchedule { every: Duration::from_secs(3600), between: between.parse().ok() }
    }

    #[test]
    fn next_run_is_the_interval_plus_or_minus_ten_percent() {
        let schedule = hourly("");
        assert_eq!(schedule.next_run(at(7, 0), 0.5), Some(at(8, 0)));
        assert_eq!(schedule.next_run(at(7, 0), 0.0), Some(at(7, 54)));
        assert_eq!(schedule.next_run(at(7, 0), 1.0), Some(at(8, 6)));
        assert!(schedule.is_open(at(3, 14)));
    }

    #[test]
    fn schedule_without_interval_has_no_next_run() {
        assert_eq!(ArchiveSchedule::default().next_run(at(7, 0), 0.5), None);
    }

    #[test]
    fn run_outside_the_window_waits_for_its_start() {
        let schedule = hourly("02:00-05:00");
        assert_eq!(schedule.next_run(at(2, 30), 0.5), Some(at(3, 30)));
        assert_eq!(schedule.next_run(at(0, 30), 0.5), Some(at(2, 0)), "before");
        assert_eq!(schedule.next_run(at(4, 0), 0.5), Some(at(24 + 2, 0)), "the end is outside");
        assert_eq!(schedule.next_run(at(13, 0), 0.5), Some(at(24 + 2, 0)), "after");
        assert!(schedule.is_open(at(2, 0)) && !schedule.is_open(at(5, 0)) && !schedule.is_open(at(1, 59)));
    }

    #[test]
    fn window_may_span_midnight() {
        let schedule = hourly("22:00-04:00");
        assert_eq!(schedule.next_run(at(22, 30), 0.5), Some(at(23, 30)));
        assert_eq!(schedule.next_run(at(23, 30), 0.5), Some(at(24, 30)));
        assert_eq!(schedule.next_run(at(24 + 3, 30), 0.5), Some(at(24 + 22, 0)));
        assert_eq!(schedule.next_run(at(12, 0), 0.5), Some(at(22, 0)));
        let until_midnight = hourly("22:00-24:00");
        assert!(until_midnight.is_open(at(23, 59)) && !until_midnight.is_open(at(24, 0)));
        assert_eq!(until_midnight.next_run(at(23, 30), 0.5), Some(at(24 + 22, 0)));
    }

    #[test]
    fn window_round_trips_and_invalid_text_is_refused() {
        for text in ["02:00-05:00", "22:30-04:15", "00:00-24:00"] {
            assert_eq!(text.parse::<Hours>().unwrap().to_string(), text);
        }
        for bad in [
            "",
            "2-5",
            "02:00",
            "02:00-02:00",
            "25:00-03:00",
            "02:60-03:00",
            "24:01-03:00",
            "24:00-00:00",
            "+2:00-03:00",
        ] {
            assert_eq!(bad.parse::<Hours>(), Err(InvalidHours), "{bad}");
        }
    }
}
