//! Prometheus metrics: names, units and labels. The callers decide when to count.

use std::sync::Arc;
use std::time::Duration;

use bluetick_core::ports::{ArchiveCounters, CheckpointReport, CommitReport, FleetCounters, StoreObserver};
use bluetick_wire::{CloseCode, ErrorCode};
use prometheus_client::encoding::text;
use prometheus_client::metrics::counter::{ConstCounter, Counter};
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::{ConstGauge, Gauge};
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Registry, Unit};

use crate::limits::ConnectionRefusal;

/// A counter with one label.
type Labelled = Family<[(&'static str, &'static str); 1], Counter>;

/// All metrics of the server. Cheap to update from any thread.
pub struct Metrics {
    registry: Registry,
    pub(crate) connections: Gauge,
    pub(crate) outbox_bytes: Gauge,
    pub(crate) pushes: Counter,
    stored: Counter,
    pub(crate) duplicates: Counter,
    pub(crate) refusals: Counter,
    ack_seconds: Histogram,
    rejects: Labelled,
    closes: Labelled,
    commit_messages: Histogram,
    commit_bytes: Histogram,
    fsync_seconds: Histogram,
    checkpoint_seconds: Histogram,
    pub(crate) marks: Counter,
    pub(crate) marks_merged: Counter,
    pub(crate) marks_refused: Counter,
    statuses: Counter,
    statuses_merged: Counter,
    pub(crate) backlog_messages: Counter,
    pub(crate) catch_ups: Gauge,
    drops: Labelled,
    connection_refused: Labelled,
    admin_key_failures: Labelled,
}

/// Kinds of frames that the server drops under load. Clients can query presence and inbox entries;
/// dropped typing events are lost.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Dropped {
    /// A `typing` or `presence` frame, dropped because an outbox was too full or a large group had
    /// too many of them.
    Ephemeral,
    /// A `conversation` frame.
    Conversation,
    /// A presence change of a user.
    Presence,
}

impl Dropped {
    /// All values, so that every label starts at 0. A missing one appears only after its first
    /// drop.
    const ALL: [Dropped; 3] = [Dropped::Ephemeral, Dropped::Conversation, Dropped::Presence];

    const fn as_str(self) -> &'static str {
        match self {
            Dropped::Ephemeral => "ephemeral_frame",
            Dropped::Conversation => "conversation_frame",
            Dropped::Presence => "presence_change",
        }
    }
}

/// Why an admin key was refused.
#[derive(Clone, Copy, Debug)]
pub(crate) enum KeyFailure {
    /// The key is not the admin key.
    Wrong,
    /// The key is wrong, and its address has presented too many wrong keys.
    TooMany,
}

impl KeyFailure {
    const fn as_str(self) -> &'static str {
        match self {
            KeyFailure::Wrong => "wrong",
            KeyFailure::TooMany => "too_many",
        }
    }
}

/// The label of a connection that was refused because of the limit on open files.
const OPEN_FILES: &str = "open_files";

/// Returns the label of a refused connection.
const fn name_of(reason: ConnectionRefusal) -> &'static str {
    match reason {
        ConnectionRefusal::TooManyOpen => "connections",
        ConnectionRefusal::TooFast(_) => "rate",
    }
}

impl Metrics {
    /// Registers all metrics. Labels with a known set of values start at 0.
    pub fn new() -> Arc<Metrics> {
        let mut registry = Registry::with_prefix("bluetick");
        let seconds = || Histogram::new(exponential_buckets(0.000_1, 2.0, 18));

        let connections = Gauge::default();
        registry.register("connections", "Authenticated WebSocket connections", connections.clone());
        let outbox_bytes = Gauge::default();
        let help = "Bytes waiting to be written to WebSockets";
        registry.register_with_unit("outbox", help, Unit::Bytes, outbox_bytes.clone());
        let pushes = Counter::default();
        registry.register("pushes", "Frames put into the outboxes of connections", pushes.clone());

        let sends = Labelled::default();
        registry.register("sends", "Messages sent by clients, by result", sends.clone());
        let result = |name| sends.get_or_create(&[("result", name)]).clone();
        let (stored, duplicates, refusals) = (result("stored"), result("duplicate"), result("refused"));
        let ack_seconds = seconds();
        let help = "Time from reading a send to its stored outcome, for connections that are still open";
        registry.register_with_unit("ack", help, Unit::Seconds, ack_seconds.clone());

        let rejects = Labelled::default();
        registry.register("rejects", "Requests and frames refused, by error code", rejects.clone());
        for code in ErrorCode::ALL {
            let _ = rejects.get_or_create(&[("code", code.as_str())]);
        }
        let closes = Labelled::default();
        registry.register("closes", "WebSockets closed by the server, by reason", closes.clone());
        for code in CloseCode::ALL {
            let _ = closes.get_or_create(&[("reason", code.as_str())]);
        }

        let commit_messages = Histogram::new(exponential_buckets(1.0, 2.0, 14));
        registry.register("commit_messages", "Messages in one durable batch", commit_messages.clone());
        let commit_bytes = Histogram::new(exponential_buckets(64.0, 4.0, 10));
        registry.register_with_unit("commit", "Size of one durable batch", Unit::Bytes, commit_bytes.clone());
        let fsync_seconds = seconds();
        let help = "Time to make one batch durable";
        registry.register_with_unit("fsync", help, Unit::Seconds, fsync_seconds.clone());
        let checkpoint_seconds = Histogram::new(exponential_buckets(0.001, 2.0, 16));
        let help = "Time of one checkpoint from log to tables";
        registry.register_with_unit("checkpoint", help, Unit::Seconds, checkpoint_seconds.clone());

        let marks = Labelled::default();
        registry.register("marks", "Delivered and read frames of clients, by result", marks.clone());
        let fate = |name| marks.get_or_create(&[("result", name)]).clone();
        let (marks, marks_merged, marks_refused) = (fate("stored"), fate("merged"), fate("refused"));
        let statuses = Counter::default();
        registry.register("status_frames", "Status and receipts frames put into outboxes", statuses.clone());
        let statuses_merged = Counter::default();
        let help = "Read state changes in large groups that were merged into another frame";
        registry.register("statuses_merged", help, statuses_merged.clone());
        let backlog_messages = Counter::default();
        let help = "Messages sent to reconnected devices during catch-up";
        registry.register("backlog_messages", help, backlog_messages.clone());
        let catch_ups = Gauge::default();
        registry.register("catch_ups", "Connections in catch-up", catch_ups.clone());
        let drops = Labelled::default();
        registry.register("drops", "Frames and presence changes dropped under load, by kind", drops.clone());
        for what in Dropped::ALL {
            let _ = drops.get_or_create(&[("what", what.as_str())]);
        }

        let connection_refused = Labelled::default();
        let help = "Connections refused by the listener, by the limit that was exceeded";
        registry.register("turned_away", help, connection_refused.clone());
        for reason in [ConnectionRefusal::TooManyOpen, ConnectionRefusal::TooFast(Duration::ZERO)] {
            let _ = connection_refused.get_or_create(&[("reason", name_of(reason))]);
        }
        let _ = connection_refused.get_or_create(&[("reason", OPEN_FILES)]);

        let admin_key_failures = Labelled::default();
        let help =
            "Wrong admin keys by answer: wrong is 401; too_many is 429, above the limit of the address";
        registry.register("admin_key_failures", help, admin_key_failures.clone());
        for failure in [KeyFailure::Wrong, KeyFailure::TooMany] {
            let _ = admin_key_failures.get_or_create(&[("reason", failure.as_str())]);
        }

        Arc::new(Metrics {
            registry,
            connections,
            outbox_bytes,
            pushes,
            stored,
            duplicates,
            refusals,
            ack_seconds,
            rejects,
            closes,
            commit_messages,
            commit_bytes,
            fsync_seconds,
            checkpoint_seconds,
            marks,
            marks_merged,
            marks_refused,
            statuses,
            statuses_merged,
            backlog_messages,
            catch_ups,
            drops,
            connection_refused,
            admin_key_failures,
        })
    }

    pub(crate) fn statuses_pushed(&self, frames: u64) {
        self.statuses.inc_by(frames);
        self.pushes.inc_by(frames);
    }

    pub(crate) fn statuses_merged(&self, changes: u64) {
        self.statuses_merged.inc_by(changes);
    }

    pub(crate) fn dropped(&self, what: Dropped, count: u64) {
        if count > 0 {
            self.drops.get_or_create(&[("what", what.as_str())]).inc_by(count);
        }
    }

    pub(crate) fn stored(&self, messages: usize) {
        self.stored.inc_by(messages as u64);
    }

    /// Records the latency of a send that was answered with its seq, new or existing.
    pub(crate) fn acknowledged(&self, took: Duration) {
        self.ack_seconds.observe(took.as_secs_f64());
    }

    pub(crate) fn rejected(&self, code: ErrorCode) {
        self.rejects.get_or_create(&[("code", code.as_str())]).inc();
    }

    pub(crate) fn closed(&self, code: CloseCode) {
        self.closes.get_or_create(&[("reason", code.as_str())]).inc();
    }

    pub(crate) fn connection_refused(&self, reason: ConnectionRefusal) {
        self.connection_refused.get_or_create(&[("reason", name_of(reason))]).inc();
    }

    pub(crate) fn connection_above_file_limit(&self) {
        self.connection_refused.get_or_create(&[("reason", OPEN_FILES)]).inc();
    }

    pub(crate) fn admin_key_failed(&self, failure: KeyFailure) {
        self.admin_key_failures.get_or_create(&[("reason", failure.as_str())]).inc();
    }

    /// Encodes all metrics as Prometheus text. The counters of the archive and of the fleet come
    /// from the store.
    pub(crate) fn encode(&self, archive: &ArchiveCounters, fleet: Option<&FleetCounters>) -> String {
        let mut text = String::new();
        let written = text::encode_registry(&mut text, &self.registry)
            .and_then(|()| text::encode_registry(&mut text, &archive_registry(archive)))
            .and_then(|()| match fleet {
                Some(fleet) => text::encode_registry(&mut text, &fleet_registry(fleet)),
                None => Ok(()),
            })
            .and_then(|()| text::encode_eof(&mut text));
        written.expect("writing to a `String` does not fail");
        text
    }
}

/// Builds a registry from the counters of the archive.
fn archive_registry(counters: &ArchiveCounters) -> Registry {
    let mut registry = Registry::with_prefix("bluetick_archive");
    for (name, help, value) in [
        ("moved_messages", "Messages moved to the archive", counters.moved_messages),
        ("segments", "Segments written to the archive", counters.moved_segments),
        ("fetches", "Requests to the object store for a part of a segment", counters.fetches),
        ("failed_fetches", "Requests to the object store that failed", counters.failed_fetches),
        ("frame_reads", "Reads of a part of a segment", counters.frame_reads),
        (
            "frame_reads_from_memory",
            "Reads of a part that was cached or already being fetched",
            counters.frame_reads_from_memory,
        ),
        ("damaged_frames", "Parts of segments that failed verification", counters.damaged_frames),
        ("runs", "Archive runs", counters.runs),
        ("failed_runs", "Archive runs that failed", counters.failed_runs),
    ] {
        registry.register(name, help, ConstCounter::new(value));
    }
    let help = "Bytes read from the object store";
    registry.register_with_unit("fetched", help, Unit::Bytes, ConstCounter::new(counters.fetched_bytes));
    let help = "1 if the last archive run failed";
    registry.register("paused", help, ConstGauge::new(i64::from(counters.paused.is_some())));
    registry
}

/// Builds a registry from the counters of the fleet.
fn fleet_registry(counters: &FleetCounters) -> Registry {
    let mut registry = Registry::with_prefix("bluetick");
    let help = "1 if Redis answers";
    registry.register("redis_up", help, ConstGauge::new(i64::from(counters.redis_up)));
    let help = "Live nodes of the cluster, including this one";
    registry.register("nodes", help, ConstGauge::new(i64::try_from(counters.nodes).unwrap_or(i64::MAX)));
    let requests = Labelled::default();
    for (operation, count) in &counters.dynamodb_requests {
        requests.get_or_create(&[("operation", *operation)]).inc_by(*count);
    }
    registry.register("dynamodb_requests", "DynamoDB requests, including retries", requests);
    let news = Labelled::default();
    news.get_or_create(&[("direction", "sent")]).inc_by(counters.news_sent);
    news.get_or_create(&[("direction", "received")]).inc_by(counters.news_received);
    registry.register("node_news", "Events between nodes, by direction", news);
    for (name, help, value) in [
        ("dynamodb_retries", "Retried DynamoDB requests", counters.dynamodb_retries),
        ("dynamodb_throttles", "DynamoDB requests that were throttled", counters.dynamodb_throttles),
        ("voids_written", "Gaps that this node filled with a void", counters.voids_written),
        ("reseeds", "Conversations rehydrated in Redis from the tables", counters.reseeds),
        ("fallback_sends", "Messages stored while Redis was unavailable", counters.fallback_sends),
        ("repairs", "Conversations in which missed events were recovered from the tables", counters.repairs),
        ("salt_epochs", "Changes of the partition count of a busy conversation", counters.salt_epochs),
        ("scatter_reads", "Reads of conversations with several partitions", counters.scatter_reads),
        ("scatter_queries", "Partition queries of such reads", counters.scatter_queries),
        ("coalesced_reads", "Reads answered by a concurrent identical read", counters.coalesced_reads),
    ] {
        registry.register(name, help, ConstCounter::new(value));
    }
    registry
}

impl StoreObserver for Metrics {
    fn committed(&self, report: CommitReport) {
        // Exact in an `f64`: counts and sizes stay far below 2^52.
        self.commit_messages.observe(report.messages as f64);
        self.commit_bytes.observe(report.bytes as f64);
        self.fsync_seconds.observe(report.sync.as_secs_f64());
    }

    fn checkpointed(&self, report: CheckpointReport) {
        self.checkpoint_seconds.observe(report.took.as_secs_f64());
    }
}
