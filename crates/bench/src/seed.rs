//! Fills a store with conversations before a measurement.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::Arc;

use bluetick_core::ports::{Append, Creation, NewConversation, Store};
use bluetick_core::time::{Clock, SystemClock};
use bluetick_core::{ContentType, ConversationId, MessageId, StoreError, UserId};
use bluetick_store_embedded::{EmbeddedStore, StoreParts, StoreSettings};
use tokio::task::JoinSet;

use crate::BenchError;
use crate::error::settle;
use crate::workload::Dice;

/// Upper bound on conversations that are filled concurrently.
const IN_FLIGHT: usize = 4_096;
/// Upper bound on unacknowledged messages per conversation. `IN_FLIGHT` times this must fit into
/// the store's queue.
const WINDOW: usize = 8;

pub fn open(directory: &Path) -> Result<Arc<EmbeddedStore>, BenchError> {
    let settings = StoreSettings { data_dir: directory.to_owned(), ..StoreSettings::default() };
    Ok(Arc::new(EmbeddedStore::open(StoreParts::new(settings))?))
}

pub fn person(name: &str, number: usize) -> UserId {
    format!("{name}-{number:06}").parse().expect("a short name")
}

/// A direct conversation with `messages` messages from one user to the other.
#[derive(Clone)]
pub struct SeededChat {
    pub from: UserId,
    pub to: UserId,
    pub messages: usize,
}

/// Returns the text of a message by its number.
pub type Texts = Arc<dyn Fn(usize) -> Arc<str> + Send + Sync>;

/// Returns the same text for every message.
pub fn always(text: &str) -> Texts {
    let text: Arc<str> = text.into();
    Arc::new(move |_| Arc::clone(&text))
}

/// Creates the conversations and stores their messages, many concurrently.
pub async fn fill(
    store: &Arc<EmbeddedStore>,
    chats: impl Iterator<Item = SeededChat>,
    texts: &Texts,
) -> Result<(), BenchError> {
    let mut filling = JoinSet::new();
    for chat in chats {
        let (store, texts) = (Arc::clone(store), Arc::clone(texts));
        filling.spawn(async move { fill_one(&store, chat, texts).await });
        if filling.len() >= IN_FLIGHT {
            settle(filling.join_next().await)?;
        }
    }
    while let Some(filled) = filling.join_next().await {
        settle(Some(filled))?;
    }
    Ok(())
}

async fn fill_one(store: &EmbeddedStore, chat: SeededChat, texts: Texts) -> Result<(), StoreError> {
    let id = ConversationId::direct(&chat.from, &chat.to);
    let creation = Creation::Direct { peer: chat.to };
    let (created_by, created_at) = (chat.from.clone(), SystemClock.now());
    store.open_conversation(NewConversation { id, creation, created_by, created_at }).await?;
    let mut accepted = VecDeque::with_capacity(WINDOW);
    for number in 0..chat.messages {
        let now = SystemClock.now();
        // Build an id like a client's UUIDv7: 48 bits of time and pseudo-random bits. Random bits
        // keep the ids as incompressible as real ones.
        let mut uuid = [0; 16];
        uuid[..6].copy_from_slice(&now.millis().to_be_bytes()[2..]);
        let seed = number as u64 ^ u64::from_le_bytes(id.as_bytes()[..8].try_into().expect("8 of 16 bytes"));
        let random = Dice::new(seed).next();
        uuid[6..14].copy_from_slice(&random.to_be_bytes());
        uuid[14..].copy_from_slice(&(number as u16).to_be_bytes());
        let append = Append {
            conversation: id,
            sender: chat.from.clone(),
            message_id: MessageId::Uuid(uuid),
            content_type: ContentType::Text,
            content: texts(number),
            timestamp: now,
            received_at: now,
            retry_after: None,
            origin: None,
        };
        accepted.push_back(store.append(append).await?);
        if accepted.len() >= WINDOW
            && let Some(oldest) = accepted.pop_front()
        {
            oldest.await?;
        }
    }
    for outcome in accepted {
        outcome.await?;
    }
    Ok(())
}
