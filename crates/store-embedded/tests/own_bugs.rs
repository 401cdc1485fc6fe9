//! A panic on the commit path stops writes and keeps reads. Acknowledged messages stay.

#![expect(clippy::unwrap_used, reason = "a test may stop where its own set-up fails")]

mod common;

use std::sync::Arc;

use bluetick_core::StoreError;
use bluetick_core::ports::{CommitListener, Committed, Health, Store};
use bluetick_store_embedded::{EmbeddedStore, StoreParts};
use common::{copy_of, direct, send, small, texts};
use tempfile::TempDir;

/// A commit listener that panics on the message `panic`.
struct Fragile;

impl CommitListener for Fragile {
    fn committed(&self, batch: Vec<Committed>) {
        assert!(batch.iter().all(|heard| &*heard.message.content != "panic"), "injected panic");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn panic_on_commit_path_stops_writes_and_keeps_reads() {
    let directory = TempDir::new().unwrap();
    let parts = StoreParts { listener: Some(Arc::new(Fragile)), ..StoreParts::new(small(directory.path())) };
    let store = EmbeddedStore::open(parts).unwrap();
    let id = direct(&store, "alice", "bob").await;
    send(&store, id, "alice", "hello").await.unwrap();
    assert!(matches!(send(&store, id, "alice", "panic").await, Err(StoreError::Closing)));
    assert!(matches!(
        send(&store, id, "alice", "more").await,
        Err(StoreError::ReadOnly(_) | StoreError::Closing)
    ));
    assert!(matches!(store.health(), Health::ReadOnly(_)));
    assert_eq!(texts(&store, id, "bob").await[0], "hello");
    let image = copy_of(directory.path());
    store.close().await;
    let reopened = EmbeddedStore::open(StoreParts::new(small(image.path()))).unwrap();
    assert_eq!(
        texts(&reopened, id, "bob").await,
        ["hello", "panic"],
        "the message was durable although it was not acknowledged"
    );
}
