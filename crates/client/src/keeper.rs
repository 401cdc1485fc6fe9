//! The task that writes. Batches that wait together are written together, so that many messages cost one sync.

use std::sync::Arc;

use bluetick_core::MessageId;
use tokio::sync::{mpsc, oneshot};

use crate::shared::Shared;
use crate::storage::{Change, Storage, StorageError};

/// How many batches may wait; who has more waits before it writes.
pub const QUEUE: usize = 256;

/// Changes, and messages that may be sent once the changes are kept.
#[derive(Default)]
pub struct Batch {
    pub changes: Vec<Change>,
    pub outgoing: Vec<MessageId>,
    pub done: Option<oneshot::Sender<()>>,
}

pub enum Order {
    Write(Batch),
    /// Write what came before, then end.
    Close,
    /// Remove everything, then end.
    Wipe,
}

/// Runs until it is closed. A storage that fails is left alone: the client goes on in memory and says so once.
pub async fn keep(
    mut orders: mpsc::Receiver<Order>,
    mut storage: Option<Box<dyn Storage>>,
    shared: Arc<Shared>,
) {
    let (mut closing, mut wiping) = (false, false);
    while !closing {
        let Some(first) = orders.recv().await else { return };
        let mut written = Batch::default();
        let mut done = Vec::new();
        let mut next = Some(first);
        while let Some(order) = next {
            match order {
                Order::Write(batch) => {
                    written.changes.extend(batch.changes);
                    written.outgoing.extend(batch.outgoing);
                    done.extend(batch.done);
                }
                Order::Close => closing = true,
                Order::Wipe => (closing, wiping) = (true, true),
            }
            next = if closing { None } else { orders.try_recv().ok() };
        }
        if let Some(used) = storage.take() {
            storage = write(used, written.changes, wiping, &shared).await;
        }
        shared.change(|state| written.outgoing.iter().for_each(|id| state.outbox.kept(id)));
        // Whoever does not wait any more need not hear of it.
        for done in done {
            let _heard = done.send(());
        }
    }
}

/// Gives the storage back unless it failed.
async fn write(
    mut storage: Box<dyn Storage>,
    changes: Vec<Change>,
    wiping: bool,
    shared: &Shared,
) -> Option<Box<dyn Storage>> {
    if changes.is_empty() && !wiping {
        return Some(storage);
    }
    let writing = tokio::task::spawn_blocking(move || {
        let written = if wiping { wipe(storage.as_mut()) } else { storage.apply(&changes) };
        (written, storage)
    });
    let problem = match writing.await {
        Ok((Ok(()), storage)) => return Some(storage),
        Ok((Err(error), _)) => error.to_string(),
        Err(_) => "the storage failed".to_owned(),
    };
    shared.trouble(format!("{problem}; what is not sent yet would be lost if this program ended"));
    None
}

fn wipe(storage: &mut dyn Storage) -> Result<(), StorageError> {
    let all: Vec<Change> = storage.load()?.into_iter().map(|(key, _)| Change::remove(key)).collect();
    storage.apply(&all)
}
