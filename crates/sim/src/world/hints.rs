//! One node's way to Redis: it takes time, fails before or after the deed, and is away for this node alone.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use bluetick_core::{ConversationId, InboxFilter, InboxPlace, Seq, Shelf, Timestamp, UserId};
use bluetick_store_cloud::NodeId;
use bluetick_store_cloud::hints::memory::MemoryHints;
use bluetick_store_cloud::hints::{Away, Glance, Hints, RegistryCopy, Reserve, Reserved, Seed, Touched};
use tokio::time::sleep;

use crate::dice::Dice;

pub struct Wire {
    hints: MemoryHints,
    dice: Mutex<Dice>,
    /// One in so many calls; 0: none. Half of those that fail were carried out.
    pub fails: AtomicU64,
    pub is_away: AtomicBool,
    /// Its node has crashed: nothing that is left of it gets anywhere any more.
    pub is_dead: AtomicBool,
    /// For everybody.
    all_away: Arc<AtomicBool>,
}

impl Wire {
    pub fn new(hints: MemoryHints, all_away: Arc<AtomicBool>, dice: Dice) -> Wire {
        Wire {
            hints,
            dice: Mutex::new(dice),
            fails: AtomicU64::new(0),
            is_away: AtomicBool::new(false),
            is_dead: AtomicBool::new(false),
            all_away,
        }
    }

    pub fn heal(&self) {
        self.fails.store(0, Ordering::SeqCst);
        self.is_away.store(false, Ordering::SeqCst);
    }

    fn throw<T>(&self, throw: impl FnOnce(&mut Dice) -> T) -> T {
        throw(&mut self.dice.lock().expect("nobody panics while throwing dice"))
    }

    pub fn is_cut(&self) -> bool {
        self.is_away.load(Ordering::SeqCst) || self.all_away.load(Ordering::SeqCst)
    }

    pub async fn pass<T>(&self, call: impl Future<Output = Result<T, Away>>) -> Result<T, Away> {
        sleep(self.throw(|dice| dice.millis(0, 3))).await;
        if self.is_dead.load(Ordering::SeqCst) {
            std::future::pending::<()>().await;
        }
        let chances = self.fails.load(Ordering::SeqCst);
        let fails = chances > 0 && self.throw(|dice| dice.one_in(chances));
        if self.is_cut() || (fails && self.throw(|dice| dice.one_in(2))) {
            return Err(away());
        }
        let answer = call.await;
        if fails { Err(away()) } else { answer }
    }
}

fn away() -> Away {
    Away("as the simulation wants it".to_owned())
}

#[async_trait]
impl Hints for Wire {
    async fn reserve(&self, reserve: &Reserve) -> Result<Reserved, Away> {
        self.pass(self.hints.reserve(reserve)).await
    }

    async fn seed(&self, seed: &Seed) -> Result<(), Away> {
        self.pass(self.hints.seed(seed)).await
    }

    async fn glance(&self, conversation: ConversationId) -> Result<Option<Glance>, Away> {
        self.pass(self.hints.glance(conversation)).await
    }

    async fn sent(&self, conversation: ConversationId, users: &[UserId]) -> Result<Option<Vec<Seq>>, Away> {
        self.pass(self.hints.sent(conversation, users)).await
    }

    async fn members_changed(&self, conversation: ConversationId, version: u64) -> Result<(), Away> {
        self.pass(self.hints.members_changed(conversation, version)).await
    }

    async fn registry_changed(&self, conversation: ConversationId, copy: &RegistryCopy) -> Result<(), Away> {
        self.pass(self.hints.registry_changed(conversation, copy)).await
    }

    async fn touch(
        &self,
        conversation: ConversationId,
        at: Timestamp,
        users: &[UserId],
    ) -> Result<Vec<Touched>, Away> {
        self.pass(self.hints.touch(conversation, at, users)).await
    }

    async fn whereabouts(
        &self,
        conversation: ConversationId,
        users: &[UserId],
    ) -> Result<Vec<Touched>, Away> {
        self.pass(self.hints.whereabouts(conversation, users)).await
    }

    async fn set_pending(
        &self,
        user: &UserId,
        conversation: ConversationId,
        pending: bool,
    ) -> Result<(), Away> {
        self.pass(self.hints.set_pending(user, conversation, pending)).await
    }

    async fn shelve(
        &self,
        user: &UserId,
        conversation: ConversationId,
        place: Option<(Shelf, Timestamp)>,
    ) -> Result<(), Away> {
        self.pass(self.hints.shelve(user, conversation, place)).await
    }

    async fn inbox(
        &self,
        user: &UserId,
        filter: InboxFilter,
        after: Option<InboxPlace>,
        limit: usize,
    ) -> Result<Option<Vec<InboxPlace>>, Away> {
        self.pass(self.hints.inbox(user, filter, after, limit)).await
    }

    async fn fill_inbox(&self, user: &UserId, places: &[InboxPlace]) -> Result<(), Away> {
        self.pass(self.hints.fill_inbox(user, places)).await
    }

    async fn connect(&self, user: &UserId, node: &NodeId) -> Result<(), Away> {
        self.pass(self.hints.connect(user, node)).await
    }

    async fn disconnect(&self, user: &UserId, node: &NodeId) -> Result<(), Away> {
        self.pass(self.hints.disconnect(user, node)).await
    }

    async fn recently_reserved(&self, since: Timestamp) -> Result<Vec<ConversationId>, Away> {
        self.pass(self.hints.recently_reserved(since)).await
    }
}
