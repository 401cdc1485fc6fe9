//! Membership: which nodes count as live, through failures of nodes and of the tables. The clock is
//! paused: it moves when all tasks wait.
#![expect(clippy::unwrap_used, reason = "a test stops where its own set-up fails")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bluetick_core::ports::SystemRandom;
use bluetick_store_cloud::NodeId;
use bluetick_store_cloud::cluster::membership::{ClusterView, Membership, MembershipSettings};
use bluetick_store_cloud::cluster::{BootId, NodeIdentity};
use bluetick_store_cloud::rows::memory::MemoryRows;
use bluetick_store_cloud::rows::{
    Item, Key, Only, Query, Rows, RowsError, Scanned, Slice, SortRange, Table, Written,
};
use tokio::time::{Instant, sleep, timeout};

const INTERVAL: Duration = Duration::from_secs(2);
const TIMEOUT: Duration = Duration::from_secs(10);
const FORGET_AFTER: Duration = Duration::from_secs(600);

/// Tables that fail on order. All handles share the rows; each has its own faults.
#[derive(Default)]
struct FaultyRows {
    rows: Arc<MemoryRows>,
    /// No request is done.
    is_away: AtomicBool,
    /// This many writes are done without an answer.
    lost_answers: AtomicUsize,
    writes: AtomicUsize,
}

impl FaultyRows {
    fn beside(other: &FaultyRows) -> Arc<FaultyRows> {
        Arc::new(FaultyRows { rows: Arc::clone(&other.rows), ..FaultyRows::default() })
    }

    fn ask(&self) -> Result<(), RowsError> {
        match self.is_away.load(Ordering::SeqCst) {
            true => Err(RowsError::NoAnswer("away".into())),
            false => Ok(()),
        }
    }

    fn answer(&self, written: Written) -> Result<Written, RowsError> {
        self.writes.fetch_add(1, Ordering::SeqCst);
        let is_lost =
            self.lost_answers.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1));
        match is_lost {
            Ok(_) => Err(RowsError::NoAnswer("lost".into())),
            Err(_) => Ok(written),
        }
    }

    fn set_away(&self, is_away: bool) {
        self.is_away.store(is_away, Ordering::SeqCst);
    }

    /// The membership rows, by node.
    async fn stored(&self) -> Vec<(String, Item)> {
        let query = Query {
            table: Table::Names,
            partition: "\u{1}nodes".to_owned(),
            range: SortRange::All,
            descending: false,
            limit: 100,
            fields: &[],
        };
        let rows = self.rows.query(query).await.unwrap().rows;
        let name = |sort| match sort {
            bluetick_store_cloud::rows::Sort::Text(name) => name,
            other => panic!("{other:?}"),
        };
        rows.into_iter().map(|(sort, item)| (name(sort), item)).collect()
    }
}

#[async_trait]
impl Rows for FaultyRows {
    async fn get(&self, table: Table, key: &Key) -> Result<Option<Item>, RowsError> {
        self.ask()?;
        self.rows.get(table, key).await
    }

    async fn get_many(&self, wanted: Vec<(Table, Key)>) -> Result<Vec<Option<Item>>, RowsError> {
        self.ask()?;
        self.rows.get_many(wanted).await
    }

    async fn put(&self, table: Table, key: &Key, item: &Item, only: Only) -> Result<Written, RowsError> {
        self.ask()?;
        assert_ne!(only, Only::Always, "all writes of membership rows are conditional");
        let written = self.rows.put(table, key, item, only).await?;
        self.answer(written)
    }

    async fn delete(&self, table: Table, key: &Key, only: Only) -> Result<Written, RowsError> {
        self.ask()?;
        assert_ne!(only, Only::Always, "all writes of membership rows are conditional");
        let written = self.rows.delete(table, key, only).await?;
        self.answer(written)
    }

    async fn put_all(&self, _: Vec<(Table, Key, Item)>) -> Result<(), RowsError> {
        panic!("all writes of membership rows are conditional");
    }

    async fn delete_all(&self, _: Vec<(Table, Key)>) -> Result<(), RowsError> {
        panic!("all writes of membership rows are conditional");
    }

    async fn query(&self, query: Query) -> Result<Slice, RowsError> {
        self.ask()?;
        // Small pages.
        self.rows.query(Query { limit: 2, ..query }).await
    }

    async fn scan(&self, _: Table, _: Option<&Key>, _: usize) -> Result<Scanned, RowsError> {
        panic!("membership reads one partition");
    }
}

struct Node {
    id: NodeId,
    membership: Membership,
    rows: Arc<FaultyRows>,
}

impl Node {
    fn start(name: &str, tables: &FaultyRows) -> Node {
        Node::start_on(name, FaultyRows::beside(tables))
    }

    fn start_on(name: &str, rows: Arc<FaultyRows>) -> Node {
        let settings =
            MembershipSettings { heartbeat_interval: INTERVAL, timeout: TIMEOUT, forget_after: FORGET_AFTER };
        let identity = NodeIdentity { node: NodeId::new(name), boot: BootId::draw(&SystemRandom) };
        let id = identity.node.clone();
        let address = format!("{name}:4000");
        let membership = Membership::start(Arc::clone(&rows) as _, identity, address, settings);
        Node { id, membership, rows }
    }

    fn view(&self) -> ClusterView {
        self.membership.watch().borrow().clone()
    }

    fn live(&self) -> Vec<String> {
        self.view().live.keys().map(NodeId::to_string).collect()
    }

    /// Waits until the node sees exactly these nodes as live.
    async fn until_live(&self, expected: &[&str]) {
        let mut view = self.membership.watch();
        let is_expected =
            |view: &ClusterView| view.live.keys().map(NodeId::as_str).eq(expected.iter().copied());
        let seen = timeout(Duration::from_secs(3_600), view.wait_for(is_expected)).await;
        assert!(seen.is_ok(), "{} sees {:?}, not {expected:?}", self.id, self.live());
    }

    /// Fails if another set of nodes counts as live within this time.
    async fn stays_live(&self, expected: &[&str], duration: Duration) {
        let mut view = self.membership.watch();
        view.mark_unchanged();
        assert_eq!(self.live(), expected);
        let change = timeout(duration, view.changed()).await;
        assert!(change.is_err(), "{} sees {:?}, not {expected:?}", self.id, self.live());
    }
}

#[tokio::test(start_paused = true)]
async fn nodes_see_each_other_with_addresses_until_one_leaves() {
    let tables = FaultyRows::default();
    let nodes = ["a", "b", "c", "d", "e"].map(|name| Node::start(name, &tables));
    for node in &nodes {
        node.until_live(&["a", "b", "c", "d", "e"]).await;
        assert_eq!(&*node.view().live[&NodeId::new("d")].address, "d:4000");
    }
    nodes[0].stays_live(&["a", "b", "c", "d", "e"], Duration::from_secs(120)).await;
    let [a, b, c, d, e] = nodes;
    let left_at = Instant::now();
    d.membership.leave().await.unwrap();
    for node in [a, b, c, e] {
        node.until_live(&["a", "b", "c", "e"]).await;
    }
    assert!(left_at.elapsed() <= INTERVAL, "other nodes need no timeout");
    assert!(tables.stored().await.iter().all(|(name, _)| name != "d"));
}

#[tokio::test(start_paused = true)]
async fn node_whose_heartbeat_stops_is_dead_after_the_timeout_of_the_reader() {
    let tables = FaultyRows::default();
    let (reader, silent) = (Node::start("reader", &tables), Node::start("silent", &tables));
    reader.until_live(&["reader", "silent"]).await;
    let stopped_at = Instant::now();
    silent.rows.set_away(true);
    reader.until_live(&["reader"]).await;
    let elapsed = stopped_at.elapsed();
    assert!(TIMEOUT - INTERVAL <= elapsed && elapsed <= TIMEOUT + 2 * INTERVAL, "{elapsed:?}");
    // The silent node cannot know.
    assert_eq!(silent.live(), ["reader", "silent"]);
    silent.rows.set_away(false);
    reader.until_live(&["reader", "silent"]).await;
}

#[tokio::test(start_paused = true)]
async fn row_of_a_long_dead_node_is_deleted_and_the_node_can_return() {
    let tables = FaultyRows::default();
    let (reader, silent) = (Node::start("reader", &tables), Node::start("silent", &tables));
    reader.until_live(&["reader", "silent"]).await;
    let version = tables.stored().await[1].1.version();
    silent.rows.set_away(true);
    reader.until_live(&["reader"]).await;
    sleep(FORGET_AFTER - 2 * TIMEOUT).await;
    assert_eq!(tables.stored().await.len(), 2);
    sleep(4 * TIMEOUT).await;
    assert_eq!(tables.stored().await.len(), 1);
    silent.rows.set_away(false);
    reader.until_live(&["reader", "silent"]).await;
    assert!(tables.stored().await[1].1.version() > version, "the version of a row never repeats");
    assert!(!silent.view().is_replaced);
}

#[tokio::test(start_paused = true)]
async fn outage_of_the_tables_declares_no_node_dead() {
    let tables = FaultyRows::default();
    let nodes = ["a", "b", "c"].map(|name| Node::start(name, &tables));
    nodes[0].until_live(&["a", "b", "c"]).await;
    nodes[1].until_live(&["a", "b", "c"]).await;
    // The first node reads the last heartbeats of the others before the outage reaches it.
    nodes[1].rows.set_away(true);
    nodes[2].rows.set_away(true);
    sleep(2 * INTERVAL).await;
    nodes[0].rows.set_away(true);
    nodes[0].stays_live(&["a", "b", "c"], 10 * TIMEOUT).await;
    // The first node reads before the others have written.
    nodes[0].rows.set_away(false);
    nodes[0].stays_live(&["a", "b", "c"], TIMEOUT / 2).await;
    nodes[1].rows.set_away(false);
    // The third one does not return.
    nodes[0].until_live(&["a", "b"]).await;
    nodes[1].until_live(&["a", "b"]).await;
}

#[tokio::test(start_paused = true)]
async fn restarted_node_takes_its_row_over_and_an_older_process_with_its_id_is_replaced() {
    let tables = FaultyRows::default();
    let reader = Node::start("reader", &tables);
    let first = Node::start("twin", &tables);
    reader.until_live(&["reader", "twin"]).await;
    let first_boot = reader.view().live[&first.id].boot;
    let second = Node::start("twin", &tables);
    let mut first_view = first.membership.watch();
    first_view.wait_for(|view| view.is_replaced).await.unwrap();
    let mut reader_view = reader.membership.watch();
    let is_second = |view: &ClusterView| view.live.get(&first.id).is_some_and(|twin| twin.boot != first_boot);
    reader_view.wait_for(is_second).await.unwrap();
    reader.stays_live(&["reader", "twin"], 3 * TIMEOUT).await;
    assert!(!second.view().is_replaced);
    // The older process leaves the row alone.
    first.membership.leave().await.unwrap();
    reader.stays_live(&["reader", "twin"], 3 * TIMEOUT).await;
    second.membership.leave().await.unwrap();
    reader.until_live(&["reader"]).await;
}

#[tokio::test(start_paused = true)]
async fn lost_answers_do_not_replace_a_node_or_keep_its_row() {
    let tables = FaultyRows::default();
    let reader = Node::start("reader", &tables);
    let rows = FaultyRows::beside(&tables);
    rows.lost_answers.store(3, Ordering::SeqCst);
    let unlucky = Node::start_on("unlucky", rows);
    reader.until_live(&["reader", "unlucky"]).await;
    for _ in 0..20 {
        unlucky.rows.lost_answers.store(1, Ordering::SeqCst);
        sleep(2 * INTERVAL).await;
        assert!(!unlucky.view().is_replaced);
        assert_eq!(reader.live(), ["reader", "unlucky"]);
    }
    // The last heartbeat before the node leaves has no answer.
    unlucky.rows.lost_answers.store(1, Ordering::SeqCst);
    let writes = unlucky.rows.writes.load(Ordering::SeqCst);
    while unlucky.rows.writes.load(Ordering::SeqCst) == writes {
        sleep(Duration::from_millis(100)).await;
    }
    unlucky.membership.leave().await.unwrap();
    assert_eq!(tables.stored().await.len(), 1);
    reader.until_live(&["reader"]).await;
}

#[tokio::test(start_paused = true)]
async fn unreadable_row_is_skipped() {
    let tables = FaultyRows::default();
    let key = Key::text("\u{1}nodes", "broken");
    tables.rows.put(Table::Names, &key, &Item::new().text("boot", "?"), Only::IfAbsent).await.unwrap();
    let (a, z) = (Node::start("a", &tables), Node::start("z", &tables));
    a.until_live(&["a", "z"]).await;
    z.until_live(&["a", "z"]).await;
}
