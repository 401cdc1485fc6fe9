//! `bluetick bench store`: the embedded store without the network.
//!
//! Every send takes the full path: membership, dedupe, order, one durable batch, inbox rows,
//! checkpoints.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bluetick_core::ports::{Append, Creation, NewConversation, Store, StoreObserver};
use bluetick_core::time::{Clock, SystemClock};
use bluetick_core::{
    ContentType, ConversationId, MessageId, PageFrom, PageLimit, PageRequest, StoreError, UserId,
};
use bluetick_store_embedded::{EmbeddedStore, StoreParts, StoreSettings};
use tokio::task::JoinSet;

use crate::bare_log::{self, BareLog, GroupCommit};
use crate::data_directory::{Ground, Run};
use crate::error::settle;
use crate::latencies::Latencies;
use crate::measure::{Usage, UsedResources, disk_bytes, peak_bytes, resident_bytes};
use crate::progress::{ProgressLine, step};
use crate::watcher::{CollectedReports, ReportCollector};
use crate::workload::{Dice, Popularity, texts};
use crate::{BenchError, BenchReport};

#[derive(Clone, Debug)]
pub struct StoreBench {
    pub ground: Ground,
    pub messages: u64,
    pub conversations: usize,
    pub in_flight: usize,
    pub body_bytes: usize,
    /// How long pages are read, from memory and again after a restart, in seconds. 0 skips the
    /// reads.
    pub read_seconds: u64,
    pub settings: StoreSettings,
}

/// Upper bound on how long each bare log measurement runs. If it is too short, the result is noise.
const BARE_LOG: Duration = Duration::from_secs(10);

pub fn run(bench: StoreBench) -> Result<BenchReport, BenchError> {
    // One thread runs all senders, so that the other cores are free for the store.
    bench.ground.run(1, measure(&bench))
}

async fn measure(bench: &StoreBench) -> Result<BenchReport, BenchError> {
    let report = BenchReport::new("store")
        .parameter("messages", bench.messages)
        .parameter("conversations", bench.conversations as u64)
        .parameter("in_flight", bench.in_flight as u64)
        .parameter("body_bytes", bench.body_bytes as u64);
    let mut report = bench.ground.describe(report);
    let directory = bench.ground.directory();
    let watcher = Arc::new(ReportCollector::default());
    let opening = Instant::now();
    let store = open(bench, &watcher)?;
    let opened = opening.elapsed();
    step("founding conversations");
    let conversations = Arc::new(found_conversations(&store, bench, Run::new()).await?);
    watcher.take();

    step("sending");
    let usage = Usage::now(directory);
    let acks = send_all(&store, bench, &conversations, &watcher).await?;
    let sending = usage.spent();
    let (resident, peak) = (resident_bytes(), peak_bytes());
    step("reading");
    let usage = Usage::now(directory);
    let hot = read_pages(&store, bench, &conversations).await?;
    let hot_spent = usage.spent();
    let usage = Usage::now(directory);
    store.close().await;
    drop(store);
    let closing = usage.spent();
    let watched = watcher.take();
    let on_disk = disk_bytes(directory);
    let in_tables = disk_bytes(&directory.join("tables"));

    let reopening = Instant::now();
    let store = open(bench, &watcher)?;
    let reopened = reopening.elapsed();
    let usage = Usage::now(directory);
    let cold = read_pages(&store, bench, &conversations).await?;
    let cold_spent = usage.spent();
    store.close().await;
    drop(store);

    step("writing the same batches to a bare log");
    let in_directory = |error| BenchError::Io { path: directory.to_owned(), error };
    let replayed = bare_log::replay(directory, &watched.batches, BARE_LOG).map_err(in_directory)?;
    let bytes: usize = watched.batches.iter().map(|batch| batch.bytes).sum();
    let messages: usize = watched.batches.iter().map(|batch| batch.messages).sum();
    let record_bytes = bytes.div_ceil(messages.max(1));
    let group_commit =
        bare_log::group_commit(directory, bench.in_flight, record_bytes, bench.messages, BARE_LOG).await?;
    let results = Results {
        sending,
        closing,
        watched,
        acks,
        replayed,
        group_commit,
        resident,
        peak,
        on_disk,
        in_tables,
    };
    results.put_into(bench, &mut report);
    let per_second = |pages: u64, spent: UsedResources| pages as f64 / spent.wall.as_secs_f64();
    report.figure("hot_pages_per_second", "pages, newest 20, hot", per_second(hot, hot_spent), "/s");
    let cold = per_second(cold, cold_spent);
    report.figure("reopened_pages_per_second", "pages, newest 20, after a restart", cold, "/s");
    report.figure("first_open_ms", "opening, at the beginning", opened.as_secs_f64() * 1e3, "ms");
    report.figure("open_ms", "opening after a clean close", reopened.as_secs_f64() * 1e3, "ms");
    Ok(report)
}

fn open(bench: &StoreBench, watcher: &Arc<ReportCollector>) -> Result<Arc<EmbeddedStore>, BenchError> {
    let settings = StoreSettings { data_dir: bench.ground.directory.clone(), ..bench.settings.clone() };
    let observer: Arc<dyn StoreObserver> = watcher.clone();
    let parts = StoreParts { observer, ..StoreParts::new(settings) };
    Ok(Arc::new(EmbeddedStore::open(parts)?))
}

struct DirectPair {
    id: ConversationId,
    people: [UserId; 2],
}

async fn found_conversations(
    store: &Arc<EmbeddedStore>,
    bench: &StoreBench,
    run: Run,
) -> Result<Vec<DirectPair>, BenchError> {
    let person = |number: usize| bench.ground.person(run, "user", number);
    let mut pairs = Vec::with_capacity(bench.conversations);
    let mut opening = JoinSet::new();
    for number in 0..bench.conversations {
        let people = [person(number), person((number * 7 + 1) % bench.conversations + bench.conversations)];
        let id = ConversationId::direct(&people[0], &people[1]);
        let creation = Creation::Direct { peer: people[1].clone() };
        let (created_by, created_at) = (people[0].clone(), SystemClock.now());
        let new = NewConversation { id, creation, created_by, created_at };
        pairs.push(DirectPair { id, people });
        let store = Arc::clone(store);
        opening.spawn(async move { store.open_conversation(new).await.map(|_| ()) });
        if opening.len() >= 4096 {
            settle(opening.join_next().await)?;
        }
    }
    while let Some(opened) = opening.join_next().await {
        settle(Some(opened))?;
    }
    Ok(pairs)
}

async fn send_all(
    store: &Arc<EmbeddedStore>,
    bench: &StoreBench,
    pairs: &Arc<Vec<DirectPair>>,
    watcher: &Arc<ReportCollector>,
) -> Result<Arc<Latencies>, BenchError> {
    let mut dice = Dice::new(7);
    let texts = Arc::new(texts(bench.body_bytes, 4096, &mut dice));
    let left = Arc::new(AtomicU64::new(bench.messages));
    let popularity = Popularity::new(pairs.len());
    let all = Arc::new(Latencies::default());
    let mut senders = JoinSet::new();
    for sender in 0..bench.in_flight {
        let (store, pairs, texts) = (Arc::clone(store), Arc::clone(pairs), Arc::clone(&texts));
        let (left, latencies) = (Arc::clone(&left), Arc::clone(&all));
        senders.spawn(async move {
            let mut dice = Dice::new(sender as u64 + 1000);
            while left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok()
            {
                let pair = &pairs[popularity.pick(&mut dice)];
                let now = SystemClock.now();
                let mut uuid = [0; 16];
                uuid[..8].copy_from_slice(&(now.millis().cast_unsigned() << 16).to_be_bytes());
                uuid[6..14].copy_from_slice(&dice.next().to_be_bytes());
                uuid[14..].copy_from_slice(&(sender as u16).to_be_bytes());
                let append = Append {
                    conversation: pair.id,
                    sender: pair.people[dice.below(2)].clone(),
                    message_id: MessageId::Uuid(uuid),
                    content_type: ContentType::Text,
                    content: Arc::clone(&texts[dice.below(texts.len())]),
                    timestamp: now,
                    received_at: now,
                    retry_after: None,
                    origin: None,
                };
                let started = Instant::now();
                store.append(append).await?.await?;
                latencies.record(started.elapsed());
            }
            Ok::<_, StoreError>(())
        });
    }
    let (mut progress, mut last, started) = (ProgressLine::new(), 0, Instant::now());
    let mut every_second = tokio::time::interval(Duration::from_secs(1));
    loop {
        tokio::select! {
            joined = senders.join_next() => match joined {
                None => break,
                other => settle(other)?,
            },
            _ = every_second.tick() => {
                let done = watcher.committed.load(Ordering::Relaxed);
                let (percent, seconds) = (done * 100 / bench.messages.max(1), started.elapsed().as_secs());
                progress.show(&format!(
                    "{percent:>3} %  {done} sent in {seconds} s, {} in the last second", done - last
                ));
                last = done;
            }
        }
    }
    Ok(all)
}

async fn read_pages(
    store: &Arc<EmbeddedStore>,
    bench: &StoreBench,
    pairs: &Arc<Vec<DirectPair>>,
) -> Result<u64, BenchError> {
    let popularity = Popularity::new(pairs.len());
    let until = Instant::now() + Duration::from_secs(bench.read_seconds);
    let mut readers = JoinSet::new();
    for reader in 0..8 {
        let (store, pairs) = (Arc::clone(store), Arc::clone(pairs));
        readers.spawn(async move {
            let mut dice = Dice::new(reader + 5000);
            let mut pages = 0;
            while Instant::now() < until {
                let pair = &pairs[popularity.pick(&mut dice)];
                let request = PageRequest {
                    conversation: pair.id,
                    reader: pair.people[0].clone(),
                    from: PageFrom::Newest,
                    limit: PageLimit::DEFAULT,
                };
                store.page(request).await?;
                pages += 1;
            }
            Ok::<u64, StoreError>(pages)
        });
    }
    let mut pages = 0;
    while let Some(joined) = readers.join_next().await {
        match joined {
            Ok(Ok(count)) => pages += count,
            other => settle(Some(other))?,
        }
    }
    Ok(pages)
}

struct Results {
    sending: UsedResources,
    closing: UsedResources,
    watched: CollectedReports,
    acks: Arc<Latencies>,
    replayed: BareLog,
    group_commit: GroupCommit,
    resident: u64,
    peak: u64,
    on_disk: u64,
    in_tables: u64,
}

impl Results {
    fn put_into(&self, bench: &StoreBench, report: &mut BenchReport) {
        let messages = bench.messages as f64;
        let rate = messages / self.sending.wall.as_secs_f64();
        report.figure("stored_per_second", "durable sends", rate, "/s");
        let limit = self.group_commit.messages_per_second;
        report.figure("bare_group_commit_per_second", "bare log, same group commit and bytes", limit, "/s");
        let share = rate * 100.0 / limit;
        report.figure("share_of_bare_group_commit_percent", "share of that", share, "%");
        let limit = self.replayed.messages_per_second;
        report.figure("bare_replay_per_second", "bare log, same batches without callers", limit, "/s");
        report.figure("share_of_bare_replay_percent", "share of that", rate * 100.0 / limit, "%");
        report.latencies("send_to_ack", "send to ack", &self.acks);
        report.latencies("bare_group_commit_to_ack", "send to ack, bare log", &self.group_commit.acks);
        report.latencies("fsync", "fsync", &self.watched.sync);
        report.latencies("bare_replay_fsync", "fsync, bare log", &self.replayed.sync);
        self.put_costs(bench, report);
    }

    fn put_costs(&self, bench: &StoreBench, report: &mut BenchReport) {
        let messages = bench.messages as f64;
        // Include the final checkpoint in the costs of the messages.
        let cpu = (self.sending.cpu + self.closing.cpu).as_secs_f64() * 1e6 / messages;
        let label = "CPU of the store and the bench";
        report.figure("cpu_seconds_per_million_messages", label, cpu, "s a million messages");
        let bare = self.group_commit.cpu_seconds_per_million;
        let label = "CPU of the bare log with group commit";
        let key = "bare_group_commit_cpu_seconds_per_million_messages";
        report.figure(key, label, bare, "s a million messages");
        let (count, batches) = (self.watched.batch_count as f64, self.watched.batch_count.max(1) as f64);
        report.figure("acknowledged_messages", "acknowledged", self.acks.count() as f64, "messages");
        report.figure("fsyncs", "fsyncs of the log", count, "");
        report.figure("messages_per_fsync", "messages a fsync", messages / batches, "");
        let bare = self.group_commit.messages_per_fsync;
        report.figure("bare_group_commit_messages_per_fsync", "messages a fsync, bare log", bare, "");
        let checkpoints = &self.watched.checkpoints;
        let longest = checkpoints.iter().map(|report| report.took).max().unwrap_or_default();
        report.figure("checkpoints", "checkpoints", checkpoints.len() as f64, "");
        report.figure("longest_checkpoint_seconds", "longest checkpoint", longest.as_secs_f64(), "s");
        let written = (self.sending.written_bytes + self.closing.written_bytes) as f64;
        report.figure("device_written_bytes", "written to the device", written, "bytes");
        let each = written / messages;
        report.figure("device_written_bytes_per_message", "written to the device", each, "bytes a message");
        if bench.ground.stored.messages == 0 {
            let each = self.in_tables as f64 / messages;
            report.figure("table_bytes_per_message", "on disk, tables", each, "bytes a message");
        }
        report.figure("disk_bytes", "on disk, with log and spares", self.on_disk as f64, "bytes");
        report.figure("resident_bytes", "resident memory at the end", self.resident as f64, "bytes");
        report.figure("peak_resident_bytes", "resident memory, peak", self.peak as f64, "bytes");
    }
}
