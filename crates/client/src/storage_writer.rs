//! The storage writer: the task that writes to the storage. It merges queued batches into one
//! write, so that many messages cost one sync.

use std::sync::Arc;

use bluetick_types::MessageId;
use tokio::sync::{mpsc, oneshot};

use crate::shared::Shared;
use crate::storage::{Change, Storage, StorageError};

/// Capacity of the storage writer's queue, in orders. Senders wait while it is full, so a smaller
/// value delays `send` on a slow disk.
pub const QUEUE: usize = 256;

/// Storage changes, and the messages that may be sent once the changes are stored.
#[derive(Default)]
pub struct StorageBatch {
    pub changes: Vec<Change>,
    pub outgoing: Vec<MessageId>,
    /// Signalled once the batch is written, or once the storage has failed.
    pub done: Option<oneshot::Sender<()>>,
}

/// A command for the storage writer.
pub enum Order {
    Write(StorageBatch),
    /// Write the earlier batches, then end.
    Close,
    /// Remove every entry from the storage, then end. Batches merged with this order are not
    /// written.
    Wipe,
}

/// Runs until `Close`, `Wipe`, or the end of all senders.
///
/// If the storage fails, publishes one `Event::Trouble`, stops using the storage, and keeps
/// releasing messages for sending.
pub async fn keep(
    mut orders: mpsc::Receiver<Order>,
    mut storage: Option<Box<dyn Storage>>,
    shared: Arc<Shared>,
) {
    let (mut closing, mut wiping) = (false, false);
    while !closing {
        let Some(first) = orders.recv().await else { return };
        let mut written = StorageBatch::default();
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
        // A caller that dropped its future does not wait for the result.
        for done in done {
            let _heard = done.send(());
        }
    }
}

/// Applies the changes on a blocking thread. Returns the storage, or `None` if it failed or
/// panicked.
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
    shared.trouble(format!("{problem}; unsent messages are lost if this program ends"));
    None
}

fn wipe(storage: &mut dyn Storage) -> Result<(), StorageError> {
    let all: Vec<Change> = storage.load()?.into_iter().map(|(key, _)| Change::remove(key)).collect();
    storage.apply(&all)
}
