//! A part of every day, as an operator writes it: `"02:00-05:00"`, in UTC.

use std::fmt;
use std::str::FromStr;

use bluetick_core::Timestamp;
use thiserror::Error;

const MINUTES_A_DAY: u16 = 24 * 60;

/// From one minute of the day up to another, over midnight where the second is earlier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Between {
    from_minute: u16,
    to_minute: u16,
}

impl Between {
    pub fn contains(&self, at: Timestamp) -> bool {
        let minute = at.millis().div_euclid(60_000).rem_euclid(MINUTES_A_DAY.into());
        let (from, to) = (i64::from(self.from_minute), i64::from(self.to_minute));
        if from < to { (from..to).contains(&minute) } else { minute >= from || minute < to }
    }
}

#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[error("not two different times of a day such as \"02:00-05:00\"")]
pub struct InvalidBetween;

impl FromStr for Between {
    type Err = InvalidBetween;

    fn from_str(text: &str) -> Result<Between, InvalidBetween> {
        let (from, to) = text.split_once('-').ok_or(InvalidBetween)?;
        let from_minute = minute(from).filter(|minute| *minute < MINUTES_A_DAY).ok_or(InvalidBetween)?;
        let to_minute = minute(to).ok_or(InvalidBetween)?;
        if from_minute == to_minute { Err(InvalidBetween) } else { Ok(Between { from_minute, to_minute }) }
    }
}

/// Two digits, a colon, two digits; up to 24:00.
fn minute(text: &str) -> Option<u16> {
    let &[h1, h2, b':', m1, m2] = text.trim().as_bytes() else { return None };
    let two = |tens: u8, ones: u8| {
        let both_digits = tens.is_ascii_digit() && ones.is_ascii_digit();
        both_digits.then(|| u16::from(tens - b'0') * 10 + u16::from(ones - b'0'))
    };
    let (hours, minutes) = (two(h1, h2)?, two(m1, m2)?);
    let minute = hours * 60 + minutes;
    (minutes < 60 && minute <= MINUTES_A_DAY).then_some(minute)
}

impl fmt::Display for Between {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Between { from_minute: from, to_minute: to } = self;
        write!(f, "{:02}:{:02}-{:02}:{:02}", from / 60, from % 60, to / 60, to % 60)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(hours: i64, minutes: i64) -> Timestamp {
        Timestamp::from_millis(((20_000 * 24 + hours) * 60 + minutes) * 60_000 + 59_999)
    }

    #[test]
    fn the_first_minute_is_inside_and_the_last_is_not() {
        let between: Between = "02:00-05:30".parse().unwrap();
        let inside = [at(1, 59), at(2, 0), at(5, 29), at(5, 30)].map(|at| between.contains(at));
        assert_eq!(inside, [false, true, true, false]);
    }

    #[test]
    fn it_may_go_over_midnight() {
        let between: Between = "23:00-01:00".parse().unwrap();
        let inside = [at(22, 59), at(23, 0), at(0, 0), at(0, 59), at(1, 0)].map(|at| between.contains(at));
        assert_eq!(inside, [false, true, true, true, false]);
        let between: Between = "22:00-24:00".parse().unwrap();
        assert_eq!([at(21, 59), at(23, 59), at(0, 0)].map(|at| between.contains(at)), [false, true, false]);
    }

    #[test]
    fn a_clock_before_1970_is_no_trouble() {
        let between: Between = "23:00-24:00".parse().unwrap();
        assert!(between.contains(Timestamp::from_millis(-1)));
    }

    #[test]
    fn what_is_not_two_times_is_refused() {
        for wrong in [
            "",
            "02:00",
            "2:00-5:00",
            "02:00-02:00",
            "24:00-01:00",
            "02:60-03:00",
            "02:00-24:01",
            "ab:cd-01:00",
        ] {
            assert_eq!(wrong.parse::<Between>(), Err(InvalidBetween), "{wrong}");
        }
        for good in ["02:00-05:00", "00:00-24:00", "23:59-00:00"] {
            assert_eq!(good.parse::<Between>().unwrap().to_string(), good);
        }
    }
}
