//! Bugs in the answers of the store.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use bluetick_core::ports::{
    Accepted, AddMembers, Append, Appended, Health, Missed, NewConversation, OpenedConversation, Position,
    Receipt, RemoveMember, SetPreferences, Statuses, Store, UserUpdate,
};
use bluetick_core::{
    ConversationId, ConversationWithMembers, Epoch, InboxEntry, InboxPage, InboxRequest, NamePrefix, Page,
    PageRequest, Person, Profile, ProfileUpdate, ReadState, ReceiptCounts, Refusal, Revocations, Seq,
    StoreError, Timestamp, User, UserId,
};
use parking_lot::Mutex;

use super::PlantedBug;

pub struct RiggedStore {
    plant: PlantedBug,
    store: Arc<dyn Store>,
    asked: AtomicU64,
    /// A user who may read the conversation.
    readers: Mutex<BTreeMap<ConversationId, UserId>>,
    /// Receipts above the head, by conversation and user.
    boasts: Mutex<BTreeMap<(ConversationId, UserId), Seq>>,
}

/// Every `SELDOM`-th call goes wrong, so that a run makes progress first.
const SELDOM: u64 = 12;

impl RiggedStore {
    pub fn new(plant: PlantedBug, store: Arc<dyn Store>) -> RiggedStore {
        let asked = AtomicU64::new(0);
        RiggedStore { plant, store, asked, readers: Mutex::default(), boasts: Mutex::default() }
    }

    fn goes_wrong(&self, plant: PlantedBug) -> bool {
        self.plant == plant && self.asked.fetch_add(1, Ordering::SeqCst) % SELDOM == SELDOM - 1
    }
}

#[async_trait]
impl Store for RiggedStore {
    async fn append(&self, append: Append) -> Result<Accepted, StoreError> {
        let received_at = append.received_at;
        let accepted = self.store.append(append).await;
        let reused = self.goes_wrong(PlantedBug::SeqReused);
        let is_taken = self.plant == PlantedBug::ConflictTaken;
        let take = move |refused| match refused {
            StoreError::Refused(Refusal::MessageIdReused { first_seq }) if is_taken => {
                Ok(Appended { seq: first_seq, received_at, duplicate: true })
            }
            error => Err(error),
        };
        let accepted = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                let taken = take(error)?;
                return Ok(Box::pin(async move { Ok(taken) }));
            }
        };
        Ok(Box::pin(async move {
            let appended = accepted.await.or_else(take)?;
            let seq =
                if reused && appended.seq > Seq::FIRST { appended.seq.previous() } else { appended.seq };
            Ok(Appended { seq, ..appended })
        }))
    }

    async fn page(&self, request: PageRequest) -> Result<Page, StoreError> {
        let (id, reader) = (request.conversation, request.reader.clone());
        let page = self.store.page(request.clone()).await;
        let mut readers = self.readers.lock().clone();
        match page {
            Err(StoreError::Refused(Refusal::NotAMember)) if self.plant == PlantedBug::PageForAnybody => {
                let Some(reader) = readers.remove(&id) else { return page };
                self.store.page(PageRequest { reader, ..request }).await
            }
            page => {
                if page.is_ok() {
                    self.readers.lock().insert(id, reader);
                }
                page
            }
        }
    }

    async fn inbox(&self, request: InboxRequest) -> Result<InboxPage, StoreError> {
        let mut page = self.store.inbox(request).await?;
        for entry in &mut page.entries {
            if self.goes_wrong(PlantedBug::UnreadOffByOne) {
                entry.unread += 1;
            }
        }
        Ok(page)
    }

    async fn behind(&self, user: &UserId, positions: Vec<Position>) -> Result<Missed, StoreError> {
        let named: Vec<_> = positions.iter().map(|position| position.conversation).collect();
        let mut missed = self.store.behind(user, positions).await?;
        if self.plant == PlantedBug::BeginningLost {
            let new = missed.behind.iter_mut().filter(|behind| !named.contains(&behind.conversation));
            new.filter(|behind| behind.after == Seq::ZERO).for_each(|behind| behind.after = Seq::FIRST);
            missed.behind.retain(|behind| behind.after < behind.head);
        }
        if !missed.behind.is_empty() && self.goes_wrong(PlantedBug::MissedPending) {
            missed.behind.pop();
        }
        Ok(missed)
    }

    async fn create_user(&self, user: User) -> Result<(), StoreError> {
        self.store.create_user(user).await
    }

    async fn reserve_name(&self, id: UserId, at: Timestamp) -> Result<(), StoreError> {
        self.store.reserve_name(id, at).await
    }

    async fn update_user(&self, update: UserUpdate) -> Result<(), StoreError> {
        self.store.update_user(update).await
    }

    async fn user(&self, id: &UserId) -> Result<Option<User>, StoreError> {
        self.store.user(id).await
    }

    async fn people(&self, ids: Vec<UserId>) -> Result<Vec<Person>, StoreError> {
        self.store.people(ids).await
    }

    async fn find_people(&self, prefix: &NamePrefix, limit: usize) -> Result<Vec<Person>, StoreError> {
        self.store.find_people(prefix, limit).await
    }

    async fn open_conversation(&self, new: NewConversation) -> Result<OpenedConversation, StoreError> {
        self.store.open_conversation(new).await
    }

    async fn conversation(
        &self,
        id: ConversationId,
        reader: &UserId,
    ) -> Result<ConversationWithMembers, StoreError> {
        self.store.conversation(id, reader).await
    }

    async fn add_members(&self, add: AddMembers) -> Result<ConversationWithMembers, StoreError> {
        self.store.add_members(add).await
    }

    async fn remove_member(&self, remove: RemoveMember) -> Result<ConversationWithMembers, StoreError> {
        self.store.remove_member(remove).await
    }

    async fn apply_receipt(&self, receipt: Receipt) -> Result<ReadState, StoreError> {
        if receipt.origin.is_some() && self.goes_wrong(PlantedBug::MarkLost) {
            return Ok(ReadState { delivered: receipt.seq, read: receipt.seq });
        }
        let (whose, seq) = ((receipt.conversation, receipt.user.clone()), receipt.seq);
        let reached = self.store.apply_receipt(receipt).await?;
        if reached.delivered < seq {
            self.boasts.lock().insert(whose, seq);
        }
        Ok(reached)
    }

    async fn statuses(&self, id: ConversationId, reader: &UserId) -> Result<Statuses, StoreError> {
        let mut statuses = self.store.statuses(id, reader).await?;
        if self.plant == PlantedBug::TickPastHead {
            let boasts = self.boasts.lock();
            for member in &mut statuses.members {
                let boast = boasts.get(&(id, member.user.clone())).copied().unwrap_or_default();
                let is = member.read_state;
                member.read_state =
                    ReadState { delivered: is.delivered.max(boast), read: is.read.max(boast) };
            }
        }
        Ok(statuses)
    }

    async fn receipt_counts(
        &self,
        id: ConversationId,
        reader: &UserId,
        seq: Seq,
    ) -> Result<ReceiptCounts, StoreError> {
        self.store.receipt_counts(id, reader, seq).await
    }

    async fn set_preferences(&self, prefer: SetPreferences) -> Result<InboxEntry, StoreError> {
        self.store.set_preferences(prefer).await
    }

    async fn is_member(&self, user: &UserId) -> Result<bool, StoreError> {
        self.store.is_member(user).await
    }

    async fn inbox_entry(&self, id: ConversationId, reader: &UserId) -> Result<InboxEntry, StoreError> {
        self.store.inbox_entry(id, reader).await
    }

    async fn profile(&self, user: &UserId) -> Result<Profile, StoreError> {
        let profile = self.store.profile(user).await?;
        Ok(match self.plant {
            PlantedBug::TokenStaysGood => Profile { revocations: Revocations::default(), ..profile },
            _ => profile,
        })
    }

    async fn update_profile(&self, update: ProfileUpdate) -> Result<Profile, StoreError> {
        self.store.update_profile(update).await
    }

    fn epoch(&self) -> Epoch {
        self.store.epoch()
    }

    fn health(&self) -> Health {
        self.store.health()
    }

    async fn close(&self) {
        self.store.close().await;
    }
}
