//! The process dies at each step of each job; the next process loses nothing and resumes.

#![expect(clippy::unwrap_used, reason = "a test may stop where its own set-up fails")]

mod archive_kit;

use std::sync::Arc;

use archive_kit::common::direct;
use archive_kit::{Kit, eager, group, history, numbered};
use bluetick_core::ports::{Archive, ArchiveError, EraseScope};
use bluetick_core::{ContentType, ConversationId, Message};
use bluetick_store_embedded::archive::ArchiveStep::{self, *};
use object_store::memory::InMemory;

const STEPS: [ArchiveStep; 6] = [BeforePut, AfterPut, BeforeFlip, AfterFlip, BeforeDelete, AfterDelete];

struct Scene {
    kit: Kit,
    objects: Arc<InMemory>,
    pair: ConversationId,
    crowd: ConversationId,
    pair_before: Vec<Message>,
    crowd_before: Vec<Message>,
}

impl Scene {
    async fn new() -> Scene {
        let (kit, objects) = Kit::in_memory(eager());
        let pair = direct(&*kit.store, "alice", "bob").await;
        let crowd = group(&*kit.store, 9, "alice", &["bob", "carol"]).await;
        kit.send_many(pair, "alice", numbered("a", 1..=200)).await;
        kit.send_many(pair, "bob", numbered("b", 1..=90)).await;
        kit.send_many(crowd, "carol", numbered("c", 1..=40)).await;
        let pair_before = history(&*kit.store, pair, "bob").await;
        let crowd_before = history(&*kit.store, crowd, "bob").await;
        Scene { kit, objects, pair, crowd, pair_before, crowd_before }
    }

    /// Crashes and reopens the store. Returns whether the brake stopped the job.
    fn die(mut self, outcome: Option<&ArchiveError>) -> (Scene, bool) {
        let stopped = self.kit.brake.release();
        assert_eq!(matches!(outcome, Some(ArchiveError::Stopped)), stopped, "{outcome:?}");
        assert!(stopped || outcome.is_none(), "{outcome:?}");
        self.kit = self.kit.crash();
        (self, stopped)
    }

    async fn assert_nothing_changed(&self, at: &str) {
        assert!(history(&*self.kit.store, self.pair, "bob").await == self.pair_before, "{at}");
        assert!(history(&*self.kit.store, self.crowd, "bob").await == self.crowd_before, "{at}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn run_killed_at_any_step_is_finished_by_the_next_run() {
    let mut stops = 0;
    for step in STEPS {
        for time in 1..=4 {
            let scene = Scene::new().await;
            scene.kit.brake.set(step, time);
            let outcome = scene.kit.run().await;
            let (scene, stopped) = scene.die(outcome.as_ref().err());
            stops += u32::from(stopped);
            let at = format!("{step:?} {time}");
            scene.assert_nothing_changed(&at).await;
            scene.kit.run().await.unwrap();
            scene.assert_nothing_changed(&at).await;
            assert_eq!(scene.kit.cold_messages().await, 290 + 41, "{at}");
            scene.kit.assert_exact(&*scene.objects).await;
        }
    }
    assert!(stops >= 12, "{stops} runs were stopped");
}

#[tokio::test(flavor = "multi_thread")]
async fn restore_killed_at_any_step_is_finished_by_the_next_restore() {
    let mut stops = 0;
    for step in STEPS {
        for time in 1..=2 {
            let scene = Scene::new().await;
            scene.kit.run().await.unwrap();
            scene.kit.brake.set(step, time);
            let outcome = scene.kit.restore(scene.pair).await;
            let (scene, stopped) = scene.die(outcome.as_ref().err());
            stops += u32::from(stopped);
            let at = format!("{step:?} {time}");
            scene.assert_nothing_changed(&at).await;
            scene.kit.restore(scene.pair).await.unwrap();
            scene.assert_nothing_changed(&at).await;
            // The conversation stays hot, and the leftovers of the killed restore are deleted.
            scene.kit.run().await.unwrap();
            scene.assert_nothing_changed(&at).await;
            assert_eq!(scene.kit.cold_messages().await, 41, "{at}");
            assert_eq!(scene.kit.store.status().await.unwrap().kept_hot, 1, "{at}");
            scene.kit.assert_exact(&*scene.objects).await;
        }
    }
    assert!(stops >= 8, "{stops} were stopped");
}

#[tokio::test(flavor = "multi_thread")]
async fn erasure_killed_at_any_step_is_finished_by_the_next_run() {
    let mut stops = 0;
    for step in STEPS {
        for time in 1..=3 {
            let scene = Scene::new().await;
            scene.kit.run().await.unwrap();
            scene.kit.send_many(scene.pair, "alice", numbered("hot", 1..=5)).await;
            scene.kit.brake.set(step, time);
            let scope = EraseScope::User { user: "alice".parse().unwrap(), conversation: None };
            let outcome = scene.kit.erase(scope, None).await;
            let (scene, stopped) = scene.die(outcome.as_ref().err());
            stops += u32::from(stopped);
            let at = format!("{step:?} {time}");
            let unfinished = scene.kit.store.status().await.unwrap().unfinished_erasures;
            assert_eq!(unfinished, u64::from(stopped), "{at}");
            scene.kit.run().await.unwrap();
            scene.kit.assert_exact(&*scene.objects).await;
            let after = history(&*scene.kit.store, scene.pair, "bob").await;
            assert_eq!(after.len(), 295, "{at}");
            for (message, before) in after.iter().zip(&scene.pair_before) {
                let erased = message.sender.as_str() == "alice";
                assert_eq!(message.content_type == ContentType::Erased, erased, "{at}");
                assert_eq!(message.content.is_empty(), erased, "{at}");
                assert!(erased || message == before, "{at}");
                let facts =
                    |message: &Message| (message.seq, message.received_at, message.message_id.clone());
                assert_eq!(facts(message), facts(before), "{at}");
            }
            assert!(after[290..].iter().all(|message| message.content.is_empty()), "{at}");
            assert!(history(&*scene.kit.store, scene.crowd, "bob").await == scene.crowd_before, "{at}");
        }
    }
    assert!(stops >= 5, "{stops} were stopped");
}

#[tokio::test(flavor = "multi_thread")]
async fn unreferenced_object_is_swept() {
    let (kit, objects) = Kit::in_memory(eager());
    let id = direct(&*kit.store, "alice", "bob").await;
    kit.send_many(id, "alice", numbered("old", 1..=20)).await;
    kit.brake.set(AfterPut, 1);
    assert!(matches!(kit.run().await, Err(ArchiveError::Stopped)));
    // The last chunk grows, so that the next run puts another object.
    kit.send_many(id, "alice", numbered("more", 1..=5)).await;
    let kit = kit.crash();
    assert_eq!(archive_kit::paths(&*objects).await.len(), 1);
    let report = kit.run().await.unwrap();
    assert_eq!((report.moved.messages, report.orphans_swept), (25, 1));
    kit.assert_exact(&*objects).await;
}

/// A send to a conversation during its move does not fail the run.
#[tokio::test(flavor = "multi_thread")]
async fn chunk_that_grows_during_a_run_is_planned_again() {
    let faulty = archive_kit::faulty::Faulty::new();
    let kit = Arc::new(Kit::over(Arc::clone(&faulty) as _, eager()));
    let id = direct(&*kit.store, "alice", "bob").await;
    kit.send_many(id, "alice", numbered("old", 1..=20)).await;
    // The job reads each put back. Hold that read.
    let held = faulty.hold_next_get();
    let running = tokio::spawn({
        let kit = Arc::clone(&kit);
        async move { kit.run().await }
    });
    held.reached().await;
    // Enough bytes to start a checkpoint.
    kit.send_many(id, "alice", (1..=9).map(|number| format!("{number} {}", "m".repeat(4_000)))).await;
    let grown = || {
        let copy = archive_kit::common::copy_of(kit.directory.path());
        let tables = bluetick_store_embedded::tables::Tables::open(&copy.path().join("tables")).unwrap();
        let engine = tables.current().unwrap();
        engine.snapshot().unwrap().record(id, bluetick_core::Seq::new(21)).unwrap().is_some()
    };
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(20);
    while !grown() {
        assert!(std::time::Instant::now() < deadline, "there was no checkpoint");
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    held.open();
    assert!(running.await.unwrap().unwrap().moved.messages > 20);
    kit.run().await.unwrap();
    assert_eq!(kit.cold_messages().await, 29);
    kit.assert_exact(&*faulty.inner).await;
}

/// A job is dropped when its caller disconnects.
#[tokio::test(flavor = "multi_thread")]
async fn job_dropped_at_any_time_changes_no_message() {
    let scene = Scene::new().await;
    for round in 0..60u64 {
        let _ = tokio::time::timeout(std::time::Duration::from_micros(200 * round), scene.kit.run()).await;
        if round % 3 == 0 {
            let restore = scene.kit.restore(scene.pair);
            let _ = tokio::time::timeout(std::time::Duration::from_micros(150 * round), restore).await;
            let _ = tokio::time::timeout(
                std::time::Duration::from_micros(150 * round),
                scene.kit.run_only(scene.pair),
            )
            .await;
        }
        scene.assert_nothing_changed(&format!("round {round}")).await;
    }
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(20);
    while let Err(error) = scene.kit.run_only(scene.pair).await {
        assert!(matches!(error, ArchiveError::Busy), "{error}");
        assert!(std::time::Instant::now() < deadline, "a detached step ends");
        tokio::task::yield_now().await;
    }
    let scene = Scene { kit: scene.kit.crash(), ..scene };
    scene.kit.run().await.unwrap();
    scene.assert_nothing_changed("at last").await;
    assert_eq!(scene.kit.cold_messages().await, 290 + 41);
    scene.kit.assert_exact(&*scene.objects).await;
}
