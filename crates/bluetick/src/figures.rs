//! Formats figures for people: points in time, sizes, counts, durations.

use std::time::Duration;

use bluetick_core::Timestamp;

/// Formats date and time in UTC. Computes with Gregorian cycles of 400 years.
pub fn utc(at: Timestamp) -> String {
    let seconds = at.millis().div_euclid(1000);
    let (days, second) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    // Count from 1 March of year 0, so that the leap day comes last.
    let days = days + 719_468;
    let (era, day_of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    let year = era * 400 + year_of_era + i64::from(month <= 2);
    format!(
        "{year:04}-{month:02}-{day:02} {:02}:{:02}:{:02} UTC",
        second / 3600,
        second / 60 % 60,
        second % 60
    )
}

/// Formats a size in the largest decimal unit in which it is at least 1.
pub fn size(bytes: u64) -> String {
    /// Decimal units in ascending order, each 1,000 times the previous one.
    const UNITS: [&str; 5] = ["kB", "MB", "GB", "TB", "PB"];
    if bytes < 1000 {
        return format!("{bytes} bytes");
    }
    let mut amount = bytes as f64 / 1000.0;
    let mut unit = 0;
    // Switch to the next unit for values that would be rounded to 1000.0.
    while amount >= 999.95 && unit + 1 < UNITS.len() {
        amount /= 1000.0;
        unit += 1;
    }
    format!("{amount:.1} {}", UNITS[unit])
}

/// Formats a number with a comma between groups of three digits.
pub fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() * 4 / 3 + 1);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// "1 message", "2 messages".
pub fn counted(number: u64, one: &str) -> String {
    if number == 1 { format!("1 {one}") } else { format!("{} {one}s", count(number)) }
}

pub fn time(time: Duration) -> String {
    let seconds = time.as_secs();
    match seconds {
        0..10 => format!("{:.1} s", time.as_secs_f64()),
        10..60 => format!("{seconds} s"),
        60..3600 => format!("{} min {} s", seconds / 60, seconds % 60),
        _ => format!("{} h {} min", seconds / 3600, seconds / 60 % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timestamps_are_shown_in_utc() {
        for (millis, shown) in [
            (0, "1970-01-01 00:00:00 UTC"),
            (951_782_399_999, "2000-02-28 23:59:59 UTC"),
            (951_782_400_000, "2000-02-29 00:00:00 UTC"),
            (1_767_225_600_000, "2026-01-01 00:00:00 UTC"),
            (-1, "1969-12-31 23:59:59 UTC"),
        ] {
            assert_eq!(utc(Timestamp::from_millis(millis)), shown);
        }
    }

    #[test]
    fn sizes_have_one_decimal_and_at_most_three_integer_digits() {
        for (bytes, shown) in [
            (0, "0 bytes"),
            (999, "999 bytes"),
            (1_000, "1.0 kB"),
            (999_949, "999.9 kB"),
            (999_950, "1.0 MB"),
            (1_234_567, "1.2 MB"),
            (50_331_648, "50.3 MB"),
            (u64::MAX, "18446.7 PB"),
        ] {
            assert_eq!(size(bytes), shown);
        }
    }

    #[test]
    fn counts_have_thousands_separators_and_one_is_singular() {
        for (number, shown) in [(0, "0 segments"), (1, "1 segment"), (1_000, "1,000 segments")] {
            assert_eq!(counted(number, "segment"), shown);
        }
        assert_eq!((count(999), count(1_234_567)), ("999".to_owned(), "1,234,567".to_owned()));
    }

    #[test]
    fn longer_durations_are_shown_in_coarser_units() {
        for (millis, shown) in
            [(420, "0.4 s"), (12_900, "12 s"), (61_000, "1 min 1 s"), (3_660_000, "1 h 1 min")]
        {
            assert_eq!(time(Duration::from_millis(millis)), shown);
        }
    }
}
