//! Scrubs of the log. Afterwards no file below `log/` contains an earlier message. Sends continue,
//! and a crash during a scrub loses nothing.
//!
//! The tests assemble the threads of a store themselves, because only an erasure requests a scrub.

#![expect(clippy::unwrap_used, reason = "a test may stop where its own set-up fails")]

mod common;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use bluetick_core::ports::{Creation, Health, NewConversation, NoObserver};
use bluetick_core::time::SystemClock;
use bluetick_core::{ConversationId, StoreError};
use bluetick_store_embedded::checkpoint::{Checkpoint, CheckpointStep};
use bluetick_store_embedded::codec::chunk::Fingerprinter;
use bluetick_store_embedded::commit::{
    AppendCommand, CommitCommand, Committer, CommitterParts, Control, Handover, HandoverItem, HealthState,
    Queue, Sequencer, WritableConversation, reply_pair,
};
use bluetick_store_embedded::dedupe::DedupeClock;
use bluetick_store_embedded::disk::{Disk, Faults};
use bluetick_store_embedded::log::{LogWriter, Spares, WriterSettings};
use bluetick_store_embedded::memory::{
    ConversationState, Generation, Profiles, ResidentConversations, Users,
};
use bluetick_store_embedded::recovery::Recovery;
use bluetick_store_embedded::tables::Tables;
use bluetick_store_embedded::{EmbeddedStore, StoreParts, StoreSettings};
use common::{NOW, copy_of, message, send, small, texts, user};
use tempfile::TempDir;

const PATIENCE: Duration = Duration::from_secs(60);
const SEGMENT_BYTES: u64 = 64 << 10;
/// A segment holds three messages of this size.
const FILLER_BYTES: usize = 20 << 10;
const SECRET: &str = "xyzzy";

fn settings(directory: &Path) -> StoreSettings {
    StoreSettings { segment_bytes: SEGMENT_BYTES, ..small(directory) }
}

fn conversation() -> ConversationId {
    ConversationId::direct(&user("alice"), &user("bob"))
}

type OnStep = Arc<dyn Fn(CheckpointStep) + Send + Sync>;

/// The threads of a store in a directory, with one conversation.
struct AssembledStore {
    queue: Arc<Queue>,
    handover: Arc<Handover>,
    health: Arc<HealthState>,
    faults: Arc<Faults>,
    spares: Arc<Spares>,
    resident: WritableConversation,
    fingerprinter: Fingerprinter,
    sent: AtomicUsize,
    acknowledged: AtomicUsize,
    log: PathBuf,
    committer: Option<JoinHandle<()>>,
    others: Vec<JoinHandle<()>>,
}

impl AssembledStore {
    async fn open(directory: &Path, on_step: OnStep) -> AssembledStore {
        // Makes the files of an empty store.
        EmbeddedStore::open(StoreParts::new(settings(directory))).unwrap();
        let log = directory.join("log");
        let faults = Arc::new(Faults::default());
        let disk = Disk::with_faults(Arc::clone(&faults));
        let tables = Arc::new(Tables::open(&directory.join("tables")).unwrap());
        let identity = tables.current().unwrap().identity().unwrap().unwrap();
        let (residents, users, profiles) =
            (ResidentConversations::default(), Arc::new(Users::default()), Arc::new(Profiles::default()));
        let mut generation = Generation::first(Arc::default());
        let mut recovery = Recovery {
            tables: &tables,
            residents: &residents,
            users: &users,
            profiles: &profiles,
            fingerprinter: identity.fingerprinter,
            generation: &mut generation,
        };
        let end = recovery.run(&log, identity.tag).unwrap();
        let spares = Arc::new(Spares::open(&log, disk.clone(), SEGMENT_BYTES).unwrap());
        let writer =
            WriterSettings { directory: log.clone(), segment_bytes: SEGMENT_BYTES, tag: identity.tag, disk };
        let (queue, handover) = (Arc::new(Queue::new(1000)), Arc::new(Handover::default()));
        let health = Arc::new(HealthState::default());
        let dedupe = Arc::new(DedupeClock::resume(Arc::new(SystemClock), 0, None));
        let committer = Committer::new(CommitterParts {
            queue: Arc::clone(&queue),
            log: LogWriter::resume(writer, Arc::clone(&spares), end).unwrap(),
            generation,
            sequencer: Sequencer {
                tables: Arc::clone(&tables),
                users: Arc::clone(&users),
                profiles: Arc::clone(&profiles),
                dedupe: Arc::clone(&dedupe),
                fingerprinter: identity.fingerprinter,
            },
            users: Arc::clone(&users),
            profiles: Arc::clone(&profiles),
            handover: Arc::clone(&handover),
            health: Arc::clone(&health),
            listener: None,
            observer: Arc::new(NoObserver),
            checkpoint_bytes: 4 * SEGMENT_BYTES,
            checkpoint_idle: Duration::from_secs(3600),
        });
        let (received, loaded_weight) = (Arc::clone(&handover), Arc::clone(&queue));
        let checkpoints = std::thread::spawn(move || {
            while let HandoverItem::Generation(mut generation) = received.receive() {
                let tables = &*tables.writing().unwrap();
                let (users, profiles) = (&*users, &*profiles);
                let checkpoint = Checkpoint {
                    tables,
                    users,
                    profiles,
                    dedupe: &dedupe,
                    on_step: &*on_step,
                    must_stop: &|| false,
                };
                checkpoint.run(&mut generation).unwrap();
                received.finished(generation.through);
                loaded_weight.nudge();
            }
        });
        let provisioned = Arc::clone(&spares);
        let others = vec![checkpoints, std::thread::spawn(move || provisioned.provision())];
        let resident = residents.get_or_load(conversation(), || Ok(ConversationState::absent())).unwrap();
        let rig = AssembledStore {
            queue,
            handover,
            health,
            faults,
            spares,
            resident: WritableConversation(resident),
            fingerprinter: identity.fingerprinter,
            sent: AtomicUsize::new(0),
            acknowledged: AtomicUsize::new(0),
            log,
            committer: Some(std::thread::spawn(move || committer.run())),
            others,
        };
        rig.found().await;
        rig
    }

    async fn found(&self) {
        let (reply, answer) = reply_pair();
        let creation = Creation::Direct { peer: user("bob") };
        let new =
            NewConversation { id: conversation(), creation, created_by: user("alice"), created_at: NOW };
        let resident = Arc::clone(&self.resident.0);
        self.queue.push(CommitCommand::Control(Box::new(Control::Open { resident, new, reply }))).unwrap();
        answer.await.unwrap().unwrap();
    }

    async fn send(&self, text: &str) -> Result<(), StoreError> {
        let number = self.sent.fetch_add(1, Ordering::SeqCst);
        let append = bluetick_core::ports::Append {
            content: text.into(),
            ..message(conversation(), "alice", &format!("m{number}"))
        };
        let fingerprint = self.fingerprinter.of(append.sender.as_str(), &append.message_id);
        let (reply, answer) = reply_pair();
        let command =
            AppendCommand { resident: self.resident.clone(), append, fingerprint, searched: None, reply };
        self.queue.push(CommitCommand::Append(command))?;
        answer.await.unwrap_or(Err(StoreError::Closing))?;
        self.acknowledged.fetch_add(1, Ordering::SeqCst);
        Ok(())
    }

    /// Sends `count` messages. A segment holds three of them.
    async fn fill(&self, word: &str, count: usize) {
        for number in 0..count {
            self.send(&format!("{word} {number} {}", "x".repeat(FILLER_BYTES))).await.unwrap();
        }
    }

    fn ask(&self) -> u64 {
        let number = self.handover.request_scrub();
        self.queue.nudge();
        number
    }

    async fn scrub(&self) -> Result<(), String> {
        let (handover, number) = (Arc::clone(&self.handover), self.ask());
        tokio::task::spawn_blocking(move || handover.wait_for_scrub(number, PATIENCE)).await.unwrap()
    }

    async fn checkpoint(&self) {
        let (handover, number) = (Arc::clone(&self.handover), self.handover.request_checkpoint());
        self.queue.nudge();
        tokio::task::spawn_blocking(move || handover.wait_for_checkpoint(number, PATIENCE))
            .await
            .unwrap()
            .unwrap();
    }

    /// Returns the names of the log files that contain `word`.
    fn files_with(&self, word: &str) -> Vec<String> {
        files_with(&self.log, word)
    }
}

impl Drop for AssembledStore {
    fn drop(&mut self) {
        self.queue.close();
        self.committer.take().unwrap().join().unwrap();
        self.handover.close(PATIENCE);
        self.spares.close();
        for thread in self.others.drain(..) {
            thread.join().unwrap();
        }
    }
}

/// Skips a file that is renamed between listing and reading; the caller looks again.
fn files_with(log: &Path, word: &str) -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(log).unwrap().flatten() {
        let Ok(bytes) = std::fs::read(entry.path()) else { continue };
        if bytes.windows(word.len()).any(|window| window == word.as_bytes()) {
            found.push(entry.file_name().into_string().unwrap());
        }
    }
    found
}

fn no_steps() -> OnStep {
    Arc::new(|_| {})
}

async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < deadline, "{what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Checks that the image of a killed process has at least these messages and accepts more.
async fn assert_opens_with(image: &Path, acknowledged: usize, when: &str) {
    let store = EmbeddedStore::open(StoreParts::new(settings(image)))
        .unwrap_or_else(|error| panic!("{when}: {error}"));
    let found = texts(&store, conversation(), "bob").await;
    assert!(found.len() >= acknowledged, "{when}: {} of {acknowledged} are left", found.len());
    let next = send(&store, conversation(), "bob", "one more").await.unwrap();
    assert_eq!(next.get(), found.len() as u64 + 1, "{when}");
    bluetick_core::ports::Store::close(&store).await;
    drop(store);
    let store = EmbeddedStore::open(StoreParts::new(settings(image))).unwrap();
    assert_eq!(texts(&store, conversation(), "bob").await.len(), found.len() + 1, "{when}, opened once more");
}

/// Creates a store with the secret in the current segment, in one that waits for a checkpoint, and
/// in a spare.
async fn rig_with_secrets(directory: &Path, on_step: OnStep) -> AssembledStore {
    let rig = AssembledStore::open(directory, on_step).await;
    rig.fill(SECRET, 7).await;
    rig.checkpoint().await;
    let spares = || rig.files_with(SECRET).iter().filter(|name| name.starts_with("spare-")).count();
    until("no segments were recycled", || spares() >= 2).await;
    rig.fill(SECRET, 4).await;
    assert!(spares() >= 1);
    assert!(rig.files_with(SECRET).iter().filter(|name| name.ends_with(".log")).count() >= 2);
    rig
}

#[tokio::test(flavor = "multi_thread")]
async fn scrub_removes_earlier_messages_from_log_files_while_sends_continue() {
    let directory = TempDir::new().unwrap();
    let rig = Arc::new(rig_with_secrets(directory.path(), no_steps()).await);
    let over = Arc::new(AtomicBool::new(false));
    let (sending, stop) = (Arc::clone(&rig), Arc::clone(&over));
    let sender = tokio::spawn(async move {
        while !stop.load(Ordering::SeqCst) {
            sending.send("meanwhile").await.unwrap();
        }
    });
    for round in 0..5 {
        let before = rig.acknowledged.load(Ordering::SeqCst);
        rig.scrub().await.unwrap();
        assert_eq!(rig.files_with(SECRET), [""; 0], "after scrub {round}");
        assert!(
            rig.acknowledged.load(Ordering::SeqCst) > before,
            "no message was acknowledged during scrub {round}"
        );
        // Recycle segments and write to them.
        rig.fill("later", 20).await;
        assert_eq!(rig.files_with(SECRET), [""; 0], "after further messages, scrub {round}");
    }
    over.store(true, Ordering::SeqCst);
    sender.await.unwrap();
    let acknowledged = rig.acknowledged.load(Ordering::SeqCst);
    drop(rig);
    assert_opens_with(directory.path(), acknowledged, "closed").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn crash_at_any_scrub_step_loses_nothing() {
    let directory = TempDir::new().unwrap();
    let images: Arc<Mutex<Vec<(CheckpointStep, TempDir)>>> = Arc::default();
    let armed = Arc::new(AtomicBool::new(false));
    let (kept, watching, path) = (Arc::clone(&images), Arc::clone(&armed), directory.path().to_owned());
    let on_step: OnStep = Arc::new(move |step| {
        if watching.load(Ordering::SeqCst) {
            kept.lock().unwrap().push((step, copy_of(&path)));
        }
    });
    let rig = rig_with_secrets(directory.path(), on_step).await;
    let acknowledged = rig.acknowledged.load(Ordering::SeqCst);
    let before = log_files(directory.path());
    armed.store(true, Ordering::SeqCst);
    rig.scrub().await.unwrap();
    armed.store(false, Ordering::SeqCst);
    let after = copy_of(directory.path());
    drop(rig);
    assert_opens_with(after.path(), acknowledged, "after the scrub").await;

    let images = std::mem::take(&mut *images.lock().unwrap());
    assert_eq!(
        images.first().unwrap().0,
        CheckpointStep::BeforeFirstTransaction,
        "a checkpoint was made for it"
    );
    let (last_step, in_tables) = images.last().unwrap();
    assert_eq!(*last_step, CheckpointStep::PositionMoved);
    let old: Vec<_> = log_files(in_tables.path()).into_iter().filter(|file| before.contains(file)).collect();
    assert!(old.len() >= 2, "the old segments are still there: {old:?}");
    assert!(log_files(in_tables.path()).len() > old.len(), "the log continues in a new segment");
    // Deletions may reach the disk in any order, and some of them not at all.
    for chosen in 0_usize..1 << old.len() {
        let image = copy_of(in_tables.path());
        for (_, file) in old.iter().enumerate().filter(|(at, _)| chosen >> at & 1 == 1) {
            std::fs::remove_file(image.path().join("log").join(file)).unwrap();
        }
        assert_opens_with(image.path(), acknowledged, &format!("deleted {chosen:b}")).await;
    }
    for (step, image) in images {
        assert_opens_with(image.path(), acknowledged, &format!("{step:?}")).await;
    }
}

fn log_files(directory: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(directory.join("log")).unwrap().flatten();
    let mut names: Vec<_> = entries.map(|entry| entry.file_name().into_string().unwrap()).collect();
    names.retain(|name| name.ends_with(".log"));
    names.sort();
    names
}

#[tokio::test(flavor = "multi_thread")]
async fn scrub_without_space_for_a_new_file_fails_and_log_continues() {
    let directory = TempDir::new().unwrap();
    let rig = rig_with_secrets(directory.path(), no_steps()).await;
    let segments = log_files(directory.path());
    rig.faults.full.store(true, Ordering::SeqCst);
    let why = rig.scrub().await.unwrap_err();
    rig.faults.full.store(false, Ordering::SeqCst);
    assert!(why.contains("no new log segment can be created"), "{why}");
    assert_eq!(rig.health.health(), Health::Writable);
    rig.send("goes on").await.unwrap();
    assert_eq!(log_files(directory.path()), segments);
    let acknowledged = rig.acknowledged.load(Ordering::SeqCst);
    assert_opens_with(copy_of(directory.path()).path(), acknowledged, "after a failed scrub").await;

    rig.scrub().await.unwrap();
    assert_eq!(rig.files_with(SECRET), [""; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn undeletable_file_fails_the_scrub_and_sends_continue() {
    let directory = TempDir::new().unwrap();
    let rig = rig_with_secrets(directory.path(), no_steps()).await;
    let stubborn = rig.log.join("spare-999");
    std::fs::create_dir(&stubborn).unwrap();
    let why = rig.scrub().await.unwrap_err();
    assert!(why.contains("spare-999 cannot be deleted"), "{why}");
    rig.fill("later", 12).await;
    std::fs::remove_dir(&stubborn).unwrap();
    rig.scrub().await.unwrap();
    assert_eq!(rig.files_with(SECRET), [""; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn scrub_deletes_a_segment_that_could_not_be_recycled() {
    let directory = TempDir::new().unwrap();
    let rig = rig_with_secrets(directory.path(), no_steps()).await;
    // A failed rename leaves such a file. The store learns of it at the next start.
    std::fs::write(rig.log.join(format!("{:020}.log", 0)), SECRET).unwrap();
    rig.scrub().await.unwrap();
    assert_eq!(rig.files_with(SECRET), [""; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn request_during_a_scrub_starts_another_scrub() {
    let directory = TempDir::new().unwrap();
    let (first, second) = (std::sync::mpsc::channel(), std::sync::mpsc::channel());
    let (at_step, go_on) = (Mutex::new(first.0), Mutex::new(second.1));
    let armed = Arc::new(AtomicBool::new(false));
    let holds = Arc::clone(&armed);
    let on_step: OnStep = Arc::new(move |step| {
        if step == CheckpointStep::BeforeFirstTransaction && holds.swap(false, Ordering::SeqCst) {
            at_step.lock().unwrap().send(()).unwrap();
            let _ = go_on.lock().unwrap().recv_timeout(PATIENCE);
        }
    });
    let rig = rig_with_secrets(directory.path(), on_step).await;
    armed.store(true, Ordering::SeqCst);
    let early = rig.ask();
    first.1.recv_timeout(PATIENCE).unwrap();
    rig.send("plugh, into the new segment").await.unwrap();
    let late = rig.ask();
    second.0.send(()).unwrap();
    assert!(late > early);
    let handover = Arc::clone(&rig.handover);
    let wait = move |number| handover.wait_for_scrub(number, PATIENCE);
    let waited = tokio::task::spawn_blocking(move || (wait(late), wait(early))).await.unwrap();
    assert_eq!(waited, (Ok(()), Ok(())));
    assert_eq!(rig.files_with(SECRET), [""; 0]);
    assert_eq!(rig.files_with("plugh"), [""; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn log_opens_after_a_failed_write_right_after_a_scrub() {
    let directory = TempDir::new().unwrap();
    let rig = rig_with_secrets(directory.path(), no_steps()).await;
    // The second scrub has no message to write to the tables.
    rig.scrub().await.unwrap();
    rig.scrub().await.unwrap();
    rig.faults.full.store(true, Ordering::SeqCst);
    assert!(rig.send("refused").await.is_err());
    let acknowledged = rig.acknowledged.load(Ordering::SeqCst);
    assert_opens_with(copy_of(directory.path()).path(), acknowledged, "with a full disk").await;
    rig.faults.full.store(false, Ordering::SeqCst);
    until("the store does not recover", || rig.health.health() == Health::Writable).await;
    // The batches that probed the disk belong to no generation.
    rig.scrub().await.unwrap();
    assert_opens_with(copy_of(directory.path()).path(), acknowledged, "recovered").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn closing_the_store_ends_the_wait_for_a_scrub() {
    let directory = TempDir::new().unwrap();
    let rig = rig_with_secrets(directory.path(), no_steps()).await;
    rig.queue.close();
    let (handover, number) = (Arc::clone(&rig.handover), rig.handover.request_scrub());
    let waiting = tokio::task::spawn_blocking(move || handover.wait_for_scrub(number, PATIENCE));
    let started = Instant::now();
    drop(rig);
    assert!(waiting.await.unwrap().is_err());
    assert!(started.elapsed() < PATIENCE);
}
