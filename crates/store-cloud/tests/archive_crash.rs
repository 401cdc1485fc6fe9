//! A node that dies at any call of any job: nothing is lost, nothing is twice, and the next one finishes it.

#![expect(clippy::unwrap_used, reason = "a test may stop where its own set-up fails")]

mod archive_kit;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use archive_kit::{HOUR, Node, World, with_ten};
use bluetick_core::ConversationId;
use bluetick_core::ports::{
    Archive, ArchiveError, ArchiveRun, Erase, EraseScope, NoProgress, Progress, Stage,
};

/// Does the job on a node that is cut off after each number of calls in turn, and gives what is left to `look`, with
/// whether the job came to its end.
async fn at_every_call(
    world: &World,
    job: impl AsyncFn(&Node) -> Result<(), ArchiveError>,
    look: impl AsyncFn(&World, bool),
) {
    for loses_answer in [false, true] {
        for calls in 1.. {
            let world = world.copy().await;
            let node = world.node();
            node.wire.cut_after(calls, loses_answer);
            let is_done = job(&node).await.is_ok();
            drop(node);
            world.clock.advance_millis(61_000);
            look(&world, is_done).await;
            if is_done {
                assert!(calls > 10, "it did something");
                break;
            }
        }
    }
}

async fn sweep_twice(node: &Node, world: &World) {
    for _ in 0..3 {
        world.clock.advance_millis(25 * HOUR);
        node.run().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_can_die_anywhere() {
    let world = World::default();
    let id = with_ten(&world).await;
    let expected = world.node().messages(id, "bob").await;
    let run = async |node: &Node| node.run().await.map(drop);
    let look = async |world: &World, _| {
        let node = world.node();
        assert_eq!(node.messages(id, "bob").await, expected, "as it was left");
        node.run().await.unwrap();
        assert_eq!(node.messages(id, "bob").await, expected);
        sweep_twice(&node, world).await;
        assert_eq!(node.messages(id, "bob").await, expected, "after the sweep");
        assert_eq!(node.problems().await, Vec::<String>::new());
        assert_eq!(node.store.status().await.unwrap().cold.messages, 10);
        let objects = world.object_paths().await.len() as u64;
        assert_eq!(node.store.status().await.unwrap().cold.segments, objects, "no orphan is left");
    };
    at_every_call(&world, run, look).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restore_can_die_anywhere() {
    let world = World::default();
    let id = with_ten(&world).await;
    world.node().run().await.unwrap();
    let expected = world.node().messages(id, "bob").await;
    let restore = async |node: &Node| node.store.restore(Some(id), Arc::new(NoProgress)).await.map(drop);
    let look = async |world: &World, _| {
        let node = world.node();
        assert_eq!(node.messages(id, "bob").await, expected, "as it was left");
        restore(&node).await.unwrap();
        assert_eq!(node.messages(id, "bob").await, expected);
        assert_eq!(world.object_paths().await, [], "nothing is left in the archive");
        assert_eq!(node.run().await.unwrap().moved.messages, 0, "it stays");
        assert_eq!(node.problems().await, Vec::<String>::new());
        let status = node.store.status().await.unwrap();
        assert_eq!((status.kept_hot, status.cold.messages), (1, 0));
        let only = ArchiveRun { only: Some(id), partial: true };
        assert_eq!(node.store.run(only, Arc::new(NoProgress)).await.unwrap().moved.messages, 10);
        assert_eq!(node.messages(id, "bob").await, expected);
        assert_eq!(node.problems().await, Vec::<String>::new());
    };
    at_every_call(&world, restore, look).await;
}

/// Records whether progress was reported, which acknowledges the erasure.
struct Accepted(Arc<AtomicBool>);

impl Progress for Accepted {
    fn advanced(&self, _stage: Stage, _done: u64, _total: u64) {
        self.0.store(true, Ordering::SeqCst);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_erasure_can_die_anywhere() {
    let world = World::default();
    let id = with_ten(&world).await;
    // Some of it in the archive as an interrupted run left it, some in rows.
    let dying = world.node();
    dying.wire.cut_after_flips(6);
    assert!(dying.run().await.is_err());
    world.clock.advance_millis(61_000);
    let cold = world.node().store.verify(Arc::new(NoProgress)).await.unwrap().checked;
    assert_eq!((cold.segments, cold.messages), (2, 6), "in the middle of a segment");
    let scope = EraseScope::User { user: archive_kit::user("bob"), conversation: None };
    let erase = Erase { scope, through: None };
    let accepted = Arc::new(AtomicBool::new(false));
    let work = async |node: &Node| {
        accepted.store(false, Ordering::SeqCst);
        node.store.erase(erase.clone(), Arc::new(Accepted(Arc::clone(&accepted)))).await.map(drop)
    };
    let look = async |world: &World, is_done: bool| {
        let node = world.node();
        if !is_done {
            match accepted.load(Ordering::SeqCst) {
                // The erasure was not acknowledged, so the operator requests it again.
                false => work(&node).await.unwrap(),
                true => drop(node.run().await.unwrap()),
            }
        }
        assert_eq!(node.store.status().await.unwrap().unfinished_erasures, 0);
        assert_erased(&node, world, id).await;
        node.run().await.unwrap();
        sweep_twice(&node, world).await;
        assert_erased(&node, world, id).await;
        assert_eq!(node.problems().await, Vec::<String>::new());
    };
    at_every_call(&world, work, look).await;
}

async fn assert_erased(node: &Node, world: &World, id: ConversationId) {
    let texts = node.texts(id, "alice").await;
    assert_eq!(texts.len(), 11);
    for (text, number) in texts.iter().zip(1..) {
        match number {
            3 | 6 | 9 => assert_eq!(text, "", "{number}"),
            11 => assert_eq!(text, "alice is back"),
            _ => assert_eq!(*text, format!("alice says {number}")),
        }
    }
    assert!(!world.holds("bob says").await, "it lies nowhere any more");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_slept_through_its_turn_does_no_harm() {
    let world = World::default();
    let id = with_ten(&world).await;
    let slow = Arc::new(world.node());
    slow.wire.hold_flips(true);
    let sleeping = tokio::spawn({
        let slow = Arc::clone(&slow);
        async move { slow.run().await.map(drop) }
    });
    let deadline = Instant::now() + Duration::from_secs(20);
    while slow.wire.held.load(Ordering::SeqCst) == 0 {
        assert!(Instant::now() < deadline, "it comes to its rows");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    // Its object is there, and no row refers to it yet. Somebody else has the turn now, and must delete it.
    world.clock.advance_millis(61_000);
    let node = world.node();
    let scope = EraseScope::User { user: archive_kit::user("bob"), conversation: None };
    node.store.erase(Erase { scope, through: None }, Arc::new(NoProgress)).await.unwrap();
    assert!(world.object_paths().await.is_empty());
    slow.wire.hold_flips(false);
    let _whatever = sleeping.await.unwrap();
    assert_erased(&node, &world, id).await;
}
