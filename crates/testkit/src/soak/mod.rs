//! A long run under constant load. Devices write at a steady rate, connect, disconnect, are cut
//! off, read old pages, and check everything they receive. The sampler samples the server once a
//! second, and a final check follows.
//!
//! Unlike a [`load`](crate::load), a soak run does not keep the log of every device in memory: an
//! hour of traffic does not fit. It keeps eight bytes per message ([`ledger`]).

mod connection_run;
mod device;
mod final_check;
mod frames;
pub mod ledger;
pub mod sampler;
pub mod trend;

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::client::Situation;
use crate::dice::Dice;
use crate::load::{Scene, Sizes};
use crate::names::UserName;
pub use device::{Life, SoakCounts};
pub use final_check::{Verdict, judge};
use ledger::{ConversationBreach, Ledger, SenderNumber};
use sampler::Acks;

/// The size of a run, read from the environment.
#[derive(Clone, Copy, Debug)]
pub struct SoakPlan {
    pub seed: u64,
    pub minutes: u64,
    /// Messages per second of all devices together.
    pub rate: u64,
    pub clients: usize,
    pub conversations: usize,
}

impl SoakPlan {
    pub fn from_environment() -> SoakPlan {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as u64;
        let plan = SoakPlan {
            seed: given("SEED").unwrap_or(now),
            minutes: given("MINUTES").unwrap_or(1),
            rate: given("RATE").unwrap_or(100),
            clients: given("CLIENTS").unwrap_or(30),
            conversations: given("CONVERSATIONS").unwrap_or(15),
        };
        assert!(plan.minutes > 0 && plan.rate > 0, "the plan has no messages: {plan}");
        assert!(plan.clients >= 24 && plan.conversations >= 5, "the plan has too few devices: {plan}");
        plan
    }

    pub fn time(&self) -> Duration {
        Duration::from_secs(self.minutes * 60)
    }

    pub fn sizes(&self) -> Sizes {
        let SoakPlan { seed, clients, conversations, minutes, .. } = *self;
        Sizes { seed, clients, conversations, seconds: minutes * 60, kills: 0 }
    }
}

fn given<T: FromStr>(name: &str) -> Option<T> {
    let name = format!("BLUETICK_SOAK_{name}");
    let text = std::env::var(&name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name} is not a number: {text}")))
}

/// Prints the environment variables that repeat the run.
impl fmt::Display for SoakPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let SoakPlan { seed, minutes, rate, clients, conversations } = self;
        write!(
            f,
            "BLUETICK_SOAK_SEED={seed} BLUETICK_SOAK_MINUTES={minutes} BLUETICK_SOAK_RATE={rate} \
             BLUETICK_SOAK_CLIENTS={clients} BLUETICK_SOAK_CONVERSATIONS={conversations}"
        )
    }
}

/// State shared by all devices.
pub struct SoakState {
    pub ledger: Ledger,
    pub acks: Arc<Acks>,
    pub address: String,
    /// Interval between two messages of a device.
    pub between_sends: Duration,
}

/// Creates the devices, not connected yet.
pub fn devices(
    plan: &SoakPlan,
    scene: &Scene,
    address: &str,
    dice: &mut Dice,
) -> (Arc<SoakState>, Vec<Life>) {
    let users: Vec<&UserName> = scene.tokens.keys().collect();
    let owners: Vec<UserName> = (0..plan.clients).map(|number| users[number % users.len()].clone()).collect();
    let conversations = scene.plans.iter().map(|plan| plan.name.clone());
    let world = Arc::new(SoakState {
        ledger: Ledger::new(conversations, owners.clone()),
        acks: Arc::default(),
        address: address.to_owned(),
        between_sends: Duration::from_secs_f64(plan.clients as f64 / plan.rate as f64),
    });
    let life = |(number, user): (usize, UserName)| {
        let rooms = scene.plans.iter().filter(|plan| plan.founders.contains(&user));
        let rooms = rooms.map(|plan| plan.name.clone()).collect();
        let writer = SenderNumber(u32::try_from(number).expect("the number of devices fits"));
        let token = scene.tokens[&user].clone();
        Life::new(writer, user, token, rooms, Arc::clone(&world), dice.fork())
    };
    let lives = owners.into_iter().enumerate().map(life).collect();
    (world, lives)
}

/// Runs all devices until `stop`. A device that finds a breach stops the run. Panics if there was a
/// breach.
pub async fn live(lives: Vec<Life>, stop: &watch::Sender<Situation>) -> Vec<Life> {
    let mut living: JoinSet<_> = lives.into_iter().map(|life| life.live(stop.subscribe())).collect();
    joined(&mut living, Some(stop)).await
}

/// Runs two rounds: first every device sends its outbox, then every device fetches what it still
/// misses. Panics on a breach.
pub async fn settle(mut lives: Vec<Life>) -> Vec<Life> {
    for _ in 0..2 {
        let mut settling: JoinSet<_> = lives.into_iter().map(Life::settle).collect();
        lives = joined(&mut settling, None).await;
    }
    lives
}

async fn joined(
    lives: &mut JoinSet<(Life, Option<ConversationBreach>)>,
    stop: Option<&watch::Sender<Situation>>,
) -> Vec<Life> {
    let (mut all, mut found) = (Vec::new(), Vec::new());
    while let Some(ended) = lives.join_next().await {
        let (life, breach) = ended.unwrap();
        if let (Some(breach), Some(stop)) = (&breach, stop) {
            eprintln!("{}: {breach}", life.user);
            stop.send_modify(|now| now.stop = true);
        }
        all.push(life);
        found.extend(breach);
    }
    let list: Vec<String> = found.iter().map(ConversationBreach::to_string).collect();
    assert!(found.is_empty(), "{} breaches:\n{}", list.len(), list.join("\n"));
    all.sort_by_key(|life| life.writer);
    all
}
