//! The in-memory reference store: the simplest implementation of the [`Store`] port.
//!
//! It uses one lock and ordinary collections. It keeps every guarantee of [`Store`] except
//! durability. Tests of the server run on it, and other adapters are compared with it.

mod inbox;
mod receipts;

use std::collections::HashMap;
use std::sync::Arc;

use async_trait::async_trait;
use bluetick_core::decide;
use bluetick_core::members::MembershipChange;
use bluetick_core::people::name_terms;
use bluetick_core::ports::{
    Accepted, AddMembers, Append, Appended, CommitListener, Committed, CommittedChange, Health, Missed,
    NewConversation, NoListener, OpenedConversation, Origin, Position, Receipt, RemoveMember, SetPreferences,
    Statuses, Store, UserUpdate,
};
use bluetick_core::{
    Cause, Conversation, ConversationId, ConversationWithMembers, Epoch, InboxEntry, InboxPage, InboxRequest,
    MemberState, Members, Message, MessageId, NamePrefix, Page, PageRequest, Person, Profile, ProfileUpdate,
    ReadState, ReceiptCounts, Refusal, Seq, Skeleton, StoreError, Timestamp, User, UserId,
};
use parking_lot::{Mutex, MutexGuard};

pub struct MemoryStore {
    /// A standard mutex, because it refuses access after a panic left the state half-updated.
    state: Mutex<MemoryState>,
    listener: Arc<dyn CommitListener>,
}

#[derive(Default)]
struct MemoryState {
    users: HashMap<UserId, User>,
    profiles: HashMap<UserId, Profile>,
    conversations: HashMap<ConversationId, MemoryConversation>,
    closed: bool,
}

/// A conversation with its members, messages and read states.
struct MemoryConversation {
    conversation: Conversation,
    members: Arc<Members>,
    messages: Vec<Arc<Message>>,
    seqs_by_id: HashMap<(UserId, MessageId), Seq>,
    /// Read states of the members who have acknowledged, sent or set something.
    member_states: HashMap<UserId, MemberState>,
}

impl MemoryStore {
    pub fn new() -> MemoryStore {
        MemoryStore::with_listener(Arc::new(NoListener))
    }

    pub fn with_listener(listener: Arc<dyn CommitListener>) -> MemoryStore {
        MemoryStore { state: Mutex::default(), listener }
    }

    fn read(&self) -> MutexGuard<'_, MemoryState> {
        self.state.lock()
    }

    fn write(&self) -> Result<MutexGuard<'_, MemoryState>, StoreError> {
        let state = self.read();
        if state.closed { Err(StoreError::Closing) } else { Ok(state) }
    }
}

impl MemoryStore {
    fn append_now(&self, append: Append) -> Result<Appended, StoreError> {
        let mut state = self.write()?;
        let thread = state.thread(append.conversation, &append.sender)?;
        let key = (append.sender.clone(), append.message_id.clone());
        if let Some(&seq) = thread.seqs_by_id.get(&key) {
            let stored = &thread.messages
                [usize::try_from(seq.get() - 1).expect("the seq of a stored message is an index in memory")];
            if !decide::same_message(stored, &append) {
                return Err(Refusal::MessageIdReused { first_seq: seq }.into());
            }
            return Ok(Appended { seq, received_at: stored.received_at, duplicate: true });
        }
        let origin = append.origin;
        let message = decide::place(append, &thread.members, thread.head().next());
        let appended = Appended { seq: message.seq, received_at: message.received_at, duplicate: false };
        thread.seqs_by_id.insert(key, message.seq);
        let sender = message.sender.clone();
        let committed = thread.push(message, None, origin);
        let replied = thread.reply(&sender, appended.seq);
        self.listener.committed(vec![committed]);
        self.listener.changed(replied.into_iter().collect());
        Ok(appended)
    }
}

impl Default for MemoryStore {
    fn default() -> Self {
        MemoryStore::new()
    }
}

impl MemoryState {
    fn thread(&mut self, id: ConversationId, reader: &UserId) -> Result<&mut MemoryConversation, StoreError> {
        match self.conversations.get_mut(&id) {
            Some(thread) if thread.members.contains(reader) => Ok(thread),
            _ => Err(Refusal::NotAMember.into()),
        }
    }
}

impl MemoryConversation {
    fn head(&self) -> Seq {
        self.conversation.head
    }

    fn view(&self) -> ConversationWithMembers {
        ConversationWithMembers {
            conversation: self.conversation.clone(),
            members: Arc::clone(&self.members),
        }
    }

    fn push(&mut self, message: Message, departed: Option<UserId>, origin: Option<Origin>) -> Committed {
        assert_eq!(message.seq, Seq::new(self.messages.len() as u64 + 1), "seqs must be contiguous");
        self.conversation.head = message.seq;
        self.conversation.last_at = self.conversation.last_at.max(message.received_at);
        let message = Arc::new(message);
        self.messages.push(Arc::clone(&message));
        Committed { message, members: Arc::clone(&self.members), departed, origin, is_stored_here: true }
    }
}

#[async_trait]
impl Store for MemoryStore {
    async fn create_user(&self, user: User) -> Result<(), StoreError> {
        let mut state = self.write()?;
        let skeletons = Skeleton::all(user.id.as_str());
        let looks_alike = |other: &UserId| {
            Skeleton::all(other.as_str()).iter().any(|skeleton| skeletons.contains(skeleton))
        };
        if state.users.keys().any(looks_alike) {
            return Err(Refusal::UserExists.into());
        }
        state.users.insert(user.id.clone(), user);
        Ok(())
    }

    async fn reserve_name(&self, id: UserId, at: Timestamp) -> Result<(), StoreError> {
        self.write()?.users.entry(id.clone()).or_insert_with(|| User::named(id, at));
        Ok(())
    }

    async fn update_user(&self, update: UserUpdate) -> Result<(), StoreError> {
        let mut state = self.write()?;
        let user = state.users.get_mut(&update.id).ok_or(Refusal::NoSuchUser)?;
        user.display_name = update.display_name.or(user.display_name.take());
        user.password_hash = update.password_hash.or(user.password_hash.take());
        Ok(())
    }

    async fn user(&self, id: &UserId) -> Result<Option<User>, StoreError> {
        Ok(self.read().users.get(id).cloned())
    }

    async fn people(&self, ids: Vec<UserId>) -> Result<Vec<Person>, StoreError> {
        let state = self.read();
        Ok(ids.iter().filter_map(|id| state.users.get(id)).map(Person::from).collect())
    }

    async fn find_people(&self, prefix: &NamePrefix, limit: usize) -> Result<Vec<Person>, StoreError> {
        let state = self.read();
        let mut found: Vec<(String, Person)> = Vec::new();
        for user in state.users.values() {
            let terms = name_terms(&user.id, user.display_name.as_deref());
            found.extend(prefix.match_in(&terms).map(|term| (term.to_owned(), Person::from(user))));
        }
        found.sort_by(|(one_term, one), (other_term, other)| {
            (one_term, &one.id).cmp(&(other_term, &other.id))
        });
        Ok(found.into_iter().take(limit).map(|(_, person)| person).collect())
    }

    async fn open_conversation(&self, new: NewConversation) -> Result<OpenedConversation, StoreError> {
        let mut state = self.write()?;
        if state.conversations.contains_key(&new.id) {
            let view = state.thread(new.id, &new.created_by)?.view();
            return Ok(OpenedConversation { view, created: false });
        }
        let founding = decide::initial_state(&new);
        let mut thread = MemoryConversation {
            conversation: founding.conversation,
            members: Arc::new(founding.members),
            messages: Vec::new(),
            seqs_by_id: HashMap::new(),
            member_states: HashMap::new(),
        };
        let committed = founding.notice.map(|notice| thread.push(notice, None, None));
        let view = thread.view();
        let users = thread.members.iter().map(|member| &member.user);
        let has_messages = !thread.messages.is_empty();
        let listed = users.filter(|user| thread.conversation.is_listed_for(user, has_messages));
        let joined = joined(new.id, listed);
        state.conversations.insert(new.id, thread);
        self.listener.committed(committed.into_iter().collect());
        self.listener.changed(joined);
        Ok(OpenedConversation { view, created: true })
    }

    async fn conversation(
        &self,
        id: ConversationId,
        reader: &UserId,
    ) -> Result<ConversationWithMembers, StoreError> {
        Ok(self.read().thread(id, reader)?.view())
    }

    async fn add_members(&self, add: AddMembers) -> Result<ConversationWithMembers, StoreError> {
        let mut state = self.write()?;
        let thread = state.thread(add.conversation, &add.actor)?;
        let noted = decide::add_members(&add, &thread.members, thread.head())?;
        let (mut committed, mut newcomers) = (Vec::new(), Vec::new());
        for (change, notice) in noted {
            change.apply(&mut thread.members);
            if let MembershipChange::Joined(member) = change {
                newcomers.push(member.user);
            }
            committed.push(thread.push(notice, None, None));
        }
        self.listener.committed(committed);
        self.listener.changed(joined(add.conversation, newcomers.iter()));
        Ok(thread.view())
    }

    async fn remove_member(&self, remove: RemoveMember) -> Result<ConversationWithMembers, StoreError> {
        let mut state = self.write()?;
        let thread = state.thread(remove.conversation, &remove.actor)?;
        let (change, notice) = decide::remove_member(&remove, &thread.members, thread.head())?;
        change.apply(&mut thread.members);
        let MembershipChange::Left { user, .. } = change else { unreachable!("a removal removes") };
        thread.member_states.remove(&user);
        let committed = thread.push(notice, Some(user), None);
        self.listener.committed(vec![committed]);
        Ok(thread.view())
    }

    async fn append(&self, append: Append) -> Result<Accepted, StoreError> {
        let outcome = self.append_now(append);
        Ok(Box::pin(async { outcome }))
    }

    async fn page(&self, request: PageRequest) -> Result<Page, StoreError> {
        let mut state = self.read();
        let thread = state.thread(request.conversation, &request.reader)?;
        let member = thread.members.get(&request.reader).ok_or(Refusal::NotAMember)?;
        let window = request.window(member.joined_seq, thread.head());
        let range = (window.start().get()..=window.end().get())
            .map(|seq| {
                Message::clone(
                    &thread.messages[usize::try_from(seq - 1)
                        .expect("the seq of a stored message is an index in memory")],
                )
            })
            .collect();
        Page::new(&request, member.joined_seq, thread.head(), range)
            .map_err(|gap| StoreError::Damaged(Cause::of(gap)))
    }

    async fn apply_receipt(&self, receipt: Receipt) -> Result<ReadState, StoreError> {
        let mut state = self.write()?;
        let thread = state.thread(receipt.conversation, &receipt.user)?;
        let (read_state, moved) = thread.apply_receipt(&receipt);
        self.listener.changed(moved.into_iter().collect());
        Ok(read_state)
    }

    async fn statuses(&self, id: ConversationId, reader: &UserId) -> Result<Statuses, StoreError> {
        Ok(self.read().thread(id, reader)?.statuses(reader))
    }

    async fn receipt_counts(
        &self,
        id: ConversationId,
        reader: &UserId,
        seq: Seq,
    ) -> Result<ReceiptCounts, StoreError> {
        Ok(self.read().thread(id, reader)?.receipt_counts(reader, seq)?)
    }

    async fn set_preferences(&self, prefer: SetPreferences) -> Result<InboxEntry, StoreError> {
        let SetPreferences { conversation, user, change } = prefer;
        let mut state = self.write()?;
        let thread = state.thread(conversation, &user)?;
        let member_state = thread.member_states.entry(user.clone()).or_default();
        let before = member_state.preferences;
        member_state.preferences = change.applied_to(before);
        let changed = member_state.preferences != before;
        let entry = thread.entry(&user)?;
        if changed {
            self.listener.changed(vec![CommittedChange::PreferencesChanged { conversation, user }]);
        }
        Ok(entry)
    }

    async fn inbox(&self, request: InboxRequest) -> Result<InboxPage, StoreError> {
        Ok(self.read().inbox(&request))
    }

    async fn is_member(&self, user: &UserId) -> Result<bool, StoreError> {
        Ok(self.read().is_member(user))
    }

    async fn inbox_entry(&self, id: ConversationId, reader: &UserId) -> Result<InboxEntry, StoreError> {
        Ok(self.read().thread(id, reader)?.entry(reader)?)
    }

    async fn behind(&self, user: &UserId, positions: Vec<Position>) -> Result<Missed, StoreError> {
        Ok(self.read().behind(user, &positions))
    }

    async fn profile(&self, user: &UserId) -> Result<Profile, StoreError> {
        Ok(self.read().profiles.get(user).cloned().unwrap_or_default())
    }

    async fn update_profile(&self, update: ProfileUpdate) -> Result<Profile, StoreError> {
        let mut state = self.write()?;
        let kept = state.profiles.entry(update.user.clone()).or_default();
        let profile = update.applied_to(kept.clone());
        let before = std::mem::replace(kept, profile.clone());
        if profile.revocations != before.revocations {
            let revocations = profile.revocations.clone();
            self.listener.changed(vec![CommittedChange::Revoked { user: update.user, revocations }]);
        }
        Ok(profile)
    }

    fn epoch(&self) -> Epoch {
        Epoch::FIRST
    }

    fn health(&self) -> Health {
        Health::Writable
    }

    async fn close(&self) {
        self.read().closed = true;
    }
}

fn joined<'a>(conversation: ConversationId, users: impl Iterator<Item = &'a UserId>) -> Vec<CommittedChange> {
    users.map(|user| CommittedChange::Joined { conversation, user: user.clone() }).collect()
}

#[cfg(test)]
mod tests;
