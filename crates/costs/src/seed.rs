//! Creates conversations before the measured run.

use std::path::Path;
use std::sync::Arc;

use bluetick_core::ports::{Append, Creation, NewConversation, Store};
use bluetick_core::{ContentType, ConversationId, MessageId, Timestamp, UserId};
use tempfile::TempDir;

use crate::world::{open_store, runtime};

/// A fixed timestamp, which keeps the workload deterministic.
const THEN: Timestamp = Timestamp::from_millis(1_767_225_600_000);

/// A message text of typical length.
pub(crate) const TEXT: &str =
    "sounds good, see you at the station at five, the train is delayed again so do not hurry too much";

pub(crate) fn person(name: &str, number: usize) -> UserId {
    format!("{name}-{number:03}").parse().expect("the name is a valid user id")
}

/// Returns a UUIDv7 like a client's, whose last digits are `number`.
pub(crate) fn message_id(number: usize) -> MessageId {
    /// A UUIDv7 whose last digits are zero.
    const ZERO: u128 = 0x0199_c0de_0000_7000_8000_0000_0000_0000;
    MessageId::Uuid((ZERO | number as u128).to_be_bytes())
}

pub(crate) fn directory() -> TempDir {
    tempfile::tempdir().expect("a temporary directory can be created")
}

/// Creates the conversations in the store of `data_dir`, each with `messages` messages by its
/// creator. Then it closes the store, which moves all data from memory to the tables.
pub(crate) fn seed(data_dir: &Path, conversations: Vec<(ConversationId, UserId, Creation)>, messages: usize) {
    runtime().block_on(async {
        let store = open_store(data_dir, None);
        let mut waiting = Vec::new();
        for (id, created_by, creation) in conversations {
            let new = NewConversation { id, creation, created_by: created_by.clone(), created_at: THEN };
            store.open_conversation(new).await.expect("the store accepts the conversation");
            for number in 0..messages {
                waiting.push(
                    store.append(said(id, &created_by, number)).await.expect("the store accepts the message"),
                );
            }
        }
        for durable in waiting {
            durable.await.expect("the message is stored");
        }
        store.close().await;
    });
}

fn said(conversation: ConversationId, sender: &UserId, number: usize) -> Append {
    Append {
        conversation,
        sender: sender.clone(),
        message_id: message_id(number),
        content_type: ContentType::Text,
        content: Arc::from(format!("{number}: {TEXT}")),
        timestamp: THEN,
        received_at: THEN,
        retry_after: None,
        origin: None,
    }
}
