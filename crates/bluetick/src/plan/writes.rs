//! Writes to the tables per message, in this design and in one that writes every row every time.

use serde::Serialize;

use super::assumptions::Assumptions;
use super::figure::{Figure, plain};
use super::rows;

/// Size of a write unit in DynamoDB, in bytes. Writes are rounded up to it.
const WRITE_UNIT_BYTES: f64 = 1_024.0;

/// The writes for one reason, in write units per message.
#[derive(Clone, Debug, Serialize)]
pub struct Writes {
    pub table: &'static str,
    pub what: &'static str,
    pub here: Figure,
    pub naive: Figure,
    /// This design while Redis is unavailable: rows that are otherwise flushed at intervals are
    /// written with each message.
    pub without_redis: Figure,
}

pub fn units(bytes: f64) -> f64 {
    (bytes / WRITE_UNIT_BYTES).ceil()
}

/// The share of changes that cause a write of a changing row: one per flush interval, and at least
/// one per burst.
pub fn coalesced(with: &Assumptions) -> Figure {
    let share = (with.pace_seconds / with.flush_seconds).min(1.0).max(1.0 / with.burst);
    let formula = format!(
        "max(1/{}, min(1, {} s/{} s))",
        plain(with.burst),
        plain(with.pace_seconds),
        plain(with.flush_seconds)
    );
    Figure::new(share, formula)
}

pub fn writes(with: &Assumptions) -> Vec<Writes> {
    let receivers = with.members;
    let everybody = 1.0 + receivers;
    let row_bytes = rows::message(with.bytes);
    let inbox = units(rows::inbox(with.bytes));
    let coalesced = coalesced(with);
    let (online, offline, burst) = (1.0 - with.offline_share, with.offline_share, with.burst);
    let r = plain(receivers);
    let message_writes = || {
        Figure::new(units(row_bytes), format!("ceil({} bytes/{})", plain(row_bytes), plain(WRITE_UNIT_BYTES)))
    };
    let moves = || match with.cold_days() > 0.0 {
        true => Figure::new(
            units(rows::archived_message()),
            format!("ceil({} bytes/{})", plain(rows::archived_message()), plain(WRITE_UNIT_BYTES)),
        ),
        false => Figure::none(),
    };
    let every_inbox = || Figure::new(everybody * inbox, format!("1 + {r} rows"));
    let delivered = || {
        Figure::new(
            receivers * (online + offline / burst),
            format!("{r} × ({} online + {} offline/{})", plain(online), plain(offline), plain(burst)),
        )
    };
    let read = || {
        Figure::new(
            receivers / with.messages_per_read,
            format!("{r} receivers/{} messages a receipt", plain(with.messages_per_read)),
        )
    };
    let each = |what: &str| Figure::new(receivers, format!("{r} {what}"));
    vec![
        Writes {
            table: "messages",
            what: "the message",
            here: message_writes(),
            naive: message_writes(),
            without_redis: message_writes(),
        },
        Writes {
            table: "conversations",
            what: "inbox rows of all members",
            here: Figure::new(
                everybody * inbox * coalesced.value,
                format!("(1 + {r}) rows × {}", coalesced.formula),
            ),
            naive: every_inbox(),
            without_redis: every_inbox(),
        },
        Writes {
            table: "message_status",
            what: "delivered",
            here: delivered(),
            naive: each("receipts"),
            without_redis: delivered(),
        },
        Writes {
            table: "message_status",
            what: "read",
            here: read(),
            naive: each("receipts"),
            without_redis: read(),
        },
        Writes {
            table: "message_status",
            what: "the sender's own row",
            here: Figure::new(coalesced.value, format!("1 row × {}", coalesced.formula)),
            naive: Figure::none(),
            without_redis: Figure::new(1.0, "1 row"),
        },
        Writes {
            table: "pending_deliveries",
            what: "absences (start and end)",
            here: Figure::new(
                receivers * offline * 2.0 / burst,
                format!("{r} × {} offline × 2/{}", plain(offline), plain(burst)),
            ),
            naive: each("rows"),
            // Without Redis every receiver counts as offline and gets a pending row. Upper bound:
            // each `delivered` deletes one.
            without_redis: each("rows").plus(delivered()),
        },
        Writes {
            table: "dedupe",
            what: "message ids (in Redis)",
            here: Figure::none(),
            naive: Figure::new(1.0, "1 row"),
            without_redis: Figure::none(),
        },
        Writes {
            table: "messages",
            what: "moved to the archive",
            here: moves(),
            naive: moves(),
            without_redis: moves(),
        },
    ]
}
