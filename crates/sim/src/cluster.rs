//! State shared by all tasks of a run: random source, trace, network, auditor and nodes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use bluetick_auth::{AuthSettings, Tokens};
use bluetick_core::ports::Random;
use bluetick_core::{ConversationId, UserId};
use parking_lot::{Mutex, MutexGuard};
use tokio::io::DuplexStream;

use crate::audit::Auditor;
use crate::clock::BEGINNING;
use crate::dice::Dice;
use crate::network::SimulatedNetwork;
use crate::trace::Trace;

/// The nodes of a world, by index.
pub trait Nodes: Send + Sync {
    fn count(&self) -> usize;

    /// Connects to a node. Returns `None` if the node is down.
    fn connect(&self, node: usize) -> Option<DuplexStream>;
}

pub struct Cluster {
    pub dice: Dice,
    pub trace: Trace,
    pub network: SimulatedNetwork,
    pub tokens: Arc<Tokens>,
    auditor: Mutex<Auditor>,
    nodes: Mutex<Option<Arc<dyn Nodes>>>,
    /// Set when the busy phase ends: clients start nothing new and no more faults are injected.
    calm: AtomicBool,
    over: AtomicBool,
    pub counts: RunCounters,
}

/// Counters for the report.
#[derive(Debug, Default)]
pub struct RunCounters {
    pub faults: AtomicU64,
    pub sends: AtomicU64,
    pub connections: AtomicU64,
    pub requests: AtomicU64,
    /// Number of times a node's clock was changed.
    pub clocks_set: AtomicU64,
}

/// The admin key of every simulated server.
pub const ADMIN_KEY: &str = "the-key-of-the-simulation";
/// Lifetime of a client's token. It must be longer than any clock jump, or valid tokens are
/// refused.
const TOKEN_TTL: Duration = Duration::from_secs(365 * 24 * 3600);

impl Cluster {
    pub fn new(dice: Dice) -> Arc<Cluster> {
        let settings = AuthSettings { max_token_ttl_seconds: TOKEN_TTL.as_secs(), ..AuthSettings::default() };
        // Sign with the servers' own key, derived from the seed. Servers refuse tokens of other
        // issuers that come from the future, and a clock that is set back sees such tokens.
        let home = tempfile::TempDir::new().expect("there is room for a key");
        let tokens = Tokens::open(&settings, home.path(), &SeededRandom::new(dice.of("keys")));
        Arc::new(Cluster {
            network: SimulatedNetwork::new(dice.of("network")),
            trace: Trace::begin(),
            tokens: Arc::new(tokens.expect("the file can be written")),
            auditor: Mutex::new(Auditor::default()),
            nodes: Mutex::default(),
            calm: AtomicBool::new(false),
            over: AtomicBool::new(false),
            counts: RunCounters::default(),
            dice,
        })
    }

    pub fn has_one_node(&self) -> bool {
        let nodes = self.nodes.lock();
        nodes.as_ref().is_none_or(|nodes| nodes.count() == 1)
    }

    pub fn open_for(&self, nodes: Arc<dyn Nodes>) {
        *self.nodes.lock() = Some(nodes);
    }

    pub fn auditor(&self) -> MutexGuard<'_, Auditor> {
        self.auditor.lock()
    }

    /// Returns whether the auditor has a finding. The first finding ends the run.
    pub fn is_broken(&self) -> bool {
        self.auditor().finding().is_some()
    }

    pub fn calm_down(&self) {
        self.calm.store(true, Ordering::SeqCst);
    }

    pub fn is_calm(&self) -> bool {
        self.calm.load(Ordering::SeqCst)
    }

    pub fn end(&self) {
        self.over.store(true, Ordering::SeqCst);
    }

    pub fn is_over(&self) -> bool {
        self.over.load(Ordering::SeqCst)
    }

    pub fn token(&self, user: &UserId) -> String {
        self.tokens.mint(user, TOKEN_TTL, BEGINNING).expect("the server can mint a token for any user").token
    }

    /// Mints a token that expired almost 48 hours before the run began.
    pub fn expired_token(&self, user: &UserId) -> String {
        let long_ago = BEGINNING.plus_millis(-48 * 3600 * 1000);
        self.tokens
            .mint(user, Duration::from_secs(1), long_ago)
            .expect("the server can mint a token for any user")
            .token
    }

    /// Connects to a random node and returns its index and the connection. Returns `None` if that
    /// node is down.
    pub fn connect(&self, dice: &mut Dice) -> Option<(usize, DuplexStream)> {
        let nodes = self.nodes.lock().clone()?;
        let node = usize::try_from(dice.below(nodes.count() as u64)).unwrap_or(0);
        let theirs = nodes.connect(node)?;
        self.counts.connections.fetch_add(1, Ordering::SeqCst);
        Some((node, self.network.lay(node, theirs)))
    }
}

/// The `Random` port, driven by the seed.
pub struct SeededRandom(Mutex<Dice>);

impl SeededRandom {
    pub fn new(dice: Dice) -> SeededRandom {
        SeededRandom(Mutex::new(dice))
    }
}

impl Random for SeededRandom {
    fn fill(&self, bytes: &mut [u8]) {
        let mut dice = self.0.lock();
        bytes
            .chunks_mut(8)
            .for_each(|chunk| chunk.copy_from_slice(&dice.throw().to_le_bytes()[..chunk.len()]));
    }
}

/// Returns the id of a user by number.
pub fn person(number: usize) -> UserId {
    format!("p{number}").parse().expect("the name is a valid user id")
}

pub fn short(id: ConversationId) -> String {
    let spelled = id.to_string();
    spelled.chars().take(8).collect()
}
