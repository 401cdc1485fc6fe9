//! The words the cases are written in.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bluetick_core::ports::{
    AddMembers, Append, Appended, Creation, NewConversation, Opened, RemoveMember, Store,
};
use bluetick_core::{
    ContentType, ConversationId, ConversationView, Message, Page, PageFrom, PageLimit, PageRequest, Refusal,
    Seq, StoreError, Timestamp, UserId,
};

use crate::{Harness, Recorder};

pub struct World<H> {
    harness: H,
    pub recorder: Arc<Recorder>,
    /// Makes the names of this world its own, for stores that outlive it.
    suffix: String,
}

static WORLDS: AtomicU64 = AtomicU64::new(0);

pub const NOW: Timestamp = Timestamp::from_millis(1_750_000_000_000);

impl<H: Harness> World<H> {
    pub async fn start() -> World<H> {
        let recorder = Arc::new(Recorder::default());
        let harness = H::start(recorder.clone()).await;
        let number = WORLDS.fetch_add(1, Ordering::Relaxed);
        World { harness, recorder, suffix: format!("-{}-{number}", std::process::id()) }
    }

    pub fn store(&self) -> Arc<dyn Store> {
        self.harness.store()
    }

    /// The listener of the new life starts with an empty memory.
    pub async fn crash(self) -> World<H> {
        let recorder = Arc::new(Recorder::default());
        let harness = self.harness.crash_and_restart(recorder.clone()).await;
        World { harness, recorder, suffix: self.suffix }
    }

    pub async fn restart(self) -> World<H> {
        let recorder = Arc::new(Recorder::default());
        let harness = self.harness.close_and_reopen(recorder.clone()).await;
        World { harness, recorder, suffix: self.suffix }
    }

    pub fn user(&self, name: &str) -> UserId {
        format!("{name}{}", self.suffix).parse().expect("a short name")
    }

    pub async fn direct(&self, one: &str, other: &str) -> ConversationId {
        self.open_direct(one, other).await.expect("two people may talk").view.conversation.id
    }

    pub async fn open_direct(&self, one: &str, other: &str) -> Result<Opened, StoreError> {
        let (one, peer) = (self.user(one), self.user(other));
        let id = ConversationId::direct(&one, &peer);
        let creation = Creation::Direct { peer };
        self.store()
            .open_conversation(NewConversation { id, creation, created_by: one, created_at: NOW })
            .await
    }

    pub async fn group(&self, creator: &str, others: &[&str]) -> ConversationId {
        let members = others.iter().map(|name| self.user(name)).collect();
        let created_by = self.user(creator);
        let mut bits = [0; 15];
        let text = format!("{}{creator}{}", self.suffix, others.len());
        for (bit, byte) in bits.iter_mut().zip(text.bytes()) {
            *bit = byte;
        }
        let creation = Creation::Group { title: "Tea".parse().expect("a title"), members };
        let id = ConversationId::group(bits);
        let new = NewConversation { id, creation, created_by, created_at: NOW };
        let opened = self.store().open_conversation(new).await.expect("anybody may make a group");
        assert!(opened.created);
        id
    }

    pub async fn add(
        &self,
        id: ConversationId,
        actor: &str,
        names: &[&str],
    ) -> Result<ConversationView, StoreError> {
        self.add_with_limit(id, actor, names, 1000).await
    }

    pub async fn add_with_limit(
        &self,
        conversation: ConversationId,
        actor: &str,
        names: &[&str],
        member_limit: usize,
    ) -> Result<ConversationView, StoreError> {
        let users = names.iter().map(|name| self.user(name)).collect();
        let add = AddMembers { conversation, actor: self.user(actor), users, member_limit, at: NOW };
        self.store().add_members(add).await
    }

    pub async fn remove(
        &self,
        conversation: ConversationId,
        actor: &str,
        user: &str,
    ) -> Result<ConversationView, StoreError> {
        let (actor, user) = (self.user(actor), self.user(user));
        self.store().remove_member(RemoveMember { conversation, actor, user, at: NOW }).await
    }

    /// A message whose id follows from its content.
    pub fn message(&self, conversation: ConversationId, sender: &str, text: &str) -> Append {
        Append {
            conversation,
            sender: self.user(sender),
            message_id: text.replace(' ', "-").parse().expect("an id"),
            content_type: ContentType::Text,
            content: text.into(),
            timestamp: NOW,
            received_at: NOW,
            retry_after: None,
            origin: None,
        }
    }

    pub async fn send(&self, id: ConversationId, sender: &str, text: &str) -> Result<Appended, StoreError> {
        self.append(self.message(id, sender, text)).await
    }

    pub async fn append(&self, append: Append) -> Result<Appended, StoreError> {
        self.store().append(append).await?.await
    }

    pub async fn sent(&self, id: ConversationId, sender: &str, text: &str) -> u64 {
        self.send(id, sender, text).await.expect("the message is stored").seq.get()
    }

    pub async fn page(
        &self,
        conversation: ConversationId,
        reader: &str,
        from: PageFrom,
        limit: PageLimit,
    ) -> Result<Page, StoreError> {
        self.store().page(PageRequest { conversation, reader: self.user(reader), from, limit }).await
    }

    /// Everything `reader` may see, oldest first.
    pub async fn history(&self, id: ConversationId, reader: &str) -> Vec<Message> {
        let mut all = Vec::new();
        let mut after = Seq::ZERO;
        loop {
            let page =
                self.page(id, reader, PageFrom::After(after), PageLimit::MAX).await.expect("a member reads");
            all.extend(page.messages);
            match page.next_after {
                Some(next) => after = next,
                None => return all,
            }
        }
    }

    /// (seq, content) of everything `reader` may see.
    pub async fn texts(&self, id: ConversationId, reader: &str) -> Vec<(u64, String)> {
        let history = self.history(id, reader).await;
        history.into_iter().map(|message| (message.seq.get(), message.content.to_string())).collect()
    }
}

/// Asserts that the rules said no, and how.
#[track_caller]
pub fn assert_refused<T: std::fmt::Debug>(result: Result<T, StoreError>, expected: Refusal) {
    match result {
        Err(StoreError::Refused(refusal)) => assert_eq!(refusal, expected),
        other => panic!("expected a refusal, {expected:?}, and got {other:?}"),
    }
}
