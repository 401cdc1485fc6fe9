//! The port, as this engine keeps it.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use bluetick_core::ports::{
    Accepted, AddMembers, Append, Health, Missed, NewConversation, OpenedConversation, Position, Receipt,
    RemoveMember, SetPreferences, Statuses, Store, UserUpdate,
};
use bluetick_core::{
    Cause, ConversationId, ConversationWithMembers, Epoch, InboxEntry, InboxPage, InboxRequest, NamePrefix,
    Page, PageFrom, PageRequest, Person, Profile, ProfileUpdate, ReadState, ReceiptCounts, Seq, StoreError,
    Timestamp, User, UserId,
};

use crate::cells::Cell;
use crate::engine::{CloudStore, Engine};
use crate::rows::Item;

#[async_trait]
impl Store for CloudStore {
    async fn create_user(&self, user: User) -> Result<(), StoreError> {
        self.engine.create_user_now(user).await
    }

    async fn reserve_name(&self, id: UserId, at: Timestamp) -> Result<(), StoreError> {
        self.engine.reserve_name_now(User::named(id, at)).await
    }

    async fn update_user(&self, update: UserUpdate) -> Result<(), StoreError> {
        self.engine.update_user_now(update).await
    }

    async fn user(&self, id: &UserId) -> Result<Option<User>, StoreError> {
        self.engine.user_now(id).await
    }

    async fn people(&self, ids: Vec<UserId>) -> Result<Vec<Person>, StoreError> {
        self.engine.people_now(&ids).await
    }

    async fn find_people(&self, prefix: &NamePrefix, limit: usize) -> Result<Vec<Person>, StoreError> {
        self.engine.find_people_now(prefix, limit).await
    }

    async fn open_conversation(&self, new: NewConversation) -> Result<OpenedConversation, StoreError> {
        self.engine.open_now(new).await
    }

    async fn conversation(
        &self,
        id: ConversationId,
        reader: &UserId,
    ) -> Result<ConversationWithMembers, StoreError> {
        self.engine.view(id, reader).await
    }

    async fn add_members(&self, add: AddMembers) -> Result<ConversationWithMembers, StoreError> {
        self.engine.add_now(add).await
    }

    async fn remove_member(&self, remove: RemoveMember) -> Result<ConversationWithMembers, StoreError> {
        self.engine.remove_now(remove).await
    }

    async fn append(&self, append: Append) -> Result<Accepted, StoreError> {
        self.engine.accept(append)
    }

    async fn page(&self, request: PageRequest) -> Result<Page, StoreError> {
        self.engine.page_now(&request).await
    }

    async fn apply_receipt(&self, receipt: Receipt) -> Result<ReadState, StoreError> {
        let engine = Arc::clone(&self.engine);
        to_its_end(async move { engine.mark_now(receipt).await }).await
    }

    async fn statuses(&self, id: ConversationId, reader: &UserId) -> Result<Statuses, StoreError> {
        self.engine.all_statuses(id, reader).await
    }

    async fn receipt_counts(
        &self,
        id: ConversationId,
        reader: &UserId,
        seq: Seq,
    ) -> Result<ReceiptCounts, StoreError> {
        self.engine.count_receipts(id, reader, seq).await
    }

    async fn set_preferences(&self, prefer: SetPreferences) -> Result<InboxEntry, StoreError> {
        let engine = Arc::clone(&self.engine);
        to_its_end(async move { engine.prefer_now(prefer).await }).await
    }

    async fn inbox(&self, request: InboxRequest) -> Result<InboxPage, StoreError> {
        self.engine.inbox_page(request).await
    }

    async fn is_member(&self, user: &UserId) -> Result<bool, StoreError> {
        self.engine.is_member(user).await
    }

    async fn inbox_entry(&self, id: ConversationId, reader: &UserId) -> Result<InboxEntry, StoreError> {
        self.engine.entry(id, reader).await
    }

    async fn behind(&self, user: &UserId, positions: Vec<Position>) -> Result<Missed, StoreError> {
        self.engine.missed(user, positions).await
    }

    async fn profile(&self, user: &UserId) -> Result<Profile, StoreError> {
        self.engine.profile_now(user).await
    }

    async fn update_profile(&self, update: ProfileUpdate) -> Result<Profile, StoreError> {
        self.engine.update_profile_now(update).await
    }

    fn epoch(&self) -> Epoch {
        self.engine.epoch
    }

    fn health(&self) -> Health {
        let trouble = self.engine.trouble.lock().expect("nothing panics while it holds the lock");
        trouble.clone().map_or(Health::Writable, Health::ReadOnly)
    }

    async fn close(&self) {
        self.shut().await;
    }
}

/// For what takes its turn with others: whoever asks may stop looking at its answer, and they would wait for ever.
async fn to_its_end<Output: Send + 'static>(
    work: impl Future<Output = Result<Output, StoreError>> + Send + 'static,
) -> Result<Output, StoreError> {
    let lost = |_| StoreError::NoAnswer("the call was cut off".into());
    tokio::spawn(work).await.map_err(lost)?
}

fn decode_all<'a>(
    id: ConversationId,
    rows: impl Iterator<Item = (&'a Seq, &'a Item)>,
) -> Result<BTreeMap<Seq, Cell>, StoreError> {
    rows.map(|(seq, item)| Ok((*seq, Cell::decode(id, *seq, item)?))).collect()
}

impl Engine {
    async fn page_now(self: &Arc<Engine>, request: &PageRequest) -> Result<Page, StoreError> {
        let id = request.conversation;
        // The newest page comes with the head. Of any other, the head alone.
        let limit = if request.from == PageFrom::Newest { request.limit.count() } else { 1 };
        let (membership, newest) =
            tokio::join!(self.membership(id, &request.reader), self.reader.shared_newest(id, limit));
        let ((_, member), newest) = (membership?, newest?);
        let head = newest.last_key_value().map_or(Seq::ZERO, |(seq, _)| *seq);
        let window = request.window(member.joined_seq, head);
        let (first, last) = (*window.start(), *window.end());
        let mut cells: Vec<Cell> = if first <= last && !matches!(request.from, PageFrom::After(Seq::MAX)) {
            let cells = match newest.range(first..=last).count() as u64 == last.next().distance_from(first) {
                true => decode_all(id, newest.range(first..=last))?,
                false => self.dense(id, first, last).await?,
            };
            // Whoever was thrown out between the two reads must not see what came after.
            if cells.values().any(|cell| cell.departed.as_ref() == Some(&request.reader)) {
                let (_, again) = self.membership(id, &request.reader).await?;
                if again.joined_seq != member.joined_seq {
                    return Box::pin(self.page_now(request)).await;
                }
            }
            cells.into_values().collect()
        } else {
            Vec::new()
        };
        let mut request = request.clone();
        if let Some(unfilled) = self.fill(&mut cells).await? {
            request.limit = unfilled.cut(&mut cells, matches!(request.from, PageFrom::After(_)))?;
        }
        let messages = cells.into_iter().map(|cell| Arc::unwrap_or_clone(cell.message)).collect();
        Page::new(&request, member.joined_seq, head, messages)
            .map_err(|hole| StoreError::Damaged(Cause::of(hole)))
    }
}
