//! Who is connected to this node, what they were pushed and have not acknowledged, and which nodes live.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use bluetick_core::ports::Committed;
use bluetick_core::{ConversationId, Seq, Timestamp, UserId};
use tokio::time::Instant;

use crate::NodeId;
use crate::keyed::OneAtATime;

#[derive(Default)]
pub(crate) struct Local {
    /// One coming or going at a time for each user.
    pub turns: OneAtATime<UserId>,
    here: Mutex<HashMap<UserId, Presence>>,
    /// `None` until it was asked for the first time.
    living: Mutex<Option<HashSet<NodeId>>>,
    /// Somebody was to be told something before it was known who lives.
    asked_early: AtomicBool,
    /// Those who may have missed something where they were connected before, and since when.
    doubts: Mutex<HashMap<UserId, Timestamp>>,
    /// Who went lately, since it takes a moment to notice that news were lost.
    departed: Mutex<VecDeque<(Instant, UserId)>>,
    /// How often news may have been lost, and how many of these times everybody here has been checked since.
    troubles: AtomicU64,
    checked: AtomicU64,
}

/// Who was not among the living the last time, and who is not any more.
pub(crate) struct LivingNow {
    pub newcomers: Vec<NodeId>,
    pub dead: Vec<NodeId>,
}

/// By then it is noticed that news were lost.
const LATELY: Duration = Duration::from_secs(15);
const MOST_DEPARTED: usize = 50_000;

#[derive(Default)]
struct Presence {
    unanswered: Unanswered,
    /// It is known what the user is owed, and it is being sent.
    is_caught_up: bool,
}

/// By conversation, the first and the last message that was sent, or that the device said it has, and that was not
/// acknowledged.
type Unanswered = HashMap<ConversationId, (Seq, Seq)>;

impl Local {
    fn here(&self) -> MutexGuard<'_, HashMap<UserId, Presence>> {
        self.here.lock().expect("nothing panics while it holds the lock")
    }

    /// Whether that is new.
    pub fn user_connected(&self, user: &UserId) -> bool {
        let mut here = self.here();
        let is_new = !here.contains_key(user);
        here.entry(user.clone()).or_default();
        is_new
    }

    /// What it leaves unanswered: each conversation with the first such place.
    pub fn user_disconnected(&self, user: &UserId) -> Vec<(ConversationId, Seq)> {
        let unanswered = self.here().remove(user).unwrap_or_default().unanswered;
        unanswered.into_iter().map(|(id, (first, _))| (id, first)).collect()
    }

    /// Conversations of which it was pushed something here that it has not acknowledged.
    pub fn unanswered(&self, user: &UserId) -> Vec<ConversationId> {
        self.here().get(user).map(|there| there.unanswered.keys().copied().collect()).unwrap_or_default()
    }

    pub fn is_here(&self, user: &UserId) -> bool {
        self.here().contains_key(user)
    }

    pub fn everybody(&self) -> Vec<UserId> {
        self.here().keys().cloned().collect()
    }

    pub fn pushed(&self, batch: &[Committed]) {
        let mut here = self.here();
        if here.is_empty() {
            return;
        }
        for committed in batch {
            let message = &committed.message;
            let note = |unanswered: &mut Unanswered| {
                let place = unanswered.entry(message.conversation).or_insert((message.seq, message.seq));
                place.1 = place.1.max(message.seq);
            };
            if here.len() < committed.members.len() {
                for (user, there) in here.iter_mut() {
                    let member = committed.members.get(user).filter(|member| committed.concerns(member));
                    if member.is_some() && *user != message.sender {
                        note(&mut there.unanswered);
                    }
                }
            } else {
                for member in committed.members.iter().filter(|member| committed.concerns(member)) {
                    if member.user != message.sender
                        && let Some(there) = here.get_mut(&member.user)
                    {
                        note(&mut there.unanswered);
                    }
                }
            }
        }
    }

    /// The user is sent these, having come back, or has said that it has them.
    pub fn is_sent(&self, user: &UserId, id: ConversationId, first: Seq, last: Seq) {
        if first <= last
            && let Some(there) = self.here().get_mut(user)
        {
            let place = there.unanswered.entry(id).or_insert((first, last));
            *place = (place.0.min(first), place.1.max(last));
        }
    }

    /// What the user has been sent and not acknowledged: the first and the last.
    pub fn sent_to(&self, user: &UserId, id: ConversationId) -> Option<(Seq, Seq)> {
        self.here().get(user)?.unanswered.get(&id).copied()
    }

    /// All that the user is owed has been noted as sent.
    pub fn caught_up(&self, user: &UserId) {
        if let Some(there) = self.here().get_mut(user) {
            there.is_caught_up = true;
        }
    }

    /// `None` where the user is not here.
    pub fn is_caught_up(&self, user: &UserId) -> Option<bool> {
        self.here().get(user).map(|there| there.is_caught_up)
    }

    pub fn acknowledged(&self, user: &UserId, id: ConversationId, through: Seq) {
        let mut here = self.here();
        let Some(Presence { unanswered, .. }) = here.get_mut(user) else { return };
        if let Some((first, last)) = unanswered.get_mut(&id) {
            if through >= *last {
                unanswered.remove(&id);
            } else {
                *first = (*first).max(through.next());
            }
        }
    }

    /// Whether the user was here when this place was told; one that has been acknowledged since counts as well, as long as
    /// something above it was.
    pub fn was_pushed(&self, user: &UserId, id: ConversationId, seq: Seq) -> bool {
        let here = self.here();
        let range = here.get(user).and_then(|there| there.unanswered.get(&id));
        range.is_some_and(|(_, last)| seq <= *last)
    }

    /// The user has left the conversation.
    pub fn forget(&self, user: &UserId, id: ConversationId) {
        if let Some(there) = self.here().get_mut(user) {
            there.unanswered.remove(&id);
        }
    }

    pub fn set_living(&self, living: impl IntoIterator<Item = NodeId>) -> LivingNow {
        let now: HashSet<_> = living.into_iter().collect();
        let mut living = self.living.lock().expect("nothing panics while it holds the lock");
        let before = living.take().unwrap_or_default();
        let newcomers = now.difference(&before).cloned().collect();
        let dead = before.difference(&now).cloned().collect();
        *living = Some(now);
        LivingNow { newcomers, dead }
    }

    pub fn living(&self) -> Vec<NodeId> {
        let living = self.living.lock().expect("nothing panics while it holds the lock");
        living.iter().flatten().cloned().collect()
    }

    /// Those who are to be told something.
    pub fn living_to_tell(&self, own: &NodeId) -> Vec<NodeId> {
        let living = self.living.lock().expect("nothing panics while it holds the lock");
        if living.is_none() {
            self.asked_early.store(true, Ordering::SeqCst);
        }
        living.iter().flatten().filter(|node| *node != own).cloned().collect()
    }

    pub fn was_asked_early(&self) -> bool {
        self.asked_early.load(Ordering::SeqCst)
    }

    pub fn lives(&self, node: &NodeId) -> bool {
        let living = self.living.lock().expect("nothing panics while it holds the lock");
        living.as_ref().is_some_and(|living| living.contains(node))
    }

    pub fn any_other_lives(&self, own: &NodeId, nodes: &[NodeId]) -> bool {
        nodes.iter().any(|node| node != own && self.lives(node))
    }

    pub fn doubt(&self, user: &UserId, since: Timestamp) {
        let mut doubts = self.doubts.lock().expect("nothing panics while it holds the lock");
        let known = doubts.entry(user.clone()).or_insert(since);
        *known = (*known).min(since);
    }

    pub fn doubt_of(&self, user: &UserId) -> Option<Timestamp> {
        self.doubts.lock().expect("nothing panics while it holds the lock").get(user).copied()
    }

    /// Everything since then was looked through, and is owed where it is.
    pub fn dispel_doubt(&self, user: &UserId, since: Timestamp) {
        let mut doubts = self.doubts.lock().expect("nothing panics while it holds the lock");
        if doubts.get(user) == Some(&since) {
            doubts.remove(user);
        }
    }

    /// News may have been lost.
    pub fn trouble(&self) {
        self.troubles.fetch_add(1, Ordering::SeqCst);
    }

    pub fn troubles(&self) -> u64 {
        self.troubles.load(Ordering::SeqCst)
    }

    /// Everybody connected here was checked after so many troubles.
    pub fn checked(&self, troubles: u64) {
        self.checked.store(troubles, Ordering::SeqCst);
    }

    pub fn is_troubled(&self) -> bool {
        self.troubles() != self.checked.load(Ordering::SeqCst)
    }

    pub fn note_departed(&self, user: &UserId) {
        let mut departed = self.departed.lock().expect("nothing panics while it holds the lock");
        while departed.front().is_some_and(|(at, _)| at.elapsed() > LATELY) || departed.len() >= MOST_DEPARTED
        {
            departed.pop_front();
        }
        departed.push_back((Instant::now(), user.clone()));
    }

    /// Who went lately and is not here again.
    pub fn take_departed(&self) -> Vec<UserId> {
        let departed =
            std::mem::take(&mut *self.departed.lock().expect("nothing panics while it holds the lock"));
        let lately = departed.into_iter().filter(|(at, user)| at.elapsed() <= LATELY && !self.is_here(user));
        lately.map(|(_, user)| user).collect()
    }
}
