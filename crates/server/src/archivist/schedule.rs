//! When the archive runs by itself. Arithmetic alone: moments go in and a moment comes out.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use bluetick_core::Timestamp;
use thiserror::Error;

/// How often the archive runs by itself, and at which hours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ArchiveSchedule {
    /// Zero: only when somebody asks.
    pub every: Duration,
    /// `None`: at any hour.
    pub between: Option<Hours>,
}

impl ArchiveSchedule {
    /// The next turn after one at `last`. `share`, from 0 to 1, moves it by up to a tenth either way, so that servers
    /// started together do not stay together. `None`: there is none.
    pub(super) fn next_turn(&self, last: Timestamp, share: f64) -> Option<Timestamp> {
        if self.every.is_zero() {
            return None;
        }
        let wait = self.every.mul_f64(0.9 + 0.2 * share.clamp(0.0, 1.0));
        let due = last.plus_millis(i64::try_from(wait.as_millis()).unwrap_or(i64::MAX));
        Some(self.between.map_or(due, |hours| hours.opening(due)))
    }

    /// Whether this is an hour for it.
    pub(super) fn is_open(&self, now: Timestamp) -> bool {
        self.between.is_none_or(|hours| hours.opening(now) == now)
    }
}

const DAY_MILLIS: i64 = 24 * 60 * 60 * 1000;
const MINUTE_MILLIS: i64 = 60 * 1000;

/// A part of each day in UTC, such as `02:00-05:00`; over midnight too, such as `22:00-04:00`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hours {
    from_minute: u16,
    to_minute: u16,
}

#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[error("hours are written as HH:MM-HH:MM in UTC, such as 02:00-05:00, and are not empty")]
pub struct InvalidHours;

impl Hours {
    /// `at` itself where it lies within, else when the hours begin next.
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
        // 24:00 is the end of a day and begins none.
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

    /// A moment of 1 January 2026, or of the days after.
    fn at(hour: i64, minute: i64) -> Timestamp {
        Timestamp::from_millis(1_767_225_600_000 + (hour * 60 + minute) * MINUTE_MILLIS)
    }

    fn hourly(between: &str) -> ArchiveSchedule {
        ArchiveSchedule { every: Duration::from_secs(3600), between: between.parse().ok() }
    }

    #[test]
    fn a_turn_comes_after_the_time_that_is_set_more_or_less() {
        let schedule = hourly("");
        assert_eq!(schedule.next_turn(at(7, 0), 0.5), Some(at(8, 0)));
        assert_eq!(schedule.next_turn(at(7, 0), 0.0), Some(at(7, 54)));
        assert_eq!(schedule.next_turn(at(7, 0), 1.0), Some(at(8, 6)));
        assert!(schedule.is_open(at(3, 14)));
    }

    #[test]
    fn where_no_time_is_set_no_turn_comes() {
        assert_eq!(ArchiveSchedule::default().next_turn(at(7, 0), 0.5), None);
    }

    #[test]
    fn a_turn_outside_the_hours_waits_until_they_begin() {
        let schedule = hourly("02:00-05:00");
        assert_eq!(schedule.next_turn(at(2, 30), 0.5), Some(at(3, 30)));
        assert_eq!(schedule.next_turn(at(0, 30), 0.5), Some(at(2, 0)), "before");
        assert_eq!(schedule.next_turn(at(4, 0), 0.5), Some(at(24 + 2, 0)), "the end is outside");
        assert_eq!(schedule.next_turn(at(13, 0), 0.5), Some(at(24 + 2, 0)), "after");
        assert!(schedule.is_open(at(2, 0)) && !schedule.is_open(at(5, 0)) && !schedule.is_open(at(1, 59)));
    }

    #[test]
    fn hours_may_go_over_midnight() {
        let schedule = hourly("22:00-04:00");
        assert_eq!(schedule.next_turn(at(22, 30), 0.5), Some(at(23, 30)));
        assert_eq!(schedule.next_turn(at(23, 30), 0.5), Some(at(24, 30)));
        assert_eq!(schedule.next_turn(at(24 + 3, 30), 0.5), Some(at(24 + 22, 0)));
        assert_eq!(schedule.next_turn(at(12, 0), 0.5), Some(at(22, 0)));
        let until_midnight = hourly("22:00-24:00");
        assert!(until_midnight.is_open(at(23, 59)) && !until_midnight.is_open(at(24, 0)));
        assert_eq!(until_midnight.next_turn(at(23, 30), 0.5), Some(at(24 + 22, 0)));
    }

    #[test]
    fn hours_come_back_as_they_were_written_and_nonsense_is_refused() {
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
