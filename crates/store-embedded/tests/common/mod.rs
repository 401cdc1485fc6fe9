//! Helpers that the tests of this crate share.

#![allow(dead_code, reason = "each test binary uses a part of it")]

use std::path::Path;
use std::sync::Arc;

use bluetick_archive::ObjectArchive;
use bluetick_core::ports::{Append, Creation, NewConversation, Store};
use bluetick_core::{
    ContentType, ConversationId, PageFrom, PageLimit, PageRequest, Seq, StoreError, Timestamp, UserId,
};
use bluetick_store_embedded::StoreSettings;
use bluetick_store_embedded::log::DURABLE_FILE;
use object_store::memory::InMemory;
use tempfile::TempDir;

pub const NOW: Timestamp = Timestamp::from_millis(1_750_000_000_000);

/// Small segments and checkpoints, so that a short test sees many of both.
pub fn small(directory: &Path) -> StoreSettings {
    StoreSettings {
        data_dir: directory.to_owned(),
        segment_bytes: 4 << 20,
        checkpoint_bytes: 16 << 10,
        checkpoint_idle_seconds: 3600,
        awake_conversations: 4,
        ..StoreSettings::default()
    }
}

/// Copies the current files to a new directory.
pub fn copy_of(directory: &Path) -> TempDir {
    let copy = TempDir::new().unwrap();
    copy_into(directory, copy.path());
    copy
}

/// Skips files that a running store deletes during the copy.
pub fn copy_into(from: &Path, to: &Path) {
    let mut entries: Vec<_> = std::fs::read_dir(from).unwrap().flatten().collect();
    // Copy the tables and the durable note first: on a disk they may lag behind the log.
    entries.sort_by_key(|entry| ![DURABLE_FILE, "tables"].contains(&&*entry.file_name().to_string_lossy()));
    for entry in entries {
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            std::fs::create_dir_all(&target).unwrap();
            copy_into(&entry.path(), &target);
        } else {
            let _ = std::fs::copy(entry.path(), target);
        }
    }
}

/// Creates an archive in memory. Returns it with its object store.
pub fn memory_archive() -> (Arc<ObjectArchive>, Arc<InMemory>) {
    let objects = Arc::new(InMemory::new());
    (Arc::new(ObjectArchive::over(Arc::clone(&objects) as _, "test", 1 << 20)), objects)
}

pub fn user(name: &str) -> UserId {
    name.parse().unwrap()
}

pub async fn direct(store: &dyn Store, one: &str, other: &str) -> ConversationId {
    let id = ConversationId::direct(&user(one), &user(other));
    let creation = Creation::Direct { peer: user(other) };
    let new = NewConversation { id, creation, created_by: user(one), created_at: NOW };
    store.open_conversation(new).await.unwrap();
    id
}

/// Builds a message whose id follows from its content.
pub fn message(conversation: ConversationId, sender: &str, text: &str) -> Append {
    Append {
        conversation,
        sender: user(sender),
        message_id: text.replace(' ', "-").parse().unwrap(),
        content_type: ContentType::Text,
        content: text.into(),
        timestamp: NOW,
        received_at: NOW,
        retry_after: None,
        origin: None,
    }
}

pub async fn send(
    store: &dyn Store,
    id: ConversationId,
    sender: &str,
    text: &str,
) -> Result<Seq, StoreError> {
    send_as(store, id, sender, &text.replace(' ', "-"), text).await
}

pub async fn send_as(
    store: &dyn Store,
    id: ConversationId,
    sender: &str,
    message_id: &str,
    text: &str,
) -> Result<Seq, StoreError> {
    let append = Append { content: text.into(), ..message(id, sender, message_id) };
    store.append(append).await?.await.map(|appended| appended.seq)
}

/// Returns all texts of the conversation. Fails if a seq is missing or out of order.
pub async fn texts(store: &dyn Store, id: ConversationId, reader: &str) -> Vec<String> {
    let mut all = Vec::new();
    let mut after = Seq::ZERO;
    loop {
        let from = PageFrom::After(after);
        let request = PageRequest { conversation: id, reader: user(reader), from, limit: PageLimit::MAX };
        let page = store.page(request).await.unwrap();
        for message in page.messages {
            assert_eq!(message.seq.get() as usize, all.len() + 1, "dense");
            all.push(message.content.to_string());
        }
        match page.next_after {
            Some(next) => after = next,
            None => return all,
        }
    }
}
