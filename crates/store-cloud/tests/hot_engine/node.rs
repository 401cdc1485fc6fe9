//! A node on tables in memory.

use std::sync::Arc;

use bluetick_archive::ArchiveSettings;
use bluetick_core::ports::{Append, Appended, Creation, NewConversation, NoListener, Store};
use bluetick_core::time::{Clock, SystemClock};
use bluetick_core::{
    ContentType, ConversationId, Epoch, PageFrom, PageLimit, PageRequest, StoreError, UserId,
};
use bluetick_store_cloud::hints::memory::MemoryHints;
use bluetick_store_cloud::neighbours::memory::Street;
use bluetick_store_cloud::rows::Rows;
use bluetick_store_cloud::{CloudParts, CloudStore, EngineSettings, NodeId};

pub fn user(name: &str) -> UserId {
    name.parse().unwrap()
}

#[derive(Clone)]
pub struct Node {
    pub store: Arc<CloudStore>,
}

impl Node {
    pub fn on(rows: Arc<dyn Rows>, hints: &MemoryHints, settings: EngineSettings) -> Node {
        let street = Street::default();
        let node = NodeId::new("node");
        let store = CloudStore::open(CloudParts {
            rows,
            hints: Arc::new(hints.clone()),
            neighbours: Arc::new(street.move_in(node.clone())),
            node,
            listener: Arc::new(NoListener),
            clock: Arc::new(SystemClock),
            epoch: Epoch::FIRST,
            settings,
            object_archive: None,
            archive: ArchiveSettings::default(),
        });
        Node { store: Arc::new(store) }
    }

    pub async fn group(&self, creator: &str, others: &[String]) -> ConversationId {
        let id = ConversationId::group([7; 15]);
        let members = others.iter().map(|name| user(name)).collect();
        let creation = Creation::Group { title: "Tea".parse().unwrap(), members };
        let new = NewConversation { id, creation, created_by: user(creator), created_at: SystemClock.now() };
        self.store.open_conversation(new).await.unwrap();
        id
    }

    pub async fn send(&self, id: ConversationId, sender: &str, text: &str) -> Result<Appended, StoreError> {
        let append = Append {
            conversation: id,
            sender: user(sender),
            message_id: text.parse().unwrap(),
            content_type: ContentType::Text,
            content: text.into(),
            timestamp: SystemClock.now(),
            received_at: SystemClock.now(),
            retry_after: None,
            origin: None,
        };
        self.store.append(append).await?.await
    }

    pub async fn page(&self, id: ConversationId, reader: &str, from: PageFrom) -> Vec<u64> {
        let request = PageRequest { conversation: id, reader: user(reader), from, limit: PageLimit::MAX };
        let page = self.store.page(request).await.unwrap();
        page.messages.iter().map(|message| message.seq.get()).collect()
    }
}
