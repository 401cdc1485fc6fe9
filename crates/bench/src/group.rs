//! One group: everybody is online, a few write, all others receive and acknowledge, over WebSockets to a server of its own.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bluetick_core::ConversationId;
use bluetick_core::ports::{Creation, NewConversation, Store};
use bluetick_core::time::{Clock, SystemClock};
use tokio::task::JoinSet;

use crate::BenchError;
use crate::measure::Usage;
use crate::scratch::in_scratch;
use crate::seed::{open, person};
use crate::talk::{Tally, receive, send};
use crate::under_test::{ServerUnderTest, client_failed, connect};
use crate::workload::{Dice, texts};

#[derive(Clone, Debug)]
pub struct GroupBench {
    pub directory: PathBuf,
    /// The program to measure.
    pub binary: PathBuf,
    /// The senders among them.
    pub members: usize,
    pub senders: usize,
    /// Sends of one sender that wait for their ack.
    pub window: usize,
    pub body_bytes: usize,
    pub seconds: u64,
}

pub fn run(bench: GroupBench) -> Result<(), BenchError> {
    in_scratch(&bench.directory, 2, measure(&bench))
}

async fn measure(bench: &GroupBench) -> Result<(), BenchError> {
    println!(
        "group: {} members online, {} of them send, window {}, bodies of {} bytes, {} s",
        bench.members, bench.senders, bench.window, bench.body_bytes, bench.seconds
    );
    let id = found(bench).await?;
    let server = ServerUnderTest::start(&bench.binary, &bench.directory).await?;
    let mut links = Vec::with_capacity(bench.members);
    for number in 0..bench.members {
        links.push(connect(&server.door, &server.token(&person("member", number))?, |_| ()).await?);
    }
    let tally = Arc::new(Tally::default());
    let (cpu, usage) = (server.cpu_seconds(), Usage::now(&bench.directory));
    let bodies = texts(bench.body_bytes, 256, &mut Dice::new(7));
    let mut talking = JoinSet::new();
    for (number, link) in links.into_iter().enumerate() {
        let tally = Arc::clone(&tally);
        if number < bench.senders {
            let body = Arc::clone(&bodies[number % bodies.len()]);
            talking.spawn(send(link, id, body, bench.window, tally));
        } else {
            talking.spawn(receive(link, id, tally));
        }
    }
    tally.watch(bench.seconds).await;
    let (acknowledged, delivered) =
        (tally.acknowledged.load(Ordering::Relaxed), tally.delivered.load(Ordering::Relaxed));
    let (spent, cpu) = (usage.spent(), server.cpu_seconds() - cpu);
    tally.stop.store(true, Ordering::Relaxed);
    while let Some(ended) = talking.try_join_next() {
        ended.map_err(client_failed)??;
    }
    // Whoever is still waiting for a frame is let go with its connection.
    talking.shutdown().await;
    let seconds = spent.wall.as_secs_f64();
    println!();
    println!("stored and acknowledged      {:>12.0} /s", acknowledged as f64 / seconds);
    println!("delivered                    {:>12.0} /s", delivered as f64 / seconds);
    println!("send to ack                  {}", tally.acks.summary());
    println!(
        "CPU of the server            {:>12.2} s a million deliveries",
        cpu * 1e6 / delivered.max(1) as f64
    );
    let of_bench = spent.cpu.as_secs_f64() * 1e6 / delivered.max(1) as f64;
    println!("CPU of the bench             {of_bench:>12.2} s a million deliveries");
    println!("resident memory, peak        {:>12} bytes", server.peak_bytes());
    Ok(())
}

async fn found(bench: &GroupBench) -> Result<ConversationId, BenchError> {
    let store = open(&bench.directory)?;
    let id = ConversationId::group([7; 15]);
    let members = (1..bench.members).map(|number| person("member", number)).collect();
    let title = "everybody".parse().map_err(client_failed)?;
    let new = NewConversation {
        id,
        creation: Creation::Group { title, members },
        created_by: person("member", 0),
        created_at: SystemClock.now(),
    };
    store.open_conversation(new).await?;
    store.close().await;
    Ok(id)
}
