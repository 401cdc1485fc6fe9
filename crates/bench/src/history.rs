//! The newest page of random conversations over HTTP, from a server that was just started.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bluetick_client::{Api, FixedToken, PageFrom};
use bluetick_core::ConversationId;
use bluetick_core::ports::Store;
use tokio::task::JoinSet;

use crate::BenchError;
use crate::measure::{Latencies, Usage};
use crate::scratch::in_scratch;
use crate::seed::{Chat, Texts, fill, open, person};
use crate::small_talk;
use crate::under_test::{ServerUnderTest, client_failed};
use crate::workload::Dice;

#[derive(Clone, Debug)]
pub struct HistoryBench {
    pub directory: PathBuf,
    /// The program to measure.
    pub binary: PathBuf,
    pub conversations: usize,
    /// In each.
    pub messages: usize,
    pub readers: usize,
    pub seconds: u64,
}

const PAGE: usize = 20;

pub fn run(bench: HistoryBench) -> Result<(), BenchError> {
    in_scratch(&bench.directory, 2, measure(&bench))
}

async fn measure(bench: &HistoryBench) -> Result<(), BenchError> {
    println!(
        "history: newest {PAGE} of {} conversations with {} messages each, {} readers",
        bench.conversations, bench.messages, bench.readers
    );
    let store = open(&bench.directory)?;
    let texts: Texts = Arc::new(small_talk::text);
    let chat =
        |number| Chat { from: person("writer", number), to: person("reader", 0), messages: bench.messages };
    fill(&store, (0..bench.conversations).map(chat), &texts).await?;
    store.close().await;
    drop(store);
    let server = ServerUnderTest::start(&bench.binary, &bench.directory).await?;
    let latencies = Arc::new(Latencies::default());
    let (cpu, usage) = (server.cpu_seconds(), Usage::now(&bench.directory));
    let until = Instant::now() + Duration::from_secs(bench.seconds);
    let mut readers = JoinSet::new();
    for reader in 0..bench.readers {
        let api = Api::new(server.door.clone(), Arc::new(FixedToken(server.token(&person("reader", 0))?)));
        readers.spawn(read(api, bench.clone(), reader, until, Arc::clone(&latencies)));
    }
    while let Some(joined) = readers.join_next().await {
        joined.map_err(client_failed)??;
    }
    let (spent, cpu, pages) = (usage.spent(), server.cpu_seconds() - cpu, latencies.count());
    println!();
    println!("pages                        {:>12.0} /s", pages as f64 / spent.wall.as_secs_f64());
    println!("page                         {}", latencies.summary());
    println!("CPU of the server            {:>12.2} s a million pages", cpu * 1e6 / pages.max(1) as f64);
    let of_bench = spent.cpu.as_secs_f64() * 1e6 / pages.max(1) as f64;
    println!("CPU of the bench             {of_bench:>12.2} s a million pages");
    server.stop().await
}

async fn read(
    api: Api,
    bench: HistoryBench,
    reader: usize,
    until: Instant,
    latencies: Arc<Latencies>,
) -> Result<(), BenchError> {
    let mut dice = Dice::new(reader as u64 + 1);
    while Instant::now() < until {
        let number = dice.below(bench.conversations);
        let id = ConversationId::direct(&person("writer", number), &person("reader", 0));
        let asked = Instant::now();
        let page = api.page(id, PageFrom::Newest, PAGE).await.map_err(client_failed)?;
        latencies.record(asked.elapsed());
        if page.messages.len() != PAGE.min(bench.messages) {
            return Err(BenchError::Client("a page is not whole".to_owned()));
        }
    }
    Ok(())
}
