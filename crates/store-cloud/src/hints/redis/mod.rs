//! Hints in Redis or Valkey. What is done in one step is a script in `src/scripts`.
//!
//! Invariant: nothing that was written before a failover or a restart is taken for true after it. Everything that could do
//! harm when it is old carries the life of the data it belongs to, which the scripts compare with the server's own.

mod conversations;
mod keys;
mod people;

use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::Arc;

use async_trait::async_trait;
use bluetick_core::{ConversationId, InboxFilter, InboxKey, InboxSection, Seq, Timestamp, UserId};

use super::{Away, Glance, Hints, RegistryCopy, Reserve, Reserved, Seed, Touched};
use crate::NodeId;
use crate::redis::Redis;
use keys::Keys;

pub(crate) use keys::without_braces;

pub struct RedisHints {
    redis: Arc<Redis>,
    keys: Keys,
    /// The days before today on which an id of the window can have been put down.
    window_days: u64,
    /// How long a conversation without traffic is known.
    keep_seconds: u64,
}

const DAY_SECONDS: u64 = 24 * 60 * 60;

impl RedisHints {
    pub fn new(redis: Arc<Redis>) -> RedisHints {
        let window_seconds = redis.settings().dedupe_window_seconds;
        RedisHints {
            keys: Keys::new(&redis.settings().prefix),
            window_days: window_seconds.div_ceil(DAY_SECONDS),
            keep_seconds: window_seconds + DAY_SECONDS,
            redis,
        }
    }

    pub fn redis(&self) -> &Arc<Redis> {
        &self.redis
    }

    /// The hash that knows a conversation, with its counter in the field `reserved`: for whoever looks after a server, and
    /// for tests that damage it.
    pub fn key_of(&self, conversation: ConversationId) -> String {
        self.keys.of_conversation(conversation).conversation
    }
}

/// Names something for as long as it is kept, so that it is not mistaken for what had its place before.
fn fresh_name() -> String {
    format!("{:08x}", RandomState::new().build_hasher().finish() >> 32)
}

#[async_trait]
impl Hints for RedisHints {
    async fn reserve(&self, reserve: &Reserve) -> Result<Reserved, Away> {
        self.reserve_place(reserve).await
    }

    async fn seed(&self, seed: &Seed) -> Result<(), Away> {
        self.seed_conversation(seed).await
    }

    async fn glance(&self, conversation: ConversationId) -> Result<Option<Glance>, Away> {
        self.glance_at(conversation).await
    }

    async fn sent(&self, conversation: ConversationId, users: &[UserId]) -> Result<Option<Vec<Seq>>, Away> {
        self.sent_by(conversation, users).await
    }

    async fn members_changed(&self, conversation: ConversationId, version: u64) -> Result<(), Away> {
        self.set_members_version(conversation, version).await
    }

    async fn registry_changed(&self, conversation: ConversationId, copy: &RegistryCopy) -> Result<(), Away> {
        self.set_registry(conversation, copy).await
    }

    async fn touch(
        &self,
        conversation: ConversationId,
        at: Timestamp,
        users: &[UserId],
    ) -> Result<Vec<Touched>, Away> {
        self.touch_all(conversation, Some(at), users).await
    }

    async fn whereabouts(
        &self,
        conversation: ConversationId,
        users: &[UserId],
    ) -> Result<Vec<Touched>, Away> {
        self.touch_all(conversation, None, users).await
    }

    async fn set_pending(
        &self,
        user: &UserId,
        conversation: ConversationId,
        pending: bool,
    ) -> Result<(), Away> {
        self.note_pending(user, conversation, pending).await
    }

    async fn shelve(
        &self,
        user: &UserId,
        conversation: ConversationId,
        place: Option<(InboxSection, Timestamp)>,
    ) -> Result<(), Away> {
        self.put_on_shelf(user, conversation, place).await
    }

    async fn inbox(
        &self,
        user: &UserId,
        filter: InboxFilter,
        after: Option<InboxKey>,
        limit: usize,
    ) -> Result<Option<Vec<InboxKey>>, Away> {
        self.inbox_page(user, filter, after, limit).await
    }

    async fn fill_inbox(&self, user: &UserId, places: &[InboxKey]) -> Result<(), Away> {
        self.fill(user, places).await
    }

    async fn connect(&self, user: &UserId, node: &NodeId) -> Result<(), Away> {
        self.add_route(user, node).await
    }

    async fn disconnect(&self, user: &UserId, node: &NodeId) -> Result<(), Away> {
        self.remove_route(user, node).await
    }

    async fn recently_reserved(&self, since: Timestamp) -> Result<Vec<ConversationId>, Away> {
        self.with_recent_places(since).await
    }
}
