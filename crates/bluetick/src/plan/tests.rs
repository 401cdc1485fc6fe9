//! Compares the plan with figures calculated by hand.

use clap::Parser;

use super::*;

#[derive(Parser)]
struct Flags {
    #[command(flatten)]
    assumptions: Assumptions,
}

fn plan(flags: &str) -> Plan {
    let flags = Flags::parse_from(["plan"].into_iter().chain(flags.split_whitespace()));
    Plan::new(&flags.assumptions)
}

#[track_caller]
fn nearly(value: f64, expected: f64) {
    assert!((value - expected).abs() <= expected.abs() * 1e-9 + 1e-12, "{value} is not {expected}");
}

fn writes(plan: &Plan, table: &str, what: &str) -> f64 {
    let found = plan.writes.iter().find(|write| write.table == table && write.what.starts_with(what));
    found.unwrap().here.value
}

fn read(plan: &Plan, what: &str) -> f64 {
    plan.reads.iter().filter(|read| read.what.starts_with(what)).map(|read| read.units.value).sum()
}

fn operations(plan: &Plan, what: &str) -> f64 {
    plan.redis.operations.iter().find(|part| part.what.starts_with(what)).unwrap().figure.value
}

fn table<'a>(plan: &'a Plan, name: &str) -> &'a PlannedTable {
    plan.tables.iter().find(|table| table.name == name).unwrap()
}

fn cost<'a>(plan: &'a Plan, what: &str) -> &'a PlannedCost {
    plan.costs.iter().find(|cost| cost.what == what).unwrap()
}

#[test]
fn average_rate_divides_by_86_400_and_peak_multiplies_it() {
    let plan = plan("--messages-per-day 86.4m --peak-factor 4");
    nearly(plan.messages.average_per_second, 1_000.0);
    nearly(plan.messages.peak_per_second, 4_000.0);
}

#[test]
fn direct_message_to_an_online_user_writes_one_row_and_without_batching_seven() {
    let plan = plan("--offline-share 0 --age-days 90 --pace-seconds 30 --messages-per-read 1");
    nearly(writes(&plan, "messages", "the message"), 1.0);
    nearly(writes(&plan, "messages", "moved"), 0.0);
    nearly(writes(&plan, "conversations", "inbox"), 2.0);
    nearly(writes(&plan, "message_status", "delivered"), 1.0);
    nearly(writes(&plan, "pending_deliveries", ""), 0.0);
    nearly(plan.naive_write_units(), 1.0 + 2.0 + 2.0 + 1.0 + 1.0);
}

#[test]
fn changing_row_is_written_once_per_flush_and_at_least_once_per_burst() {
    for (flush_seconds, rows) in [(1, 2.0), (5, 2.0), (10, 1.0), (25, 0.4), (1_000, 0.2)] {
        let plan = plan(&format!("--pace-seconds 5 --burst 10 --flush-seconds {flush_seconds}"));
        nearly(writes(&plan, "conversations", "inbox"), rows);
        nearly(writes(&plan, "message_status", "the sender"), rows / 2.0);
    }
}

#[test]
fn absence_writes_two_rows_and_one_receipt_for_any_number_of_messages() {
    let plan = plan("--members 3 --offline-share 0.5 --burst 20");
    nearly(writes(&plan, "pending_deliveries", ""), 3.0 * 0.5 * 2.0 / 20.0);
    nearly(writes(&plan, "message_status", "delivered"), 3.0 * (0.5 + 0.5 / 20.0));
}

#[test]
fn message_above_one_kilobyte_costs_another_write_unit() {
    for (text, units) in [(100, 1.0), (818, 1.0), (819, 2.0), (65_536, 65.0)] {
        let plan = plan(&format!("--bytes {text}"));
        nearly(writes(&plan, "messages", "the message"), units);
    }
}

#[test]
fn partition_count_follows_writes_reads_and_bytes() {
    let busy = plan("--messages-per-day 86.4m --peak-factor 10 --age-days 1");
    let messages = table(&busy, "messages");
    let traffic = messages.write_units.peak_per_second / 1e3 + messages.read_units.peak_per_second / 3e3;
    nearly(messages.write_units.peak_per_second, 10_000.0);
    nearly(messages.partitions.value, traffic.ceil());
    let old = plan("--messages-per-day 1m --age-days 1000 --retention-days 1000");
    nearly(table(&old, "messages").stored_bytes.value, 1e9 * (206.0 + 100.0 + 100.0));
    nearly(table(&old, "messages").partitions.value, 41.0);
}

#[test]
fn archived_message_keeps_its_row_and_adds_compressed_bytes() {
    let plan = plan("--messages-per-day 1m --retention-days 90 --age-days 100");
    let stored = 90e6 * 406.0 + 10e6 * 366.0;
    nearly(table(&plan, "messages").stored_bytes.value, stored);
    nearly(cost(&plan, "archive, stored").dollars.value, 10e6 * (145.0 / 1.65) / 1e9 * 0.023);
    nearly(cost(&plan, "archive, puts").dollars_per_million_messages, 0.005);
    nearly(cost(&plan, "archive, puts").naive_dollars_per_million_messages.unwrap(), 5.0);
}

#[test]
fn redis_shard_count_follows_operations_and_memory() {
    let busy = plan("--messages-per-day 86.4m --peak-factor 100 --dedupe-hours 1");
    nearly(busy.redis.shards.value, (busy.redis.operations_per_message * 100_000.0 / 30_000.0).ceil());
    let remembering = plan("--messages-per-day 1b --users 1 --dedupe-hours 240 --gb-per-shard 10");
    nearly(remembering.redis.memory[0].figure.value, 1e10 * 42.0);
    nearly(remembering.redis.shards.value, 43.0);
}

#[test]
fn send_to_an_online_user_is_one_reserve_two_touches_and_one_stream_entry() {
    let plan = plan("--offline-share 0");
    let parts = ["reserve", "touch", "events"].map(|what| operations(&plan, what));
    assert_eq!(parts, [1.0, 2.0, 2.0]);
}

/// As measured (docs/explanation/fleet.md): 3 commands and a batch of 4 rows per receipt.
#[test]
fn receipt_is_three_redis_commands_one_stream_entry_and_four_row_reads() {
    let plan = plan("--offline-share 0 --messages-per-read 1");
    nearly(operations(&plan, "receipts"), 2.0 * 3.0);
    nearly(operations(&plan, "ticks"), 2.0 * 2.0);
    nearly(read(&plan, "before a receipt"), 2.0 * 4.0);
}

/// As measured (docs/explanation/fleet.md): 21 round trips for a page of 20 conversations. A
/// reconnect takes one per conversation.
#[test]
fn app_start_reads_each_listed_and_each_changed_conversation() {
    let flags = "--messages-per-day 1m --users 1m --opens-per-day 1 --conversations-behind 20";
    let plan = plan(flags);
    nearly(operations(&plan, "connect"), 2.0);
    nearly(operations(&plan, "inbox page"), 21.0);
    nearly(operations(&plan, "catch-up"), 20.0);
    // Per conversation: five rows, the newest message, and a query for the unread count.
    nearly(read(&plan, "inbox page"), 20.0 * (5.0 + 1.0 + 1.0));
    nearly(read(&plan, "catch-up, read state"), 20.0 * 3.0);
    nearly(read(&plan, "catch-up, heads"), 20.0);
}

#[test]
fn members_on_one_node_share_one_entry_and_large_groups_skip_the_lookup() {
    let group = plan("--members 20 --offline-share 0");
    nearly(operations(&group, "events"), 2.0 * 4.0);
    // 5 nodes write to 4 others each, 1,000 entries per second.
    nearly(operations(&group, "ticks"), 2.0 * 20_000.0 / group.messages.peak_per_second);
    let (small, large) = (plan("--members 99"), plan("--members 100"));
    assert!(operations(&small, "receipts") > 50.0 * operations(&large, "receipts"));
}

/// As measured: 5 puts per send. `delivered` deletes the pending row.
#[test]
fn send_without_redis_writes_all_rows_immediately() {
    let plan = plan("--offline-share 0 --age-days 90");
    let marks = writes(&plan, "message_status", "delivered") + writes(&plan, "message_status", "read");
    nearly(plan.write_units_without_redis() - marks, 5.0 + 1.0);
    let tables: f64 = plan.tables.iter().map(|table| table.write_units_without_redis.peak_per_second).sum();
    nearly(tables, plan.messages.times(plan.write_units_without_redis()).peak_per_second);
}

#[test]
fn redis_cluster_capacity_is_500_shards_with_a_replica_each() {
    for flags in ["", "--dedupe-hours 24 --gb-per-shard 48", "--replicas 0", "--replicas 3"] {
        let most = plan(flags).redis.messages_per_day_of_one_cluster.value;
        let at =
            |messages: f64| plan(&format!("{flags} --messages-per-day {messages:.0}")).redis.members.value;
        assert!(at(most * 0.99) <= 1_000.0 && at(most * 1.01) > 1_000.0, "{flags}");
    }
    let says = |flags: &str| plan(flags).show(false).contains("and a fleet has one cluster");
    assert!(says("--messages-per-day 100b") && !says("--messages-per-day 1b"));
}

#[test]
fn node_count_is_one_above_the_need_of_connections_and_messages() {
    nearly(plan("--messages-per-day 1m --users 1m --online-share 0.25").nodes.value, 3.0 + 1.0);
    nearly(plan("--messages-per-day 86.4m --peak-factor 6 --users 1").nodes.value, 2.0 + 1.0);
    nearly(plan("--messages-per-day 1 --users 1").nodes.value, 2.0);
}

#[test]
fn cost_per_million_messages_is_units_times_unit_price() {
    let plan = plan("--write-price 2 --read-price 0");
    nearly(cost(&plan, "table writes").dollars_per_million_messages, 2.0 * plan.write_units());
    nearly(cost(&plan, "table reads").dollars.value, 0.0);
    let monthly = plan.dollars_per_million_messages() * 100.0 * 730.0 / 24.0;
    nearly(plan.dollars(), monthly);
}

#[test]
fn thousandfold_load_scales_totals_and_keeps_unit_cost() {
    let (small, large) = (plan("--messages-per-day 100m"), plan("--messages-per-day 100b"));
    nearly(large.messages.peak_per_second, small.messages.peak_per_second * 1e3);
    nearly(large.stored_bytes(), small.stored_bytes() * 1e3);
    nearly(
        cost(&large, "table writes").dollars_per_million_messages,
        cost(&small, "table writes").dollars_per_million_messages,
    );
}

#[test]
fn explained_plan_shows_a_formula_for_each_line() {
    let text = plan("--messages-per-day 100b").show(true);
    for formula in ["2/10", "× 730 h", "messages/s/5,000)) + 1", "168 h/24"] {
        assert!(text.contains(formula), "{formula} is not in\n{text}");
    }
    let plan = plan("");
    let all = plan.writes.iter().map(|write| &write.here).chain(plan.reads.iter().map(|read| &read.units));
    let all = all.chain(plan.redis.operations.iter().chain(&plan.redis.memory).map(|part| &part.figure));
    let all = all.chain(plan.costs.iter().map(|cost| &cost.dollars));
    for figure in all {
        assert!(!figure.formula.is_empty(), "{figure:?}");
    }
}
