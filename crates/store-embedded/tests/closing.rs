//! Closing completes the accepted writes and limits its wait for the tables.

#![expect(clippy::unwrap_used, reason = "a test may stop where its own set-up fails")]

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bluetick_core::ports::Store;
use bluetick_store_embedded::checkpoint::CheckpointStep;
use bluetick_store_embedded::{EmbeddedStore, StoreParts, StoreSettings};
use common::{direct, send, small, texts};
use tempfile::TempDir;

#[tokio::test(flavor = "multi_thread")]
async fn close_abandons_a_slow_checkpoint_and_next_start_replays() {
    let directory = TempDir::new().unwrap();
    // Disable checkpoints before the close.
    let settings = StoreSettings { checkpoint_bytes: 1 << 30, ..small(directory.path()) };
    let mut parts = StoreParts::new(settings);
    let slow = Arc::new(AtomicBool::new(true));
    let still_slow = Arc::clone(&slow);
    // Each transaction takes a second, as on a slow disk.
    parts.on_checkpoint_step = Arc::new(move |step| {
        if step == CheckpointStep::RoomsWritten && still_slow.load(Ordering::SeqCst) {
            std::thread::sleep(Duration::from_secs(1));
        }
    });
    let store = EmbeddedStore::open(parts).unwrap();
    let mut ids = Vec::new();
    // Incompressible messages for more than two dozen transactions.
    let mut state = 88_172_645_463_325_252_u64;
    for number in 0..60 {
        let id = direct(&store, "alice", &format!("bob{number}")).await;
        let noise: String = (0..60_000)
            .map(|_| {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                char::from(b'!' + (state % 90) as u8)
            })
            .collect();
        for part in 0..20 {
            common::send_as(&store, id, "alice", &format!("m{part}"), &format!("{part}{noise}"))
                .await
                .unwrap();
        }
        ids.push(id);
    }
    let closing = std::time::Instant::now();
    store.close().await;
    drop(store);
    // The close waits four seconds twice, each followed by one transaction. The rest is for a busy
    // machine.
    assert!(closing.elapsed() < Duration::from_secs(60), "closing took {:?}", closing.elapsed());
    slow.store(false, Ordering::SeqCst);
    let store = EmbeddedStore::open(StoreParts::new(small(directory.path()))).unwrap();
    for id in ids {
        assert_eq!(texts(&store, id, "alice").await.len(), 20);
        assert_eq!(send(&store, id, "alice", "after").await.unwrap().get(), 21);
    }
}
