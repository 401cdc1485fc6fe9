//! Writers wait while the tables are far behind the log. Memory stays bounded, and no write is
//! refused.

#![expect(clippy::unwrap_used, reason = "a test may stop where its own set-up fails")]

mod common;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use bluetick_core::ports::Store;
use bluetick_store_embedded::checkpoint::CheckpointStep;
use bluetick_store_embedded::{EmbeddedStore, StoreParts};
use common::{direct, send, small, texts};
use tempfile::TempDir;

/// Blocks the checkpoint until the test opens it.
#[derive(Default)]
struct CheckpointBlocker {
    open: Mutex<bool>,
    opened: Condvar,
}

impl CheckpointBlocker {
    fn pass(&self) {
        let open = self.open.lock().unwrap();
        drop(self.opened.wait_while(open, |open| !*open).unwrap());
    }

    fn open(&self) {
        *self.open.lock().unwrap() = true;
        self.opened.notify_all();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn writers_wait_for_a_late_checkpoint_and_then_continue() {
    const MESSAGES: usize = 400;
    let directory = TempDir::new().unwrap();
    let gate = Arc::new(CheckpointBlocker::default());
    let mut parts = StoreParts::new(small(directory.path()));
    let held = Arc::clone(&gate);
    parts.on_checkpoint_step = Arc::new(move |step| {
        if step == CheckpointStep::BeforeFirstTransaction {
            held.pass();
        }
    });
    let store = Arc::new(EmbeddedStore::open(parts).unwrap());
    let id = direct(store.as_ref(), "alice", "bob").await;
    let acknowledged = Arc::new(AtomicUsize::new(0));
    let sender = tokio::spawn({
        let (store, acknowledged) = (Arc::clone(&store), Arc::clone(&acknowledged));
        async move {
            // About 400 KB of log. A checkpoint has 16 KB, and three of them may queue.
            for number in 0..MESSAGES {
                let text = format!("{number}-{}", "x".repeat(1000));
                let id_text: String = text.chars().take(100).collect();
                common::send_as(store.as_ref(), id, "alice", &id_text, &text).await.unwrap();
                acknowledged.fetch_add(1, Ordering::SeqCst);
            }
        }
    });
    // The number of acknowledged messages stops growing when the writers wait.
    let mut before = usize::MAX;
    loop {
        let now = acknowledged.load(Ordering::SeqCst);
        assert!(!sender.is_finished(), "the sender failed, or no send was delayed");
        if now == before && now > 0 {
            break;
        }
        before = now;
        tokio::time::sleep(Duration::from_millis(300)).await;
    }
    assert!(acknowledged.load(Ordering::SeqCst) < MESSAGES, "no send was delayed");
    assert_eq!(
        texts(store.as_ref(), id, "bob").await.len(),
        acknowledged.load(Ordering::SeqCst),
        "reads still work"
    );
    gate.open();
    sender.await.unwrap();
    assert_eq!(texts(store.as_ref(), id, "bob").await.len(), MESSAGES);
    assert_eq!(send(store.as_ref(), id, "bob", "after").await.unwrap().get(), MESSAGES as u64 + 1);
    store.close().await;
}
