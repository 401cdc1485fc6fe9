//! Calculates what a fleet on DynamoDB, Redis and S3 needs and what it costs. Each figure has its
//! formula.
//!
//! The figures per message follow the implementation of the store; change both together. [`show`]
//! formats a plan, and `cli::plan` defines its flags.

mod assumptions;
mod costs;
mod figure;
mod reads;
mod redis;
mod rows;
mod show;
mod tables;
#[cfg(test)]
mod tests;
mod writes;

use serde::Serialize;

pub use self::assumptions::Assumptions;
use self::costs::PlannedCost;
use self::figure::{Figure, Rate, plain};
use self::reads::Reads;
use self::redis::Redis;
pub use self::show::ladder;
use self::tables::PlannedTable;
use self::writes::Writes;

/// Seconds per day; converts a daily load to an average rate.
const SECONDS_PER_DAY: f64 = 86_400.0;

#[derive(Clone, Debug, Serialize)]
pub struct Plan {
    pub assumptions: Assumptions,
    pub users: f64,
    pub messages: Rate,
    /// Concurrent connections at the peak.
    pub connections: f64,
    pub writes: Vec<Writes>,
    pub reads: Vec<Reads>,
    pub tables: Vec<PlannedTable>,
    pub redis: Redis,
    pub nodes: Figure,
    pub costs: Vec<PlannedCost>,
}

impl Plan {
    pub fn new(with: &Assumptions) -> Plan {
        let average_per_second = with.messages_per_day / SECONDS_PER_DAY;
        let messages = Rate { average_per_second, peak_per_second: average_per_second * with.peak_factor };
        let users = with.users();
        let connections = (users * with.online_share).ceil();
        let writes = writes::writes(with);
        let marks = writes.iter().filter(|write| ["delivered", "read"].contains(&write.what));
        let marks = marks.map(|write| write.here.value).sum();
        let reads = reads::reads(with, marks);
        let tables = tables::tables(with, messages, &writes, &reads);
        let nodes = nodes(with, messages, connections);
        let redis = redis::redis(with, messages, marks, nodes.value);
        let assumptions = with.clone();
        let mut plan = Plan {
            assumptions,
            users,
            messages,
            connections,
            writes,
            reads,
            tables,
            redis,
            nodes,
            costs: Vec::new(),
        };
        plan.costs = costs::costs(&plan);
        plan
    }

    /// Write units per message.
    pub fn write_units(&self) -> f64 {
        self.writes.iter().map(|write| write.here.value).sum()
    }

    pub fn naive_write_units(&self) -> f64 {
        self.writes.iter().map(|write| write.naive.value).sum()
    }

    pub fn write_units_without_redis(&self) -> f64 {
        self.writes.iter().map(|write| write.without_redis.value).sum()
    }

    pub fn read_units(&self) -> f64 {
        self.reads.iter().map(|read| read.units.value).sum()
    }

    pub fn stored_bytes(&self) -> f64 {
        self.tables.iter().map(|table| table.stored_bytes.value).sum()
    }

    pub fn partitions(&self) -> f64 {
        self.tables.iter().map(|table| table.partitions.value).sum()
    }

    /// Total cost per month.
    pub fn dollars(&self) -> f64 {
        self.costs.iter().map(|cost| cost.dollars.value).sum()
    }

    pub fn dollars_per_million_messages(&self) -> f64 {
        self.costs.iter().map(|cost| cost.dollars_per_million_messages).sum()
    }

    /// Total cost of the naive design. Parts without a naive figure cost the same in both designs.
    pub fn naive_dollars_per_million_messages(&self) -> f64 {
        let naive = |cost: &PlannedCost| {
            cost.naive_dollars_per_million_messages.unwrap_or(cost.dollars_per_million_messages)
        };
        self.costs.iter().map(naive).sum()
    }
}

/// The number of nodes: one more than the traffic needs, so that one can restart.
fn nodes(with: &Assumptions, messages: Rate, connections: f64) -> Figure {
    let by_connections = (connections / with.connections_per_node).ceil();
    let by_messages = (messages.peak_per_second / with.messages_per_node).ceil();
    let formula = format!(
        "max(ceil({} connections/{}), ceil({} messages/s/{})) + 1",
        plain(connections),
        plain(with.connections_per_node),
        plain(messages.peak_per_second),
        plain(with.messages_per_node)
    );
    Figure::new(by_connections.max(by_messages) + 1.0, formula)
}
