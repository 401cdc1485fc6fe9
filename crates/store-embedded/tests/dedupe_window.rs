//! Which resends are recognised: within the dedupe window by elapsed time, independent of the wall
//! clock; and with `retry_after` always.

#![expect(clippy::unwrap_used, reason = "a test may stop where its own set-up fails")]

mod common;

use std::sync::Arc;
use std::time::Duration;

use bluetick_core::ports::{Append, Appended, Store};
use bluetick_core::time::{Clock, ManualClock};
use bluetick_core::{ConversationId, Refusal, Seq, StoreError};
use bluetick_store_embedded::{EmbeddedStore, StoreParts, StoreSettings, WorkMode};
use bluetick_testkit::dice::Dice;
use common::{NOW, copy_of, message, small, user};
use tempfile::TempDir;

const HOUR: i64 = 3_600_000;
const DAY: i64 = 24 * HOUR;

/// A store that works only when the test advances it.
struct ClockedStore {
    store: EmbeddedStore,
    clock: Arc<ManualClock>,
    directory: TempDir,
    window_seconds: u64,
    /// Number of conversations that a checkpoint keeps in memory.
    awake: usize,
}

impl ClockedStore {
    fn open(directory: TempDir, clock: Arc<ManualClock>, window_seconds: u64, awake: usize) -> ClockedStore {
        let settings = StoreSettings {
            dedupe_window_seconds: window_seconds,
            // Every commit starts a checkpoint.
            checkpoint_idle_seconds: 0,
            awake_conversations: awake,
            ..small(directory.path())
        };
        let parts =
            StoreParts { clock: Arc::clone(&clock) as _, work: WorkMode::Steps, ..StoreParts::new(settings) };
        ClockedStore { store: EmbeddedStore::open(parts).unwrap(), clock, directory, window_seconds, awake }
    }

    fn new(window_seconds: u64) -> ClockedStore {
        ClockedStore::open(TempDir::new().unwrap(), Arc::new(ManualClock::at(NOW)), window_seconds, 0)
    }

    fn checkpoint(&self) {
        self.store.steps().unwrap().commit();
        self.store.steps().unwrap().checkpoint();
    }

    async fn found(&self, peer: &str) -> ConversationId {
        let id = ConversationId::direct(&user("alice"), &user(peer));
        let creation = bluetick_core::ports::Creation::Direct { peer: user(peer) };
        let new = bluetick_core::ports::NewConversation {
            id,
            creation,
            created_by: user("alice"),
            created_at: self.clock.now(),
        };
        let opening = self.store.open_conversation(new);
        tokio::pin!(opening);
        self.until_committed(opening).await.unwrap();
        id
    }

    /// Advances the store until it answers.
    async fn until_committed<T>(&self, answer: impl Future<Output = T>) -> T {
        tokio::pin!(answer);
        loop {
            tokio::select! {
                biased;
                answer = &mut answer => return answer,
                () = tokio::task::yield_now() => self.store.steps().unwrap().commit(),
            }
        }
    }

    fn append(&self, id: ConversationId, message_id: &str, content: &str) -> Append {
        let received_at = self.clock.now();
        Append { content: content.into(), received_at, ..message(id, "alice", message_id) }
    }

    async fn send(&self, append: Append) -> Result<Appended, StoreError> {
        let accepted = self.store.append(append).await?;
        self.until_committed(accepted).await
    }

    async fn reopen(self) -> ClockedStore {
        self.store.close().await;
        let ClockedStore { store, clock, directory, window_seconds, awake } = self;
        drop(store);
        ClockedStore::open(directory, clock, window_seconds, awake)
    }

    /// Reopens the files, as after a kill.
    fn crash(self) -> ClockedStore {
        let copy = copy_of(self.directory.path());
        ClockedStore::open(copy, self.clock, self.window_seconds, self.awake)
    }
}

#[tokio::test]
async fn resend_of_message_in_memory_is_found_with_any_window() {
    for window_seconds in [0, 1, 60, 7 * 24 * 3600] {
        let rig = ClockedStore::new(window_seconds);
        let id = rig.found("bob").await;
        // No checkpoint runs in this test, so the conversation stays in memory.
        let first = rig.send(rig.append(id, "first", "hello")).await.unwrap().seq;
        let window = Duration::from_secs(window_seconds).as_millis() as i64;
        for number in 0..4 {
            rig.clock.advance_millis(window + 1);
            rig.send(rig.append(id, &format!("other{number}"), "x")).await.unwrap();
        }
        let retry =
            |content: &str| Append { retry_after: Some(Seq::ZERO), ..rig.append(id, "first", content) };
        let again = rig.send(retry("hello")).await.unwrap();
        assert_eq!((again.seq, again.duplicate), (first, true), "window {window_seconds}");
        let other = rig.send(retry("something else")).await;
        let reused = Refusal::MessageIdReused { first_seq: first };
        assert!(matches!(other, Err(StoreError::Refused(refusal)) if refusal == reused));
        // A retry does not match messages before the seq it names.
        let later = Append { retry_after: Some(first), ..rig.append(id, "other3", "x") };
        assert!(rig.send(later).await.unwrap().duplicate);

        rig.checkpoint();
        assert!(rig.send(retry("hello")).await.unwrap().duplicate, "after a checkpoint, {window_seconds}");
        let rig = rig.crash();
        let retry = || Append { retry_after: Some(Seq::ZERO), ..rig.append(id, "first", "hello") };
        assert!(rig.send(retry()).await.unwrap().duplicate, "after a crash, {window_seconds}");
        let rig = rig.reopen().await;
        let retry = Append { retry_after: Some(Seq::ZERO), ..rig.append(id, "first", "hello") };
        assert!(rig.send(retry).await.unwrap().duplicate, "after a restart, {window_seconds}");
    }
}

/// The original is queued and not yet written when its resend is checked, and the window is zero.
#[tokio::test]
async fn resend_finds_message_stored_while_it_was_queued() {
    for (checkpoints, in_one_batch) in [(false, true), (false, false), (true, false)] {
        let rig = ClockedStore::new(0);
        let id = rig.found("bob").await;
        let first = rig.store.append(rig.append(id, "first", "hello")).await.unwrap();
        let retry = Append { retry_after: Some(Seq::ZERO), ..rig.append(id, "first", "hello") };
        let mut waiting = Vec::new();
        for number in 0..4 {
            rig.clock.advance_millis(1);
            waiting.push(rig.store.append(rig.append(id, &format!("m{number}"), "x")).await.unwrap());
        }
        let again = rig.store.append(retry).await.unwrap();
        if !in_one_batch {
            rig.store.steps().unwrap().commit();
        }
        if checkpoints {
            rig.checkpoint();
        }
        let (first, again) = (rig.until_committed(first).await, rig.until_committed(again).await);
        assert_eq!(first.unwrap().seq, again.unwrap().seq);
        drop(waiting);
    }
}

#[tokio::test]
async fn clock_jump_keeps_message_ids_and_refuses_other_content() {
    for jumps in [[8, 16, 24], [16, 0, 16], [400, 800, 0], [-30, 8, -30], [-30, -60, 16]] {
        let rig = ClockedStore::new(7 * 24 * 3600);
        let id = rig.found("bob").await;
        let first = rig.send(rig.append(id, "first", "hello")).await.unwrap().seq;
        for number in 0..200 {
            rig.send(rig.append(id, &format!("m{number}"), "x")).await.unwrap();
        }
        rig.checkpoint();
        let check = async |rig: &ClockedStore, at: &str| {
            let jump = format!("{jumps:?}");
            let again = rig.send(rig.append(id, "first", "hello")).await.unwrap();
            assert_eq!((again.seq, again.duplicate), (first, true), "{jump} {at}");
            let other = rig.send(rig.append(id, "first", "something else")).await;
            assert!(
                matches!(other, Err(StoreError::Refused(Refusal::MessageIdReused { .. }))),
                "{jump} {at}"
            );
        };
        for day in jumps {
            rig.clock.set(NOW.plus_millis(day * DAY));
            rig.send(rig.append(id, &format!("on day {day}").replace(' ', "-"), "x")).await.unwrap();
            rig.clock.advance_millis(HOUR);
            check(&rig, "awake").await;
        }
        rig.checkpoint();
        check(&rig, "put to sleep").await;
        let rig = rig.crash();
        check(&rig, "after a crash").await;
        let rig = rig.reopen().await;
        check(&rig, "after a restart").await;
        rig.clock.set(NOW);
        check(&rig.reopen().await, "set right").await;
    }
}

#[tokio::test]
async fn message_id_expires_some_time_after_the_window() {
    let rig = ClockedStore::new(3600);
    let id = rig.found("bob").await;
    rig.send(rig.append(id, "first", "hello")).await.unwrap();
    // Each message becomes a chunk, and together they cover more than the window.
    for number in 0..300 {
        rig.clock.advance_millis(HOUR / 20);
        rig.send(rig.append(id, &format!("m{number}"), "x")).await.unwrap();
        rig.checkpoint();
    }
    let again = rig.send(rig.append(id, "first", "something else")).await.unwrap();
    assert!(!again.duplicate, "message ids expire");
}

/// A sent message, with the time that the store had been open when it was sent.
struct Sent {
    conversation: ConversationId,
    message_id: String,
    seq: Seq,
    at_ms: u64,
}

#[tokio::test]
async fn ids_in_window_are_found_after_random_clock_jumps_and_crashes() {
    let base = std::env::var("BLUETICK_SEED").ok().map_or(1, |seed| seed.parse().unwrap());
    for seed in base..base + 6 {
        println!("BLUETICK_SEED={seed}");
        let mut dice = Dice::new(seed);
        let window_ms = [1_000, 60_000, 3_600_000, 7 * DAY as u64][dice.below(4) as usize];
        let awake = if dice.one_in(2) { 0 } else { 1_000 };
        let clock = Arc::new(ManualClock::at(NOW));
        let mut rig = ClockedStore::open(TempDir::new().unwrap(), clock, window_ms / 1_000, awake);
        let mut ids = Vec::new();
        for peer in ["bob", "carol", "dave"] {
            ids.push(rig.found(peer).await);
        }
        let (mut sent, mut open_ms): (Vec<Sent>, u64) = (Vec::new(), 0);
        for step in 0..200 {
            match dice.below(60) {
                0..28 => {
                    let conversation = ids[dice.below(3) as usize];
                    let message_id = format!("m{step}");
                    let appended =
                        rig.send(rig.append(conversation, &message_id, &message_id)).await.unwrap();
                    assert!(!appended.duplicate);
                    sent.push(Sent { conversation, message_id, seq: appended.seq, at_ms: open_ms });
                }
                28..36 => {
                    let passes = dice.below(window_ms / 3);
                    rig.clock.advance_millis(passes as i64);
                    open_ms += passes;
                }
                36..48 => {
                    let days = dice.below(80) as i64 - 40;
                    rig.clock.set(rig.clock.now().plus_millis(days * DAY));
                }
                48..56 => rig.checkpoint(),
                56..58 => {
                    // Time while the store is closed does not count.
                    rig = rig.reopen().await;
                    rig.clock.advance_millis(dice.below(20) as i64 * DAY);
                    rig = rig.crash();
                }
                _ => rig = rig.crash(),
            }
            if sent.is_empty() {
                continue;
            }
            let one = &sent[dice.below(sent.len() as u64) as usize];
            let in_window = open_ms - one.at_ms < window_ms;
            let at = format!("seed {seed} step {step} {}", one.message_id);
            let retry_after = Some(Seq::ZERO).filter(|_| !in_window);
            let resend = |content: &str| Append {
                retry_after,
                ..rig.append(one.conversation, &one.message_id, content)
            };
            let again = rig.send(resend(&one.message_id)).await.unwrap();
            assert_eq!((again.seq, again.duplicate), (one.seq, true), "{at}");
            let other = rig.send(resend("something else")).await;
            assert!(
                matches!(other, Err(StoreError::Refused(Refusal::MessageIdReused { .. }))),
                "{at}: {other:?}"
            );
        }
    }
}
