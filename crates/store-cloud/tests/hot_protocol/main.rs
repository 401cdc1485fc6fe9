//! Nobody puts one place into two partitions and no reader misses a message, however late, forgetful and old everything is:
//! writers, readers and closers of holes at random, a seed each. What everybody may do wrong is planted, to see that it
//! would be noticed.
#![expect(clippy::unwrap_used, reason = "a test stops where its own set-up fails")]

mod town;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use bluetick_core::{ConversationId, Seq, StoreError};
use bluetick_store_cloud::hot::place::SIGNPOST;
use bluetick_store_cloud::hot::{Keeper, Partition, Reader, Registry};
use bluetick_store_cloud::rows::memory::MemoryRows;
use bluetick_store_cloud::rows::{Item, Key, Only, Query, Rows, Sort, SortRange, Table, Written};
use town::*;

const WRITERS: u64 = 3;
const READERS: u64 = 3;
const MESSAGES: u64 = 14;
const PAGES: u64 = 8;

/// What somebody was promised: the message is in this place.
type Acked = Arc<Mutex<BTreeMap<Seq, String>>>;

#[derive(Clone)]
struct World {
    id: ConversationId,
    rows: Shared,
    chance: Chance,
    redis: Arc<Mutex<Redis>>,
    acked: Acked,
    wrong: Arc<Mutex<Option<String>>>,
    careless: Carelessness,
}

impl World {
    fn new(seed: u64, careless: Carelessness) -> World {
        let chance = Chance::new(seed);
        let shaky = ShakyRows {
            inner: Arc::new(MemoryRows::default()),
            chance: chance.clone(),
            history: Mutex::default(),
        };
        World {
            id: conversation(),
            rows: Shared(Arc::new(shaky)),
            chance,
            redis: Arc::default(),
            acked: Arc::default(),
            wrong: Arc::default(),
            careless,
        }
    }

    fn complain(&self, what: String) {
        self.wrong.lock().unwrap().get_or_insert(what);
    }

    fn node(&self) -> Node {
        let keeper = Arc::new(Keeper::new(Arc::new(self.rows.clone()), LAYOUT));
        let reader = Reader::new(Arc::new(self.rows.clone()), Arc::clone(&keeper));
        Node { world: self.clone(), keeper, reader }
    }

    /// Somebody who read the registry at some time, or never did.
    fn node_of_any_age(&self) -> Node {
        let node = self.node();
        let history = self.rows.0.history.lock().unwrap();
        if let Some(old) = self.chance.dice().pick(&history) {
            node.keeper.heard(self.id, old.clone());
        }
        drop(history);
        node
    }
}

struct Node {
    world: World,
    keeper: Arc<Keeper>,
    reader: Reader,
}

impl Node {
    /// Where a message or a void is written.
    async fn key(&self, seq: Seq, guess: Carelessness) -> Result<Key, StoreError> {
        if self.world.careless == guess || self.world.careless == Carelessness::EpochAboveTheCounter {
            return Ok(self.keeper.at_hand(self.world.id).partition(seq).key(self.world.id, seq));
        }
        self.keeper.key(self.world.id, seq).await
    }

    /// True: what stands there is ours.
    async fn put(&self, seq: Seq, text: &str, guess: Carelessness) -> bool {
        // Decided once, as a writer does that stalls between the decision and the write.
        let key = loop {
            match self.key(seq, guess).await {
                Ok(key) => break key,
                Err(StoreError::NoAnswer(_)) => {}
                Err(error) => {
                    self.world.complain(format!("a place cannot be found: {error}"));
                    return false;
                }
            }
        };
        self.world.chance.pass().await;
        let item = Item::new().text("text", text);
        loop {
            match self.world.rows.put(Table::Messages, &key, &item, Only::IfAbsent).await {
                Ok(Written::Done) => return true,
                Ok(Written::Refused(Some(there))) => return there == item,
                Ok(Written::Refused(None)) => {
                    return self.world.rows.get(Table::Messages, &key).await.unwrap() == Some(item);
                }
                Err(_) => {}
            }
        }
    }

    async fn newest(&self, limit: usize) -> BTreeMap<Seq, Item> {
        self.reader.newest(self.world.id, Seq::FIRST, limit, &[]).await.unwrap_or_else(|error| {
            self.world.complain(format!("newest: {error}"));
            BTreeMap::new()
        })
    }

    async fn range(&self, first: Seq, last: Seq) -> BTreeMap<Seq, Item> {
        let found = match self.world.careless {
            Carelessness::ReaderBelievesHoles => self.range_at_hand(first, last).await,
            _ => self.reader.range(self.world.id, (first, last), &[]).await,
        };
        found.unwrap_or_else(|error| {
            self.world.complain(format!("range: {error}"));
            BTreeMap::new()
        })
    }

    async fn range_at_hand(&self, first: Seq, last: Seq) -> Result<BTreeMap<Seq, Item>, StoreError> {
        let registry = self.keeper.at_hand(self.world.id);
        let mut found = BTreeMap::new();
        for seq in (first.get()..=last.get()).map(Seq::new) {
            let key = registry.partition(seq).key(self.world.id, seq);
            if let Some(item) = self.world.rows.get(Table::Messages, &key).await? {
                found.insert(seq, item);
            }
        }
        Ok(found)
    }

    /// By Redis, whatever that knows.
    fn reserve(&self) -> Seq {
        let (copy, seq) = {
            let mut redis = self.world.redis.lock().unwrap();
            redis.counter += 1;
            (redis.copy.clone(), Seq::new(redis.counter))
        };
        if let Some(copy) = copy {
            self.keeper.heard(self.world.id, copy);
        }
        seq
    }

    /// Without Redis: the first place that is free.
    async fn first_free(&self) -> Seq {
        let Some(head) = self.newest(1).await.keys().next_back().copied() else { return Seq::FIRST };
        let found = self.range(Seq::FIRST, head).await;
        let free = (1..=head.get()).map(Seq::new).find(|seq| !found.contains_key(seq));
        free.unwrap_or(head.next())
    }

    async fn write(&self, text: String) {
        // What has gone wrong once may go wrong for ever.
        while self.world.wrong.lock().unwrap().is_none() {
            let seq =
                if self.world.chance.dice().one_in(6) { self.first_free().await } else { self.reserve() };
            let _no_time = self.keeper.saw(self.world.id, seq);
            self.world.chance.pass().await;
            if self.put(seq, &text, Carelessness::WriterTrustsItsCache).await {
                let before = self.world.acked.lock().unwrap().insert(seq, text.clone());
                if let Some(before) = before.filter(|before| *before != text) {
                    self.world.complain(format!("seq {seq} was acknowledged as {before} and as {text}"));
                }
                return;
            }
            // Somebody else's: the counter is behind.
            let mut redis = self.world.redis.lock().unwrap();
            redis.counter = redis.counter.max(seq.get());
        }
    }

    fn tell_redis(&self) {
        let at_hand = self.keeper.at_hand(self.world.id);
        if at_hand.version() > 0 {
            self.world.redis.lock().unwrap().copy = Some((*at_hand).clone());
        }
    }
}

async fn writer(node: Node, name: u64) {
    for number in 0..MESSAGES {
        let wish = node.world.chance.dice().between(1, 4) as u16;
        node.keeper.ask_for(node.world.id, Some(wish));
        let coin = node.world.chance.dice().below(12);
        match node.world.careless {
            Carelessness::EpochAboveTheCounter if coin < 3 => careless_epoch(&node, wish).await,
            Carelessness::SignpostComesLate if coin < 4 => late_signpost(&node, wish).await,
            Carelessness::RedisIsToldFirst if coin < 3 => hasty_news(&node, wish).await,
            _ => {}
        }
        if coin == 11 {
            let seq = Seq::new(node.world.redis.lock().unwrap().counter + 1);
            let _may_fail = node.keeper.go_ahead(node.world.id, seq).await;
        }
        node.write(format!("{name}/{number}")).await;
        node.tell_redis();
    }
}

/// As somebody would do it who thinks that Redis knows the highest place: the epoch begins a little above it, and who does
/// not know of it writes by what it knows.
async fn careless_epoch(node: &Node, wish: u16) {
    let Ok(before) = node.keeper.fresh(node.world.id).await else { return };
    let counter = node.world.redis.lock().unwrap().counter;
    let last = before.epochs().last().map_or(0, |epoch| epoch.from.get());
    let from = (counter + 4).max(last + 1);
    let mut epochs: Vec<_> = before
        .epochs()
        .iter()
        .map(|epoch| format!("{}:{}:{}", epoch.from, epoch.partitions, epoch.block))
        .collect();
    epochs.push(format!("{from}:{wish}:2"));
    let version = before.version();
    let item =
        Item::new().text("epochs", epochs.join(",")).count("horizon", from + 1_000).versioned(version + 1);
    let only = if version == 0 { Only::IfAbsent } else { Only::IfVersion(version) };
    let signpost = Key::number(node.world.id, SIGNPOST);
    let rows = &node.world.rows;
    let _silence = rows.put(Table::Messages, &signpost, &Item::new(), Only::Always).await;
    if rows.put(Table::HotRegistry, &Key::new(node.world.id), &item, only).await.is_ok() {
        let _may_fail = node.keeper.fresh(node.world.id).await;
        node.tell_redis();
    }
}

/// The epoch first, and the signpost when there is time.
async fn late_signpost(node: &Node, wish: u16) {
    let Ok(before) = node.keeper.fresh(node.world.id).await else { return };
    if before.version() == 0 || before.was_ever_salted() {
        return;
    }
    let next = before.extended(&LAYOUT, before.horizon().plus(4), wish);
    let (rows, key) = (&node.world.rows, Key::new(node.world.id));
    let _silence = rows.put(Table::HotRegistry, &key, &next.item(), Only::IfVersion(before.version())).await;
    node.world.chance.pass().await;
    let signpost = Key::number(node.world.id, SIGNPOST);
    let _silence = rows.put(Table::Messages, &signpost, &Item::new(), Only::Always).await;
}

/// Redis hears of a version that another one may take the place of.
async fn hasty_news(node: &Node, wish: u16) {
    let Ok(before) = node.keeper.fresh(node.world.id).await else { return };
    if before.version() == 0 {
        return;
    }
    let next = before.extended(&LAYOUT, before.horizon().plus(4), wish);
    node.world.redis.lock().unwrap().copy = Some(next.clone());
    node.world.chance.pass().await;
    let key = Key::new(node.world.id);
    let only = Only::IfVersion(before.version());
    let _silence = node.world.rows.put(Table::HotRegistry, &key, &next.item(), only).await;
}

async fn reader(world: World) {
    for _ in 0..PAGES {
        world.chance.pass().await;
        let node = world.node_of_any_age();
        let before = world.acked.lock().unwrap().clone();
        let limit = world.chance.dice().between(1, 8);
        let newest = node.newest(limit as usize).await;
        let head = newest.keys().next_back().copied().unwrap_or(Seq::ZERO);
        if before.keys().next_back().is_some_and(|acked| *acked > head) {
            world.complain(format!("the head was said to be {head}, and {before:?} was acknowledged before"));
            continue;
        }
        let acked = before.keys().filter(|seq| **seq >= head.minus(limit - 1));
        for seq in acked.filter(|seq| newest.keys().next().is_some_and(|lowest| seq >= &lowest)) {
            check(&world, "the newest", &before, *seq, &newest);
        }
        if head == Seq::ZERO {
            continue;
        }
        let first = Seq::new(world.chance.dice().between(1, head.get()));
        let last = first.plus(limit - 1).min(head);
        // Whoever turns the page may do so at another node.
        let node = world.node_of_any_age();
        let found = node.range(first, last).await;
        for seq in before.keys().filter(|seq| (first..=last).contains(*seq)) {
            check(&world, "a page", &before, *seq, &found);
        }
        let holes: Vec<_> =
            (first.get()..=last.get()).map(Seq::new).filter(|seq| !found.contains_key(seq)).collect();
        for hole in holes {
            if world.chance.dice().one_in(3) {
                // So may whoever closes a hole, who need not have read anything: a place was handed out for nothing.
                let node = world.node_of_any_age();
                node.put(hole, "void", Carelessness::VoidByGuess).await;
            }
        }
    }
}

fn check(world: &World, what: &str, acked: &BTreeMap<Seq, String>, seq: Seq, found: &BTreeMap<Seq, Item>) {
    let text = found.get(&seq).and_then(|item| item.find_text("text"));
    if text.map(|text| text.as_ref()) != acked.get(&seq).map(String::as_str) {
        world.complain(format!(
            "{what} has {text:?} at {seq}, which was acknowledged as {:?}",
            acked.get(&seq)
        ));
    }
}

/// Redis falls back, forgets, is told again what the tables say.
async fn trouble(world: World) {
    for _ in 0..20 {
        world.chance.pass().await;
        let kind = world.chance.dice().below(4);
        match kind {
            0 => {
                let by = world.chance.dice().below(12);
                let mut redis = world.redis.lock().unwrap();
                redis.counter = redis.counter.saturating_sub(by);
            }
            1 => {
                let head = world.node().newest(1).await.keys().next_back().map_or(0, |seq| seq.get());
                *world.redis.lock().unwrap() = Redis { counter: head, copy: None };
            }
            2 => *world.redis.lock().unwrap() = Redis::default(),
            _ => {
                let history = world.rows.0.history.lock().unwrap();
                let old = world.chance.dice().pick(&history).cloned();
                drop(history);
                world.redis.lock().unwrap().copy = old;
            }
        }
    }
}

/// What stands where in the end.
async fn audit(world: &World) {
    let rows = &world.rows.0.inner;
    let row = rows.get(Table::HotRegistry, &Key::new(world.id)).await.unwrap();
    let registry = row.map_or_else(|| Registry::absent(&LAYOUT), |row| Registry::decode(&row).unwrap());
    let partitions = [Partition::Plain].into_iter().chain((0..4).map(Partition::Salted));
    let mut places: BTreeMap<Seq, (Partition, Item)> = BTreeMap::new();
    for partition in partitions {
        let query = Query {
            table: Table::Messages,
            partition: partition.name(world.id),
            range: SortRange::Numbers(1, Seq::MAX.get()),
            descending: false,
            limit: usize::MAX,
            fields: &[],
        };
        for (sort, item) in rows.query(query).await.unwrap().rows {
            let Sort::Number(seq) = sort else { unreachable!("places are numbers") };
            let seq = Seq::new(seq);
            if let Some((other, _)) = places.insert(seq, (partition, item)) {
                world.complain(format!("seq {seq} lies in {other:?} and in {partition:?}"));
            }
            if registry.partition(seq) != partition {
                world.complain(format!("seq {seq} lies in {partition:?}, and nobody looks there"));
            }
        }
    }
    for (seq, text) in &*world.acked.lock().unwrap() {
        let there = places.get(seq).and_then(|(_, item)| item.find_text("text"));
        if there.is_none_or(|there| **there != **text) {
            world.complain(format!("{text} was acknowledged at {seq}, where {there:?} stands"));
        }
    }
    if world.acked.lock().unwrap().len() != (WRITERS * MESSAGES) as usize {
        world.complain("two messages were acknowledged in one place".into());
    }
}

/// What went wrong, if anything, and how far the conversation was spread.
fn run(seed: u64, careless: Carelessness) -> (Option<String>, usize) {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        let world = World::new(seed, careless);
        let mut tasks = tokio::task::JoinSet::new();
        for name in 0..WRITERS {
            tasks.spawn(writer(world.node(), name));
        }
        for _ in 0..READERS {
            tasks.spawn(reader(world.clone()));
        }
        tasks.spawn(trouble(world.clone()));
        while let Some(done) = tasks.join_next().await {
            done.unwrap();
        }
        audit(&world).await;
        let epochs = world.rows.0.history.lock().unwrap().last().map_or(0, |last| last.epochs().len());
        let wrong = world.wrong.lock().unwrap().clone();
        (wrong, epochs)
    })
}

const SEEDS: u64 = 2_000;

#[test]
fn whatever_happens_each_place_is_in_one_partition_and_no_reader_misses_a_message() {
    let first = std::env::var("BLUETICK_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(0);
    let mut epochs = 0;
    for seed in first..first + SEEDS {
        let (wrong, spread) = run(seed, Carelessness::None);
        assert_eq!(wrong, None, "seed {seed}");
        epochs += spread;
    }
    println!("{SEEDS} seeds, {epochs} epochs");
    assert!(epochs as u64 > 2 * SEEDS, "conversations were hardly ever spread: {epochs}");
}

fn found(careless: Carelessness) {
    let first = (0..SEEDS).find_map(|seed| Some((seed, run(seed, careless).0?)));
    let (seed, wrong) = first.unwrap_or_else(|| panic!("{careless:?} was not noticed"));
    println!("{careless:?}: seed {seed}: {wrong}");
}

#[test]
fn a_writer_that_trusts_its_cache_is_noticed() {
    found(Carelessness::WriterTrustsItsCache);
}

#[test]
fn an_epoch_that_begins_above_the_counter_only_is_noticed() {
    found(Carelessness::EpochAboveTheCounter);
}

#[test]
fn a_signpost_that_comes_late_is_noticed() {
    found(Carelessness::SignpostComesLate);
}

#[test]
fn a_void_by_guess_is_noticed() {
    found(Carelessness::VoidByGuess);
}

#[test]
fn a_reader_that_believes_holes_is_noticed() {
    found(Carelessness::ReaderBelievesHoles);
}

#[test]
fn a_redis_that_is_told_before_the_tables_is_noticed() {
    found(Carelessness::RedisIsToldFirst);
}
