//! Reads of the tables, in read units per message sent. Every read is consistent.

use serde::Serialize;

use super::assumptions::Assumptions;
use super::figure::{Figure, plain};
use super::rows;

/// Size of a read unit for consistent reads in DynamoDB, in bytes. DynamoDB rounds each read up.
const READ_UNIT_BYTES: f64 = 4_096.0;
/// Number of messages on a page of history, and of conversations on a page of the inbox.
const PAGE: f64 = 20.0;

#[derive(Clone, Debug, Serialize)]
pub struct Reads {
    pub table: &'static str,
    pub what: &'static str,
    pub units: Figure,
}

fn units(bytes: f64) -> f64 {
    (bytes / READ_UNIT_BYTES).ceil()
}

/// How many times users open the app, per message sent.
pub fn opens_per_message(with: &Assumptions) -> Figure {
    let opens = with.users() * with.opens_per_day / with.messages_per_day;
    let formula = format!(
        "{} users × {} opens/{} messages",
        plain(with.users()),
        plain(with.opens_per_day),
        plain(with.messages_per_day)
    );
    Figure::new(opens, formula)
}

/// Number of conversations on the first page of an inbox.
pub fn shown(with: &Assumptions) -> f64 {
    with.conversations.min(PAGE)
}

/// Number of conversations with new messages when a user opens the app.
pub fn behind(with: &Assumptions) -> f64 {
    with.conversations_behind.min(with.conversations)
}

/// All reads of the tables. `marks` is the number of receipt writes per message.
pub fn reads(with: &Assumptions, marks: f64) -> Vec<Reads> {
    let opens = opens_per_message(with);
    let opened = |units: f64, formula: String| {
        Figure::new(units * opens.value, format!("{} opens × {formula}", plain(opens.value)))
    };
    let (shown, behind) = (shown(with), behind(with));
    // Conversations with unread messages on the first page.
    let unread = behind.min(shown);
    let n = plain(shown);
    let row_bytes = rows::message(with.bytes);
    let page_units = units(PAGE * row_bytes);
    let pages = plain(with.pages_per_open);
    let missed_units = units(with.burst * row_bytes);
    let spells = with.members * with.offline_share / with.burst;
    let mut reads = vec![
        Reads { table: "conversations", what: "inbox page", units: opened(shown, format!("{n} rows")) },
        Reads {
            table: "message_status",
            what: "inbox page, own and other read state",
            units: opened(2.0 * shown, format!("2 × {n} rows")),
        },
        Reads {
            table: "messages",
            what: "inbox page, newest messages",
            units: opened(shown, format!("{n} queries")),
        },
        Reads {
            table: "messages",
            what: "inbox page, unread counts",
            units: opened(
                unread * missed_units,
                format!(
                    "{} queries × ceil({} × {} bytes/{})",
                    plain(unread),
                    plain(with.burst),
                    plain(row_bytes),
                    plain(READ_UNIT_BYTES)
                ),
            ),
        },
        Reads {
            table: "messages",
            what: "history pages",
            units: opened(
                with.pages_per_open * page_units,
                format!(
                    "{pages} pages × ceil({} × {} bytes/{})",
                    plain(PAGE),
                    plain(row_bytes),
                    plain(READ_UNIT_BYTES)
                ),
            ),
        },
        Reads {
            table: "pending_deliveries",
            what: "catch-up, pending rows",
            units: opened(1.0, "1 query".into()),
        },
        Reads {
            table: "messages",
            what: "catch-up, heads of conversations",
            units: opened(behind, format!("{} queries", plain(behind))),
        },
        Reads {
            table: "messages",
            what: "catch-up, missed messages",
            units: Figure::new(
                spells * missed_units,
                format!(
                    "{} × {} offline/{} × ceil({} × {} bytes/{})",
                    plain(with.members),
                    plain(with.offline_share),
                    plain(with.burst),
                    plain(with.burst),
                    plain(row_bytes),
                    plain(READ_UNIT_BYTES)
                ),
            ),
        },
    ];
    for table in ["rooms", "members", "message_status", "pending_deliveries"] {
        reads.push(Reads {
            table,
            what: "before a receipt, a row in a batch",
            units: Figure::new(marks, format!("{} receipts × 1 row", plain(marks))),
        });
    }
    for table in ["rooms", "members", "message_status"] {
        reads.push(Reads {
            table,
            what: "catch-up, read state",
            units: opened(behind, format!("{} rows", plain(behind))),
        });
    }
    for table in ["members", "rooms"] {
        reads.push(Reads { table, what: "inbox page", units: opened(shown, format!("{n} rows")) });
        reads.push(Reads {
            table,
            what: "history pages, a row in a batch",
            units: opened(with.pages_per_open, format!("{pages} pages × 1 row")),
        });
        reads.push(Reads {
            table,
            what: "members that a node has not cached",
            units: Figure::new(1.0 / with.burst, format!("1 row/{} messages", plain(with.burst))),
        });
    }
    if with.cold_days() > 0.0 {
        reads.push(Reads {
            table: "messages",
            what: "moved to the archive",
            units: Figure::new(
                row_bytes / READ_UNIT_BYTES,
                format!("{} bytes/{}, many at a time", plain(row_bytes), plain(READ_UNIT_BYTES)),
            ),
        });
    }
    reads
}
