//! Costs in dollars, per month of 730 hours and per million messages.

use serde::Serialize;

use super::Plan;
use super::figure::{Figure, plain};
use super::rows;

/// Average hours per month, as AWS bills them.
pub const HOURS_PER_MONTH: f64 = 730.0;
/// Average days per month.
pub const DAYS_PER_MONTH: f64 = HOURS_PER_MONTH / 24.0;

#[derive(Clone, Debug, Serialize)]
pub struct PlannedCost {
    pub what: &'static str,
    /// Per month.
    pub dollars: Figure,
    pub dollars_per_million_messages: f64,
    /// The cost in a naive design, which writes every row and one object with every message. `None`
    /// if the designs do not differ enough to compare.
    pub naive_dollars_per_million_messages: Option<f64>,
}

pub fn costs(plan: &Plan) -> Vec<PlannedCost> {
    let with = &plan.assumptions;
    let millions = with.messages_per_day * DAYS_PER_MONTH / 1e6;
    let m = plain(millions);
    let monthly = |what, value: f64, formula: String| PlannedCost {
        what,
        dollars: Figure::new(value, formula),
        dollars_per_million_messages: value / millions,
        naive_dollars_per_million_messages: None,
    };
    let by_message = |what, each: f64, naive: f64, price: f64, of: &str| PlannedCost {
        what,
        dollars: Figure::new(
            each * price * millions,
            format!("{} {of} × ${} × {m} million messages", plain(each), price),
        ),
        dollars_per_million_messages: each * price,
        naive_dollars_per_million_messages: Some(naive * price),
    };
    let gb = plan.stored_bytes() / 1e9;
    let moved = f64::from(u8::from(with.cold_days() > 0.0));
    let cold_gb = with.messages_per_day * with.cold_days() * rows::in_segment(with.bytes) / 1e9;
    // A segment is put once and read once. A read costs a twelfth of a put, so it is neglected.
    let puts = moved / with.segment_messages;
    let redis_gb = plan.redis.shards.value * with.gb_per_shard * (1.0 + with.replicas);
    vec![
        by_message("table writes", plan.write_units(), plan.naive_write_units(), with.write_price, "units"),
        by_message("table reads", plan.read_units(), plan.read_units(), with.read_price, "units"),
        monthly("tables, stored", gb * with.table_price, format!("{} GB × ${}", plain(gb), with.table_price)),
        monthly(
            "tables, point-in-time recovery",
            gb * with.backup_price,
            format!("{} GB × ${}", plain(gb), with.backup_price),
        ),
        monthly(
            "archive, stored",
            cold_gb * with.object_price,
            format!(
                "{} × {} days × {} bytes × ${} a GB",
                plain(with.messages_per_day),
                plain(with.cold_days()),
                plain(rows::in_segment(with.bytes)),
                with.object_price
            ),
        ),
        by_message("archive, puts", puts, moved, with.put_price * 1e3, "puts a message"),
        monthly(
            "Redis",
            redis_gb * with.redis_price * HOURS_PER_MONTH,
            format!(
                "{} shards × {} GB × (1 + {}) × ${} × {} h",
                plain(plan.redis.shards.value),
                plain(with.gb_per_shard),
                plain(with.replicas),
                with.redis_price,
                plain(HOURS_PER_MONTH)
            ),
        ),
        monthly(
            "nodes",
            plan.nodes.value * with.node_price * HOURS_PER_MONTH,
            format!("{} × ${} × {} h", plain(plan.nodes.value), with.node_price, plain(HOURS_PER_MONTH)),
        ),
    ]
}
