//! Helpers that the cases are written with: users, conversations and messages. The submodules
//! contain the helpers for ticks and the inbox.

mod inbox;
mod receipts;

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use bluetick_core::ports::{
    AddMembers, Append, Appended, Creation, NewConversation, OpenedConversation, RemoveMember, Store,
};
use bluetick_core::{
    ContentType, ConversationId, ConversationWithMembers, Message, Page, PageFrom, PageLimit, PageRequest,
    Refusal, Seq, StoreError, Timestamp, UserId,
};

pub use self::inbox::{ARCHIVE, MUTE, PIN, behind, conversations};
pub use self::receipts::{TickPair, ticks};
use crate::{Harness, Recorder};

pub struct StoreUnderTest<H> {
    harness: H,
    pub recorder: Arc<Recorder>,
    /// Prefix of all user ids of this world, unique among worlds in the same store. As a prefix it
    /// keeps the property that one id begins with another.
    prefix: String,
    /// The test's clock, in minutes after [`NOW`]. It stamps new conversations and messages.
    minute: AtomicI64,
}

static WORLDS: AtomicU64 = AtomicU64::new(0);
static GROUPS: AtomicU64 = AtomicU64::new(0);

/// The time at which the test clock starts.
pub const NOW: Timestamp = Timestamp::from_millis(1_750_000_000_000);

impl<H: Harness> StoreUnderTest<H> {
    pub async fn start() -> StoreUnderTest<H> {
        let recorder = Arc::new(Recorder::default());
        let harness = H::start(recorder.clone()).await;
        let number = WORLDS.fetch_add(1, Ordering::Relaxed);
        let prefix = format!("w{}-{number}-", std::process::id());
        StoreUnderTest { harness, recorder, prefix, minute: AtomicI64::new(0) }
    }

    pub fn store(&self) -> Arc<dyn Store> {
        self.harness.store()
    }

    /// Crashes and restarts the store. The new recorder starts empty.
    pub async fn crash(self) -> StoreUnderTest<H> {
        let recorder = Arc::new(Recorder::default());
        let StoreUnderTest { harness, prefix, minute, .. } = self;
        let harness = harness.crash_and_restart(recorder.clone()).await;
        StoreUnderTest { harness, recorder, prefix, minute }
    }

    pub async fn restart(self) -> StoreUnderTest<H> {
        let recorder = Arc::new(Recorder::default());
        let StoreUnderTest { harness, prefix, minute, .. } = self;
        let harness = harness.close_and_reopen(recorder.clone()).await;
        StoreUnderTest { harness, recorder, prefix, minute }
    }

    /// Runs `check` now, after a crash, and after a clean restart.
    pub async fn holds(self, check: impl AsyncFn(&StoreUnderTest<H>)) -> StoreUnderTest<H> {
        check(&self).await;
        let world = self.crash().await;
        check(&world).await;
        let world = world.restart().await;
        check(&world).await;
        world
    }

    /// Sets the test's clock. New conversations and messages carry this time, which may be in the
    /// past.
    pub fn turn_clock_to(&self, minute: i64) {
        self.minute.store(minute, Ordering::SeqCst);
    }

    /// Sets the wall clock of the test and of the store. Returns `false` if the store makes no
    /// guarantee after a change.
    pub fn set_clock_to(&self, minute: i64) -> bool {
        self.turn_clock_to(minute);
        self.harness.set_clock(self.now())
    }

    pub fn now(&self) -> Timestamp {
        NOW.plus_millis(self.minute.load(Ordering::SeqCst) * 60_000)
    }

    pub fn user(&self, name: &str) -> UserId {
        format!("{}{name}", self.prefix).parse().expect("a short name")
    }

    pub async fn direct(&self, one: &str, other: &str) -> ConversationId {
        self.open_direct(one, other)
            .await
            .expect("any two users may open a conversation")
            .view
            .conversation
            .id
    }

    pub async fn open_direct(&self, one: &str, other: &str) -> Result<OpenedConversation, StoreError> {
        let (one, peer) = (self.user(one), self.user(other));
        let id = ConversationId::direct(&one, &peer);
        let creation = Creation::Direct { peer };
        self.store()
            .open_conversation(NewConversation { id, creation, created_by: one, created_at: self.now() })
            .await
    }

    pub async fn group(&self, creator: &str, others: &[&str]) -> ConversationId {
        let members = others.iter().map(|name| self.user(name)).collect();
        let created_by = self.user(creator);
        let mut bits = [0; 15];
        bits[..4].copy_from_slice(&std::process::id().to_be_bytes());
        // Make each number unique and spread the numbers, so that the order of ids differs from the
        // order of creation.
        let number = GROUPS.fetch_add(1, Ordering::Relaxed).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        bits[4..12].copy_from_slice(&number.to_be_bytes());
        let creation = Creation::Group { title: "Tea".parse().expect("a title"), members };
        let id = ConversationId::group(bits);
        let new = NewConversation { id, creation, created_by, created_at: self.now() };
        let opened = self.store().open_conversation(new).await.expect("any user may create a group");
        assert!(opened.created);
        id
    }

    pub async fn add(
        &self,
        id: ConversationId,
        actor: &str,
        names: &[&str],
    ) -> Result<ConversationWithMembers, StoreError> {
        self.add_with_limit(id, actor, names, 1000).await
    }

    pub async fn add_with_limit(
        &self,
        conversation: ConversationId,
        actor: &str,
        names: &[&str],
        member_limit: usize,
    ) -> Result<ConversationWithMembers, StoreError> {
        let users = names.iter().map(|name| self.user(name)).collect();
        let add = AddMembers { conversation, actor: self.user(actor), users, member_limit, at: self.now() };
        self.store().add_members(add).await
    }

    pub async fn remove(
        &self,
        conversation: ConversationId,
        actor: &str,
        user: &str,
    ) -> Result<ConversationWithMembers, StoreError> {
        let (actor, user) = (self.user(actor), self.user(user));
        self.store().remove_member(RemoveMember { conversation, actor, user, at: self.now() }).await
    }

    /// Creates a message whose id is derived from its text.
    pub fn message(&self, conversation: ConversationId, sender: &str, text: &str) -> Append {
        Append {
            conversation,
            sender: self.user(sender),
            message_id: text.replace(' ', "-").parse().expect("an id"),
            content_type: ContentType::Text,
            content: text.into(),
            timestamp: self.now(),
            received_at: self.now(),
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

    /// Sets the clock to `minute` and sends a message.
    pub async fn sent_at(&self, minute: i64, id: ConversationId, sender: &str, text: &str) -> u64 {
        self.turn_clock_to(minute);
        self.sent(id, sender, text).await
    }

    /// Sends `count` messages without waiting for the acks in between. Returns the last seq.
    pub async fn sent_many(&self, id: ConversationId, sender: &str, name: &str, count: usize) -> u64 {
        let mut waiting = Vec::new();
        for number in 0..count {
            let append = self.message(id, sender, &format!("{name}-{number}"));
            waiting.push(self.store().append(append).await.expect("the store accepts the message"));
        }
        let mut last = Seq::ZERO;
        for outcome in waiting {
            last = outcome.await.expect("the message is stored").seq;
        }
        last.get()
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

    /// Returns all messages that `reader` may see, oldest first.
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

    /// Returns (seq, content) of all messages that `reader` may see.
    pub async fn texts(&self, id: ConversationId, reader: &str) -> Vec<(u64, String)> {
        let history = self.history(id, reader).await;
        history.into_iter().map(|message| (message.seq.get(), message.content.to_string())).collect()
    }
}

/// Asserts that the store refused the call with the expected refusal.
#[track_caller]
pub fn assert_refused<T: std::fmt::Debug>(result: Result<T, StoreError>, expected: Refusal) {
    match result {
        Err(StoreError::Refused(refusal)) => assert_eq!(refusal, expected),
        other => panic!("expected a refusal, {expected:?}, and got {other:?}"),
    }
}
