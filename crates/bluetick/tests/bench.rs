//! `bluetick bench`: a small run of every workload prints a machine-readable report.

#![expect(clippy::unwrap_used, reason = "a test may stop where its own set-up fails")]

mod support;

use serde_json::Value;
use support::Shell;

/// Runs the benchmark with `--json` and asserts that the documented keys hold numbers.
fn report(arguments: &[&str], figures: &[&str], latencies: &[&str]) -> Value {
    let shell = Shell::new();
    let all: Vec<&str> = [&["bench", "--json"], arguments].concat();
    let outcome = shell.run(&all);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    let json: Value = serde_json::from_str(&outcome.stdout).unwrap();
    assert_eq!(json["workload"], arguments[0]);
    for key in figures {
        assert!(json["figures"][key].is_number(), "{key} of {arguments:?}: {}", json["figures"]);
    }
    for key in latencies {
        for part in ["count", "p50_ms", "p99_ms", "p99_9_ms", "max_ms"] {
            assert!(json["latencies"][key][part].is_number(), "{key} {part}: {}", json["latencies"]);
        }
    }
    assert!(outcome.stderr.contains(arguments[0]), "the table goes to standard error");
    assert!(!shell.path("bluetick-bench").exists(), "the directory is removed");
    json
}

/// Figures that every network benchmark reports.
const COSTS: [&str; 4] = ["fsyncs", "device_written_bytes", "server_peak_resident_bytes", "server_start_ms"];

#[test]
fn bench_pairs_reports_stored_delivered_and_cpu_time() {
    let rates = ["stored_per_second", "delivered_per_second"];
    let processor = ["server_cpu_seconds_per_million_messages", "bench_cpu_seconds_per_million_messages"];
    let figures = [&rates[..], &processor, &COSTS].concat();
    let closed = ["pairs", "--pairs", "3", "--window", "4", "--seconds", "1"];
    let json = report(&closed, &figures, &["send_to_ack", "one_fsync"]);
    assert!(json["latencies"]["send_to_ack"]["count"].as_u64() > Some(0));
    assert!(json["figures"]["fsyncs"].as_f64() > Some(0.0));

    let open = ["pairs", "--pairs", "2", "--rate", "20", "--seconds", "1"];
    report(&open, &["offered_per_second"], &["due_to_ack", "due_to_written"]);
    let half = ["pairs", "--pairs", "2", "--half-load", "--seconds", "1"];
    report(&half, &["full_rate_per_second", "ack_p99_per_fsync_p99_times"], &["due_to_ack", "one_fsync"]);
}

#[test]
fn bench_group_reports_delivered_messages() {
    let figures = ["delivered_per_second", "server_cpu_seconds_per_million_deliveries"];
    let arguments = ["group", "--members", "5", "--senders", "2", "--window", "2", "--seconds", "1"];
    report(&arguments, &[&figures[..], &COSTS].concat(), &["send_to_ack"]);
}

#[test]
fn bench_history_reports_page_count() {
    let arguments =
        ["history", "--conversations", "5", "--messages", "30", "--readers", "2", "--seconds", "1"];
    let figures = ["pages_per_second", "server_cpu_seconds_per_million_pages"];
    report(&arguments, &[&figures[..], &COSTS].concat(), &["page"]);
}

#[test]
fn bench_idle_and_reconnect_report_connection_counts() {
    let figures = [
        "sessions_per_second",
        "server_cpu_seconds_per_million_connections",
        "server_resident_bytes_per_connection",
        "bench_resident_bytes_per_connection",
    ];
    report(&["idle", "--connections", "20"], &figures, &["connect_to_caught_up"]);
    let figures = ["sessions_per_second", "backlog_messages_per_second"];
    report(&["reconnect", "--devices", "5", "--missed", "3"], &figures, &["storm_to_caught_up"]);
}

#[test]
fn bench_store_compares_with_bare_logs_and_accepts_a_filled_store() {
    let figures = [
        "stored_per_second",
        "share_of_bare_group_commit_percent",
        "share_of_bare_replay_percent",
        "cpu_seconds_per_million_messages",
        "fsyncs",
        "device_written_bytes",
        "peak_resident_bytes",
    ];
    let sizes = ["store", "--messages", "500", "--conversations", "20", "--read-seconds", "0"];
    let stored = ["--stored-messages", "400", "--stored-conversations", "10"];
    report(&[&sizes[..], &stored].concat(), &figures, &["send_to_ack", "fsync"]);
}

#[test]
fn bench_inbox_reports_pages_read_state_and_receipts() {
    let arguments = ["inbox", "--conversations", "20", "--seconds", "1", "--in-flight", "10"];
    report(&arguments, &["marks_per_second", "receipts_per_second"], &["mark", "receipts"]);
}

#[test]
fn bench_attack_runs_every_attack_and_compares_honest_ack_latency() {
    let quiet = ["quiet_ack_p50_ms", "quiet_ack_p99_ms", "quiet_server_cores", "server_peak_resident_bytes"];
    let sizes =
        ["attack", "--pairs", "2", "--rate", "50", "--seconds", "1", "--rounds", "1", "--connections", "100"];
    let json = report(&sizes, &quiet, &[]);
    let parameters = json["parameters"].as_object().unwrap();
    assert_eq!(parameters["connections"], 100);
    let acted = |name: &str| json["figures"][format!("{name}_acts_per_second")].as_f64();
    let names = [
        "slow_loris",
        "never_reading",
        "one_byte_frames",
        "giant_frames",
        "reconnect_storm",
        "log_in_flood",
        "connections_of_one_user",
        "ping_flood",
        "guessed_ids",
        "bad_tokens",
    ];
    for name in names {
        assert!(acted(name) > Some(0.0), "{name}: {}", json["figures"]);
        assert!(json["figures"][format!("{name}_ack_p99_times_quiet")].is_number(), "{name}");
    }
    // Other refusals depend on how many attempts a busy machine leaves to the attackers.
    let refused = json["figures"]["bad_tokens_refusals_per_second"].as_f64();
    assert!(refused > Some(0.0), "no connection refused a bad token: {}", json["figures"]);
}

#[test]
fn kept_bench_store_is_reused_and_refuses_other_parameters() {
    let shell = Shell::new();
    let run = |stored: &str| {
        let sizes = ["bench", "pairs", "--pairs", "2", "--window", "1", "--seconds", "1", "--keep"];
        let stored = ["--stored-messages", stored, "--stored-conversations", "5"];
        shell.run(&[&sizes[..], &stored].concat())
    };
    let first = run("50");
    assert_eq!(first.code, 0, "{}", first.stderr);
    assert!(first.stderr.contains("storing 50 messages"), "{}", first.stderr);
    let second = run("50");
    assert_eq!(second.code, 0, "{}", second.stderr);
    assert!(!second.stderr.contains("storing"), "{}", second.stderr);
    let other = run("60");
    assert_eq!(other.code, 2, "{}", other.stderr);
    assert!(other.stderr.contains("--stored-messages 50"), "{}", other.stderr);
}
