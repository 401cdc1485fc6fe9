//! Hints in memory, with the ways in which Redis fails: it can go away, forget everything, and fall back in time.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard};

use async_trait::async_trait;
use bluetick_core::{ConversationId, InboxFilter, InboxKey, InboxSection, Seq, Timestamp, UserId};
use tokio::time::Instant;

use super::{Away, Glance, Hints, MessageKey, Place, RegistryCopy, Reserve, Reserved, Seed, Touched};
use crate::NodeId;

/// Shared by all nodes that clone it.
#[derive(Clone, Default)]
pub struct MemoryHints(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    away: bool,
    calls: u64,
    forgets_every: Option<u64>,
    conversations: HashMap<ConversationId, Known>,
    people: HashMap<UserId, Somebody>,
}

#[derive(Clone, Default)]
struct Known {
    reserved: Seq,
    settled: Seq,
    last_at: Timestamp,
    reserved_at: Timestamp,
    seeded_at: Option<Instant>,
    seeded_head: Seq,
    members_version: u64,
    ids: HashMap<MessageKey, Seq>,
    sent: HashMap<UserId, Seq>,
    registry: Option<RegistryCopy>,
}

#[derive(Default)]
struct Somebody {
    nodes: BTreeSet<NodeId>,
    pending: BTreeSet<ConversationId>,
    shelves: BTreeMap<ConversationId, (InboxSection, Timestamp)>,
    complete: bool,
}

impl State {
    fn forget(&mut self) {
        self.conversations.clear();
        self.people.clear();
    }
}

impl MemoryHints {
    pub fn set_away(&self, away: bool) {
        self.lock().away = away;
    }

    /// As after FLUSHALL.
    pub fn forget_everything(&self) {
        self.lock().forget();
    }

    /// The same again and again, each time after so many calls.
    pub fn forget_every(&self, calls: u64) {
        self.lock().forgets_every = Some(calls);
    }

    /// As when somebody sets a counter back.
    pub fn rewind(&self, conversation: ConversationId, by: u64) {
        if let Some(known) = self.lock().conversations.get_mut(&conversation) {
            known.reserved = known.reserved.minus(by);
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().expect("no call panics while it holds the lock")
    }

    fn there(&self) -> Result<MutexGuard<'_, State>, Away> {
        let mut state = self.lock();
        state.calls += 1;
        if state.forgets_every.is_some_and(|every| state.calls.is_multiple_of(every)) {
            state.forget();
        }
        if state.away { Err(Away("as the test wants it".into())) } else { Ok(state) }
    }
}

impl Known {
    fn hear(&mut self, copy: &RegistryCopy) {
        if self.registry.as_ref().is_none_or(|there| copy.is_later_than(there)) {
            self.registry = Some(copy.clone());
        }
    }
}

impl Somebody {
    fn touched(&self, conversation: ConversationId) -> Touched {
        Touched { nodes: self.nodes.iter().cloned().collect(), pending: self.pending.contains(&conversation) }
    }

    fn raise(&mut self, conversation: ConversationId, at: Timestamp) {
        let place = self.shelves.entry(conversation).or_insert((InboxSection::Ordinary, at));
        place.1 = place.1.max(at);
    }
}

#[async_trait]
impl Hints for MemoryHints {
    async fn reserve(&self, reserve: &Reserve) -> Result<Reserved, Away> {
        let mut state = self.there()?;
        let Some(known) = state.conversations.get_mut(&reserve.conversation) else {
            return Ok(Reserved::Unseeded);
        };
        known.last_at = known.last_at.max(reserve.now);
        known.reserved_at = reserve.now;
        known.settled = known.settled.max(reserve.settled);
        let before = known.ids.get(&reserve.id).copied();
        let kept = before.filter(|seq| Some(*seq) != reserve.instead_of);
        let seq = kept.unwrap_or_else(|| {
            known.reserved = known.reserved.next();
            known.reserved
        });
        known.ids.insert(reserve.id, seq);
        let sent = known.sent.entry(reserve.sender.clone()).or_default();
        *sent = (*sent).max(seq);
        Ok(Reserved::Place(Place {
            seq,
            known: kept.is_some(),
            last_at: known.last_at,
            members_version: known.members_version,
            settled: known.settled,
            seeded_ago: known.seeded_at.map(|at| at.elapsed()),
            seeded_head: known.seeded_head,
            registry: known.registry.clone().filter(|copy| copy.version > reserve.registry_version),
        }))
    }

    async fn seed(&self, seed: &Seed) -> Result<(), Away> {
        let mut state = self.there()?;
        if !seed.is_whole && !state.conversations.contains_key(&seed.conversation) {
            return Ok(());
        }
        let fresh = || Known { seeded_at: seed.read_at, seeded_head: seed.settled, ..Known::default() };
        let known = state.conversations.entry(seed.conversation).or_insert_with(fresh);
        known.reserved = known.reserved.max(seed.head);
        known.settled = known.settled.max(seed.settled);
        known.last_at = known.last_at.max(seed.last_at);
        known.members_version = known.members_version.max(seed.members_version);
        known.ids.extend(seed.ids.iter().map(|(id, seq, _)| (*id, *seq)));
        for (user, seq) in &seed.sent {
            let sent = known.sent.entry(user.clone()).or_default();
            *sent = (*sent).max(*seq);
        }
        if let Some(copy) = &seed.registry {
            known.hear(copy);
        }
        Ok(())
    }

    async fn glance(&self, conversation: ConversationId) -> Result<Option<Glance>, Away> {
        let state = self.there()?;
        Ok(state.conversations.get(&conversation).map(|known| Glance {
            reserved: known.reserved,
            settled: known.settled,
            members_version: known.members_version,
        }))
    }

    async fn sent(&self, conversation: ConversationId, users: &[UserId]) -> Result<Option<Vec<Seq>>, Away> {
        let state = self.there()?;
        let Some(known) = state.conversations.get(&conversation) else { return Ok(None) };
        let sent = |user| known.sent.get(user).copied().unwrap_or_default();
        Ok(Some(users.iter().map(sent).collect()))
    }

    async fn members_changed(&self, conversation: ConversationId, version: u64) -> Result<(), Away> {
        if let Some(known) = self.there()?.conversations.get_mut(&conversation) {
            known.members_version = known.members_version.max(version);
        }
        Ok(())
    }

    async fn registry_changed(&self, conversation: ConversationId, copy: &RegistryCopy) -> Result<(), Away> {
        if let Some(known) = self.there()?.conversations.get_mut(&conversation) {
            known.hear(copy);
        }
        Ok(())
    }

    async fn touch(
        &self,
        conversation: ConversationId,
        at: Timestamp,
        users: &[UserId],
    ) -> Result<Vec<Touched>, Away> {
        let mut state = self.there()?;
        let touched = users.iter().map(|user| {
            let somebody = state.people.entry(user.clone()).or_default();
            somebody.raise(conversation, at);
            somebody.touched(conversation)
        });
        Ok(touched.collect())
    }

    async fn whereabouts(
        &self,
        conversation: ConversationId,
        users: &[UserId],
    ) -> Result<Vec<Touched>, Away> {
        let state = self.there()?;
        let touched =
            |user| state.people.get(user).map(|somebody| somebody.touched(conversation)).unwrap_or_default();
        Ok(users.iter().map(touched).collect())
    }

    async fn set_pending(
        &self,
        user: &UserId,
        conversation: ConversationId,
        pending: bool,
    ) -> Result<(), Away> {
        let mut state = self.there()?;
        let somebody = state.people.entry(user.clone()).or_default();
        if pending {
            somebody.pending.insert(conversation);
        } else {
            somebody.pending.remove(&conversation);
        }
        Ok(())
    }

    async fn shelve(
        &self,
        user: &UserId,
        conversation: ConversationId,
        place: Option<(InboxSection, Timestamp)>,
    ) -> Result<(), Away> {
        let mut state = self.there()?;
        let somebody = state.people.entry(user.clone()).or_default();
        match place {
            Some(place) => somebody.shelves.insert(conversation, place),
            None => somebody.shelves.remove(&conversation),
        };
        Ok(())
    }

    async fn inbox(
        &self,
        user: &UserId,
        filter: InboxFilter,
        after: Option<InboxKey>,
        limit: usize,
    ) -> Result<Option<Vec<InboxKey>>, Away> {
        let state = self.there()?;
        let Some(somebody) = state.people.get(user).filter(|somebody| somebody.complete) else {
            return Ok(None);
        };
        let places = somebody.shelves.iter().map(|(id, (shelf, last_at))| InboxKey {
            shelf: *shelf,
            last_at: *last_at,
            id: *id,
        });
        let mut places: Vec<_> = places
            .filter(|place| filter.takes(place.shelf) && after.is_none_or(|after| *place > after))
            .collect();
        places.sort();
        places.truncate(limit);
        Ok(Some(places))
    }

    async fn fill_inbox(&self, user: &UserId, places: &[InboxKey]) -> Result<(), Away> {
        let mut state = self.there()?;
        let somebody = state.people.entry(user.clone()).or_default();
        for place in places {
            let there = somebody.shelves.entry(place.id).or_insert((place.shelf, place.last_at));
            *there = (place.shelf, there.1.max(place.last_at));
        }
        somebody.complete = true;
        Ok(())
    }

    async fn connect(&self, user: &UserId, node: &NodeId) -> Result<(), Away> {
        self.there()?.people.entry(user.clone()).or_default().nodes.insert(node.clone());
        Ok(())
    }

    async fn disconnect(&self, user: &UserId, node: &NodeId) -> Result<(), Away> {
        self.there()?.people.entry(user.clone()).or_default().nodes.remove(node);
        Ok(())
    }

    async fn recently_reserved(&self, since: Timestamp) -> Result<Vec<ConversationId>, Away> {
        let state = self.there()?;
        let recent = state.conversations.iter().filter(|(_, known)| known.reserved_at >= since);
        Ok(recent.map(|(id, _)| *id).collect())
    }
}
