//! The `history` workload: reads the newest page of random conversations over HTTP from a freshly
//! started server.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bluetick_core::ConversationId;
use bluetick_core::ports::Store;
use tokio::task::JoinSet;

use crate::chat_texts;
use crate::data_directory::{Ground, Run};
use crate::latencies::Latencies;
use crate::pages::PageLine;
use crate::progress::{ProgressLine, step};
use crate::seed::{SeededChat, Texts, fill, open};
use crate::under_test::{ServerUnderTest, client_failed};
use crate::workload::Dice;
use crate::{BenchError, BenchReport};

#[derive(Clone, Debug)]
pub struct HistoryBench {
    pub ground: Ground,
    /// Path of the server binary under test.
    pub binary: PathBuf,
    pub conversations: usize,
    /// Number of messages in each conversation.
    pub messages: usize,
    pub readers: usize,
    pub seconds: u64,
}

/// Messages per requested page: the default limit of the API. Each conversation must have as many.
const PAGE: usize = 20;

pub fn run(bench: HistoryBench) -> Result<BenchReport, BenchError> {
    bench.ground.run(2, measure(&bench))
}

async fn measure(bench: &HistoryBench) -> Result<BenchReport, BenchError> {
    let report = BenchReport::new("history")
        .parameter("conversations", bench.conversations as u64)
        .parameter("messages_each", bench.messages as u64)
        .parameter("page_messages", PAGE as u64)
        .parameter("readers", bench.readers as u64)
        .parameter("seconds", bench.seconds);
    let mut report = bench.ground.describe(report);
    let (directory, run) = (bench.ground.directory(), Run::new());
    step("storing the messages to read");
    let store = open(directory)?;
    let texts: Texts = Arc::new(chat_texts::text);
    let reader = bench.ground.person(run, "reader", 0);
    let chat = |number| SeededChat {
        from: bench.ground.person(run, "writer", number),
        to: reader.clone(),
        messages: bench.messages,
    };
    fill(&store, (0..bench.conversations).map(chat), &texts).await?;
    store.close().await;
    drop(store);
    let ids: Arc<Vec<ConversationId>> = Arc::new(
        (0..bench.conversations).map(|number| ConversationId::direct(&chat(number).from, &reader)).collect(),
    );
    let server = ServerUnderTest::start(&bench.binary, directory).await?;
    let latencies = Arc::new(Latencies::default());
    let mut lines = Vec::with_capacity(bench.readers);
    for _ in 0..bench.readers {
        lines.push(PageLine::open(server.address, server.token(&reader)?).await?);
    }
    let meter = server.meter(directory).await?;
    let until = Instant::now() + Duration::from_secs(bench.seconds);
    let mut readers = JoinSet::new();
    let expected = PAGE.min(bench.messages);
    for (number, line) in lines.into_iter().enumerate() {
        let dice = Dice::new(number as u64 + 1);
        readers.spawn(read(line, dice, Arc::clone(&ids), expected, until, Arc::clone(&latencies)));
    }
    let mut progress = ProgressLine::new();
    let mut every_second = tokio::time::interval(Duration::from_secs(1));
    every_second.tick().await;
    loop {
        tokio::select! {
            joined = readers.join_next() => match joined {
                Some(joined) => joined.map_err(client_failed)??,
                None => break,
            },
            _ = every_second.tick() => progress.show(&format!("{} pages", latencies.count())),
        }
    }
    drop(progress);
    let costs = meter.read().await?;
    let pages = latencies.count();
    report.figure("pages_per_second", "pages", pages as f64 / costs.seconds, "/s");
    report.latencies("page", "a page", &latencies);
    costs.put_into(&mut report, "page", pages);
    let start = server.started_in.as_secs_f64() * 1e3;
    report.figure("server_start_ms", "start of the server", start, "ms");
    server.stop().await?;
    Ok(report)
}

async fn read(
    mut line: PageLine,
    mut dice: Dice,
    ids: Arc<Vec<ConversationId>>,
    expected: usize,
    until: Instant,
    latencies: Arc<Latencies>,
) -> Result<(), BenchError> {
    let mut asked = Instant::now();
    while asked < until {
        let id = ids[dice.below(ids.len())];
        let path = format!("/v1/conversations/{id}/messages?limit={PAGE}");
        if line.messages(&path).await? != expected {
            return Err(BenchError::Client("a page has fewer messages than expected".to_owned()));
        }
        let answered = Instant::now();
        latencies.record(answered - asked);
        asked = answered;
    }
    Ok(())
}
