//! Shared by the archive tests: a store with an archive that a test can kill at any step.

#![allow(dead_code, reason = "each test binary uses a part of it")]

#[path = "../common/mod.rs"]
pub mod common;
pub mod faulty;

use std::sync::{Arc, Mutex};

use bluetick_archive::{ArchiveSettings, ObjectArchive};
use bluetick_core::ports::{
    Append, Archive, ArchiveError, ArchiveRun, Creation, Erase, EraseReport, EraseScope, NewConversation,
    NoProgress, RestoreReport, RunReport, Store,
};
use bluetick_core::time::{Clock, ManualClock};
use bluetick_core::{
    ContentType, ConversationId, Message, Page, PageFrom, PageLimit, PageRequest, Seq, StoreError, Timestamp,
};
use bluetick_store_embedded::archive::ArchiveStep;
use bluetick_store_embedded::{EmbeddedStore, StoreParts, StoreSettings};
use common::{NOW, copy_of, message, small, user};
use futures_util::TryStreamExt;
use object_store::memory::InMemory;
use object_store::{ObjectStore, ObjectStoreExt};
use tempfile::TempDir;

/// One day after the `received_at` of messages that [`common::message`] builds.
pub const LATER: Timestamp = NOW.plus_millis(24 * 3600 * 1000);

/// Settings that move messages older than an hour, in segments of about 100.
pub fn eager() -> ArchiveSettings {
    ArchiveSettings {
        age_seconds: 3600,
        patience_seconds: 0,
        segment_messages: 100,
        messages_per_second: 0,
        ..ArchiveSettings::default()
    }
}

/// Stops a job when it reaches a step for the `n`-th time.
#[derive(Default)]
pub struct Brake(Mutex<Option<(ArchiveStep, usize)>>);

impl Brake {
    pub fn set(&self, step: ArchiveStep, after: usize) {
        *self.0.lock().unwrap() = Some((step, after));
    }

    /// Returns whether the brake stopped a job, and releases the brake.
    pub fn release(&self) -> bool {
        self.0.lock().unwrap().take().is_some_and(|(_, left)| left == 0)
    }

    fn goes_on(&self, step: ArchiveStep) -> bool {
        let mut set = self.0.lock().unwrap();
        match &mut *set {
            Some((at, left)) if *at == step => {
                *left = left.saturating_sub(1);
                *left > 0
            }
            _ => true,
        }
    }
}

pub struct Kit {
    pub store: Arc<EmbeddedStore>,
    pub clock: Arc<ManualClock>,
    pub object_archive: Option<Arc<ObjectArchive>>,
    pub settings: ArchiveSettings,
    pub brake: Arc<Brake>,
    pub directory: TempDir,
}

impl Kit {
    pub fn over(objects: Arc<dyn ObjectStore>, settings: ArchiveSettings) -> Kit {
        let object_archive = ObjectArchive::over(objects, "test", settings.cache_bytes);
        let clock = Arc::new(ManualClock::at(LATER));
        Kit::open(TempDir::new().unwrap(), clock, Some(Arc::new(object_archive)), settings)
    }

    pub fn in_memory(settings: ArchiveSettings) -> (Kit, Arc<InMemory>) {
        let objects = Arc::new(InMemory::new());
        (Kit::over(Arc::clone(&objects) as _, settings), objects)
    }

    pub fn open(
        directory: TempDir,
        clock: Arc<ManualClock>,
        object_archive: Option<Arc<ObjectArchive>>,
        settings: ArchiveSettings,
    ) -> Kit {
        let store = small(directory.path());
        Kit::open_as(directory, clock, object_archive, settings, store)
    }

    pub fn open_as(
        directory: TempDir,
        clock: Arc<ManualClock>,
        object_archive: Option<Arc<ObjectArchive>>,
        settings: ArchiveSettings,
        store: StoreSettings,
    ) -> Kit {
        let brake = Arc::new(Brake::default());
        let on_step = Arc::clone(&brake);
        let parts = StoreParts {
            clock: Arc::clone(&clock) as _,
            object_archive: object_archive.clone(),
            archive: settings.clone(),
            on_archive_step: Arc::new(move |step| on_step.goes_on(step)),
            ..StoreParts::new(store)
        };
        let store = Arc::new(EmbeddedStore::open(parts).unwrap());
        Kit { store, clock, object_archive, settings, brake, directory }
    }

    /// Reopens a copy of the files, as after a kill, with the same objects.
    pub fn crash(self) -> Kit {
        let copy = copy_of(self.directory.path());
        let Kit { store, clock, object_archive, settings, directory, .. } = self;
        drop(store);
        drop(directory);
        Kit::open(copy, clock, object_archive, settings)
    }

    pub async fn reopen(self, object_archive: Option<Arc<ObjectArchive>>, settings: ArchiveSettings) -> Kit {
        self.store.close().await;
        let Kit { store, clock, directory, .. } = self;
        drop(store);
        Kit::open(directory, clock, object_archive, settings)
    }

    /// Archives all old messages, also those that do not fill a segment.
    pub async fn run(&self) -> Result<RunReport, ArchiveError> {
        self.store.run(ArchiveRun { only: None, partial: true }, Arc::new(NoProgress)).await
    }

    pub async fn run_whole_segments(&self) -> Result<RunReport, ArchiveError> {
        self.store.run(ArchiveRun::default(), Arc::new(NoProgress)).await
    }

    pub async fn run_only(&self, id: ConversationId) -> Result<RunReport, ArchiveError> {
        self.store.run(ArchiveRun { only: Some(id), partial: true }, Arc::new(NoProgress)).await
    }

    pub async fn restore(&self, id: ConversationId) -> Result<RestoreReport, ArchiveError> {
        self.store.restore(Some(id), Arc::new(NoProgress)).await
    }

    pub async fn restore_all(&self) -> Result<RestoreReport, ArchiveError> {
        self.store.restore(None, Arc::new(NoProgress)).await
    }

    pub async fn erase(&self, scope: EraseScope, through: Option<u64>) -> Result<EraseReport, ArchiveError> {
        self.store.erase(Erase { scope, through: through.map(Seq::new) }, Arc::new(NoProgress)).await
    }

    pub async fn problems(&self) -> Vec<String> {
        self.store.verify(Arc::new(NoProgress)).await.unwrap().problems
    }

    pub async fn cold_messages(&self) -> u64 {
        self.store.status().await.unwrap().cold.messages
    }

    /// Sends a message received at the current time of the clock, unlike [`common::send`].
    pub async fn send_now(&self, id: ConversationId, sender: &str, text: &str) -> Seq {
        let append = Append { received_at: self.clock.now(), ..message(id, sender, text) };
        self.store.append(append).await.unwrap().await.unwrap().seq
    }

    pub async fn send_many(&self, id: ConversationId, sender: &str, texts: impl IntoIterator<Item = String>) {
        send_many(&*self.store, id, sender, NOW, texts).await;
    }

    /// Asserts that the counts, the objects and the references in the rows agree.
    pub async fn assert_exact(&self, objects: &dyn ObjectStore) {
        let report = self.store.verify(Arc::new(NoProgress)).await.unwrap();
        assert_eq!(report.problems, Vec::<String>::new());
        let status = self.store.status().await.unwrap();
        assert_eq!(status.cold, report.checked, "counted once, and summed up");
        let all = segments(objects).await;
        let names: Vec<_> = all.iter().map(|object| object.location.to_string()).collect();
        assert_eq!(all.len() as u64, status.cold.segments, "no object is left over: {names:?}");
        assert_eq!(all.iter().map(|object| object.size).sum::<u64>(), status.cold.bytes);
        assert_eq!(status.unfinished_erasures, 0);
    }
}

/// Sends messages concurrently, without waiting for each answer.
pub async fn send_many(
    store: &dyn Store,
    id: ConversationId,
    sender: &str,
    at: Timestamp,
    texts: impl IntoIterator<Item = String>,
) {
    let mut accepted = Vec::new();
    for text in texts {
        let message_id = format!("{sender}-{}", &text[..text.floor_char_boundary(40)]).replace(' ', "-");
        let append = Append {
            message_id: message_id.parse().unwrap(),
            content: text.as_str().into(),
            received_at: at,
            ..message(id, sender, "x")
        };
        accepted.push(store.append(append).await.unwrap());
    }
    for answer in accepted {
        answer.await.unwrap();
    }
}

pub fn numbered(word: &str, range: std::ops::RangeInclusive<u64>) -> Vec<String> {
    range.map(|number| format!("{word} {number}")).collect()
}

pub async fn group(store: &dyn Store, number: u8, owner: &str, others: &[&str]) -> ConversationId {
    let id = ConversationId::group([number; 15]);
    let members = others.iter().map(|name| user(name)).collect();
    let creation = Creation::Group { title: "Tea".parse().unwrap(), members };
    let new = NewConversation { id, creation, created_by: user(owner), created_at: NOW };
    store.open_conversation(new).await.unwrap();
    id
}

pub fn request(id: ConversationId, reader: &str, from: PageFrom, limit: i64) -> PageRequest {
    let limit = PageLimit::try_from(limit).unwrap();
    PageRequest { conversation: id, reader: user(reader), from, limit }
}

pub async fn page(
    store: &dyn Store,
    id: ConversationId,
    reader: &str,
    from: PageFrom,
    limit: i64,
) -> Result<Page, StoreError> {
    store.page(request(id, reader, from, limit)).await
}

/// Returns the whole conversation, oldest message first.
pub async fn history(store: &dyn Store, id: ConversationId, reader: &str) -> Vec<Message> {
    let (mut all, mut after) = (Vec::<Message>::new(), Seq::ZERO);
    loop {
        let page = page(store, id, reader, PageFrom::After(after), 100).await.unwrap();
        for message in page.messages {
            assert!(all.last().is_none_or(|last| last.seq.next() == message.seq), "dense");
            all.push(message);
        }
        match page.next_after {
            Some(next) => after = next,
            None => return all,
        }
    }
}

pub fn lost_places(messages: &[Message]) -> Vec<u64> {
    let lost = messages.iter().filter(|message| message.content_type == ContentType::Lost);
    lost.map(|message| message.seq.get()).collect()
}

/// Returns all objects except the marker.
async fn segments(objects: &dyn ObjectStore) -> Vec<object_store::ObjectMeta> {
    let mut all: Vec<_> = objects.list(None).try_collect().await.unwrap();
    all.retain(|object| object.location.filename() != Some("ARCHIVE.txt"));
    all
}

pub async fn paths(objects: &dyn ObjectStore) -> Vec<object_store::path::Path> {
    let all = segments(objects).await;
    let mut paths: Vec<_> = all.into_iter().map(|object| object.location).collect();
    paths.sort();
    paths
}

pub async fn bytes_of(objects: &dyn ObjectStore, path: &object_store::path::Path) -> bytes::Bytes {
    objects.get(path).await.unwrap().bytes().await.unwrap()
}
