//! The load and the memory of Redis: operations per message, bytes, shards.

use serde::Serialize;

use super::SECONDS_PER_DAY;
use super::assumptions::Assumptions;
use super::figure::{Figure, Rate, bytes, plain};
use super::reads::{behind, opens_per_message, shown};

/// Bytes per key of message ids: name, expiry, and an empty hash for one conversation and day.
const BUCKET_BYTES: f64 = 120.0;
/// Bytes per conversation: its counter, its receipts, and the last seq that each member wrote.
const COUNTER_BYTES: f64 = 400.0;
/// Bytes per conversation in the order of an inbox.
const INDEX_ENTRY_BYTES: f64 = 60.0;
/// Bytes for the keys of one inbox.
const INDEX_BYTES: f64 = 200.0;
/// Bytes per connected user in the presence directory.
const ROUTE_BYTES: f64 = 200.0;
/// Bytes kept of the event stream of one node.
const STREAM_BYTES: f64 = 4e6;
/// Maximum number of members, the sender included, for which a receipt looks up the members' nodes.
const LARGE_GROUP: f64 = 100.0;
/// Maximum entries per second that one node adds to the stream of another: one per millisecond.
/// Events that arrive meanwhile share the next entry.
const ENTRIES_PER_SECOND: f64 = 1_000.0;
/// Maximum number of servers in one Redis Cluster, replicas included.
pub const MEMBERS_PER_CLUSTER: f64 = 1_000.0;

#[derive(Clone, Debug, Serialize)]
pub struct Redis {
    pub operations: Vec<RedisPart>,
    pub operations_per_message: f64,
    pub operations_per_second: Rate,
    pub memory: Vec<RedisPart>,
    pub memory_bytes: f64,
    pub shards: Figure,
    /// Servers of the cluster: shards and their replicas.
    pub members: Figure,
    /// The maximum for one cluster, at the same ratio of users to messages. A fleet has one
    /// cluster.
    pub messages_per_day_of_one_cluster: Figure,
}

#[derive(Clone, Debug, Serialize)]
pub struct RedisPart {
    pub what: &'static str,
    pub figure: Figure,
}

impl RedisPart {
    fn new(what: &'static str, value: f64, formula: String) -> RedisPart {
        RedisPart { what, figure: Figure::new(value, formula) }
    }
}

fn sum(parts: &[RedisPart]) -> f64 {
    parts.iter().map(|part| part.figure.value).sum()
}

/// Plans Redis. `marks` is the number of receipt writes per message.
pub fn redis(with: &Assumptions, messages: Rate, marks: f64, nodes: f64) -> Redis {
    let operations = operations(with, messages, marks, nodes);
    let memory = memory(with, nodes);
    let operations_per_message = sum(&operations);
    let operations_per_second = messages.times(operations_per_message);
    let memory_bytes = sum(&memory);
    let peak = operations_per_second.peak_per_second;
    let by_traffic = (peak / with.operations_per_shard).ceil();
    let by_memory = (memory_bytes / (with.gb_per_shard * 1e9)).ceil();
    let formula = format!(
        "max(ceil({}/s/{}), ceil({}/{} GB))",
        plain(peak),
        plain(with.operations_per_shard),
        bytes(memory_bytes),
        plain(with.gb_per_shard)
    );
    let shards = Figure::new(by_traffic.max(by_memory).max(1.0), formula);
    let members = Figure::new(
        shards.value * (1.0 + with.replicas),
        format!("{} shards × (1 + {})", plain(shards.value), plain(with.replicas)),
    );
    let messages_per_day_of_one_cluster = most(with, operations_per_message, memory_bytes);
    Redis {
        operations,
        operations_per_message,
        operations_per_second,
        memory,
        memory_bytes,
        shards,
        members,
        messages_per_day_of_one_cluster,
    }
}

/// The number of messages per day that the largest cluster can handle.
fn most(with: &Assumptions, operations_per_message: f64, memory_bytes: f64) -> Figure {
    let shards = (MEMBERS_PER_CLUSTER / (1.0 + with.replicas)).floor();
    let operations_per_day = shards * with.operations_per_shard * SECONDS_PER_DAY;
    let by_traffic = operations_per_day / (operations_per_message * with.peak_factor);
    let bytes_per_daily_message = memory_bytes / with.messages_per_day;
    let by_memory = shards * with.gb_per_shard * 1e9 / bytes_per_daily_message;
    let formula = format!(
        "{} shards × min({} × {} s/({} × {}), {} GB/{} bytes)",
        plain(shards),
        plain(with.operations_per_shard),
        plain(SECONDS_PER_DAY),
        plain(operations_per_message),
        plain(with.peak_factor),
        plain(with.gb_per_shard),
        plain(bytes_per_daily_message)
    );
    Figure::new(by_traffic.min(by_memory), formula)
}

fn operations(with: &Assumptions, messages: Rate, marks: f64, nodes: f64) -> Vec<RedisPart> {
    let receivers = plain(with.members);
    let online = 1.0 - with.offline_share;
    let opens = opens_per_message(with).value;
    let everybody = 1.0 + with.members;
    let looked_up = if everybody > LARGE_GROUP { 0.0 } else { everybody };
    // Receivers that are connected to the same node share one entry.
    let told = (with.members * online).min(nodes - 1.0);
    let told_by = format!("min({receivers} × {} online, {} other nodes)", plain(online), plain(nodes - 1.0));
    let most_entries = nodes * (nodes - 1.0) * ENTRIES_PER_SECOND / messages.peak_per_second;
    let entries = |count: f64, formula: String| match count > most_entries {
        true => Figure::new(
            2.0 * most_entries,
            format!(
                "{} nodes × {} others × {}/s × 2, many in one",
                plain(nodes),
                plain(nodes - 1.0),
                plain(ENTRIES_PER_SECOND)
            ),
        ),
        false => Figure::new(2.0 * count, format!("{formula} × 2 (put, taken)")),
    };
    let (page, behind) = (1.0 + shown(with), behind(with));
    vec![
        RedisPart::new("reserve a seq", 1.0, "1 script".into()),
        RedisPart::new("touch the inboxes", 1.0 + with.members, format!("1 + {receivers}")),
        RedisPart { what: "events to other nodes", figure: entries(told, told_by.clone()) },
        RedisPart::new(
            "receipts, with presence lookups",
            marks * (1.0 + looked_up),
            format!("{} receipts × (1 + {} lookups)", plain(marks), plain(looked_up)),
        ),
        RedisPart {
            what: "ticks to other nodes",
            figure: entries(marks * told, format!("{} receipts × {told_by}", plain(marks))),
        },
        RedisPart::new(
            "absences",
            2.0 * with.members * with.offline_share / with.burst,
            format!("{receivers} × {} offline × 2/{}", plain(with.offline_share), plain(with.burst)),
        ),
        RedisPart::new("connect, disconnect", 2.0 * opens, format!("{} opens × 2", plain(opens))),
        RedisPart::new(
            "inbox page",
            page * opens,
            format!("{} opens × (1 + {} conversations)", plain(opens), plain(page - 1.0)),
        ),
        RedisPart::new(
            "catch-up",
            behind * opens,
            format!("{} opens × {} conversations with new messages", plain(opens), plain(behind)),
        ),
    ]
}

fn memory(with: &Assumptions, nodes: f64) -> Vec<RedisPart> {
    let ids = with.messages_per_day * with.dedupe_hours / 24.0;
    let users = with.users();
    let active = users * with.active_conversations / (1.0 + with.members);
    vec![
        RedisPart::new(
            "message ids",
            ids * (with.dedupe_bytes + BUCKET_BYTES / with.burst),
            format!(
                "{} × {} h/24 × ({} + {}/{}) bytes",
                plain(with.messages_per_day),
                plain(with.dedupe_hours),
                plain(with.dedupe_bytes),
                plain(BUCKET_BYTES),
                plain(with.burst)
            ),
        ),
        RedisPart::new(
            "counters",
            active * COUNTER_BYTES,
            format!(
                "{} users × {}/{} × {} bytes",
                plain(users),
                plain(with.active_conversations),
                plain(1.0 + with.members),
                plain(COUNTER_BYTES)
            ),
        ),
        RedisPart::new(
            "inbox order",
            users * (with.conversations * INDEX_ENTRY_BYTES + INDEX_BYTES),
            format!(
                "{} users × ({} × {} + {}) bytes",
                plain(users),
                plain(with.conversations),
                plain(INDEX_ENTRY_BYTES),
                plain(INDEX_BYTES)
            ),
        ),
        RedisPart::new(
            "presence directory",
            users * with.online_share * ROUTE_BYTES,
            format!("{} users × {} × {} bytes", plain(users), plain(with.online_share), plain(ROUTE_BYTES)),
        ),
        RedisPart::new(
            "event streams of nodes",
            nodes * STREAM_BYTES,
            format!("{} nodes × {}", plain(nodes), bytes(STREAM_BYTES)),
        ),
    ]
}
