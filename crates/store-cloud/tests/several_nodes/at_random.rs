//! Nodes, people and failures at random, by a seed. In the end every conversation is dense, everything that was
//! acknowledged stands in its place once, and every node has told what it told in order.

use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bluetick_core::{ContentType, ConversationId, Seq};

use crate::town::{Dice, Node, Town, until};

const PEOPLE: [&str; 4] = ["a", "b", "c", "d"];
const EACH: usize = 60;

type Acknowledged = Arc<Mutex<HashMap<(ConversationId, String), Seq>>>;

/// Sends in turn, on whatever node, again until there is an answer, and sometimes once more.
async fn writer(
    nodes: Arc<Vec<Node>>,
    ids: Vec<ConversationId>,
    name: &'static str,
    seed: u64,
    acknowledged: Acknowledged,
) {
    let mut dice = Dice::new(seed);
    for number in 0..EACH {
        let id = ids[dice.below(ids.len() as u64) as usize];
        let text = format!("{name}-{number}");
        for _ in 0..=dice.below(4) / 3 {
            let node = &nodes[dice.below(nodes.len() as u64) as usize];
            let appended = node.surely_send(id, name, &text).await;
            let before = acknowledged.lock().unwrap().insert((id, text.clone()), appended.seq);
            assert!(before.is_none_or(|before| before == appended.seq), "{text} has two places");
        }
    }
}

async fn weather(town: Town, nodes: Arc<Vec<Node>>, ids: Vec<ConversationId>, seed: u64) {
    let mut dice = Dice::new(seed ^ 0xABCD);
    loop {
        tokio::time::sleep(Duration::from_millis(1 + dice.below(8))).await;
        let way = &nodes[dice.below(nodes.len() as u64) as usize].way;
        match dice.below(9) {
            0 => {
                town.hints.forget_everything();
                town.street.lose_news();
            }
            1 => town.hints.rewind(ids[dice.below(ids.len() as u64) as usize], 1 + dice.below(50)),
            2 | 3 => town.hints.set_away(dice.below(2) == 0),
            4 => way.loses_answers.store(dice.below(3) as u32 * 10, Ordering::SeqCst),
            5 => way.refuses.store(dice.below(3) as u32 * 20, Ordering::SeqCst),
            6 => way.holds_messages.store(true, Ordering::SeqCst),
            _ => way.release(),
        }
    }
}

async fn run(seed: u64, town: Town) {
    let nodes = Arc::new(vec![town.node().await, town.node().await, town.node().await]);
    Town::settle(&nodes.iter().collect::<Vec<_>>()).await;
    let ids =
        vec![nodes[0].group(1, "a", &["b", "c", "d"]).await, nodes[1].group(2, "d", &["b", "c", "a"]).await];
    for (number, name) in PEOPLE.iter().enumerate() {
        nodes[number % nodes.len()].user_connected(name).await;
    }
    let acknowledged = Acknowledged::default();
    let weather = tokio::spawn(weather(town.clone(), nodes.clone(), ids.clone(), seed));
    let writers = PEOPLE.iter().enumerate().map(|(number, name)| {
        writer(nodes.clone(), ids.clone(), name, seed + number as u64, acknowledged.clone())
    });
    let all = futures_util::future::join_all(writers);
    let ended = tokio::time::timeout(Duration::from_secs(60), all).await;
    weather.abort();
    town.hints.set_away(false);
    town.street.lose_news();
    for node in nodes.iter() {
        node.way.release();
        node.way.loses_answers.store(0, Ordering::SeqCst);
        node.way.refuses.store(0, Ordering::SeqCst);
    }
    assert!(ended.is_ok(), "seed {seed}: somebody never got an answer");
    let acknowledged = acknowledged.lock().unwrap().clone();
    assert_eq!(town.partitions().await > ids.len(), town.is_hot, "seed {seed}: so they are spread");
    for id in &ids {
        let history = nodes[0].history(*id, "a").await;
        let seqs: Vec<u64> = history.iter().map(|message| message.seq.get()).collect();
        assert_eq!(seqs, (1..=history.len() as u64).collect::<Vec<_>>(), "seed {seed}: dense");
        let mut places: HashMap<String, Seq> = HashMap::new();
        for message in history.iter().filter(|message| message.content_type == ContentType::Text) {
            let again = places.insert(message.content.to_string(), message.seq);
            assert_eq!(again, None, "seed {seed}: {} is there twice", message.content);
        }
        for ((_, text), seq) in acknowledged.iter().filter(|((of, _), _)| of == id) {
            assert_eq!(places.get(text), Some(seq), "seed {seed}: {text} was acknowledged");
        }
        for name in PEOPLE {
            let own: Vec<_> =
                (0..EACH).filter_map(|number| places.get(&format!("{name}-{number}"))).collect();
            assert!(own.is_sorted(), "seed {seed}: what {name} sent in turn stays in turn");
        }
        for (number, node) in nodes.iter().enumerate() {
            until(async || node.heard(*id).last().copied() == seqs.last().copied()).await;
            let heard = node.heard(*id);
            let first = heard[0];
            let expected: Vec<u64> = (first..first + heard.len() as u64).collect();
            assert_eq!(heard, expected, "seed {seed}: node {number} tells in order, each once");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn whatever_happens_nothing_acknowledged_is_lost_doubled_or_out_of_order() {
    run_some(Town::default).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nor_is_it_in_conversations_that_are_spread_anew_all_the_time() {
    run_some(Town::hot).await;
}

async fn run_some(town: fn() -> Town) {
    let seed = std::env::var("BLUETICK_SEED").ok().and_then(|seed| seed.parse().ok());
    let first = seed.unwrap_or_else(|| u64::from(std::process::id()));
    let runs = if seed.is_some() { 1 } else { 6 };
    for seed in first..first + runs {
        println!("BLUETICK_SEED={seed} repeats this run, more or less");
        run(seed, town()).await;
    }
}
