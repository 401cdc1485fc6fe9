//! The `group` workload. All members of one group are online; some send, and all others receive and
//! acknowledge over WebSockets.

use std::path::PathBuf;
use std::sync::Arc;

use bluetick_core::ConversationId;
use bluetick_core::ports::{Creation, NewConversation, Store};
use bluetick_core::time::{Clock, SystemClock};
use tokio::task::JoinSet;

use crate::data_directory::{Ground, Run};
use crate::load::{Load, dismiss, offer};
use crate::seed::open;
use crate::traffic::{LoadSender, LoadTally, receive};
use crate::under_test::{ServerUnderTest, client_failed};
use crate::workload::{Dice, texts};
use crate::{BenchError, BenchReport};

#[derive(Clone, Debug)]
pub struct GroupBench {
    pub ground: Ground,
    /// Path of the server binary under test.
    pub binary: PathBuf,
    /// Number of group members, including the senders.
    pub members: usize,
    pub senders: usize,
    pub load: Load,
    pub body_bytes: usize,
    pub seconds: u64,
}

pub fn run(bench: GroupBench) -> Result<BenchReport, BenchError> {
    bench.ground.run(2, measure(&bench))
}

async fn measure(bench: &GroupBench) -> Result<BenchReport, BenchError> {
    let report = BenchReport::new("group")
        .parameter("members", bench.members as u64)
        .parameter("senders", bench.senders as u64)
        .parameter("body_bytes", bench.body_bytes as u64)
        .parameter("seconds", bench.seconds);
    let mut report = bench.ground.describe(bench.load.describe(report));
    let run = Run::new();
    let id = found(bench, run).await?;
    let directory = bench.ground.directory();
    let server = ServerUnderTest::start(&bench.binary, directory).await?;
    let received = Arc::new(LoadTally::default());
    let bodies = texts(bench.body_bytes, 256, &mut Dice::new(7));
    let mut senders = Vec::with_capacity(bench.senders);
    let mut receiving = JoinSet::new();
    for number in 0..bench.members {
        let line = server.connect(&bench.ground.person(run, "member", number)).await?;
        if number < bench.senders {
            senders.push(LoadSender::new(line, id, &bodies[number % bodies.len()]));
        } else {
            receiving.spawn(receive(line, id, Arc::clone(&received)));
        }
    }
    let (outcome, _) = offer(bench.load, bench.seconds, senders, &received, &server, directory).await?;
    dismiss(receiving).await?;
    outcome.put_into(&mut report);
    outcome.costs.put_into(&mut report, "delivery", outcome.delivered);
    let start = server.started_in.as_secs_f64() * 1e3;
    report.figure("server_start_ms", "start of the server", start, "ms");
    server.stop().await?;
    Ok(report)
}

async fn found(bench: &GroupBench, run: Run) -> Result<ConversationId, BenchError> {
    let store = open(bench.ground.directory())?;
    let person = |number| bench.ground.person(run, "member", number);
    let mut noise = [7; 15];
    noise[..8].copy_from_slice(&run.number().to_be_bytes());
    let id = ConversationId::group(noise);
    let members = (1..bench.members).map(person).collect();
    let title = "everybody".parse().map_err(client_failed)?;
    let new = NewConversation {
        id,
        creation: Creation::Group { title, members },
        created_by: person(0),
        created_at: SystemClock.now(),
    };
    store.open_conversation(new).await?;
    store.close().await;
    Ok(id)
}
