//! Attackers: one thread of the lowest priority with a runtime of its own, so that they take processor time from nobody
//! who measures, and what they take is known.

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

/// An attacker's account, and that of somebody it talks with.
pub struct Account {
    pub token: String,
    pub peer_token: String,
    pub conversation: ConversationId,
}

/// What attackers know.
pub struct Field {
    pub to: SocketAddr,
    pub accounts: Vec<Account>,
    pub connections: usize,
}

const LOWEST_PRIORITY: i32 = 19;
/// How long attackers are at work before it is measured: by then their connections are there.
const DEPLOYING: Duration = Duration::from_secs(2);
const GIVE_UP: Duration = Duration::from_secs(60);
const SOURCES: u32 = 8;

impl Field {
    pub fn account(&self, number: usize) -> &Account {
        &self.accounts[number % self.accounts.len()]
    }

    /// Attackers have a few addresses.
    pub fn source(&self, number: usize) -> Option<SocketAddr> {
        let address = u32::from(Ipv4Addr::new(127, 2, 0, 1)) + number as u32 % SOURCES;
        Some(SocketAddr::from((Ipv4Addr::from(address), 0)))
    }
}

/// What all attackers of a squad count, and the beat they keep.
pub struct Orders {
    pub field: Arc<Field>,
    started: Instant,
    per_second: u64,
    turns: AtomicU64,
    acts: AtomicU64,
    refusals: AtomicU64,
}

impl Orders {
    /// Waits until it is time for the next act of anybody. Who is late does not make up for it.
    pub async fn turn(&self) {
        let due = |turn: u64| Duration::from_secs_f64(turn as f64 / self.per_second as f64);
        let mut turn = self.turns.fetch_add(1, Ordering::Relaxed);
        let elapsed = self.started.elapsed();
        if due(turn) + LATE < elapsed {
            turn = (elapsed.as_secs_f64() * self.per_second as f64) as u64;
            self.turns.store(turn + 1, Ordering::Relaxed);
        }
        let until = self.started + due(turn);
        // Timers have a grain of a millisecond; what is due within one is done at once.
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

const GRAIN: Duration = Duration::from_millis(1);
/// The thread has the lowest priority on a busy machine: what it made up for would be bursts, and not the rate that is said.
const LATE: Duration = Duration::from_millis(2);
const TURNS_BETWEEN_YIELDS: u64 = 16;

/// What an attack came to.
#[derive(Clone, Copy, Debug)]
pub struct Spent {
    pub seconds: f64,
    pub cpu_seconds: f64,
    pub acts: u64,
    pub refusals: u64,
}

impl Spent {
    pub fn each_second(&self, count: u64) -> f64 {
        count as f64 / self.seconds
    }
}

/// Attackers at work. Dropping it calls them back, too.
pub struct Squad {
    orders: Arc<Orders>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<std::thread::JoinHandle<Result<Spent, BenchError>>>,
}

impl Squad {
    pub fn send(attack: Attack, field: Arc<Field>) -> Result<Squad, BenchError> {
        let (stop, stopped) = oneshot::channel();
        let orders = Arc::new(Orders {
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
        Ok(Squad { orders, stop: Some(stop), thread: Some(thread) })
    }

    /// Waits until they are at work. With the lowest priority that may take a while on a busy machine; what is measured
    /// before would be called an attack and be none.
    pub async fn deploy(&self) -> Result<(), BenchError> {
        tokio::time::sleep(DEPLOYING).await;
        let deadline = Instant::now() + GIVE_UP;
        while self.orders.acts.load(Ordering::Relaxed) == 0 {
            if Instant::now() > deadline {
                return Err(client_failed("the attackers have not done anything for a minute"));
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        Ok(())
    }

    /// They drop everything.
    pub fn call_back(mut self) -> Result<Spent, BenchError> {
        self.end().unwrap_or_else(|| Err(client_failed("the attackers had gone already")))
    }

    fn end(&mut self) -> Option<Result<Spent, BenchError>> {
        // Gone already: then there is nobody to tell.
        let _told = self.stop.take()?.send(());
        let ended = self.thread.take()?.join();
        Some(ended.unwrap_or_else(|_| Err(client_failed("the attackers failed"))))
    }
}

impl Drop for Squad {
    fn drop(&mut self) {
        let _spent = self.end();
    }
}

fn work(attack: Attack, orders: &Arc<Orders>, stopped: oneshot::Receiver<()>) -> Result<Spent, BenchError> {
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
    Ok(Spent {
        seconds,
        cpu_seconds: time.tv_sec as f64 + time.tv_nsec as f64 / 1e9,
        acts: orders.acts.load(Ordering::Relaxed),
        refusals: orders.refusals.load(Ordering::Relaxed),
    })
}

/// One task for each attacker. None of them ends by itself.
fn attackers(attack: Attack, orders: &Arc<Orders>) -> JoinSet<()> {
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
