//! An erasure leaves nothing of the content in any file of the data directory, also while the
//! archive is off. An accepted erasure survives a crash at any step.

#![expect(clippy::unwrap_used, reason = "a test may stop where its own set-up fails")]

mod archive_kit;

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use archive_kit::common::{copy_of, direct, send_as, user};
use archive_kit::{Kit, LATER, eager, history};
use bluetick_archive::ArchiveSettings;
use bluetick_core::ports::{Archive, ArchiveError, Erase, EraseScope, Progress, Stage, Store};
use bluetick_core::time::ManualClock;
use bluetick_core::{ContentType, ConversationId, PageFrom, PageLimit, PageRequest, Seq};
use bluetick_store_embedded::archive::ArchiveStep::*;
use bluetick_store_embedded::tables::Tables;
use bluetick_testkit::remains::remains;
use tempfile::TempDir;

const EACH: u64 = 40;

/// Long enough for compression to pay.
fn texts(word: &str) -> Vec<String> {
    (1..=EACH).map(|number| format!("{word} number {number} of a conversation about nothing;")).collect()
}

fn archive_off(settings: ArchiveSettings) -> Kit {
    Kit::open(TempDir::new().unwrap(), Arc::new(ManualClock::at(LATER)), None, settings)
}

/// Creates a conversation with 40 messages each of alice and bob. Some are in the tables, and all
/// are in the log.
async fn with_eighty(kit: &Kit) -> ConversationId {
    let id = direct(&*kit.store, "alice", "bob").await;
    for (number, (hers, his)) in texts("marmalade").into_iter().zip(texts("his")).enumerate() {
        send_as(&*kit.store, id, "alice", &format!("a{number}"), &hers).await.unwrap();
        send_as(&*kit.store, id, "bob", &format!("b{number}"), &his).await.unwrap();
    }
    id
}

fn of_alice() -> EraseScope {
    EraseScope::User { user: user("alice"), conversation: None }
}

async fn assert_erased(kit: &Kit, id: ConversationId, at: &str) {
    let all = history(&*kit.store, id, "bob").await;
    let erased = all.iter().filter(|message| message.content_type == ContentType::Erased).count();
    let kept = all.iter().filter(|message| message.content.starts_with("his number")).count();
    assert_eq!((erased as u64, kept as u64), (EACH, EACH), "{at}");
}

fn assert_no_remains(directory: &Path, at: &str) {
    let left = remains(directory, &texts("marmalade"));
    assert!(left.is_empty(), "{at}: {} texts are still in the files, such as {:?}", left.len(), left.first());
    assert_eq!(found(directory, "his"), EACH, "{at}: messages of other users stay");
}

fn found(directory: &Path, word: &str) -> u64 {
    let mut found: Vec<_> = remains(directory, &texts(word)).into_iter().map(|(text, _)| text).collect();
    found.dedup();
    found.len() as u64
}

#[tokio::test(flavor = "multi_thread")]
async fn erasure_with_archive_off_leaves_no_content_in_any_file() {
    for compact in [true, false] {
        let kit = archive_off(ArchiveSettings { compact, ..ArchiveSettings::default() });
        let id = with_eighty(&kit).await;
        assert_eq!(found(kit.directory.path(), "marmalade"), EACH, "the search finds existing texts");
        // The texts are compressed in the tables.
        let kit = kit.reopen(None, ArchiveSettings { compact, ..ArchiveSettings::default() }).await;
        assert_eq!(found(&kit.directory.path().join("tables"), "marmalade"), EACH, "also in the tables");
        let report = kit.erase(of_alice(), None).await.unwrap();
        assert_eq!((report.messages, report.conversations), (EACH, 1));
        // Check while the store is open, and in the state that a killed process leaves.
        assert_no_remains(kit.directory.path(), &format!("open, compact {compact}"));
        assert_eq!(kit.store.status().await.unwrap().unfinished_erasures, 0);
        let kit = kit.crash();
        assert_erased(&kit, id, "after a crash").await;
        kit.store.close().await;
        assert_no_remains(kit.directory.path(), &format!("closed, compact {compact}"));
    }
}

/// Stops at each step in turn, like a killed process, and resumes after a restart.
#[tokio::test(flavor = "multi_thread")]
async fn accepted_erasure_interrupted_at_any_step_is_finished_after_restart() {
    for step in [ErasureAccepted, ErasureSearched, ErasureDone, LogScrubbed, TablesRewritten] {
        let kit = archive_off(ArchiveSettings::default());
        let id = with_eighty(&kit).await;
        kit.brake.set(step, 1);
        assert!(matches!(kit.erase(of_alice(), None).await, Err(ArchiveError::Stopped)), "{step:?}");
        assert!(kit.brake.release(), "{step:?} was reached");
        let kit = kit.crash();
        assert_eq!(kit.store.status().await.unwrap().unfinished_erasures, 1, "{step:?}");
        // Interrupt the erasure again.
        for again in [ErasureSearched, LogScrubbed, TablesRewritten] {
            kit.brake.set(again, 1);
            let outcome = kit.run().await.map(drop);
            if kit.brake.release() {
                assert!(matches!(outcome, Err(ArchiveError::Stopped)), "{step:?} {again:?}: {outcome:?}");
            }
        }
        let kit = kit.crash();
        // A server finishes pending erasures when it starts.
        if kit.store.status().await.unwrap().unfinished_erasures > 0 {
            kit.run().await.unwrap();
        }
        let at = format!("{step:?}");
        assert_eq!(kit.store.status().await.unwrap().unfinished_erasures, 0, "{at}");
        assert_erased(&kit, id, &at).await;
        assert_no_remains(kit.directory.path(), &at);
    }
}

/// Copies the directory at each progress report: the state that a process killed at that moment
/// leaves.
struct Killing {
    directory: std::path::PathBuf,
    images: Mutex<Vec<TempDir>>,
}

impl Progress for Killing {
    fn advanced(&self, _stage: Stage, _done: u64, _total: u64) {
        self.images.lock().unwrap().push(copy_of(&self.directory));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn erasure_is_durable_before_progress_is_reported() {
    let kit = archive_off(ArchiveSettings::default());
    let id = with_eighty(&kit).await;
    let killing = Arc::new(Killing { directory: kit.directory.path().to_owned(), images: Mutex::default() });
    let erase = Erase { scope: of_alice(), through: None };
    kit.store.erase(erase, Arc::clone(&killing) as _).await.unwrap();
    let images = std::mem::take(&mut *killing.images.lock().unwrap());
    assert!(images.len() >= 3, "{}", images.len());
    for (number, image) in images.into_iter().enumerate() {
        let kit = Kit::open(image, Arc::new(ManualClock::at(LATER)), None, ArchiveSettings::default());
        assert!(kit.store.status().await.unwrap().unfinished_erasures > 0, "image {number}");
        kit.run().await.unwrap();
        assert_erased(&kit, id, &format!("image {number}")).await;
        assert_no_remains(kit.directory.path(), &format!("image {number}"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn resumed_erasure_keeps_messages_sent_after_its_acceptance() {
    let kit = archive_off(ArchiveSettings::default());
    let id = with_eighty(&kit).await;
    kit.brake.set(ErasureAccepted, 1);
    let scope = EraseScope::Conversation(id);
    assert!(matches!(kit.erase(scope, None).await, Err(ArchiveError::Stopped)));
    let kit = kit.crash();
    send_as(&*kit.store, id, "alice", "later", "sent after it was accepted").await.unwrap();
    kit.run().await.unwrap();
    let all = history(&*kit.store, id, "bob").await;
    let kept: Vec<_> = all.iter().filter(|message| !message.content.is_empty()).collect();
    assert_eq!(kept.len(), 1, "{kept:?}");
    assert_eq!((kept[0].seq, &*kept[0].content), (Seq::new(2 * EACH + 1), "sent after it was accepted"));
}

#[tokio::test(flavor = "multi_thread")]
async fn two_accepted_erasures_are_both_finished_after_a_start() {
    let kit = archive_off(ArchiveSettings::default());
    let id = with_eighty(&kit).await;
    for name in ["alice", "bob"] {
        kit.brake.set(ErasureAccepted, 1);
        let scope = EraseScope::User { user: user(name), conversation: None };
        assert!(matches!(kit.erase(scope, None).await, Err(ArchiveError::Stopped)));
    }
    let kit = kit.crash();
    assert_eq!(kit.store.status().await.unwrap().unfinished_erasures, 2);
    assert_eq!(kit.run().await.unwrap().erased_messages, 2 * EACH);
    assert!(history(&*kit.store, id, "bob").await.iter().all(|message| message.content.is_empty()));
    assert_eq!(found(kit.directory.path(), "marmalade") + found(kit.directory.path(), "his"), 0);
}

/// The file system refuses to delete a spare, so the log scrub fails.
#[tokio::test(flavor = "multi_thread")]
async fn erasure_that_cannot_clean_the_log_fails_and_next_run_finishes_it() {
    let kit = archive_off(ArchiveSettings::default());
    let id = with_eighty(&kit).await;
    let stubborn = kit.directory.path().join("log/spare-999");
    std::fs::create_dir(&stubborn).unwrap();
    let error = kit.erase(of_alice(), None).await.unwrap_err();
    assert!(error.to_string().contains("spare-999"), "{error}");
    assert_erased(&kit, id, "calls return no erased content").await;
    assert_eq!(kit.store.status().await.unwrap().unfinished_erasures, 1);
    assert!(kit.run().await.is_err(), "a run does not complete the erasure either");
    std::fs::remove_dir(&stubborn).unwrap();
    kit.run().await.unwrap();
    assert_eq!(kit.store.status().await.unwrap().unfinished_erasures, 0);
    assert_no_remains(kit.directory.path(), "after the next run");
    assert!(matches!(kit.run().await, Err(ArchiveError::Off)), "no erasure is unfinished");
}

/// The hot part of an erasure does not wait for an object store.
#[tokio::test(flavor = "multi_thread")]
async fn hot_content_is_erased_from_files_while_object_store_is_down() {
    let faulty = archive_kit::faulty::Faulty::new();
    let kit = Kit::over(Arc::clone(&faulty) as _, ArchiveSettings { age_seconds: 1_000_000, ..eager() });
    let id = with_eighty(&kit).await;
    faulty.set(archive_kit::faulty::Trouble::Down);
    assert!(matches!(kit.erase(of_alice(), None).await, Err(ArchiveError::Unavailable(_))));
    assert_erased(&kit, id, "down").await;
    assert_no_remains(kit.directory.path(), "down");
}

/// Holds the erasure at each of its reports until one more message is acknowledged.
struct UntilSent(Arc<AtomicU64>);

impl Progress for UntilSent {
    fn advanced(&self, stage: Stage, _done: u64, _total: u64) {
        let before = self.0.load(Ordering::SeqCst);
        let started = std::time::Instant::now();
        while self.0.load(Ordering::SeqCst) == before {
            assert!(started.elapsed().as_secs() < 60, "no message is accepted at {stage:?}");
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn sends_continue_while_an_erasure_cleans_files() {
    let kit = archive_off(ArchiveSettings::default());
    let id = with_eighty(&kit).await;
    let (sent, over) = (Arc::new(AtomicU64::new(0)), Arc::new(std::sync::atomic::AtomicBool::new(false)));
    let sender = tokio::spawn({
        let (store, sent, over) = (Arc::clone(&kit.store), Arc::clone(&sent), Arc::clone(&over));
        async move {
            while !over.load(Ordering::SeqCst) {
                let number = sent.load(Ordering::SeqCst);
                send_as(&*store, id, "bob", &format!("live{number}"), &format!("live {number}"))
                    .await
                    .unwrap();
                sent.fetch_add(1, Ordering::SeqCst);
            }
        }
    });
    let progress = Arc::new(UntilSent(Arc::clone(&sent)));
    kit.store.erase(Erase { scope: of_alice(), through: None }, progress).await.unwrap();
    over.store(true, Ordering::SeqCst);
    sender.await.unwrap();
    assert_no_remains(kit.directory.path(), "beside sends");
    let kit = kit.crash();
    let all = history(&*kit.store, id, "bob").await;
    let live = all.iter().filter(|message| message.content.starts_with("live ")).count();
    assert_eq!(live as u64, sent.load(Ordering::SeqCst));
    assert_erased(&kit, id, "beside sends").await;
}

fn damage_newest_chunk(directory: &Path, id: ConversationId) {
    damage_chunk(directory, id, |chunks| chunks.len() - 1);
}

fn damage_first_chunk(directory: &Path, id: ConversationId) {
    damage_chunk(directory, id, |chunks| {
        assert!(chunks.len() > 1, "the other chunks stay readable");
        0
    });
}

/// Flips a bit in a chunk of a conversation, in a directory that no store uses.
fn damage_chunk(directory: &Path, id: ConversationId, which: impl FnOnce(&[(Seq, Vec<u8>)]) -> usize) {
    let tables = Tables::open(&directory.join("tables")).unwrap();
    let engine = tables.writing().unwrap();
    let mut chunks = Vec::new();
    engine
        .snapshot()
        .unwrap()
        .chunks(id, Seq::FIRST, |first, bytes| {
            chunks.push((first, bytes.to_vec()));
            Ok(true)
        })
        .unwrap();
    let (first, mut bytes) = chunks[which(&chunks)].clone();
    let last = bytes.len() - 8;
    bytes[last] ^= 1;
    let mut update = engine.update().unwrap();
    update.put_chunk(id, first, &bytes).unwrap();
    update.commit().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn accepted_erasure_of_a_damaged_conversation_stays_pending_and_erases_the_others() {
    let kit = archive_off(ArchiveSettings::default());
    let id = with_eighty(&kit).await;
    let other = direct(&*kit.store, "alice", "carol").await;
    send_as(&*kit.store, other, "alice", "m1", "damaged soon").await.unwrap();
    kit.brake.set(ErasureAccepted, 1);
    assert!(matches!(kit.erase(of_alice(), None).await, Err(ArchiveError::Stopped)));
    kit.store.close().await;
    let copy = copy_of(kit.directory.path());
    damage_newest_chunk(copy.path(), other);
    let kit = Kit::open(copy, Arc::new(ManualClock::at(LATER)), None, ArchiveSettings::default());
    // The run itself may report the damage.
    let _damaged = kit.run().await;
    assert_eq!(kit.store.status().await.unwrap().unfinished_erasures, 1, "the damaged one");
    assert_erased(&kit, id, "beside a damaged conversation").await;
    assert_no_remains(kit.directory.path(), "beside a damaged conversation");
}

#[tokio::test(flavor = "multi_thread")]
async fn pending_erasure_of_a_damaged_conversation_spares_messages_sent_after_it() {
    let kit = archive_off(ArchiveSettings::default());
    let id = direct(&*kit.store, "alice", "carol").await;
    // Two chunks. The test damages the first one and sends new messages, which extend the second
    // one.
    for number in 0..300 {
        send_as(&*kit.store, id, "alice", &format!("m{number}"), "before the erasure").await.unwrap();
    }
    kit.store.close().await;
    let copy = copy_of(kit.directory.path());
    damage_first_chunk(copy.path(), id);
    let kit = Kit::open(copy, Arc::new(ManualClock::at(LATER)), None, ArchiveSettings::default());
    assert!(kit.erase(of_alice(), None).await.is_err(), "the erasure reports the damage");
    assert_eq!(kit.store.status().await.unwrap().unfinished_erasures, 1);
    let seq = send_as(&*kit.store, id, "alice", "later", "after the erasure").await.unwrap();
    // Each run, and each start, tries the pending erasure again.
    let _damaged = kit.run().await;
    let kit = kit.crash();
    let _damaged = kit.run().await;
    assert_eq!(kit.store.status().await.unwrap().unfinished_erasures, 1);
    let from = PageFrom::After(Seq::new(seq.get() - 1));
    let request = PageRequest { conversation: id, reader: user("carol"), from, limit: PageLimit::MAX };
    let page = kit.store.page(request).await.unwrap();
    assert_eq!(
        page.messages.iter().map(|message| &*message.content).collect::<Vec<_>>(),
        ["after the erasure"]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn erasure_of_expired_messages_leaves_no_content_in_any_file() {
    let retaining = ArchiveSettings { retention_seconds: 3600, ..ArchiveSettings::default() };
    let kit = archive_off(retaining);
    let id = with_eighty(&kit).await;
    assert_eq!(kit.run().await.unwrap().erased_messages, 2 * EACH);
    assert!(found(kit.directory.path(), "marmalade") > 0, "expired messages stay in the files for some time");
    let report = kit.erase(EraseScope::Conversation(id), None).await.unwrap();
    assert_eq!(report.messages, 0, "no text is left in the files");
    assert_eq!(found(kit.directory.path(), "marmalade") + found(kit.directory.path(), "his"), 0);
}
