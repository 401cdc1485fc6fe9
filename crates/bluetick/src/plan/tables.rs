//! The total load of each table, its number of partitions, and its size.

use serde::Serialize;

use super::assumptions::Assumptions;
use super::figure::{Figure, Rate, bytes, plain, sum};
use super::reads::Reads;
use super::rows::{self, STORED_OVERHEAD};
use super::writes::Writes;

/// Maximum write units per second of one DynamoDB partition.
const WRITES_PER_PARTITION: f64 = 1_000.0;
/// Maximum read units per second of one DynamoDB partition.
const READS_PER_PARTITION: f64 = 3_000.0;
/// Maximum size of one DynamoDB partition, in bytes.
const BYTES_PER_PARTITION: f64 = 10e9;

#[derive(Clone, Debug, Serialize)]
pub struct PlannedTable {
    pub name: &'static str,
    pub write_units: Rate,
    /// The write units while Redis is unavailable.
    pub write_units_without_redis: Rate,
    pub read_units: Rate,
    pub stored_bytes: Figure,
    pub partitions: Figure,
}

pub fn tables(with: &Assumptions, messages: Rate, writes: &[Writes], reads: &[Reads]) -> Vec<PlannedTable> {
    let table = |name: &'static str, stored_bytes: Figure| {
        let writes = || writes.iter().filter(|write| write.table == name);
        let written = sum(writes().map(|write| write.here.value));
        let without_redis = sum(writes().map(|write| write.without_redis.value));
        let read = sum(reads.iter().filter(|read| read.table == name).map(|read| read.units.value));
        let (write_units, read_units) = (messages.times(written), messages.times(read));
        let partitions = partitions(write_units, read_units, stored_bytes.value);
        let write_units_without_redis = messages.times(without_redis);
        PlannedTable { name, write_units, write_units_without_redis, read_units, stored_bytes, partitions }
    };
    let users = with.users();
    let seats = users * with.conversations;
    let everybody = 1.0 + with.members;
    let rows = |count: f64, counted: String, row: f64| {
        let formula = format!("{counted} × ({} + {}) bytes", plain(row), plain(STORED_OVERHEAD));
        Figure::new(count * (row + STORED_OVERHEAD), formula)
    };
    let in_inboxes = format!("{} users × {}", plain(users), plain(with.conversations));
    let of_days = |days: f64| format!("{} × {} days", plain(with.messages_per_day), plain(days));
    let hot =
        rows(with.messages_per_day * with.hot_days(), of_days(with.hot_days()), rows::message(with.bytes));
    let cold =
        rows(with.messages_per_day * with.cold_days(), of_days(with.cold_days()), rows::archived_message());
    // Assume that an absence lasts half a day on average.
    let absences = with.messages_per_day * with.members * with.offline_share / with.burst * 0.5;
    let absent = format!(
        "{} × {} × {} offline/{} × 1/2 day",
        plain(with.messages_per_day),
        plain(with.members),
        plain(with.offline_share),
        plain(with.burst)
    );
    vec![
        table("messages", hot.plus(cold)),
        table("conversations", rows(seats, in_inboxes.clone(), rows::inbox(with.bytes))),
        table("message_status", rows(seats, in_inboxes.clone(), rows::STATUS)),
        table("pending_deliveries", rows(absences, absent, rows::PENDING)),
        table("members", rows(seats, in_inboxes.clone(), rows::MEMBER)),
        table(
            "rooms",
            rows(seats / everybody, format!("{in_inboxes}/{}", plain(everybody)), rows::CONVERSATION),
        ),
        table("users", rows(users, plain(users), rows::USER)),
    ]
}

fn partitions(writes: Rate, reads: Rate, stored: f64) -> Figure {
    let by_traffic =
        (writes.peak_per_second / WRITES_PER_PARTITION + reads.peak_per_second / READS_PER_PARTITION).ceil();
    let by_size = (stored / BYTES_PER_PARTITION).ceil();
    let formula = format!(
        "max(ceil({} writes/{} + {} reads/{}), ceil({}/{}))",
        plain(writes.peak_per_second),
        plain(WRITES_PER_PARTITION),
        plain(reads.peak_per_second),
        plain(READS_PER_PARTITION),
        bytes(stored),
        bytes(BYTES_PER_PARTITION)
    );
    Figure::new(by_traffic.max(by_size).max(1.0), formula)
}
