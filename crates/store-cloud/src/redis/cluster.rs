//! Which server of a cluster has which slot, learnt from the servers and again whenever one of them fails or disagrees.

use std::collections::BTreeMap;
use std::sync::{Arc, RwLock};
use std::time::Duration;

use ::redis::Value;
use futures_util::stream::{FuturesUnordered, StreamExt};
use tokio::sync::{Notify, watch};
use tokio::task::JoinHandle;

use super::call;
use super::endpoint::Endpoint;
use super::line::{self, Line, Towards};
use crate::hints::Away;

pub(super) struct Cluster {
    shared: Arc<Shared>,
    scout: JoinHandle<()>,
}

struct Shared {
    seeds: Vec<Endpoint>,
    map: RwLock<Arc<Map>>,
    /// Somebody wants the map to be drawn again.
    doubt: Notify,
    drawn: watch::Sender<u64>,
    comebacks: watch::Sender<u64>,
}

/// Lines by address, and for each range of slots (by its last) the first slot and the address.
#[derive(Default)]
struct Map {
    lines: BTreeMap<String, Arc<Line>>,
    ranges: Ranges,
    replicas: Vec<Endpoint>,
}

type Ranges = BTreeMap<u16, (u16, String)>;

const LOOK_EVERY: Duration = Duration::from_secs(10);
const LOOK_EVERY_IN_TROUBLE: Duration = Duration::from_millis(200);
const ANSWER_TIMEOUT: Duration = Duration::from_secs(1);

impl Cluster {
    pub(super) fn new(seeds: Vec<Endpoint>, comebacks: watch::Sender<u64>) -> Cluster {
        let shared = Arc::new(Shared {
            seeds,
            map: RwLock::default(),
            doubt: Notify::new(),
            drawn: watch::Sender::new(0),
            comebacks,
        });
        let scout = tokio::spawn(scout(shared.clone()));
        Cluster { shared, scout }
    }

    pub(super) fn line_of(&self, slot: u16) -> Result<Arc<Line>, Away> {
        let map = self.shared.map();
        let range = map.ranges.range(slot..).next().filter(|(_, (first, _))| *first <= slot);
        match range.and_then(|(_, (_, address))| map.lines.get(address)) {
            Some(line) => Ok(line.clone()),
            None => Err(Away("no server of the cluster serves this slot".to_owned())),
        }
    }

    pub(super) fn line_at(&self, address: &str) -> Option<Arc<Line>> {
        self.shared.map().lines.get(address).cloned()
    }

    /// A server said that the map is wrong, or did not answer.
    pub(super) fn doubt(&self) {
        self.shared.doubt.notify_one();
    }

    /// Until the map has been drawn again.
    pub(super) async fn redrawn(&self) {
        let mut drawn = self.shared.drawn.subscribe();
        self.doubt();
        let _ends_with_the_cluster = drawn.changed().await;
    }

    /// Until every slot has a line that can be used.
    pub(super) async fn up(&self) {
        loop {
            let map = self.shared.map();
            if !map.lines.is_empty() && map.lines.values().all(|line| line.is_up()) {
                return;
            }
            // The map may change while one of its lines is waited for.
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.scout.abort();
    }
}

impl Shared {
    fn map(&self) -> Arc<Map> {
        self.map.read().expect("no call panics while it holds the lock").clone()
    }

    /// Keeps the lines that are still needed.
    fn install(&self, found: Found) {
        let old = self.map();
        let changed = old.ranges != found.ranges;
        let lines = found.primaries.into_iter().map(|(address, endpoint)| {
            let line = old.lines.get(&address).cloned();
            let line = line
                .unwrap_or_else(|| Arc::new(Line::new(Towards::Member(endpoint), self.comebacks.clone())));
            (address, line)
        });
        let map = Map { lines: lines.collect(), ranges: found.ranges, replicas: found.replicas };
        *self.map.write().expect("no call panics while it holds the lock") = Arc::new(map);
        self.drawn.send_modify(|count| *count += 1);
        if changed {
            self.comebacks.send_modify(|count| *count += 1);
        }
    }
}

async fn scout(shared: Arc<Shared>) {
    loop {
        let all_is_well = match look(&shared).await {
            Some(found) => {
                shared.install(found);
                shared.map().lines.values().all(|line| line.is_up())
            }
            None => false,
        };
        let pause = if all_is_well { LOOK_EVERY } else { LOOK_EVERY_IN_TROUBLE };
        let _time = tokio::time::timeout(pause, shared.doubt.notified()).await;
    }
}

struct Found {
    ranges: Ranges,
    primaries: BTreeMap<String, Endpoint>,
    replicas: Vec<Endpoint>,
}

/// Asks everybody who is known side by side, and takes the first answer of a server that serves.
async fn look(shared: &Shared) -> Option<Found> {
    let map = shared.map();
    let like = shared.seeds.first()?;
    let mut endpoints: BTreeMap<String, Endpoint> = BTreeMap::new();
    let lines = map.lines.values().filter_map(|line| line.endpoint().ok());
    for endpoint in shared.seeds.iter().chain(&map.replicas).cloned().chain(lines) {
        endpoints.insert(endpoint.address(), endpoint);
    }
    let mut answers: FuturesUnordered<_> = endpoints.values().map(|endpoint| ask(endpoint, like)).collect();
    while let Some(answer) = answers.next().await {
        if answer.is_some() {
            return answer;
        }
    }
    None
}

async fn ask(endpoint: &Endpoint, like: &Endpoint) -> Option<Found> {
    let mut connection = line::open(endpoint).await.ok()?;
    let mut questions = ::redis::pipe();
    questions.cmd("CLUSTER").arg("INFO").cmd("CLUSTER").arg("SLOTS");
    let answers = connection.send_packed_commands(&questions, 0, 2);
    let answers = tokio::time::timeout(ANSWER_TIMEOUT, answers).await.ok()?.ok()?;
    let [info, slots] = answers.as_slice() else { return None };
    // Who is cut off from the others has an old map.
    if line::line_of(call::text(info).ok()?, "cluster_state") != Some("ok") {
        return None;
    }
    read(slots, endpoint.host(), like).ok()
}

fn read(slots: &Value, asked: &str, like: &Endpoint) -> Result<Found, Away> {
    let mut found = Found { ranges: BTreeMap::new(), primaries: BTreeMap::new(), replicas: Vec::new() };
    for range in call::list(slots)? {
        let [first, last, primary, replicas @ ..] = call::list(range)? else { return Err(call::odd()) };
        let slot = |value| u16::try_from(call::number(value)?).map_err(|_| call::odd());
        let endpoint = endpoint_of(primary, asked, like)?;
        found.ranges.insert(slot(last)?, (slot(first)?, endpoint.address()));
        found.primaries.insert(endpoint.address(), endpoint);
        for replica in replicas {
            found.replicas.push(endpoint_of(replica, asked, like)?);
        }
    }
    if found.ranges.is_empty() { Err(call::odd()) } else { Ok(found) }
}

fn endpoint_of(server: &Value, asked: &str, like: &Endpoint) -> Result<Endpoint, Away> {
    let [host, port, ..] = call::list(server)? else { return Err(call::odd()) };
    let host = call::text(host).unwrap_or_default();
    let port = u16::try_from(call::number(port)?).map_err(|_| call::odd())?;
    // A server that does not know its own name is where it was asked.
    Ok(like.at(if host.is_empty() || host == "?" { asked } else { host }, port))
}
