//! The way to Redis or Valkey: one server, whatever sentinels point to, or a cluster.
//!
//! Knows servers, slots and scripts, and nothing of what is kept there: that is in [`hints`](crate::hints) and
//! [`neighbours`](crate::neighbours).

pub mod call;
mod cluster;
mod endpoint;
mod line;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use ::redis::aio::MultiplexedConnection;
use ::redis::{ServerError, ServerErrorKind, Value};
use futures_util::future::join_all;
use tokio::sync::watch;
use tokio::time::Instant;

pub use bluetick_fleet_settings::{RedisMode, RedisSettings, masked};
pub use endpoint::problem;

use crate::hints::Away;
use call::Call;
use cluster::Cluster;
use line::{Line, Towards};

pub struct Redis {
    way: Way,
    settings: RedisSettings,
    comebacks: watch::Sender<u64>,
    round_trips: AtomicU64,
    calls: AtomicU64,
    refused: AtomicU64,
}

enum Way {
    Line(Arc<Line>),
    Cluster(Cluster),
}

/// Since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RedisCounters {
    pub round_trips: u64,
    /// Commands and scripts.
    pub calls: u64,
    /// Round trips that were answered with [`Away`].
    pub refused: u64,
}

/// Refusals that say that another server has the slot.
enum Elsewhere {
    Moved,
    Ask(String),
}

impl Redis {
    /// Fails only for settings that cannot work. A Redis that is away is connected to when it comes; this waits a moment
    /// for one that is there.
    pub async fn open(settings: RedisSettings) -> Result<Redis, String> {
        if let Some(problem) = problem(&settings) {
            return Err(problem);
        }
        let endpoints = endpoint::endpoints(&settings)?;
        let entered: Vec<_> =
            endpoints.iter().map(|endpoint| endpoint::with_credentials(&settings, endpoint)).collect();
        let comebacks = watch::Sender::new(0);
        let first = entered.first().ok_or("store.redis.urls must name at least one server")?.clone();
        let way = match settings.mode {
            RedisMode::Single => Way::Line(Arc::new(Line::new(Towards::Server(first), comebacks.clone()))),
            RedisMode::Sentinel => {
                let like = endpoint::of_servers(&settings, &first);
                let master = settings.sentinel_master.clone();
                let towards = Towards::Primary { sentinels: endpoints, master, like };
                Way::Line(Arc::new(Line::new(towards, comebacks.clone())))
            }
            RedisMode::Cluster => Way::Cluster(Cluster::new(entered, comebacks.clone())),
        };
        let (round_trips, calls, refused) = Default::default();
        let redis = Redis { way, settings, comebacks, round_trips, calls, refused };
        let _or_later = tokio::time::timeout(Duration::from_secs(2), redis.up()).await;
        Ok(redis)
    }

    /// Until all of it can be used.
    pub async fn up(&self) {
        match &self.way {
            Way::Line(line) => line.up().await,
            Way::Cluster(cluster) => cluster.up().await,
        }
    }

    pub fn settings(&self) -> &RedisSettings {
        &self.settings
    }

    pub fn counters(&self) -> RedisCounters {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        RedisCounters {
            round_trips: read(&self.round_trips),
            calls: read(&self.calls),
            refused: read(&self.refused),
        }
    }

    /// Changes whenever a server, or another one in its place, has come back: what was written meanwhile is not there.
    pub fn comebacks(&self) -> watch::Receiver<u64> {
        self.comebacks.subscribe()
    }

    pub async fn run(&self, call: Call) -> Result<Value, Away> {
        self.run_all(vec![call]).await?.pop().ok_or_else(call::odd)
    }

    /// All of them in one round trip, to every server its own side by side. Answers come in the order of the calls. When
    /// one of them cannot be had, none is; the others may have been done.
    pub async fn run_all(&self, calls: Vec<Call>) -> Result<Vec<Value>, Away> {
        let deadline = Instant::now() + self.settings.timeout();
        self.calls.fetch_add(calls.len() as u64, Ordering::Relaxed);
        let answers = self.ask(&calls, deadline).await;
        if answers.is_err() {
            self.refused.fetch_add(1, Ordering::Relaxed);
        }
        answers
    }

    /// A connection to the server that has this slot, for commands that wait. The caller minds the time.
    pub async fn own_connection(&self, slot: u16) -> Result<MultiplexedConnection, Away> {
        let endpoint = self.line_of(slot)?.endpoint()?;
        line::open(&endpoint).await.map_err(Away)
    }

    fn line_of(&self, slot: u16) -> Result<Arc<Line>, Away> {
        match &self.way {
            Way::Line(line) => Ok(line.clone()),
            Way::Cluster(cluster) => cluster.line_of(slot),
        }
    }

    async fn ask(&self, calls: &[Call], deadline: Instant) -> Result<Vec<Value>, Away> {
        let mut answers: Vec<Value> = vec![Value::Nil; calls.len()];
        let all: Vec<_> = (0..calls.len()).collect();
        self.ask_some(calls, &all, &mut answers, deadline, false).await?;
        let unknown: Vec<_> =
            all.iter().copied().filter(|index| is_unknown_script(&answers[*index])).collect();
        if !unknown.is_empty() {
            self.ask_some(calls, &unknown, &mut answers, deadline, true).await?;
        }
        if let Way::Cluster(cluster) = &self.way {
            self.follow(cluster, calls, &mut answers, deadline).await?;
        }
        match answers.iter().find_map(refusal) {
            None => Ok(answers),
            Some(refusal) => {
                self.doubt();
                Err(Away(format!("it refuses: {}", refusal.code())))
            }
        }
    }

    /// Asks these calls of the servers that have their slots.
    async fn ask_some(
        &self,
        calls: &[Call],
        which: &[usize],
        answers: &mut [Value],
        deadline: Instant,
        whole: bool,
    ) -> Result<(), Away> {
        let mut parts: Vec<(Arc<Line>, Vec<usize>)> = Vec::new();
        for index in which {
            let line = self.line_of(calls[*index].slot)?;
            match parts.iter_mut().find(|(known, _)| Arc::ptr_eq(known, &line)) {
                Some((_, indices)) => indices.push(*index),
                None => parts.push((line, vec![*index])),
            }
        }
        self.round_trips.fetch_add(1, Ordering::Relaxed);
        let parts = parts.into_iter().map(|(line, indices)| async move {
            let mut commands = ::redis::pipe();
            for index in &indices {
                commands.add_command(calls[*index].to_command(whole && calls[*index].is_script()));
            }
            let answers = line.ask(&commands, indices.len(), deadline).await;
            (indices, answers)
        });
        for (indices, part) in join_all(parts).await {
            let part = part.inspect_err(|_| self.doubt())?;
            for (index, answer) in indices.into_iter().zip(part) {
                answers[index] = answer;
            }
        }
        Ok(())
    }

    /// Once more where the map was out of date, or a slot is on its way to another server.
    async fn follow(
        &self,
        cluster: &Cluster,
        calls: &[Call],
        answers: &mut [Value],
        deadline: Instant,
    ) -> Result<(), Away> {
        let mut moved = Vec::new();
        for index in 0..calls.len() {
            match elsewhere(&answers[index]) {
                None => {}
                Some(Elsewhere::Moved) => moved.push(index),
                Some(Elsewhere::Ask(address)) => {
                    let Some(line) = cluster.line_at(&address) else {
                        cluster.doubt();
                        continue;
                    };
                    let mut commands = ::redis::pipe();
                    commands.cmd("ASKING").add_command(calls[index].to_command(true));
                    answers[index] = line.ask(&commands, 2, deadline).await?.pop().ok_or_else(call::odd)?;
                }
            }
        }
        if !moved.is_empty() {
            let redrawn = tokio::time::timeout_at(deadline, cluster.redrawn()).await;
            redrawn.map_err(|_| Away("the slot has moved".to_owned()))?;
            self.ask_some(calls, &moved, answers, deadline, true).await?;
        }
        Ok(())
    }

    fn doubt(&self) {
        if let Way::Cluster(cluster) = &self.way {
            cluster.doubt();
        }
    }
}

fn refusal(answer: &Value) -> Option<&ServerError> {
    match answer {
        Value::ServerError(refusal) => Some(refusal),
        _ => None,
    }
}

fn is_unknown_script(answer: &Value) -> bool {
    refusal(answer).and_then(ServerError::kind) == Some(ServerErrorKind::NoScript)
}

fn elsewhere(answer: &Value) -> Option<Elsewhere> {
    let refusal = refusal(answer)?;
    match refusal.kind()? {
        ServerErrorKind::Moved => Some(Elsewhere::Moved),
        ServerErrorKind::Ask => {
            let (_slot, address) = refusal.details()?.split_once(' ')?;
            Some(Elsewhere::Ask(address.to_owned()))
        }
        _ => None,
    }
}
