//! The input of a plan. Each value has a default and a flag.

use clap::Args;
use serde::Serialize;

/// Numbers that a flag sets. Shares are of 1, prices in dollars.
#[derive(Args, Clone, Debug, Serialize)]
pub struct Assumptions {
    /// Messages sent in a day
    #[arg(long, value_name = "COUNT", default_value = "100m", value_parser = amount)]
    pub messages_per_day: f64,
    /// Users [default: one for every 50 messages a day]
    #[arg(long, value_name = "COUNT", value_parser = amount)]
    pub users: Option<f64>,
    /// Share of users that is connected at the peak
    #[arg(long, value_name = "SHARE", default_value = "0.2", value_parser = share)]
    pub online_share: f64,
    /// Receivers of a message besides its sender, on average; 1 if all messages are direct
    #[arg(long, value_name = "COUNT", default_value = "1", value_parser = amount)]
    pub members: f64,
    /// The share of receivers who are not connected when a message is sent
    #[arg(long, value_name = "SHARE", default_value = "0.3", value_parser = share)]
    pub offline_share: f64,
    /// Size of the text of a message
    #[arg(long, value_name = "BYTES", default_value = "100", value_parser = amount)]
    pub bytes: f64,
    /// Messages in a burst: sent in one conversation before a pause, or missed in one absence
    #[arg(long, value_name = "COUNT", default_value = "10", value_parser = at_least_one)]
    pub burst: f64,
    /// Time between two messages of a burst
    #[arg(long, value_name = "SECONDS", default_value = "5", value_parser = amount)]
    pub pace_seconds: f64,
    /// Time between two writes of a changing inbox row
    #[arg(long, value_name = "SECONDS", default_value = "30", value_parser = amount)]
    pub flush_seconds: f64,
    /// Messages that one `read` receipt covers
    #[arg(long, value_name = "COUNT", default_value = "3", value_parser = at_least_one)]
    pub messages_per_read: f64,
    /// App starts of a user per day: each is a connection and one inbox page
    #[arg(long, value_name = "COUNT", default_value = "8", value_parser = amount)]
    pub opens_per_day: f64,
    /// Pages of history that a user reads at each app start
    #[arg(long, value_name = "COUNT", default_value = "2", value_parser = zero_or_more)]
    pub pages_per_open: f64,
    /// Conversations in an inbox
    #[arg(long, value_name = "COUNT", default_value = "50", value_parser = at_least_one)]
    pub conversations: f64,
    /// Conversations in an inbox with a message in the dedupe window
    #[arg(long, value_name = "COUNT", default_value = "10", value_parser = amount)]
    pub active_conversations: f64,
    /// Conversations in an inbox with new messages at each app start
    #[arg(long, value_name = "COUNT", default_value = "2", value_parser = zero_or_more)]
    pub conversations_behind: f64,
    /// How long the store remembers a message_id (store.dedupe_window_seconds)
    #[arg(long, value_name = "HOURS", default_value = "168", value_parser = amount)]
    pub dedupe_hours: f64,
    /// Age at which a message moves from its table to the archive (archive.age_seconds)
    #[arg(long, value_name = "DAYS", default_value = "90", value_parser = amount)]
    pub retention_days: f64,
    /// Days of messages stored in total; the plan counts rows and objects at that time
    #[arg(long, value_name = "DAYS", default_value = "365", value_parser = amount)]
    pub age_days: f64,
    /// Messages in one object of the archive (archive.segment_messages)
    #[arg(long, value_name = "COUNT", default_value = "1000", value_parser = at_least_one)]
    pub segment_messages: f64,
    /// Ratio of the peak rate to the average rate
    #[arg(long, value_name = "FACTOR", default_value = "3", value_parser = at_least_one)]
    pub peak_factor: f64,

    /// WebSocket connections of one node (limits.connections)
    #[arg(long, value_name = "COUNT", default_value = "100k", value_parser = at_least_one)]
    pub connections_per_node: f64,
    /// Messages that one node accepts per second
    #[arg(long, value_name = "COUNT", default_value = "5k", value_parser = amount)]
    pub messages_per_node: f64,
    /// Operations per second of one Redis shard (measured: 28,900 touches, 17,000 reserves, ADR 14)
    #[arg(long, value_name = "COUNT", default_value = "30k", value_parser = amount)]
    pub operations_per_shard: f64,
    /// Data in one Redis shard; the rest of its memory is for forks and buffers
    #[arg(long, value_name = "GB", default_value = "12", value_parser = amount)]
    pub gb_per_shard: f64,
    /// Replicas of each Redis shard
    #[arg(long, value_name = "COUNT", default_value = "1", value_parser = zero_or_more)]
    pub replicas: f64,
    /// Memory in Redis for one message_id, without its share of a key
    #[arg(long, value_name = "BYTES", default_value = "30", value_parser = amount)]
    pub dedupe_bytes: f64,

    /// A million write units of DynamoDB
    #[arg(long, value_name = "DOLLARS", default_value = "0.625", value_parser = zero_or_more)]
    pub write_price: f64,
    /// A million read units of DynamoDB
    #[arg(long, value_name = "DOLLARS", default_value = "0.125", value_parser = zero_or_more)]
    pub read_price: f64,
    /// A GB in a table, a month
    #[arg(long, value_name = "DOLLARS", default_value = "0.25", value_parser = zero_or_more)]
    pub table_price: f64,
    /// Point-in-time recovery of a GB in a table, a month
    #[arg(long, value_name = "DOLLARS", default_value = "0.2", value_parser = zero_or_more)]
    pub backup_price: f64,
    /// A GB in S3, a month
    #[arg(long, value_name = "DOLLARS", default_value = "0.023", value_parser = zero_or_more)]
    pub object_price: f64,
    /// A thousand objects put into S3
    #[arg(long, value_name = "DOLLARS", default_value = "0.005", value_parser = zero_or_more)]
    pub put_price: f64,
    /// A GB of data in Redis, an hour (cache.r7g.xlarge holds about 20 GB for $0.437)
    #[arg(long, value_name = "DOLLARS", default_value = "0.022", value_parser = zero_or_more)]
    pub redis_price: f64,
    /// A node, an hour (c7g.xlarge, 4 cores and 8 GiB)
    #[arg(long, value_name = "DOLLARS", default_value = "0.145", value_parser = zero_or_more)]
    pub node_price: f64,
}

impl Assumptions {
    pub fn users(&self) -> f64 {
        /// Messages per user and day, from which the number of users follows if it is not given.
        const MESSAGES_PER_USER: f64 = 50.0;
        self.users.unwrap_or((self.messages_per_day / MESSAGES_PER_USER).ceil())
    }

    /// The number of days whose messages still have their text in the table.
    pub fn hot_days(&self) -> f64 {
        self.retention_days.min(self.age_days)
    }

    /// The number of days whose messages are in the archive.
    pub fn cold_days(&self) -> f64 {
        self.age_days - self.hot_days()
    }
}

/// Parses a number such as 5m, 100e9, 1.5b or 1_000.
fn number(text: &str) -> Option<f64> {
    let plain = text.replace(['_', ','], "");
    let (digits, factor) = match plain.char_indices().last()? {
        (at, 'k' | 'K') => (&plain[..at], 1e3),
        (at, 'm' | 'M') => (&plain[..at], 1e6),
        (at, 'b' | 'B') => (&plain[..at], 1e9),
        (at, 't' | 'T') => (&plain[..at], 1e12),
        _ => (plain.as_str(), 1.0),
    };
    let begins_as_a_number = digits.starts_with(|c: char| c.is_ascii_digit() || c == '.');
    let number = digits.parse::<f64>().ok().filter(|_| begins_as_a_number)? * factor;
    // Larger numbers are mistakes, and floats above 2^53 are not exact.
    (number <= 1e15).then_some(number)
}

fn amount(text: &str) -> Result<f64, String> {
    number(text)
        .filter(|number| *number > 0.0)
        .ok_or("expected a number above 0, such as 100e9, 5m or 2b".into())
}

fn at_least_one(text: &str) -> Result<f64, String> {
    number(text).filter(|number| *number >= 1.0).ok_or("expected a number, 1 or more".into())
}

fn zero_or_more(text: &str) -> Result<f64, String> {
    number(text).ok_or("expected a number, 0 or more".into())
}

fn share(text: &str) -> Result<f64, String> {
    number(text).filter(|number| *number <= 1.0).ok_or("expected a share from 0 to 1, such as 0.3".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_accept_suffixes_and_separators() {
        for (text, number) in [
            ("100e9", 100e9),
            ("5m", 5e6),
            ("2b", 2e9),
            ("1.5k", 1_500.0),
            ("1_000", 1_000.0),
            ("1,000,000", 1e6),
            ("0.5", 0.5),
            ("3T", 3e12),
        ] {
            assert_eq!(amount(text), Ok(number), "{text}");
        }
        for wrong in ["", "m", "0", "-1", "-5m", "five", "inf", "nan", "1e30", "5 m", "5mb", "é"] {
            assert!(amount(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn share_above_one_is_refused() {
        assert_eq!((share("0"), share("1"), share("0.25")), (Ok(0.0), Ok(1.0), Ok(0.25)));
        assert!(share("1.1").is_err() && share("-0.1").is_err());
    }
}
