//! Nodes, clients and readers of one conversation, and the audit at the end of a run.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bluetick_core::ports::Random;
use bluetick_core::time::ManualClock;
use bluetick_core::{ConversationId, MessageId, Seq, StoreError, Timestamp, UserId};
use bluetick_store_cloud::log::{
    Appended, ConversationLog, FingerprintKey, Incarnation, LogEntry, LogParts, LogReader, LogRow,
    PartitionMap, PlantedBug, RowKind,
};
use bluetick_store_cloud::rows::memory::MemoryRows;
use bluetick_store_cloud::rows::{Item, Rows, Sort, Table};
use parking_lot::Mutex;
use tokio::sync::{mpsc, oneshot};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{sleep, timeout};

use crate::tables::{Chance, FaultyTables, Network};

/// A rule that this run breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deviation {
    None,
    Writer(PlantedBug),
    /// A node keeps its incarnation when it evicts the log and loads it again.
    SameIncarnation,
    /// An owner serves reads without reading the row above its head.
    ReadsWithoutConfirming,
    /// A reader takes the rows that its map finds for all rows.
    ReaderTrustsOldMap,
}

/// What happened in a run.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    pub violation: Option<String>,
    pub acknowledged: u64,
    pub duplicates: u64,
    pub voids: u64,
    pub grants: u64,
    pub epochs: u64,
    pub deaths: u64,
    pub reloads: u64,
    pub late_puts: u64,
    pub compared_reads: u64,
    pub old_maps: u64,
    pub fingerprint_rows: u64,
    pub floors: u64,
}

impl Outcome {
    pub fn add(&mut self, other: &Outcome) {
        self.acknowledged += other.acknowledged;
        self.duplicates += other.duplicates;
        self.voids += other.voids;
        self.grants += other.grants;
        self.epochs += other.epochs;
        self.deaths += other.deaths;
        self.reloads += other.reloads;
        self.late_puts += other.late_puts;
        self.compared_reads += other.compared_reads;
        self.old_maps += other.old_maps;
        self.fingerprint_rows += other.fingerprint_rows;
        self.floors += other.floors;
    }
}

/// A call that an owner has not finished yet. The dedupe window is longer than any call takes, so
/// the floor does not pass a message while a call for it exists.
struct Unfinished {
    cluster: Cluster,
    id: String,
}

impl Unfinished {
    fn new(cluster: &Cluster, id: &str) -> Unfinished {
        *cluster.unfinished.lock().entry(id.to_owned()).or_default() += 1;
        Unfinished { cluster: cluster.clone(), id: id.to_owned() }
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        *self.cluster.unfinished.lock().entry(self.id.clone()).or_default() -= 1;
    }
}

/// A call to an owner.
enum Call {
    Append(LogEntry, oneshot::Sender<Appended>, Unfinished),
    /// The newest rows, at most so many.
    Newest(u64, oneshot::Sender<(Seq, BTreeMap<Seq, Item>)>),
}

struct Node {
    calls: mpsc::Sender<Call>,
    task: JoinHandle<()>,
}

#[derive(Default)]
struct Counts {
    duplicates: AtomicU64,
    deaths: AtomicU64,
    reloads: AtomicU64,
    compared_reads: AtomicU64,
    old_maps: AtomicU64,
    floors: AtomicU64,
}

/// Everything that the tasks of a run share.
#[derive(Clone)]
struct Cluster {
    chance: Chance,
    tables: Arc<FaultyTables>,
    nodes: Arc<Mutex<Vec<Node>>>,
    deviation: Deviation,
    /// Whether clients send many messages at once, so that owners write large blocks.
    is_bursty: bool,
    /// The seqs of acknowledged messages, by message id.
    acknowledged: Arc<Mutex<HashMap<String, Seq>>>,
    /// How many unfinished calls each message has.
    unfinished: Arc<Mutex<HashMap<String, usize>>>,
    violation: Arc<Mutex<Option<String>>>,
    counts: Arc<Counts>,
    clock: Arc<ManualClock>,
}

impl Random for Chance {
    fn fill(&self, bytes: &mut [u8]) {
        bytes.iter_mut().for_each(|byte| *byte = self.below(256) as u8);
    }
}

pub fn conversation() -> ConversationId {
    ConversationId::group([7; 15])
}

fn sender() -> UserId {
    "alice".parse().expect("a valid user id")
}

fn entry(id: &str) -> LogEntry {
    let message_id: MessageId = id.parse().expect("a valid message id");
    let item = Item::new()
        .text("message_id", message_id.to_string())
        .text("sender_id", sender().as_str())
        .text("content_type", "text")
        .text("content", id);
    LogEntry { sender: sender(), message_id, item }
}

impl Cluster {
    fn new(seed: u64, deviation: Deviation) -> Cluster {
        let chance = Chance::new(seed);
        let is_bursty = seed.is_multiple_of(2);
        let rates = if is_bursty { [2, 2, 5] } else { [3, 8, 40] };
        let fault_rate = rates[chance.below(3) as usize];
        let tables = Arc::new(FaultyTables {
            inner: MemoryRows::default(),
            chance: chance.clone(),
            fault_rate,
            longest_delay_ms: if is_bursty { 300 } else { 4_000 },
            is_calm: false.into(),
            delays_messages: false.into(),
            late_puts: AtomicU64::new(0),
        });
        Cluster {
            chance,
            tables,
            nodes: Arc::default(),
            deviation,
            is_bursty,
            acknowledged: Arc::default(),
            unfinished: Arc::default(),
            violation: Arc::default(),
            counts: Arc::default(),
            clock: Arc::new(ManualClock::at(Timestamp::from_millis(1_000_000))),
        }
    }

    fn report(&self, violation: String) {
        self.violation.lock().get_or_insert(violation);
    }

    fn parts(&self, incarnation: Incarnation) -> LogParts {
        LogParts {
            rows: Arc::new(Network(Arc::clone(&self.tables))),
            conversation: conversation(),
            incarnation,
            // Few bits, so that different ids have the same fingerprint all the time.
            fingerprint_key: FingerprintKey { secret: [1; 32], mask: 0x0f, ids_per_row: 4 },
            clock: Arc::clone(&self.clock) as Arc<_>,
            planted: match self.deviation {
                Deviation::Writer(bug) => Some(bug),
                _ => None,
            },
        }
    }

    fn start_node(&self) {
        let (calls, received) = mpsc::channel(64);
        let task = tokio::spawn(owner(self.clone(), received));
        self.nodes.lock().push(Node { calls, task });
    }

    fn any_node(&self) -> mpsc::Sender<Call> {
        let nodes = self.nodes.lock();
        nodes[self.chance.below(nodes.len() as u64) as usize].calls.clone()
    }

    /// Returns the highest seq up to which no message will be sent again: each is acknowledged, and
    /// no call for it exists.
    fn acknowledged_prefix(&self, rows: &BTreeMap<Seq, Item>) -> Option<Seq> {
        let (acknowledged, unfinished) = (self.acknowledged.lock(), self.unfinished.lock());
        let is_finished =
            |id: &str| acknowledged.contains_key(id) && unfinished.get(id).is_none_or(|calls| *calls == 0);
        let is_done = |item: &Item| {
            LogRow::decode(item.clone()).is_ok_and(|row| row.kind != RowKind::Message)
                || item.find_text("content").is_some_and(|id| is_finished(id))
        };
        rows.iter().take_while(|(_, item)| is_done(item)).last().map(|(seq, _)| *seq)
    }
}

/// The owner of one node: loads the log when it needs it, and evicts it at random.
async fn owner(cluster: Cluster, mut calls: mpsc::Receiver<Call>) {
    let first = Incarnation::draw(&cluster.chance);
    let mut log: Option<ConversationLog> = None;
    while let Some(call) = calls.recv().await {
        let mut waiting = vec![call];
        while let Ok(call) = calls.try_recv() {
            waiting.push(call);
        }
        if log.is_none() {
            let incarnation = match cluster.deviation {
                Deviation::SameIncarnation => first,
                _ => Incarnation::draw(&cluster.chance),
            };
            cluster.counts.reloads.fetch_add(1, Ordering::Relaxed);
            log = ConversationLog::load(cluster.parts(incarnation)).await.ok();
        }
        let Some(loaded) = &mut log else { continue };
        // Now and then a call is cut off in the middle, as by a panic.
        let is_cut_off = cluster.chance.one_in(if cluster.is_bursty { 2 } else { 6 });
        let millis = if is_cut_off { cluster.chance.between(5, 150) } else { 3_600_000 };
        let served = timeout(Duration::from_millis(millis), serve(&cluster, loaded, waiting)).await;
        if !matches!(served, Ok(Ok(()))) || cluster.chance.one_in(10) {
            log = None;
        }
    }
}

async fn serve(cluster: &Cluster, log: &mut ConversationLog, calls: Vec<Call>) -> Result<(), StoreError> {
    let mut entries = Vec::new();
    let mut answers = Vec::new();
    let mut unfinished = Vec::new();
    let mut reads = Vec::new();
    for call in calls {
        match call {
            // Mostly an owner drops the call of a client that left, so that retries do not pile up.
            Call::Append(_, answer, _) if answer.is_closed() && !cluster.chance.one_in(4) => {}
            Call::Append(entry, answer, call) => {
                unfinished.push(call);
                entries.push(entry);
                answers.push(Some(answer));
            }
            Call::Newest(limit, answer) => reads.push((limit, answer)),
        }
    }
    log.append_all(&entries, &mut |index, appended| {
        if let Some(answer) = answers[index].take() {
            let _client_left = answer.send(appended);
        }
    })
    .await?;
    drop(unfinished);
    if cluster.chance.one_in(if cluster.is_bursty { 40 } else { 12 }) {
        let partitions = cluster.chance.between(1, 3) as u16;
        log.begin_epoch(partitions, cluster.chance.between(1, 3)).await?;
    }
    if cluster.chance.one_in(2) {
        log.index_ids().await?;
    }
    for (limit, answer) in reads {
        if cluster.deviation != Deviation::ReadsWithoutConfirming {
            log.confirm().await?;
        }
        let head = log.head();
        let first = head.minus(limit - 1).max(Seq::FIRST);
        let rows = match head {
            Seq::ZERO => BTreeMap::new(),
            head => log.reader().range(log.map(), (first, head), &[]).await?,
        };
        if first == Seq::FIRST
            && cluster.chance.one_in(3)
            && let Some(floor) = cluster.acknowledged_prefix(&rows)
        {
            log.raise_floor(floor).await?;
            cluster.counts.floors.fetch_add(1, Ordering::Relaxed);
        }
        let _reader_left = answer.send((head, rows));
    }
    Ok(())
}

/// Sends messages, each until it is acknowledged, at one node after the other.
async fn client(cluster: Cluster, name: u64) {
    for burst in 0..cluster.chance.between(1, 3) {
        let count =
            if cluster.is_bursty { cluster.chance.between(10, 30) } else { cluster.chance.between(1, 12) };
        let mut sends = JoinSet::new();
        for number in 0..count {
            sends.spawn(send_until_acknowledged(cluster.clone(), format!("m{name}.{burst}.{number}")));
        }
        while sends.join_next().await.is_some() {}
    }
}

async fn send_until_acknowledged(cluster: Cluster, id: String) {
    for attempt in 1.. {
        let (answer, outcome) = oneshot::channel();
        let node = cluster.any_node();
        let unfinished = Unfinished::new(&cluster, &id);
        let patience = if cluster.is_bursty { 300 } else { 1_500 };
        let patience = Duration::from_millis(attempt * cluster.chance.between(5, patience));
        let call = async {
            node.send(Call::Append(entry(&id), answer, unfinished)).await.ok()?;
            outcome.await.ok()
        };
        match timeout(patience, call).await {
            Ok(Some(appended)) => {
                if appended.duplicate {
                    cluster.counts.duplicates.fetch_add(1, Ordering::Relaxed);
                }
                let row = LogRow::decode(appended.item);
                if !row.is_ok_and(|row| row.is(&entry(&id))) {
                    cluster.report(format!("{id} was acknowledged with another row at {}", appended.seq));
                }
                cluster.acknowledged.lock().insert(id, appended.seq);
                return;
            }
            _ => sleep(Duration::from_millis(cluster.chance.below(50))).await,
        }
    }
}

/// Reads at random nodes, and compares each page with the acknowledged messages.
async fn reader(cluster: Cluster) {
    let mut map = PartitionMap::default();
    for _ in 0..12 {
        sleep(Duration::from_millis(cluster.chance.below(400))).await;
        let before = cluster.acknowledged.lock().clone();
        let (answer, page) = oneshot::channel();
        let limit = cluster.chance.between(1, 40);
        if cluster.any_node().send(Call::Newest(limit, answer)).await.is_err() {
            continue;
        }
        let Ok(Ok((head, rows))) = timeout(Duration::from_secs(5), page).await else { continue };
        let first = head.minus(limit - 1).max(Seq::FIRST);
        compare(&cluster, "an owner", &before, (first, head), &rows);
        if before.values().any(|seq| *seq > head) {
            cluster.report(format!("an owner served the head {head} after a higher ack"));
        }
        if head == Seq::ZERO {
            continue;
        }
        // A page below that head, at a node that may know older epochs only.
        let network = Arc::new(Network(Arc::clone(&cluster.tables)));
        let log = LogReader::new(network, conversation());
        let first = Seq::new(cluster.chance.between(1, head.get()));
        let last = head.min(first.plus(cluster.chance.below(10)));
        let known = map.clone();
        let rows = match cluster.deviation {
            Deviation::ReaderTrustsOldMap => log.range(&map, (first, last), &[]).await,
            _ => log.page(&mut map, (first, last)).await,
        };
        if known != map {
            cluster.counts.old_maps.fetch_add(1, Ordering::Relaxed);
        }
        let Ok(rows) = rows else { continue };
        compare(&cluster, "a reader", &before, (first, last), &rows);
    }
}

fn compare(
    cluster: &Cluster,
    who: &str,
    acknowledged: &HashMap<String, Seq>,
    (first, last): (Seq, Seq),
    rows: &BTreeMap<Seq, Item>,
) {
    cluster.counts.compared_reads.fetch_add(1, Ordering::Relaxed);
    for seq in (first.get()..=last.get()).map(Seq::new) {
        if !rows.contains_key(&seq) {
            cluster.report(format!("{who} served a page with a gap at {seq}"));
        }
    }
    for (id, seq) in acknowledged.iter().filter(|(_, seq)| (first..=last).contains(*seq)) {
        let there = rows.get(seq).and_then(|item| item.find_text("content"));
        if there.is_none_or(|there| **there != **id) {
            cluster.report(format!("{who} served {there:?} at {seq}, where {id} was acknowledged"));
        }
    }
}

/// Kills nodes and starts others in their place.
async fn killer(cluster: Cluster, kills: u64) {
    for _ in 0..kills {
        sleep(Duration::from_millis(cluster.chance.below(500))).await;
        let victim = cluster.chance.below(cluster.nodes.lock().len() as u64) as usize;
        cluster.nodes.lock().swap_remove(victim).task.abort();
        cluster.counts.deaths.fetch_add(1, Ordering::Relaxed);
        cluster.start_node();
    }
}

/// Compares the tables with what was acknowledged, after a new owner has written once more.
async fn audit(cluster: &Cluster, outcome: &mut Outcome) -> Result<(), StoreError> {
    cluster.tables.is_calm.store(true, Ordering::Relaxed);
    sleep(Duration::from_secs(10)).await;
    let mut log = ConversationLog::load(cluster.parts(Incarnation::draw(&cluster.chance))).await?;
    log.append_all(&[entry("last")], &mut |_, _| {}).await?;
    let map = log.map().clone();

    let mut rows: BTreeMap<Seq, (String, LogRow)> = BTreeMap::new();
    for (key, item) in cluster.tables.inner.scan(Table::Messages, None, usize::MAX).await?.rows {
        if key.partition.ends_with("#ids") {
            outcome.fingerprint_rows += u64::from(item.find_text("fingerprints").is_some());
            continue;
        }
        let Sort::Number(seq) = key.sort else { unreachable!("message rows are sorted by seq") };
        let (seq, row) = (Seq::new(seq), LogRow::decode(item)?);
        if map.key(conversation(), seq) != key {
            cluster.report(format!("the row at {seq} is in {}, where no reader looks", key.partition));
        }
        if let Some((other, _)) = rows.insert(seq, (key.partition.clone(), row)) {
            cluster.report(format!("seq {seq} is in {other} and in {}", key.partition));
        }
    }
    let mut by_id: HashMap<String, Seq> = HashMap::new();
    for (expected, (seq, (_, row))) in (1..).zip(&rows) {
        if seq.get() != expected {
            cluster.report(format!("there is no row at {expected}"));
        }
        match row.kind {
            RowKind::Void => outcome.voids += 1,
            RowKind::Grant { .. } => outcome.grants += 1,
            RowKind::Epoch { .. } => outcome.epochs += 1,
            RowKind::Message => {
                let id = row.item.get_text("content")?.to_string();
                if let Some(other) = by_id.insert(id.clone(), *seq) {
                    cluster.report(format!("{id} is stored at {other} and at {seq}"));
                }
            }
        }
    }
    for (id, seq) in &*cluster.acknowledged.lock() {
        if by_id.get(id) != Some(seq) {
            cluster.report(format!("{id} was acknowledged at {seq} and is at {:?}", by_id.get(id)));
        }
    }
    Ok(())
}

pub fn runtime() -> tokio::runtime::Runtime {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder.enable_time().start_paused(true).build().expect("a runtime without I/O")
}

/// Runs one seed of a single node that loses its state while it writes a block, loads it again, and
/// gets the same messages in another order while the puts of the first block arrive.
pub fn run_reload(seed: u64, deviation: Deviation) -> Outcome {
    runtime().block_on(async {
        let cluster = Cluster::new(seed * 2, deviation);
        let (tables, chance) = (&cluster.tables, &cluster.chance);
        tables.is_calm.store(true, Ordering::Relaxed);
        let first = Incarnation::draw(chance);
        let mut entries: Vec<_> = (0..20).map(|number| entry(&format!("m{number}"))).collect();
        let mut outcome = Outcome::default();
        let written = async {
            let mut log = ConversationLog::load(cluster.parts(first)).await?;
            log.append_all(&[entry("before")], &mut |_, _| {}).await?;
            tables.delays_messages.store(true, Ordering::Relaxed);
            let cut_off = Duration::from_millis(chance.between(1, 200));
            let _cut_off = timeout(cut_off, log.append_all(&entries, &mut |_, _| {})).await;
            tables.delays_messages.store(false, Ordering::Relaxed);
            tables.is_calm.store(false, Ordering::Relaxed);
            let incarnation = match deviation {
                Deviation::SameIncarnation => first,
                _ => Incarnation::draw(chance),
            };
            let mut log = ConversationLog::load(cluster.parts(incarnation)).await?;
            entries.rotate_left(chance.between(1, 19) as usize);
            log.append_all(&entries, &mut |_, _| {}).await?;
            audit(&cluster, &mut outcome).await
        };
        if let Err(error) = written.await {
            cluster.report(format!("the log cannot be written: {error}"));
        }
        outcome.violation = cluster.violation.lock().take();
        outcome
    })
}

/// Runs one seed.
pub fn run(seed: u64, deviation: Deviation) -> Outcome {
    runtime().block_on(async {
        let cluster = Cluster::new(seed, deviation);
        for _ in 0..cluster.chance.between(1, 3) {
            cluster.start_node();
        }
        let mut tasks = JoinSet::new();
        for name in 0..cluster.chance.between(2, 4) {
            tasks.spawn(client(cluster.clone(), name));
        }
        tasks.spawn(reader(cluster.clone()));
        tasks.spawn(reader(cluster.clone()));
        tasks.spawn(killer(cluster.clone(), cluster.chance.between(1, 8)));
        let finished = timeout(Duration::from_secs(3_600), async {
            while let Some(done) = tasks.join_next().await {
                if let Err(error) = done
                    && error.is_panic()
                {
                    cluster.report(format!("a task panicked: {error}"));
                }
            }
        });
        if finished.await.is_err() {
            cluster.report("a message was not acknowledged in an hour".into());
        }
        let mut outcome = Outcome::default();
        if let Err(error) = audit(&cluster, &mut outcome).await {
            cluster.report(format!("the log cannot be read: {error}"));
        }
        let counts = &cluster.counts;
        outcome.violation = cluster.violation.lock().take();
        outcome.acknowledged = cluster.acknowledged.lock().len() as u64;
        outcome.duplicates = counts.duplicates.load(Ordering::Relaxed);
        outcome.deaths = counts.deaths.load(Ordering::Relaxed);
        outcome.reloads = counts.reloads.load(Ordering::Relaxed);
        outcome.compared_reads = counts.compared_reads.load(Ordering::Relaxed);
        outcome.old_maps = counts.old_maps.load(Ordering::Relaxed);
        outcome.floors = counts.floors.load(Ordering::Relaxed);
        outcome.late_puts = cluster.tables.late_puts.load(Ordering::Relaxed);
        outcome
    })
}
