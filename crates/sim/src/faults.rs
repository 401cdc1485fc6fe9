//! The kinds of faults and their schedule.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use tokio::time::sleep;

use crate::cluster::Cluster;
use crate::world::{World, WorldKind};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum)]
pub enum Fault {
    /// A connection is cut.
    LineCut,
    /// Connections are slow and stall.
    LinesStuck,
    /// A node loses power or is killed.
    Crash,
    CrashWhileWriting,
    CrashInCheckpoint,
    /// A node is shut down and starts again.
    Restart,
    DiskFull,
    DiskFails,
    DiskSlow,
    ClockJump,
    RedisAway,
    RedisAwayForOne,
    RedisForgets,
    RedisStutters,
    RedisActsLate,
    CounterSetBack,
    TablesRefuse,
    TablesLoseAnswers,
    TablesActLate,
    TablesSlow,
    NewsLate,
    /// A node's faults of the tables and Redis end.
    Mended,
}

impl Fault {
    /// The faults that can occur in a world.
    pub fn of(kind: WorldKind) -> BTreeSet<Fault> {
        let own: &[Fault] = match kind {
            WorldKind::Embedded => &[
                Fault::CrashWhileWriting,
                Fault::CrashInCheckpoint,
                Fault::DiskFull,
                Fault::DiskFails,
                Fault::DiskSlow,
            ],
            WorldKind::Fleet => &[
                Fault::RedisAway,
                Fault::RedisAwayForOne,
                Fault::RedisForgets,
                Fault::RedisStutters,
                Fault::RedisActsLate,
                Fault::CounterSetBack,
                Fault::TablesRefuse,
                Fault::TablesLoseAnswers,
                Fault::TablesActLate,
                Fault::TablesSlow,
                Fault::NewsLate,
                Fault::Mended,
            ],
        };
        let both = [Fault::LineCut, Fault::LinesStuck, Fault::Crash, Fault::Restart, Fault::ClockJump];
        both.iter().chain(own).copied().collect()
    }
}

/// Injects faults, each kind on its own random schedule, until the busy phase ends or the run has a
/// finding.
pub async fn weather(town: &Arc<Cluster>, world: &Arc<World>, faults: &BTreeSet<Fault>) {
    let mut tasks = tokio::task::JoinSet::new();
    for fault in faults {
        tasks.spawn(again_and_again(Arc::clone(town), Arc::clone(world), *fault));
    }
    tasks.join_all().await;
}

async fn again_and_again(town: Arc<Cluster>, world: Arc<World>, fault: Fault) {
    let mut dice = town.dice.of(&format!("{fault:?}"));
    let (least, most) = match fault {
        Fault::LineCut => (300, 4_000),
        Fault::Mended => (1_000, 8_000),
        _ => (1_000, 30_000),
    };
    loop {
        sleep(dice.millis(least, most)).await;
        if town.is_calm() || town.is_broken() {
            return;
        }
        town.counts.faults.fetch_add(1, Ordering::SeqCst);
        match fault {
            Fault::LineCut => {
                if town.network.cut_one(dice.throw()) {
                    town.trace.note("network", "a connection is cut");
                }
            }
            Fault::LinesStuck => {
                let (delay, stuck) = (dice.between(1, 150), dice.between(0, 20));
                town.trace.note("network", format_args!("delay up to {delay} ms, one in {stuck} stuck"));
                town.network.set_weather(delay, stuck);
            }
            fault => world.suffer(fault).await,
        }
    }
}
