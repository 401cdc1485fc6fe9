//! One node's connection to Redis. Calls take time, fail before or after they take effect, or take
//! effect seconds later. Redis may be unavailable for this node alone.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use async_trait::async_trait;
use bluetick_core::{ConversationId, InboxFilter, InboxKey, InboxSection, Seq, Timestamp, UserId};
use bluetick_store_cloud::NodeId;
use bluetick_store_cloud::hints::memory::MemoryHints;
use bluetick_store_cloud::hints::{Away, Glance, Hints, RegistryCopy, Reserve, Reserved, Seed, Touched};
use parking_lot::Mutex;
use tokio::time::sleep;

use crate::dice::Dice;

pub struct Wire {
    hints: MemoryHints,
    dice: Mutex<Dice>,
    /// One in this many calls fails (0: none). Half of the failed calls have taken effect.
    pub fails: AtomicU64,
    /// One in this many writes takes effect up to 5 seconds after the node received an error (0:
    /// none).
    pub acts_late: AtomicU64,
    pub is_away: AtomicBool,
    /// The node has crashed: its remaining calls never complete.
    pub is_dead: AtomicBool,
    /// Redis is unavailable for all nodes.
    all_away: Arc<AtomicBool>,
}

impl Wire {
    pub fn new(hints: MemoryHints, all_away: Arc<AtomicBool>, dice: Dice) -> Wire {
        Wire {
            hints,
            dice: Mutex::new(dice),
            fails: AtomicU64::new(0),
            acts_late: AtomicU64::new(0),
            is_away: AtomicBool::new(false),
            is_dead: AtomicBool::new(false),
            all_away,
        }
    }

    pub fn heal(&self) {
        self.fails.store(0, Ordering::SeqCst);
        self.acts_late.store(0, Ordering::SeqCst);
        self.is_away.store(false, Ordering::SeqCst);
    }

    fn throw<T>(&self, throw: impl FnOnce(&mut Dice) -> T) -> T {
        throw(&mut self.dice.lock())
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

    /// Like `pass`, for calls that change state: they may take effect late.
    pub async fn deed<T: Send + 'static>(
        &self,
        deed: impl Future<Output = Result<T, Away>> + Send + 'static,
    ) -> Result<T, Away> {
        let chances = self.acts_late.load(Ordering::SeqCst);
        if chances == 0 || self.is_cut() || !self.throw(|dice| dice.one_in(chances)) {
            return self.pass(deed).await;
        }
        let by = self.throw(|dice| dice.millis(10, 5_000));
        self.pass(async move {
            tokio::spawn(async move {
                sleep(by).await;
                deed.await
            });
            Err(away())
        })
        .await
    }
}

fn away() -> Away {
    Away("injected by the simulation".to_owned())
}

#[async_trait]
impl Hints for Wire {
    async fn reserve(&self, reserve: &Reserve) -> Result<Reserved, Away> {
        let hints = self.hints.clone();
        let reserve = reserve.clone();
        self.deed(async move { hints.reserve(&reserve).await }).await
    }

    async fn seed(&self, seed: &Seed) -> Result<(), Away> {
        let hints = self.hints.clone();
        let seed = seed.clone();
        self.deed(async move { hints.seed(&seed).await }).await
    }

    async fn glance(&self, conversation: ConversationId) -> Result<Option<Glance>, Away> {
        self.pass(self.hints.glance(conversation)).await
    }

    async fn sent(&self, conversation: ConversationId, users: &[UserId]) -> Result<Option<Vec<Seq>>, Away> {
        self.pass(self.hints.sent(conversation, users)).await
    }

    async fn members_changed(&self, conversation: ConversationId, version: u64) -> Result<(), Away> {
        let hints = self.hints.clone();
        self.deed(async move { hints.members_changed(conversation, version).await }).await
    }

    async fn registry_changed(&self, conversation: ConversationId, copy: &RegistryCopy) -> Result<(), Away> {
        let hints = self.hints.clone();
        let copy = copy.clone();
        self.deed(async move { hints.registry_changed(conversation, &copy).await }).await
    }

    async fn touch(
        &self,
        conversation: ConversationId,
        at: Timestamp,
        users: &[UserId],
    ) -> Result<Vec<Touched>, Away> {
        let hints = self.hints.clone();
        let users = users.to_vec();
        self.deed(async move { hints.touch(conversation, at, &users).await }).await
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
        let hints = self.hints.clone();
        let user = user.clone();
        self.deed(async move { hints.set_pending(&user, conversation, pending).await }).await
    }

    async fn shelve(
        &self,
        user: &UserId,
        conversation: ConversationId,
        place: Option<(InboxSection, Timestamp)>,
    ) -> Result<(), Away> {
        let hints = self.hints.clone();
        let user = user.clone();
        self.deed(async move { hints.shelve(&user, conversation, place).await }).await
    }

    async fn inbox(
        &self,
        user: &UserId,
        filter: InboxFilter,
        after: Option<InboxKey>,
        limit: usize,
    ) -> Result<Option<Vec<InboxKey>>, Away> {
        self.pass(self.hints.inbox(user, filter, after, limit)).await
    }

    async fn fill_inbox(&self, user: &UserId, places: &[InboxKey]) -> Result<(), Away> {
        let hints = self.hints.clone();
        let user = user.clone();
        let places = places.to_vec();
        self.deed(async move { hints.fill_inbox(&user, &places).await }).await
    }

    async fn connect(&self, user: &UserId, node: &NodeId) -> Result<(), Away> {
        let hints = self.hints.clone();
        let user = user.clone();
        let node = node.clone();
        self.deed(async move { hints.connect(&user, &node).await }).await
    }

    async fn disconnect(&self, user: &UserId, node: &NodeId) -> Result<(), Away> {
        let hints = self.hints.clone();
        let user = user.clone();
        let node = node.clone();
        self.deed(async move { hints.disconnect(&user, &node).await }).await
    }

    async fn recently_reserved(&self, since: Timestamp) -> Result<Vec<ConversationId>, Away> {
        self.pass(self.hints.recently_reserved(since)).await
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn late_operation_takes_effect_after_the_caller_got_an_error() {
        let wire = Wire::new(MemoryHints::default(), Arc::default(), Dice::new(7));
        let conversation = ConversationId::group([7; 15]);
        let user: UserId = "alice".parse().unwrap();
        wire.acts_late.store(1, Ordering::SeqCst);
        assert!(wire.connect(&user, &NodeId::new("node-1".to_owned())).await.is_err());
        let users = [user];
        let nodes = async || {
            let all = wire.whereabouts(conversation, &users).await.unwrap();
            all.iter().map(|touched| touched.nodes.len()).sum::<usize>()
        };
        assert_eq!(nodes().await, 0);
        sleep(Duration::from_secs(6)).await;
        assert_eq!(nodes().await, 1);
    }
}
