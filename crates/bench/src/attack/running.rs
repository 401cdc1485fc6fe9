//! Runs the attackers on one thread of the lowest priority with its own runtime. They therefore
//! take little CPU time from the measurement, and their own CPU time is measured.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bluetick_core::ConversationId;
use rustix::time::{ClockId, clock_gettime};
use tokio::sync::oneshot;
use tokio::task::JoinSet;

use super::Attack;
use super::{connections, frames, requests};
use crate::BenchError;
use crate::under_test::client_failed;

/// An attacker's account and the account of its conversation peer.
pub struct Account {
    pub token: String,
    pub peer_token: String,
    pub conversation: ConversationId,
}

/// The data that all attackers share: server address, accounts and number of connections.
pub struct AttackContext {
    pub to: SocketAddr,
    pub accounts: Vec<Account>,
    pub connections: usize,
}

/// Nice value of the attacker thread. 19 is the lowest priority on Linux.
const LOWEST_PRIORITY: i32 = 19;
/// Minimum time between the start of an attack and its measurement. The attackers open their
/// connections during this time.
const DEPLOYING: Duration = Duration::from_secs(2);
/// How long `RunningAttack::deploy` waits for the first action before it fails.
const GIVE_UP: Duration = Duration::from_secs(60);
/// Number of source addresses that the attackers share.
const SOURCES: u32 = 8;

impl AttackContext {
    pub fn account(&self, number: usize) -> &Account {
        &self.accounts[number % self.accounts.len()]
    }

    /// Returns the source address of an attacker. Attackers share `SOURCES` addresses.
    pub fn source(&self, number: usize) -> Option<SocketAddr> {
        let address = u32::from(Ipv4Addr::new(127, 2, 0, 1)) + number as u32 % SOURCES;
        Some(SocketAddr::from((Ipv4Addr::from(address), 0)))
    }
}

/// The shared state of one attack: its rate, its turn counter and its result counters.
pub struct AttackControl {
    pub field: Arc<AttackContext>,
    started: Instant,
    per_second: u64,
    turns: AtomicU64,
    acts: AtomicU64,
    refusals: AtomicU64,
}

impl AttackControl {
    /// Waits for the next turn of the shared rate. Late attackers skip missed turns instead of
    /// catching up.
    pub async fn turn(&self) {
        let due = |turn: u64| Duration::from_secs_f64(turn as f64 / self.per_second as f64);
        let mut turn = self.turns.fetch_add(1, Ordering::Relaxed);
        let elapsed = self.started.elapsed();
        if due(turn) + LATE < elapsed {
            turn = (elapsed.as_secs_f64() * self.per_second as f64) as u64;
            self.turns.store(turn + 1, Ordering::Relaxed);
        }
        let until = self.started + due(turn);
        // Timers have a resolution of one millisecond. Run turns that are due within one
        // millisecond now.
        if until > Instant::now() + GRAIN {
            tokio::time::sleep_until(until.into()).await;
        } else if turn.is_multiple_of(TURNS_BETWEEN_YIELDS) {
            tokio::task::yield_now().await;
        }
    }

    pub fn acted(&self) {
        self.acts.fetch_add(1, Ordering::Relaxed);
    }

    pub fn refused(&self) {
        self.refusals.fetch_add(1, Ordering::Relaxed);
    }
}

/// Resolution of the runtime's timers.
const GRAIN: Duration = Duration::from_millis(1);
/// Delay after which missed turns are skipped. The thread has the lowest priority, so catching up
/// would create bursts above the configured rate.
const LATE: Duration = Duration::from_millis(2);
/// Number of turns without a sleep after which an attacker yields to the other tasks.
const TURNS_BETWEEN_YIELDS: u64 = 16;

/// The duration, CPU time and counters of one attack.
#[derive(Clone, Copy, Debug)]
pub struct AttackCosts {
    pub seconds: f64,
    pub cpu_seconds: f64,
    pub acts: u64,
    pub refusals: u64,
}

impl AttackCosts {
    pub fn each_second(&self, count: u64) -> f64 {
        count as f64 / self.seconds
    }
}

/// A running attack. Dropping it stops the attackers.
pub struct RunningAttack {
    orders: Arc<AttackControl>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<std::thread::JoinHandle<Result<AttackCosts, BenchError>>>,
}

impl RunningAttack {
    pub fn send(attack: Attack, field: Arc<AttackContext>) -> Result<RunningAttack, BenchError> {
        let (stop, stopped) = oneshot::channel();
        let orders = Arc::new(AttackControl {
            field,
            started: Instant::now(),
            per_second: attack.per_second(),
            turns: AtomicU64::new(0),
            acts: AtomicU64::new(0),
            refusals: AtomicU64::new(0),
        });
        let theirs = Arc::clone(&orders);
        let thread = std::thread::Builder::new().name("attackers".to_owned());
        let thread = thread.spawn(move || work(attack, &theirs, stopped)).map_err(client_failed)?;
        Ok(RunningAttack { orders, stop: Some(stop), thread: Some(thread) })
    }

    /// Waits until the attackers have started. The lowest-priority thread may start late on a busy
    /// machine, and measuring earlier would measure no attack.
    ///
    /// Returns an error if no attacker acts within `GIVE_UP`.
    pub async fn deploy(&self) -> Result<(), BenchError> {
        tokio::time::sleep(DEPLOYING).await;
        let deadline = Instant::now() + GIVE_UP;
        while self.orders.acts.load(Ordering::Relaxed) == 0 {
            if Instant::now() > deadline {
                return Err(client_failed("no attacker acted within a minute"));
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        Ok(())
    }

    /// Stops the attackers and returns their costs.
    pub fn call_back(mut self) -> Result<AttackCosts, BenchError> {
        self.end().unwrap_or_else(|| Err(client_failed("the attackers have already stopped")))
    }

    fn end(&mut self) -> Option<Result<AttackCosts, BenchError>> {
        // The send fails only if the thread has already ended.
        let _told = self.stop.take()?.send(());
        let ended = self.thread.take()?.join();
        Some(ended.unwrap_or_else(|_| Err(client_failed("the attackers failed"))))
    }
}

impl Drop for RunningAttack {
    fn drop(&mut self) {
        let _spent = self.end();
    }
}

fn work(
    attack: Attack,
    orders: &Arc<AttackControl>,
    stopped: oneshot::Receiver<()>,
) -> Result<AttackCosts, BenchError> {
    rustix::process::nice(LOWEST_PRIORITY).map_err(client_failed)?;
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(client_failed)?;
    runtime.block_on(async {
        let mut attackers = attackers(attack, orders);
        tokio::select! {
            _ = stopped => {}
            () = async { while attackers.join_next().await.is_some() {} } => {}
        }
    });
    let seconds = orders.started.elapsed().as_secs_f64();
    drop(runtime);
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Ok(AttackCosts {
        seconds,
        cpu_seconds: time.tv_sec as f64 + time.tv_nsec as f64 / 1e9,
        acts: orders.acts.load(Ordering::Relaxed),
        refusals: orders.refusals.load(Ordering::Relaxed),
    })
}

/// Spawns one task per attacker. The tasks run until they are aborted.
fn attackers(attack: Attack, orders: &Arc<AttackControl>) -> JoinSet<()> {
    let mut attackers = JoinSet::new();
    let connections = orders.field.connections;
    let few = orders.field.accounts.len();
    for number in 0..if attack == Attack::SlowLoris { connections } else { few } {
        let orders = Arc::clone(orders);
        match attack {
            Attack::SlowLoris => attackers.spawn(connections::trickle(orders, number)),
            Attack::NeverReading => attackers.spawn(connections::never_read(orders, number)),
            Attack::ReconnectStorm => attackers.spawn(connections::come_and_go(orders, number)),
            Attack::ConnectionsOfOneUser => attackers.spawn(connections::pile_up(orders, number)),
            Attack::OneByteFrames => attackers.spawn(frames::one_byte(orders, number)),
            Attack::GiantFrames => attackers.spawn(frames::giant(orders, number)),
            Attack::PingFlood => attackers.spawn(frames::pings(orders, number)),
            Attack::GuessedIds => attackers.spawn(frames::guesses(orders, number)),
            Attack::LogInFlood => attackers.spawn(requests::log_ins(orders, number)),
            Attack::BadTokens => attackers.spawn(requests::bad_tokens(orders, number)),
        };
    }
    attackers
}
