//! One conversation with 4,000 writes a second, on tables that take 1,000 a second of one partition key.
//!
//! With `BLUETICK_GRAPH=docs/hot.svg` the test draws the graph of docs/explanation/fleet.md again.

use std::sync::Arc;
use std::time::Duration;

use bluetick_core::{ConversationId, PageFrom, Seq};
use bluetick_store_cloud::EngineSettings;
use bluetick_store_cloud::hints::memory::MemoryHints;
use bluetick_store_cloud::hot::Registry;
use bluetick_store_cloud::hot::limiter::{Limit, LimitedRows};
use bluetick_store_cloud::rows::memory::MemoryRows;
use bluetick_store_cloud::rows::{Key, Rows, Table};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

use crate::node::Node;

const WRITES_PER_SECOND: u64 = 4_000;
const SECONDS: u64 = 4;
const OFFERED: u64 = WRITES_PER_SECOND * SECONDS;
/// Each has one message on its way at a time, as one person in one conversation does.
const WRITERS: u64 = 800;

pub struct Outcome {
    pub acked: u64,
    /// By tenths of a second, from the beginning.
    pub by_tenth: Vec<u64>,
    throttles: u64,
    partitions: u16,
    /// Of those that were acknowledged.
    slowest_half: [Duration; 2],
}

/// Everybody sends when its time has come, whatever became of those before.
async fn rush(most_partitions: u16) -> Outcome {
    let rows = Arc::new(LimitedRows::new(MemoryRows::default(), Limit::DYNAMODB));
    let settings = EngineSettings { most_partitions, ..EngineSettings::default() };
    let node = Node::on(Arc::clone(&rows) as Arc<dyn Rows>, &MemoryHints::default(), settings);
    let people: Vec<_> = (0..WRITERS).map(|number| format!("writer{number}")).collect();
    let id = node.group(&people[0], &people[1..]).await;
    // Calm at first: everybody has said something.
    for (number, sender) in people.iter().enumerate() {
        node.send(id, sender, &format!("calm{number}")).await.unwrap();
    }
    let begin = Instant::now();
    let mut sends = JoinSet::new();
    for number in 0..OFFERED {
        let (node, sender) = (node.clone(), people[(number % WRITERS) as usize].clone());
        let due = begin + Duration::from_micros(1_000_000 / WRITES_PER_SECOND * number);
        sleep_until(due).await;
        sends.spawn(async move {
            let sent = node.send(id, &sender, &format!("m{number}")).await;
            sent.ok().map(|appended| (appended.seq, begin.elapsed(), due.elapsed()))
        });
    }
    let (mut by_tenth, mut seqs, mut delays) = (Vec::new(), Vec::new(), Vec::new());
    while let Some(sent) = sends.join_next().await {
        let Some((seq, at, delay)) = sent.unwrap() else { continue };
        let tenth = usize::try_from(at.as_millis() / 100).unwrap();
        by_tenth.resize(by_tenth.len().max(tenth + 1), 0);
        by_tenth[tenth] += 1;
        seqs.push(seq);
        delays.push(delay);
    }
    let acked = seqs.len() as u64;
    must_be_there(&node, id, seqs).await;
    delays.sort();
    let row = rows.get(Table::HotRegistry, &Key::new(id)).await.unwrap();
    let partitions = row.map_or(1, |row| Registry::decode(&row).unwrap().partitions());
    let throttles = rows.counts().throttles;
    let slowest_half = [delays[delays.len() / 2], delays[delays.len() * 99 / 100]];
    Outcome { acked, by_tenth, throttles, partitions, slowest_half }
}

/// Everything that was acknowledged is read back, and no two share a place.
async fn must_be_there(node: &Node, id: ConversationId, mut seqs: Vec<Seq>) {
    seqs.sort();
    assert!(seqs.windows(2).all(|two| two[0] < two[1]), "two messages have one place");
    let (mut read, mut after) = (Vec::new(), Seq::ZERO);
    loop {
        let page = node.page(id, "writer0", PageFrom::After(after)).await;
        let Some(last) = page.last() else { break };
        after = Seq::new(*last);
        read.extend(page);
    }
    assert_eq!(read, (1..=read.len() as u64).collect::<Vec<_>>(), "dense");
    assert!(seqs.last().is_none_or(|last| *last <= after), "what was acknowledged is there");
}

/// In time that passes when nobody has anything to do, so that a slow machine sees the same.
#[tokio::test(start_paused = true)]
async fn without_salting_a_busy_conversation_falls_behind_and_with_it_everybody_has_an_ack() {
    let plain = rush(1).await;
    let salted = rush(16).await;
    for (name, outcome) in [("without", &plain), ("with", &salted)] {
        let by_second: Vec<u64> = outcome.by_tenth.chunks(10).map(|tenths| tenths.iter().sum()).collect();
        println!(
            "{name} salting: {} of {OFFERED} acknowledged, by second {by_second:?}, {} throttled, {} partitions, half of them within {:?}, 99 % within {:?}",
            outcome.acked,
            outcome.throttles,
            outcome.partitions,
            outcome.slowest_half[0],
            outcome.slowest_half[1],
        );
    }
    if let Ok(path) = std::env::var("BLUETICK_GRAPH") {
        std::fs::write(
            path,
            crate::graph::draw(&plain.by_tenth, &salted.by_tenth, WRITES_PER_SECOND, SECONDS),
        )
        .unwrap();
    }
    let in_time = |outcome: &Outcome| outcome.by_tenth.iter().take(SECONDS as usize * 10).sum::<u64>();
    assert!(in_time(&plain) < OFFERED / 2, "one partition took it all");
    assert_eq!(salted.acked, OFFERED);
    assert!(in_time(&salted) > in_time(&plain));
    assert!(salted.partitions >= 5, "{} partitions", salted.partitions);
    assert!(salted.throttles < plain.throttles / 2);
}
