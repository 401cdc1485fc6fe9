//! Formats a plan as text, in aligned columns and optionally with formulas.

use super::figure::{bytes, compared, dollars, plain};
use super::redis::MEMBERS_PER_CLUSTER;
use super::{Assumptions, Plan};

/// Explains the row with the write units without Redis.
const WITHOUT_REDIS: &str = "inbox, status and pending rows with each message";
/// Printed when the plan exceeds `MEMBERS_PER_CLUSTER`.
const TOO_LARGE: &str = "\
This load needs more than the 1,000 members of one Redis Cluster, and a fleet has one cluster.\n";

/// A table with columns as wide as their widest cell. The first column holds names. With
/// [`Grid::explained`], the last one holds formulas.
struct Grid {
    lines: Vec<Vec<String>>,
    explained: bool,
}

impl Grid {
    fn new(explained: bool, head: &[&str]) -> Grid {
        let mut grid = Grid { lines: Vec::new(), explained };
        let formula = "how".to_owned();
        grid.line(head.iter().map(ToString::to_string), &formula);
        grid
    }

    fn line(&mut self, cells: impl IntoIterator<Item = String>, formula: &str) {
        let formula = self.explained.then(|| formula.to_owned());
        self.lines.push(cells.into_iter().chain(formula).collect());
    }

    fn text(&self) -> String {
        let columns = self.lines.iter().map(Vec::len).max().unwrap_or(0);
        let widest = |column: usize| {
            let cells = self.lines.iter().filter_map(|line| line.get(column));
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..columns).map(widest).collect();
        let mut text = String::new();
        for line in &self.lines {
            let cells = line.iter().enumerate().map(|(column, cell)| {
                let is_formula = self.explained && column + 1 == columns;
                let width = widths[column];
                if column == 0 || is_formula { format!("{cell:<width$}") } else { format!("{cell:>width$}") }
            });
            let whole = cells.collect::<Vec<_>>().join("  ");
            text += whole.trim_end();
            text.push('\n');
        }
        text
    }
}

impl Plan {
    pub fn show(&self, explain: bool) -> String {
        let with = &self.assumptions;
        let head = format!(
            "{} messages a day, received by {} on average; {} users, {} connected at the peak.\n\
             {} messages a second on average, {} at the peak.\n",
            plain(with.messages_per_day),
            plain(with.members),
            plain(self.users),
            plain(self.connections),
            plain(self.messages.average_per_second),
            plain(self.messages.peak_per_second),
        );
        let parts = [head, self.show_writes(explain), self.show_reads(explain), self.show_tables(explain)];
        let rest = [self.show_redis(explain), self.show_nodes(explain), self.show_costs(explain)];
        parts.into_iter().chain(rest).collect::<Vec<_>>().join("\n")
    }

    pub fn show_brief(&self, explain: bool) -> String {
        [self.show_writes(explain), self.show_costs(explain)].join("\n")
    }

    fn show_writes(&self, explain: bool) -> String {
        let mut grid = Grid::new(explain, &["Write units a message", "here", "every row", "peak/s"]);
        for write in &self.writes {
            let peak = self.messages.times(write.here.value).peak_per_second;
            let name = format!("{}: {}", write.table, write.what);
            let cells = [name, compared(write.here.value), compared(write.naive.value), plain(peak.round())];
            grid.line(cells, &write.here.formula);
        }
        let (here, naive) = (self.write_units(), self.naive_write_units());
        let peak = plain(self.messages.times(here).peak_per_second.round());
        grid.line(["all".into(), compared(here), compared(naive), peak], "");
        let here = self.write_units_without_redis();
        let peak = plain(self.messages.times(here).peak_per_second.round());
        grid.line(["all, without Redis".into(), compared(here), String::new(), peak], WITHOUT_REDIS);
        grid.text()
    }

    fn show_reads(&self, explain: bool) -> String {
        let mut grid = Grid::new(explain, &["Read units a message", "here", "peak/s"]);
        for read in &self.reads {
            let peak = self.messages.times(read.units.value).peak_per_second;
            let name = format!("{}: {}", read.table, read.what);
            grid.line([name, compared(read.units.value), plain(peak.round())], &read.units.formula);
        }
        let all = self.read_units();
        let peak = plain(self.messages.times(all).peak_per_second.round());
        grid.line(["all".into(), compared(all), peak], "");
        grid.text()
    }

    fn show_tables(&self, explain: bool) -> String {
        let head = ["Units a second", "writes", "peak", "without Redis", "reads", "peak", "partitions"];
        let mut traffic = Grid::new(explain, &head);
        let mut stored = Grid::new(explain, &["Stored in tables", ""]);
        for table in &self.tables {
            let (writes, reads) = (table.write_units, table.read_units);
            let without_redis = table.write_units_without_redis.peak_per_second;
            let rates = [writes.average_per_second, writes.peak_per_second, without_redis];
            let rates = rates.into_iter().chain([reads.average_per_second, reads.peak_per_second]);
            let name = table.name.to_owned();
            let cells = [name.clone()]
                .into_iter()
                .chain(rates.map(|rate| plain(rate.round())))
                .chain([plain(table.partitions.value)]);
            traffic.line(cells, &table.partitions.formula);
            stored.line([name, bytes(table.stored_bytes.value)], &table.stored_bytes.formula);
        }
        stored.line(["all".into(), bytes(self.stored_bytes())], "");
        format!("{}\n{}", traffic.text(), stored.text())
    }

    fn show_redis(&self, explain: bool) -> String {
        let redis = &self.redis;
        let mut operations = Grid::new(explain, &["Redis operations a message", "here", "peak/s"]);
        for part in &redis.operations {
            let peak = self.messages.times(part.figure.value).peak_per_second;
            let cells = [part.what.to_owned(), compared(part.figure.value), plain(peak.round())];
            operations.line(cells, &part.figure.formula);
        }
        let peak = plain(redis.operations_per_second.peak_per_second.round());
        operations.line(["all".into(), compared(redis.operations_per_message), peak], "");
        let mut memory = Grid::new(explain, &["Redis memory", ""]);
        for part in &redis.memory {
            memory.line([part.what.to_owned(), bytes(part.figure.value)], &part.figure.formula);
        }
        memory.line(["all".into(), bytes(redis.memory_bytes)], "");
        let mut cluster = Grid::new(explain, &["Redis Cluster", ""]);
        let most = &redis.messages_per_day_of_one_cluster;
        cluster.line(["shards".into(), plain(redis.shards.value)], &redis.shards.formula);
        cluster
            .line(["members, replicas included".into(), plain(redis.members.value)], &redis.members.formula);
        cluster.line(["messages a day that one cluster handles".into(), plain(most.value)], &most.formula);
        let mut text = [operations.text(), memory.text(), cluster.text()].join("\n");
        if redis.members.value > MEMBERS_PER_CLUSTER {
            text += TOO_LARGE;
        }
        text
    }

    fn show_nodes(&self, explain: bool) -> String {
        let mut grid = Grid::new(explain, &["Nodes", ""]);
        grid.line(["bluetick serve".into(), plain(self.nodes.value)], &self.nodes.formula);
        grid.text()
    }

    fn show_costs(&self, explain: bool) -> String {
        let head = ["Dollars", "a month", "a million messages", "every row, a million"];
        let mut grid = Grid::new(explain, &head);
        for cost in &self.costs {
            let here = cost.dollars_per_million_messages;
            let naive = cost.naive_dollars_per_million_messages.unwrap_or(here);
            let cells = [cost.what.to_owned(), dollars(cost.dollars.value), dollars(here), dollars(naive)];
            grid.line(cells, &cost.dollars.formula);
        }
        let here = self.dollars_per_million_messages();
        let naive = self.naive_dollars_per_million_messages();
        grid.line(["all".into(), dollars(self.dollars()), dollars(here), dollars(naive)], "");
        grid.text()
    }
}

/// The sizes of `--ladder`, in messages per day.
const STEPS: [f64; 6] = [1e6, 10e6, 100e6, 1e9, 10e9, 100e9];

pub fn ladder(with: &Assumptions) -> String {
    let head = [
        "messages a day",
        "users",
        "peak/s",
        "writes/s",
        "reads/s",
        "partitions",
        "stored",
        "Redis shards",
        "nodes",
        "$ a month",
        "$ a million",
        "every row",
    ];
    let mut grid = Grid::new(false, &head);
    for messages_per_day in STEPS {
        let plan = Plan::new(&Assumptions { messages_per_day, ..with.clone() });
        let peak = |units: f64| plain(plan.messages.times(units).peak_per_second.round());
        let cells = [
            plain(messages_per_day),
            plain(plan.users),
            peak(1.0),
            peak(plan.write_units()),
            peak(plan.read_units()),
            plain(plan.partitions()),
            bytes(plan.stored_bytes()),
            plain(plan.redis.shards.value),
            plain(plan.nodes.value),
            dollars(plan.dollars()),
            dollars(plan.dollars_per_million_messages()),
            dollars(plan.naive_dollars_per_million_messages()),
        ];
        grid.line(cells, "");
    }
    grid.text()
}
