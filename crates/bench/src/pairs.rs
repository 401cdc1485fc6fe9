//! Pairs of people: one sends, the other receives and acknowledges, over WebSockets to a server of its own.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bluetick_core::ConversationId;
use bluetick_core::ports::Store;
use tokio::task::JoinSet;

use crate::BenchError;
use crate::measure::Usage;
use crate::scratch::in_scratch;
use crate::seed::{Chat, always, fill, open, person};
use crate::talk::{Tally, receive, send};
use crate::under_test::{ServerUnderTest, connect};
use crate::workload::{Dice, texts};

#[derive(Clone, Debug)]
pub struct PairsBench {
    pub directory: PathBuf,
    /// The program to measure.
    pub binary: PathBuf,
    pub pairs: usize,
    /// Sends of one pair that wait for their ack.
    pub window: usize,
    pub body_bytes: usize,
    pub seconds: u64,
}

pub fn run(bench: PairsBench) -> Result<(), BenchError> {
    in_scratch(&bench.directory, 2, measure(&bench))
}

async fn measure(bench: &PairsBench) -> Result<(), BenchError> {
    println!(
        "pairs: {} pairs, window {}, bodies of {} bytes, {} s",
        bench.pairs, bench.window, bench.body_bytes, bench.seconds
    );
    let store = open(&bench.directory)?;
    let chat = |number| Chat { from: person("sender", number), to: person("receiver", number), messages: 0 };
    fill(&store, (0..bench.pairs).map(chat), &always("")).await?;
    store.close().await;
    drop(store);

    let server = ServerUnderTest::start(&bench.binary, &bench.directory).await?;
    let tally = Arc::new(Tally::default());
    let mut people = Vec::with_capacity(bench.pairs);
    for number in 0..bench.pairs {
        let Chat { from, to, .. } = chat(number);
        let sender = connect(&server.door, &server.token(&from)?, |_| ()).await?;
        let receiver = connect(&server.door, &server.token(&to)?, |_| ()).await?;
        people.push((ConversationId::direct(&from, &to), sender, receiver));
    }
    let (cpu, usage) = (server.cpu_seconds(), Usage::now(&bench.directory));
    let bodies = texts(bench.body_bytes, 256, &mut Dice::new(7));
    let mut talking = JoinSet::new();
    for (number, (id, sender, receiver)) in people.into_iter().enumerate() {
        let body = Arc::clone(&bodies[number % bodies.len()]);
        talking.spawn(send(sender, id, body, bench.window, Arc::clone(&tally)));
        talking.spawn(receive(receiver, id, Arc::clone(&tally)));
    }
    tally.watch(bench.seconds).await;
    let (acknowledged, delivered) =
        (tally.acknowledged.load(Ordering::Relaxed), tally.delivered.load(Ordering::Relaxed));
    let (spent, cpu) = (usage.spent(), server.cpu_seconds() - cpu);
    tally.stop.store(true, Ordering::Relaxed);
    // Whoever is still waiting for a frame is let go with its connection.
    talking.shutdown().await;
    let seconds = spent.wall.as_secs_f64();
    let per_million = |cpu: f64| cpu * 1e6 / acknowledged as f64;
    println!();
    println!("stored and acknowledged      {:>12.0} /s", acknowledged as f64 / seconds);
    println!("delivered                    {:>12.0} /s", delivered as f64 / seconds);
    println!("send to ack                  {}", tally.acks.summary());
    println!("CPU of the server            {:>12.2} s a million messages", per_million(cpu));
    println!(
        "CPU of the bench             {:>12.2} s a million messages",
        per_million(spent.cpu.as_secs_f64())
    );
    println!(
        "written to the device        {:>12.0} bytes a message",
        spent.written_bytes as f64 / acknowledged as f64
    );
    println!("resident memory, peak        {:>12} bytes", server.peak_bytes());
    Ok(())
}
