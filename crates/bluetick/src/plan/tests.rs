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

fn table<'a>(plan: &'a Plan, name: &str) -> &'a Table {
    plan.tables.iter().find(|table| table.name == name).unwrap()
}

fn cost<'a>(plan: &'a Plan, what: &str) -> &'a Cost {
    plan.costs.iter().find(|cost| cost.what == what).unwrap()
}

#[test]
fn a_day_is_86_400_seconds_and_the_peak_a_multiple_of_the_average() {
    let plan = plan("--messages-per-day 86.4m --peak-factor 4");
    nearly(plan.messages.average_per_second, 1_000.0);
    nearly(plan.messages.peak_per_second, 4_000.0);
}

#[test]
fn a_direct_message_to_somebody_who_is_there_writes_its_cell_once_and_every_row_writes_seven() {
    let plan = plan("--offline-share 0 --age-days 90 --pace-seconds 30 --messages-per-read 1");
    nearly(writes(&plan, "messages", "the message"), 1.0);
    nearly(writes(&plan, "messages", "moved"), 0.0);
    nearly(writes(&plan, "conversations", "inbox"), 2.0);
    nearly(writes(&plan, "message_status", "delivered"), 1.0);
    nearly(writes(&plan, "pending_deliveries", ""), 0.0);
    nearly(plan.naive_write_units(), 1.0 + 2.0 + 2.0 + 1.0 + 1.0);
}

#[test]
fn a_row_that_keeps_changing_is_written_once_a_flush_and_once_a_burst_at_least() {
    for (flush_seconds, rows) in [(1, 2.0), (5, 2.0), (10, 1.0), (25, 0.4), (1_000, 0.2)] {
        let plan = plan(&format!("--pace-seconds 5 --burst 10 --flush-seconds {flush_seconds}"));
        nearly(writes(&plan, "conversations", "inbox"), rows);
        nearly(writes(&plan, "message_status", "the sender"), rows / 2.0);
    }
}

#[test]
fn an_absence_writes_its_row_twice_and_one_mark_however_many_messages_it_misses() {
    let plan = plan("--members 3 --offline-share 0.5 --burst 20");
    nearly(writes(&plan, "pending_deliveries", ""), 3.0 * 0.5 * 2.0 / 20.0);
    nearly(writes(&plan, "message_status", "delivered"), 3.0 * (0.5 + 0.5 / 20.0));
}

#[test]
fn a_message_above_a_kilobyte_takes_another_unit() {
    for (text, units) in [(100, 1.0), (818, 1.0), (819, 2.0), (65_536, 65.0)] {
        let plan = plan(&format!("--bytes {text}"));
        nearly(writes(&plan, "messages", "the message"), units);
    }
}

#[test]
fn a_partition_takes_a_thousand_writes_or_three_thousand_reads_or_ten_gigabytes() {
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
fn what_moved_to_the_archive_keeps_its_row_and_is_stored_once_more_compressed() {
    let plan = plan("--messages-per-day 1m --retention-days 90 --age-days 100");
    let stored = 90e6 * 406.0 + 10e6 * 366.0;
    nearly(table(&plan, "messages").stored_bytes.value, stored);
    nearly(cost(&plan, "archive, stored").dollars.value, 10e6 * (145.0 / 1.65) / 1e9 * 0.023);
    nearly(cost(&plan, "archive, puts").dollars_per_million_messages, 0.005);
    nearly(cost(&plan, "archive, puts").naive_dollars_per_million_messages.unwrap(), 5.0);
}

#[test]
fn redis_is_as_many_shards_as_operations_or_memory_need() {
    let busy = plan("--messages-per-day 86.4m --peak-factor 100 --dedupe-hours 1");
    nearly(busy.redis.shards.value, (busy.redis.operations_per_message * 100_000.0 / 30_000.0).ceil());
    let remembering = plan("--messages-per-day 1b --users 1 --dedupe-hours 240 --gb-per-shard 10");
    nearly(remembering.redis.memory[0].figure.value, 1e10 * 42.0);
    nearly(remembering.redis.shards.value, 43.0);
}

#[test]
fn a_send_to_somebody_who_is_there_is_a_reserve_two_touches_and_an_entry_in_a_stream() {
    let plan = plan("--offline-share 0");
    let parts = ["reserve", "touch", "news"].map(|what| operations(&plan, what));
    assert_eq!(parts, [1.0, 2.0, 2.0]);
}

/// As measured (docs/explanation/fleet.md): 3 commands and a batch of 4 rows per receipt.
#[test]
fn a_mark_is_three_commands_and_an_entry_and_reads_four_rows() {
    let plan = plan("--offline-share 0 --messages-per-read 1");
    nearly(operations(&plan, "marks"), 2.0 * 3.0);
    nearly(operations(&plan, "ticks"), 2.0 * 2.0);
    nearly(read(&plan, "before a mark"), 2.0 * 4.0);
}

/// As measured (docs/explanation/fleet.md): 21 round trips for a page of 20 conversations. A reconnect takes
/// one per conversation.
#[test]
fn opening_the_app_asks_for_each_conversation_of_a_page_and_for_each_with_something_new() {
    let flags = "--messages-per-day 1m --users 1m --opens-per-day 1 --conversations-behind 20";
    let plan = plan(flags);
    nearly(operations(&plan, "connect"), 2.0);
    nearly(operations(&plan, "a page"), 21.0);
    nearly(operations(&plan, "a device"), 20.0);
    // Per conversation: five rows, the newest message, and a query for the unread count.
    nearly(read(&plan, "a page of the inbox"), 20.0 * (5.0 + 1.0 + 1.0));
    nearly(read(&plan, "where a device"), 20.0 * 3.0);
    nearly(read(&plan, "how far"), 20.0);
}

#[test]
fn those_who_share_a_node_have_one_entry_and_nobody_looks_a_large_group_up() {
    let group = plan("--members 20 --offline-share 0");
    nearly(operations(&group, "news"), 2.0 * 4.0);
    // 5 nodes write to 4 others each, 1,000 entries per second.
    nearly(operations(&group, "ticks"), 2.0 * 20_000.0 / group.messages.peak_per_second);
    let (small, large) = (plan("--members 99"), plan("--members 100"));
    assert!(operations(&small, "marks") > 50.0 * operations(&large, "marks"));
}

/// As measured: 5 puts per send. `delivered` deletes the pending row.
#[test]
fn without_redis_a_send_writes_all_its_rows_at_once() {
    let plan = plan("--offline-share 0 --age-days 90");
    let marks = writes(&plan, "message_status", "delivered") + writes(&plan, "message_status", "read");
    nearly(plan.write_units_without_redis() - marks, 5.0 + 1.0);
    let tables: f64 = plan.tables.iter().map(|table| table.write_units_without_redis.peak_per_second).sum();
    nearly(tables, plan.messages.times(plan.write_units_without_redis()).peak_per_second);
}

#[test]
fn one_cluster_takes_what_500_shards_with_a_replica_take() {
    for flags in ["", "--dedupe-hours 24 --gb-per-shard 48", "--replicas 0", "--replicas 3"] {
        let most = plan(flags).redis.messages_per_day_of_one_cluster.value;
        let at =
            |messages: f64| plan(&format!("{flags} --messages-per-day {messages:.0}")).redis.members.value;
        assert!(at(most * 0.99) <= 1_000.0 && at(most * 1.01) > 1_000.0, "{flags}");
    }
    let says = |flags: &str| plan(flags).show(false).contains("it does not carry this");
    assert!(says("--messages-per-day 100b") && !says("--messages-per-day 1b"));
}

#[test]
fn nodes_are_one_more_than_connections_or_messages_need() {
    nearly(plan("--messages-per-day 1m --users 1m --online-share 0.25").nodes.value, 3.0 + 1.0);
    nearly(plan("--messages-per-day 86.4m --peak-factor 6 --users 1").nodes.value, 2.0 + 1.0);
    nearly(plan("--messages-per-day 1 --users 1").nodes.value, 2.0);
}

#[test]
fn a_million_messages_cost_their_units_at_the_price_of_a_million() {
    let plan = plan("--write-price 2 --read-price 0");
    nearly(cost(&plan, "table writes").dollars_per_million_messages, 2.0 * plan.write_units());
    nearly(cost(&plan, "table reads").dollars.value, 0.0);
    let monthly = plan.dollars_per_million_messages() * 100.0 * 730.0 / 24.0;
    nearly(plan.dollars(), monthly);
}

#[test]
fn what_is_large_stays_in_proportion() {
    let (small, large) = (plan("--messages-per-day 100m"), plan("--messages-per-day 100b"));
    nearly(large.messages.peak_per_second, small.messages.peak_per_second * 1e3);
    nearly(large.stored_bytes(), small.stored_bytes() * 1e3);
    nearly(
        cost(&large, "table writes").dollars_per_million_messages,
        cost(&small, "table writes").dollars_per_million_messages,
    );
}

#[test]
fn every_line_says_how_it_comes_about() {
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
