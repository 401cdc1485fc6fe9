//! Concurrent jobs: sends, checkpoints, readers, runs, restores, erasures elsewhere, compactions.

#![expect(clippy::unwrap_used, reason = "a test may stop where its own set-up fails")]

mod archive_kit;

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use archive_kit::common::{direct, message, send};
use archive_kit::faulty::Faulty;
use archive_kit::{Kit, eager, group, history, page};
use bluetick_archive::ArchiveSettings;
use bluetick_core::ports::{Append, Archive, EraseScope, Store};
use bluetick_core::{ContentType, ConversationId, Message, PageFrom, Seq};
use bluetick_testkit::dice::Dice;
use tokio::task::JoinSet;

const LASTS: Duration = Duration::from_secs(6);

#[derive(Default)]
struct Totals {
    over: AtomicBool,
    pages: AtomicU64,
    runs: AtomicU64,
    acknowledged: Mutex<HashMap<(ConversationId, u64), String>>,
}

async fn send_always(
    store: Arc<dyn Store>,
    ids: Vec<ConversationId>,
    sender: &'static str,
    tally: Arc<Totals>,
) {
    let mut dice = Dice::new(sender.len() as u64 + u64::from(sender.as_bytes()[0]));
    let mut number = 0u64;
    while !tally.over.load(Ordering::Relaxed) {
        let id = *dice.pick(&ids).unwrap();
        let mut accepted = Vec::new();
        for _ in 0..=dice.below(40) {
            number += 1;
            let text = format!("{sender} {number} {}", "x".repeat(dice.below(300) as usize));
            let append =
                Append { content: text.as_str().into(), ..message(id, sender, &format!("{sender}{number}")) };
            accepted.push((text, store.append(append).await.unwrap()));
        }
        for (text, answer) in accepted {
            let seq = answer.await.unwrap().seq;
            tally.acknowledged.lock().unwrap().insert((id, seq.get()), text);
        }
        tokio::time::sleep(Duration::from_millis(dice.below(15))).await;
    }
}

async fn read_always(store: Arc<dyn Store>, ids: Vec<ConversationId>, seed: u64, tally: Arc<Totals>) {
    let mut dice = Dice::new(seed);
    while !tally.over.load(Ordering::Relaxed) {
        let id = *dice.pick(&ids).unwrap();
        let head = page(&*store, id, "bob", PageFrom::Newest, 1).await.unwrap().head.get();
        let at = Seq::new(dice.below(head + 1));
        let from = [PageFrom::Newest, PageFrom::Before(at), PageFrom::After(at)][dice.below(3) as usize];
        let page = page(&*store, id, "bob", from, dice.between(1, 100) as i64).await.unwrap();
        let mut messages = page.messages;
        messages.sort_by_key(|message| message.seq);
        assert_right(id, &messages, &tally.acknowledged);
        tally.pages.fetch_add(1, Ordering::Relaxed);
        // A cached page returns without waiting, so let other tasks run.
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// Asserts that seqs are contiguous, that the messages of each sender are in order, and that each
/// text is the acknowledged one.
fn assert_right(
    id: ConversationId,
    messages: &[Message],
    acknowledged: &Mutex<HashMap<(ConversationId, u64), String>>,
) {
    let known = acknowledged.lock().unwrap();
    let mut newest: HashMap<String, u64> = HashMap::new();
    for (message, next) in messages.iter().zip(messages.iter().skip(1).map(Some).chain([None])) {
        assert!(next.is_none_or(|next| next.seq == message.seq.next()), "dense");
        assert!(!matches!(message.content_type, ContentType::Lost | ContentType::Erased), "{message:?}");
        if message.content_type == ContentType::System {
            continue;
        }
        let mut words = message.content.split(' ');
        assert_eq!(words.next(), Some(message.sender.as_str()));
        let number: u64 = words.next().unwrap().parse().unwrap();
        let before = newest.insert(message.sender.to_string(), number);
        assert!(before.is_none_or(|before| before < number), "in order, and none twice");
        if let Some(text) = known.get(&(id, message.seq.get())) {
            assert_eq!(*text, *message.content);
        }
    }
}

async fn archive_always(kit: Arc<Kit>, ids: Vec<ConversationId>, trash: ConversationId, tally: Arc<Totals>) {
    let mut dice = Dice::new(77);
    let mut round = 0;
    while !tally.over.load(Ordering::Relaxed) {
        round += 1;
        let id = *dice.pick(&ids).unwrap();
        match dice.below(6) {
            0 => {
                kit.restore(id).await.unwrap();
            }
            1 => {
                kit.run_only(id).await.unwrap();
            }
            // An erasure makes the next run compact the tables.
            2 => {
                send(&*kit.store, trash, "bob", &format!("rubbish {round}")).await.unwrap();
                kit.erase(EraseScope::Conversation(trash), None).await.unwrap();
                kit.run().await.unwrap();
            }
            3 => assert_eq!(kit.problems().await, Vec::<String>::new()),
            _ => {
                kit.run().await.unwrap();
            }
        }
        tally.runs.fetch_add(1, Ordering::Relaxed);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn sends_and_reads_stay_correct_during_all_archive_jobs() {
    let settings = ArchiveSettings { segment_messages: 64, cache_bytes: 256 << 10, ..eager() };
    let (kit, objects) = Kit::in_memory(settings);
    let ids = vec![
        direct(&*kit.store, "alice", "bob").await,
        group(&*kit.store, 1, "alice", &["bob", "carol"]).await,
        group(&*kit.store, 2, "alice", &["bob", "carol"]).await,
    ];
    let trash = direct(&*kit.store, "bob", "trash").await;
    let (kit, tally) = (Arc::new(kit), Arc::new(Totals::default()));
    let mut tasks = JoinSet::new();
    let store = || Arc::clone(&kit.store) as Arc<dyn Store>;
    tasks.spawn(send_always(store(), ids.clone(), "alice", Arc::clone(&tally)));
    tasks.spawn(send_always(store(), ids.clone(), "bob", Arc::clone(&tally)));
    tasks.spawn(send_always(store(), ids[1..].to_vec(), "carol", Arc::clone(&tally)));
    for seed in 0..4 {
        tasks.spawn(read_always(store(), ids.clone(), seed, Arc::clone(&tally)));
    }
    tasks.spawn(archive_always(Arc::clone(&kit), ids.clone(), trash, Arc::clone(&tally)));
    let started = Instant::now();
    while started.elapsed() < LASTS && tasks.len() == 8 {
        tokio::select! {
            ended = tasks.join_next() => ended.unwrap().unwrap(),
            () = tokio::time::sleep(Duration::from_millis(50)) => {}
        }
    }
    tally.over.store(true, Ordering::Relaxed);
    while let Some(ended) = tasks.join_next().await {
        ended.unwrap();
    }
    let (pages, runs) = (tally.pages.load(Ordering::Relaxed), tally.runs.load(Ordering::Relaxed));
    let acknowledged = std::mem::take(&mut *tally.acknowledged.lock().unwrap());
    println!("{} messages, {pages} pages, {runs} jobs", acknowledged.len());
    assert!(pages > 20 && runs > 5 && acknowledged.len() > 500);
    let mut found = 0;
    for id in &ids {
        for message in history(&*kit.store, *id, "bob").await {
            if message.content_type != ContentType::System {
                found += 1;
                assert_eq!(acknowledged[&(*id, message.seq.get())], *message.content);
            }
        }
    }
    assert_eq!(found, acknowledged.len());
    for id in &ids {
        kit.run_only(*id).await.unwrap();
    }
    kit.run().await.unwrap();
    assert_eq!(kit.store.status().await.unwrap().kept_hot, 0);
    kit.assert_exact(&*objects).await;
}

/// Runs `meanwhile` after a reader has read its rows and before its object arrives. Returns the
/// page that the reader gets.
async fn read_across(meanwhile: impl AsyncFnOnce(&Kit, ConversationId)) -> Vec<Message> {
    let faulty = Faulty::new();
    let kit = Kit::over(Arc::clone(&faulty) as _, ArchiveSettings { cache_bytes: 0, ..eager() });
    let id = group(&*kit.store, 8, "alice", &["bob"]).await;
    kit.send_many(id, "alice", archive_kit::numbered("old", 1..=80)).await;
    kit.run().await.unwrap();
    assert_eq!(kit.cold_messages().await, 81);
    let held = faulty.hold_next_get();
    let store = Arc::clone(&kit.store);
    let reading = tokio::spawn(async move { page(&*store, id, "bob", PageFrom::After(Seq::ZERO), 60).await });
    held.reached().await;
    meanwhile(&kit, id).await;
    held.open();
    reading.await.unwrap().unwrap().messages
}

#[tokio::test(flavor = "multi_thread")]
async fn read_during_a_restore_returns_the_hot_rows() {
    let read = read_across(async |kit: &Kit, id| {
        kit.restore(id).await.unwrap();
    })
    .await;
    assert_eq!(&*read[59].content, "old 59");
    assert_eq!(archive_kit::lost_places(&read), Vec::<u64>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn read_during_a_rewrite_returns_the_new_object() {
    let read = read_across(async |kit: &Kit, id| {
        kit.restore(id).await.unwrap();
        kit.erase(EraseScope::Conversation(id), Some(5)).await.unwrap();
        kit.run_only(id).await.unwrap();
    })
    .await;
    assert_eq!((&read[2].content_type, &*read[59].content), (&ContentType::Erased, "old 59"));
    assert_eq!(archive_kit::lost_places(&read), Vec::<u64>::new());
}
