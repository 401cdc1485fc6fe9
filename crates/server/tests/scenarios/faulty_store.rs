//! The memory store with fault injection: calls that wait, refused writes, and reads that fail or
//! panic.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use async_trait::async_trait;
use bluetick_core::ports::{
    Accepted, AddMembers, Append, Health, Missed, NewConversation, OpenedConversation, Position, Receipt,
    RemoveMember, SetPreferences, Statuses, Store, UserUpdate,
};
use bluetick_core::{
    ConversationId, ConversationWithMembers, Epoch, InboxEntry, InboxPage, InboxRequest, NamePrefix, Page,
    PageRequest, Person, Profile, ProfileUpdate, ReadState, ReceiptCounts, Seq, StoreError, Timestamp, User,
    UserId,
};
use bluetick_server::Hub;
use bluetick_store_memory::MemoryStore;
use tokio::sync::watch;

use crate::harness::Setup;

#[derive(Clone, Default)]
pub struct FaultyStore {
    inner: Arc<OnceLock<MemoryStore>>,
    held: Arc<watch::Sender<bool>>,
    held_receipts: Arc<watch::Sender<bool>>,
    held_pages: Arc<watch::Sender<bool>>,
    held_updates: Arc<watch::Sender<bool>>,
    held_repeated_user_reads: Arc<watch::Sender<bool>>,
    read_users: Arc<Mutex<HashSet<UserId>>>,
    /// Number of reads of a user that was read before.
    pub repeated_user_reads: Arc<AtomicUsize>,
    /// Number of user updates.
    pub updates: Arc<AtomicUsize>,
    pub appends: Arc<AtomicUsize>,
    pub receipts: Arc<AtomicUsize>,
    pub pages_fail: Arc<AtomicBool>,
    pub profiles_fail: Arc<AtomicBool>,
    /// Number of profile reads.
    pub profiles: Arc<AtomicUsize>,
    pub read_only: Arc<AtomicBool>,
    pub pages_panic: Arc<AtomicBool>,
    pub appends_panic: Arc<AtomicBool>,
    /// Appends are stored, and their answers are lost.
    pub answers_are_lost: Arc<AtomicBool>,
    pub closed: Arc<AtomicBool>,
}

impl FaultyStore {
    pub fn setup(&self) -> Setup {
        let faulty = self.clone();
        let store = move |hub: Arc<Hub>| {
            assert!(faulty.inner.set(MemoryStore::with_listener(hub)).is_ok());
            Arc::new(faulty) as Arc<dyn Store>
        };
        Setup { store: Box::new(store), ..Setup::default() }
    }

    /// While held, appends wait.
    pub fn hold_appends(&self, held: bool) {
        self.held.send_replace(held);
    }

    /// While held, receipts wait.
    pub fn hold_receipts(&self, held: bool) {
        self.held_receipts.send_replace(held);
    }

    /// While held, history pages wait.
    pub fn hold_pages(&self, held: bool) {
        self.held_pages.send_replace(held);
    }

    /// While held, user updates wait.
    pub fn hold_updates(&self, held: bool) {
        self.held_updates.send_replace(held);
    }

    /// While held, the second and later reads of the same user wait.
    pub fn hold_repeated_user_reads(&self, held: bool) {
        self.held_repeated_user_reads.send_replace(held);
    }

    fn inner(&self) -> &MemoryStore {
        self.inner.get().unwrap()
    }
}

#[async_trait]
impl Store for FaultyStore {
    async fn create_user(&self, user: User) -> Result<(), StoreError> {
        self.inner().create_user(user).await
    }

    async fn reserve_name(&self, id: UserId, at: Timestamp) -> Result<(), StoreError> {
        self.inner().reserve_name(id, at).await
    }

    async fn update_user(&self, update: UserUpdate) -> Result<(), StoreError> {
        self.updates.fetch_add(1, Ordering::SeqCst);
        let _ = self.held_updates.subscribe().wait_for(|held| !held).await;
        self.inner().update_user(update).await
    }

    async fn user(&self, id: &UserId) -> Result<Option<User>, StoreError> {
        if !self.read_users.lock().unwrap().insert(id.clone()) {
            self.repeated_user_reads.fetch_add(1, Ordering::SeqCst);
            let _ = self.held_repeated_user_reads.subscribe().wait_for(|held| !held).await;
        }
        self.inner().user(id).await
    }

    async fn people(&self, ids: Vec<UserId>) -> Result<Vec<Person>, StoreError> {
        self.inner().people(ids).await
    }

    async fn find_people(&self, prefix: &NamePrefix, limit: usize) -> Result<Vec<Person>, StoreError> {
        self.inner().find_people(prefix, limit).await
    }

    async fn open_conversation(&self, new: NewConversation) -> Result<OpenedConversation, StoreError> {
        self.inner().open_conversation(new).await
    }

    async fn conversation(
        &self,
        id: ConversationId,
        reader: &UserId,
    ) -> Result<ConversationWithMembers, StoreError> {
        self.inner().conversation(id, reader).await
    }

    async fn add_members(&self, add: AddMembers) -> Result<ConversationWithMembers, StoreError> {
        self.inner().add_members(add).await
    }

    async fn remove_member(&self, remove: RemoveMember) -> Result<ConversationWithMembers, StoreError> {
        self.inner().remove_member(remove).await
    }

    async fn append(&self, append: Append) -> Result<Accepted, StoreError> {
        if self.read_only.load(Ordering::SeqCst) {
            return Err(StoreError::ReadOnly("no space left on /secret/path".into()));
        }
        assert!(!self.appends_panic.load(Ordering::SeqCst), "rigged to panic");
        self.appends.fetch_add(1, Ordering::SeqCst);
        let store = self.clone();
        let stored = async move {
            store.held.subscribe().wait_for(|held| !held).await.unwrap();
            let stored = store.inner().append(append).await?.await;
            match store.answers_are_lost.load(Ordering::SeqCst) {
                true => Err(StoreError::NoAnswer("rigged at /secret/address".into())),
                false => stored,
            }
        };
        // As in a real store, dropping the outcome does not remove the message.
        let stored = tokio::spawn(stored);
        Ok(Box::pin(async move { stored.await.unwrap() }))
    }

    async fn page(&self, request: PageRequest) -> Result<Page, StoreError> {
        assert!(!self.pages_panic.load(Ordering::SeqCst), "rigged to panic");
        if self.answers_are_lost.load(Ordering::SeqCst) {
            return Err(StoreError::NoAnswer("rigged at /secret/address".into()));
        }
        if self.pages_fail.load(Ordering::SeqCst) {
            return Err(StoreError::Failed("rigged to fail".into()));
        }
        self.held_pages.subscribe().wait_for(|held| !held).await.unwrap();
        self.inner().page(request).await
    }

    async fn apply_receipt(&self, receipt: Receipt) -> Result<ReadState, StoreError> {
        self.receipts.fetch_add(1, Ordering::SeqCst);
        self.held_receipts.subscribe().wait_for(|held| !held).await.unwrap();
        self.inner().apply_receipt(receipt).await
    }

    async fn statuses(&self, id: ConversationId, reader: &UserId) -> Result<Statuses, StoreError> {
        self.inner().statuses(id, reader).await
    }

    async fn receipt_counts(
        &self,
        id: ConversationId,
        reader: &UserId,
        seq: Seq,
    ) -> Result<ReceiptCounts, StoreError> {
        self.inner().receipt_counts(id, reader, seq).await
    }

    async fn set_preferences(&self, prefer: SetPreferences) -> Result<InboxEntry, StoreError> {
        self.inner().set_preferences(prefer).await
    }

    async fn inbox(&self, request: InboxRequest) -> Result<InboxPage, StoreError> {
        self.inner().inbox(request).await
    }

    async fn is_member(&self, user: &UserId) -> Result<bool, StoreError> {
        self.inner().is_member(user).await
    }

    async fn inbox_entry(&self, id: ConversationId, reader: &UserId) -> Result<InboxEntry, StoreError> {
        self.inner().inbox_entry(id, reader).await
    }

    async fn behind(&self, user: &UserId, positions: Vec<Position>) -> Result<Missed, StoreError> {
        self.inner().behind(user, positions).await
    }

    async fn profile(&self, user: &UserId) -> Result<Profile, StoreError> {
        self.profiles.fetch_add(1, Ordering::SeqCst);
        if self.profiles_fail.load(Ordering::SeqCst) {
            return Err(StoreError::NoAnswer("the tables are away".into()));
        }
        self.inner().profile(user).await
    }

    async fn update_profile(&self, update: ProfileUpdate) -> Result<Profile, StoreError> {
        self.inner().update_profile(update).await
    }

    fn epoch(&self) -> Epoch {
        self.inner().epoch()
    }

    fn health(&self) -> Health {
        match self.read_only.load(Ordering::SeqCst) {
            true => Health::ReadOnly("no space left".into()),
            false => Health::Writable,
        }
    }

    async fn close(&self) {
        self.closed.store(true, Ordering::SeqCst);
        self.inner().close().await;
    }
}
