//! `bluetick bench store`: the embedded store alone, without the network.
//!
//! Every send is a whole one: membership, dedupe, order, one durable batch, inbox rows, checkpoints.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bluetick_core::ports::{
    Append, CheckpointReport, CommitReport, Creation, NewConversation, Store, StoreObserver,
};
use bluetick_core::time::{Clock, SystemClock};
use bluetick_core::{
    ContentType, ConversationId, MessageId, PageFrom, PageLimit, PageRequest, StoreError, UserId,
};
use bluetick_store_embedded::{EmbeddedStore, StoreParts, StoreSettings};
use tokio::task::JoinSet;

use crate::BenchError;
use crate::bare_log::{self, BareLog, BatchSize};
use crate::measure::{Latencies, Spent, Usage, disk_bytes, resident_bytes};
use crate::scratch::{in_scratch, settle};
use crate::workload::{Dice, Popularity, texts};

#[derive(Clone, Debug)]
pub struct StoreBench {
    /// An empty or missing directory on the disk to be measured. It is removed at the end.
    pub directory: PathBuf,
    pub messages: u64,
    pub conversations: usize,
    pub in_flight: usize,
    pub body_bytes: usize,
    /// How long pages are read, hot and after a restart. 0 leaves that out.
    pub read_seconds: u64,
    pub settings: StoreSettings,
}

/// Collects what the store reports about itself.
#[derive(Default)]
struct Watcher {
    committed: AtomicU64,
    state: Mutex<Option<Watched>>,
}

struct Watched {
    batches: Vec<BatchSize>,
    batch_count: u64,
    sync: Latencies,
    checkpoints: Vec<CheckpointReport>,
}

/// The bare log replays this many batches at the most.
const REPLAYED_BATCHES: usize = 200_000;

impl Watcher {
    fn with<T>(&self, act: impl FnOnce(&mut Watched) -> T) -> T {
        let mut state = self.state.lock().expect("watching does not panic");
        act(state.get_or_insert_with(|| Watched {
            batches: Vec::new(),
            batch_count: 0,
            sync: Latencies::default(),
            checkpoints: Vec::new(),
        }))
    }

    /// Forgets the preparation and gives what was seen so far.
    fn take(&self) -> Watched {
        self.committed.store(0, Ordering::Relaxed);
        self.with(|_| {});
        self.state.lock().expect("watching does not panic").take().expect("it was just filled")
    }
}

impl StoreObserver for Watcher {
    fn committed(&self, report: CommitReport) {
        self.committed.fetch_add(report.messages as u64, Ordering::Relaxed);
        self.with(|watched| {
            watched.batch_count += 1;
            watched.sync.record(report.sync);
            if watched.batches.len() < REPLAYED_BATCHES {
                watched.batches.push(BatchSize { messages: report.messages, bytes: report.bytes });
            }
        });
    }

    fn checkpointed(&self, report: CheckpointReport) {
        self.with(|watched| watched.checkpoints.push(report));
    }
}

/// Runs everything and prints as it goes.
pub fn run(bench: StoreBench) -> Result<(), BenchError> {
    // One thread sends for everybody; the processors are for the store.
    in_scratch(&bench.directory, 1, measure(&bench))
}

async fn measure(bench: &StoreBench) -> Result<(), BenchError> {
    println!(
        "store: {} messages of {} bytes, {} conversations, {} in flight, in {}",
        bench.messages,
        bench.body_bytes,
        bench.conversations,
        bench.in_flight,
        bench.directory.display()
    );
    let watcher = Arc::new(Watcher::default());
    let store = open(bench, &watcher)?;
    let conversations = Arc::new(found_conversations(&store, bench).await?);
    watcher.take();

    let usage = Usage::now(&bench.directory);
    let acks = send_all(&store, bench, &conversations, &watcher).await?;
    let sending = usage.spent();
    let resident = resident_bytes();
    let usage = Usage::now(&bench.directory);
    let hot = read_pages(&store, bench, &conversations).await?;
    let hot_spent = usage.spent();
    let usage = Usage::now(&bench.directory);
    store.close().await;
    drop(store);
    let closing = usage.spent();
    let watched = watcher.take();
    let on_disk = disk_bytes(&bench.directory);
    let in_tables = disk_bytes(&bench.directory.join("tables"));

    let reopening = Instant::now();
    let store = open(bench, &watcher)?;
    let reopened = reopening.elapsed();
    let usage = Usage::now(&bench.directory);
    let cold = read_pages(&store, bench, &conversations).await?;
    let cold_spent = usage.spent();
    store.close().await;
    drop(store);

    let in_directory = |error| BenchError::Io { path: bench.directory.clone(), error };
    let limit =
        bare_log::run(&bench.directory, &watched.batches, Duration::from_secs(10)).map_err(in_directory)?;
    let results = Results { sending, closing, watched, acks, limit, resident, on_disk, in_tables };
    results.print(bench);
    println!("pages, newest 20, hot        {:>12.0} /s", hot as f64 / hot_spent.wall.as_secs_f64());
    println!("pages, after a restart       {:>12.0} /s", cold as f64 / cold_spent.wall.as_secs_f64());
    println!("opening after a clean close  {:>12.0} ms", reopened.as_secs_f64() * 1000.0);
    Ok(())
}

fn open(bench: &StoreBench, watcher: &Arc<Watcher>) -> Result<Arc<EmbeddedStore>, BenchError> {
    let settings = StoreSettings { data_dir: bench.directory.clone(), ..bench.settings.clone() };
    let observer: Arc<dyn StoreObserver> = watcher.clone();
    let parts = StoreParts { observer, ..StoreParts::new(settings) };
    Ok(Arc::new(EmbeddedStore::open(parts)?))
}

struct Pair {
    id: ConversationId,
    people: [UserId; 2],
}

async fn found_conversations(
    store: &Arc<EmbeddedStore>,
    bench: &StoreBench,
) -> Result<Vec<Pair>, BenchError> {
    let person = |number: usize| -> UserId { format!("user-{number:08}").parse().expect("a short name") };
    let mut pairs = Vec::with_capacity(bench.conversations);
    let mut opening = JoinSet::new();
    for number in 0..bench.conversations {
        let people = [person(number), person((number * 7 + 1) % bench.conversations + bench.conversations)];
        let id = ConversationId::direct(&people[0], &people[1]);
        let creation = Creation::Direct { peer: people[1].clone() };
        let (created_by, created_at) = (people[0].clone(), SystemClock.now());
        let new = NewConversation { id, creation, created_by, created_at };
        pairs.push(Pair { id, people });
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
    pairs: &Arc<Vec<Pair>>,
    watcher: &Arc<Watcher>,
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
    let mut progress = Progress::new(bench.messages);
    let mut every_second = tokio::time::interval(Duration::from_secs(1));
    loop {
        tokio::select! {
            joined = senders.join_next() => match joined {
                None => break,
                other => settle(other)?,
            },
            _ = every_second.tick() => progress.show(watcher.committed.load(Ordering::Relaxed)),
        }
    }
    Ok(all)
}

/// One line that counts up on a terminal; a line every ten seconds elsewhere.
struct Progress {
    total: u64,
    last: u64,
    ticks: u64,
    started: Instant,
}

impl Progress {
    fn new(total: u64) -> Progress {
        Progress { total, last: 0, ticks: 0, started: Instant::now() }
    }

    fn show(&mut self, done: u64) {
        use std::io::IsTerminal;
        let terminal = std::io::stderr().is_terminal();
        if self.ticks > 0 && (terminal || self.ticks.is_multiple_of(10)) {
            let percent = done * 100 / self.total.max(1);
            let rate = done - self.last;
            let seconds = self.started.elapsed().as_secs();
            let end = if terminal { "\r" } else { "\n" };
            eprint!("{percent:>3} %  {done} sent in {seconds} s, {rate} in the last second   {end}");
        }
        self.last = done;
        self.ticks += 1;
    }
}

async fn read_pages(
    store: &Arc<EmbeddedStore>,
    bench: &StoreBench,
    pairs: &Arc<Vec<Pair>>,
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
    sending: Spent,
    closing: Spent,
    watched: Watched,
    acks: Arc<Latencies>,
    limit: BareLog,
    resident: u64,
    on_disk: u64,
    in_tables: u64,
}

impl Results {
    fn print(&self, bench: &StoreBench) {
        let messages = bench.messages as f64;
        let rate = messages / self.sending.wall.as_secs_f64();
        let cpu = (self.sending.cpu + self.closing.cpu).as_secs_f64() * 1e6 / messages;
        let written = (self.sending.written_bytes + self.closing.written_bytes) as f64 / messages;
        let checkpoints = &self.watched.checkpoints;
        let longest = checkpoints.iter().map(|report| report.took).max().unwrap_or_default();
        println!();
        println!("durable sends                {rate:>12.0} /s");
        println!("bare log, same batches       {:>12.0} /s", self.limit.messages_per_second);
        println!("share of the bare log        {:>12.0} %", rate * 100.0 / self.limit.messages_per_second);
        println!("CPU, last checkpoint and all {cpu:>12.2} µs a message");
        println!("ack                          {}", self.acks.summary());
        println!("sync                         {}", self.watched.sync.summary());
        println!("sync, bare log               {}", self.limit.sync.summary());
        println!("acknowledged                 {:>12}", self.acks.count());
        println!("batches                      {:>12}", self.watched.batch_count);
        println!("messages a batch             {:>12.1}", messages / self.watched.batch_count as f64);
        println!(
            "checkpoints                  {:>12}, the longest {:.1} s",
            checkpoints.len(),
            longest.as_secs_f64()
        );
        println!("written to the device        {written:>12.0} bytes a message");
        println!("on disk, tables              {:>12.1} bytes a message", self.in_tables as f64 / messages);
        println!("on disk, with log and spares {:>12} bytes", self.on_disk);
        println!("resident memory at the end   {:>12} bytes", self.resident);
    }
}
