//! Formats timestamps for display in the user's time zone.

use bluetick_types::Timestamp;
use jiff::Zoned;
use jiff::tz::TimeZone;

/// Formats timestamps in one time zone.
#[derive(Clone, Debug)]
pub struct Calendar {
    zone: TimeZone,
}

/// Short English names, January first.
const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
/// English names, Monday first.
const WEEKDAYS: [&str; 7] = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"];

impl Calendar {
    /// Uses the time zone of this machine.
    pub fn local() -> Calendar {
        Calendar { zone: TimeZone::system() }
    }

    pub fn utc() -> Calendar {
        Calendar { zone: TimeZone::UTC }
    }

    /// Converts a timestamp to the time zone. A timestamp out of range becomes the Unix epoch.
    fn at(&self, moment: Timestamp) -> Zoned {
        let moment = jiff::Timestamp::from_millisecond(moment.millis()).unwrap_or_default();
        moment.to_zoned(self.zone.clone())
    }

    /// The time of day, as `HH:MM`.
    pub fn time(&self, moment: Timestamp) -> String {
        let at = self.at(moment);
        format!("{:02}:{:02}", at.hour(), at.minute())
    }

    /// A number that is different for every calendar day.
    pub fn day_number(&self, moment: Timestamp) -> i64 {
        let at = self.at(moment);
        i64::from(at.year()) * 400 + i64::from(at.day_of_year())
    }

    /// The day for a divider: `Today`, `Yesterday`, a weekday within the last six days, or a date.
    pub fn day(&self, moment: Timestamp, now: Timestamp) -> String {
        let (at, today) = (self.at(moment), self.at(now));
        let days = (today.date() - at.date()).get_days();
        let weekday = WEEKDAYS[usize::try_from(at.weekday().to_monday_zero_offset()).unwrap_or(0) % 7];
        let month = MONTHS[usize::try_from(at.month() - 1).unwrap_or(0) % 12];
        match days {
            0 => "Today".to_owned(),
            1 => "Yesterday".to_owned(),
            2..=6 => weekday.to_owned(),
            _ if at.year() == today.year() => format!("{weekday}, {} {month}", at.day()),
            _ => format!("{} {month} {}", at.day(), at.year()),
        }
    }

    /// Short form for an inbox row: the time today, the weekday within the last six days, else the
    /// date.
    pub fn short(&self, moment: Timestamp, now: Timestamp) -> String {
        let (at, today) = (self.at(moment), self.at(now));
        match (today.date() - at.date()).get_days() {
            0 => self.time(moment),
            1..=6 => WEEKDAYS[usize::try_from(at.weekday().to_monday_zero_offset()).unwrap_or(0) % 7][..3]
                .to_owned(),
            _ => format!("{:02}.{:02}.{:02}", at.day(), at.month(), at.year() % 100),
        }
    }

    /// The "last seen" text.
    pub fn last_seen(&self, moment: Timestamp, now: Timestamp) -> String {
        match self.day(moment, now).as_str() {
            "Today" => format!("last seen at {}", self.time(moment)),
            "Yesterday" => format!("last seen yesterday at {}", self.time(moment)),
            day => format!("last seen {day}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Thursday, 1 January 2026, noon.
    const NOON: Timestamp = Timestamp::from_millis(1_767_268_800_000);
    /// One day, in milliseconds.
    const DAY_MS: i64 = 86_400_000;

    #[test]
    fn recent_days_are_named_today_and_yesterday() {
        let day = |days_ago: i64| Calendar::utc().day(NOON.plus_millis(-days_ago * DAY_MS), NOON);
        assert_eq!([day(0), day(1), day(2)], ["Today", "Yesterday", "Tuesday"]);
        assert_eq!(day(10), "22 Dec 2025");
        assert_eq!(Calendar::utc().day(NOON, NOON.plus_millis(40 * DAY_MS)), "Thursday, 1 Jan");
    }

    #[test]
    fn extreme_timestamps_do_not_panic() {
        for moment in [i64::MIN, -1, 0, i64::MAX] {
            let moment = Timestamp::from_millis(moment);
            assert!(!Calendar::utc().short(moment, NOON).is_empty());
            assert!(!Calendar::utc().last_seen(moment, NOON).is_empty());
        }
    }

    #[test]
    fn inbox_shows_time_then_weekday_then_date_by_age() {
        let short = |ago_ms: i64| Calendar::utc().short(NOON.plus_millis(-ago_ms), NOON);
        assert_eq!(short(3_600_000), "11:00");
        assert_eq!((short(DAY_MS), short(3 * DAY_MS)), ("Wed".into(), "Mon".into()));
        assert_eq!(short(30 * DAY_MS), "02.12.25");
    }
}
