//! A long time under constant load: devices that write at a steady rate whatever becomes of what they wrote, come, go and
//! are cut off, read old pages, and hold everything they hear against the contract; what the server takes meanwhile,
//! once a second; and the judgement over all of it.
//!
//! It differs from a [`crowd`](crate::crowd) in what it keeps. A crowd has the log of every device in memory, which an
//! hour of traffic does not fit; here eight bytes a message are kept ([`ledger`]).

pub mod flat;
pub mod gauge;
mod hearing;
mod judge;
pub mod ledger;
mod life;
mod spell;

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::client::Situation;
use crate::crowd::{Scene, Sizes};
use crate::dice::Dice;
use crate::names::UserName;
use gauge::Acks;
pub use judge::{Verdict, judge};
use ledger::{Found, Ledger, Writer};
pub use life::{Happened, Life};

/// How large a run is, from the environment.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    pub seed: u64,
    pub minutes: u64,
    /// Messages a second, all devices together.
    pub rate: u64,
    pub clients: usize,
    pub conversations: usize,
}

impl Plan {
    pub fn from_environment() -> Plan {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as u64;
        let plan = Plan {
            seed: given("SEED").unwrap_or(now),
            minutes: given("MINUTES").unwrap_or(1),
            rate: given("RATE").unwrap_or(100),
            clients: given("CLIENTS").unwrap_or(30),
            conversations: given("CONVERSATIONS").unwrap_or(15),
        };
        assert!(plan.minutes > 0 && plan.rate > 0, "nothing to do: {plan}");
        assert!(plan.clients >= 24 && plan.conversations >= 5, "too few to talk: {plan}");
        plan
    }

    pub fn time(&self) -> Duration {
        Duration::from_secs(self.minutes * 60)
    }

    pub fn sizes(&self) -> Sizes {
        let Plan { seed, clients, conversations, minutes, .. } = *self;
        Sizes { seed, clients, conversations, seconds: minutes * 60, kills: 0 }
    }
}

fn given<T: FromStr>(name: &str) -> Option<T> {
    let name = format!("BLUETICK_SOAK_{name}");
    let text = std::env::var(&name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name} is not a number: {text}")))
}

/// As a command line would repeat it.
impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Plan { seed, minutes, rate, clients, conversations } = self;
        write!(
            f,
            "BLUETICK_SOAK_SEED={seed} BLUETICK_SOAK_MINUTES={minutes} BLUETICK_SOAK_RATE={rate} \
             BLUETICK_SOAK_CLIENTS={clients} BLUETICK_SOAK_CONVERSATIONS={conversations}"
        )
    }
}

/// What all devices share.
pub struct World {
    pub ledger: Ledger,
    pub acks: Arc<Acks>,
    pub address: String,
    /// From one message of a device to its next.
    pub between_sends: Duration,
}

/// Everybody there is, nobody connected yet.
pub fn devices(plan: &Plan, scene: &Scene, address: &str, dice: &mut Dice) -> (Arc<World>, Vec<Life>) {
    let users: Vec<&UserName> = scene.tokens.keys().collect();
    let owners: Vec<UserName> = (0..plan.clients).map(|number| users[number % users.len()].clone()).collect();
    let conversations = scene.plans.iter().map(|plan| plan.name.clone());
    let world = Arc::new(World {
        ledger: Ledger::new(conversations, owners.clone()),
        acks: Arc::default(),
        address: address.to_owned(),
        between_sends: Duration::from_secs_f64(plan.clients as f64 / plan.rate as f64),
    });
    let life = |(number, user): (usize, UserName)| {
        let rooms = scene.plans.iter().filter(|plan| plan.founders.contains(&user));
        let rooms = rooms.map(|plan| plan.name.clone()).collect();
        let writer = Writer(u32::try_from(number).expect("fewer devices than that"));
        let token = scene.tokens[&user].clone();
        Life::new(writer, user, token, rooms, Arc::clone(&world), dice.fork())
    };
    let lives = owners.into_iter().enumerate().map(life).collect();
    (world, lives)
}

/// All of them live until told to stop. Whoever finds a breach ends the run for everybody.
pub async fn live(lives: Vec<Life>, stop: &watch::Sender<Situation>) -> Vec<Life> {
    let mut living: JoinSet<_> = lives.into_iter().map(|life| life.live(stop.subscribe())).collect();
    joined(&mut living, Some(stop)).await
}

/// Everybody sends what is left, and then comes back once more, now that nothing happens, for what it misses.
pub async fn settle(mut lives: Vec<Life>) -> Vec<Life> {
    for _ in 0..2 {
        let mut settling: JoinSet<_> = lives.into_iter().map(Life::settle).collect();
        lives = joined(&mut settling, None).await;
    }
    lives
}

async fn joined(
    lives: &mut JoinSet<(Life, Option<Found>)>,
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
    let list: Vec<String> = found.iter().map(Found::to_string).collect();
    assert!(found.is_empty(), "{} breaches:\n{}", list.len(), list.join("\n"));
    all.sort_by_key(|life| life.writer);
    all
}
