//! Who is connected to this node, what they were pushed and have not acknowledged, and which nodes live.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, MutexGuard};

use bluetick_core::ports::Committed;
use bluetick_core::{ConversationId, Seq, UserId};

use crate::NodeId;
use crate::keyed::OneAtATime;

#[derive(Default)]
pub(crate) struct Local {
    /// One coming or going at a time for each user.
    pub turns: OneAtATime<UserId>,
    here: Mutex<HashMap<UserId, Unanswered>>,
    living: Mutex<HashSet<NodeId>>,
    /// Those who were connected to a node that died: what they missed is looked for everywhere.
    unclean: Mutex<HashSet<UserId>>,
}

/// By conversation, the first and the last message that was pushed and not acknowledged.
type Unanswered = HashMap<ConversationId, (Seq, Seq)>;

impl Local {
    fn here(&self) -> MutexGuard<'_, HashMap<UserId, Unanswered>> {
        self.here.lock().expect("nothing panics while it holds the lock")
    }

    /// Whether that is new.
    pub fn came(&self, user: &UserId) -> bool {
        let mut here = self.here();
        let is_new = !here.contains_key(user);
        here.entry(user.clone()).or_default();
        is_new
    }

    /// What it leaves unanswered: each conversation with the first such place.
    pub fn went(&self, user: &UserId) -> Vec<(ConversationId, Seq)> {
        let unanswered = self.here().remove(user).unwrap_or_default();
        unanswered.into_iter().map(|(id, (first, _))| (id, first)).collect()
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
                for (user, unanswered) in here.iter_mut() {
                    let member = committed.members.get(user).filter(|member| committed.concerns(member));
                    if member.is_some() && *user != message.sender {
                        note(unanswered);
                    }
                }
            } else {
                for member in committed.members.iter().filter(|member| committed.concerns(member)) {
                    if member.user != message.sender
                        && let Some(unanswered) = here.get_mut(&member.user)
                    {
                        note(unanswered);
                    }
                }
            }
        }
    }

    pub fn acknowledged(&self, user: &UserId, id: ConversationId, through: Seq) {
        let mut here = self.here();
        let Some(unanswered) = here.get_mut(user) else { return };
        if let Some((first, last)) = unanswered.get_mut(&id) {
            if through >= *last {
                unanswered.remove(&id);
            } else {
                *first = (*first).max(through.next());
            }
        }
    }

    /// The user has left the conversation.
    pub fn forget(&self, user: &UserId, id: ConversationId) {
        if let Some(unanswered) = self.here().get_mut(user) {
            unanswered.remove(&id);
        }
    }

    /// Returns who has died.
    pub fn set_living(&self, living: impl IntoIterator<Item = NodeId>) -> Vec<NodeId> {
        let now: HashSet<_> = living.into_iter().collect();
        let mut living = self.living.lock().expect("nothing panics while it holds the lock");
        let died = living.difference(&now).cloned().collect();
        *living = now;
        died
    }

    pub fn living(&self) -> Vec<NodeId> {
        self.living.lock().expect("nothing panics while it holds the lock").iter().cloned().collect()
    }

    pub fn lives(&self, node: &NodeId) -> bool {
        self.living.lock().expect("nothing panics while it holds the lock").contains(node)
    }

    pub fn any_other_lives(&self, own: &NodeId, nodes: &[NodeId]) -> bool {
        let living = self.living.lock().expect("nothing panics while it holds the lock");
        nodes.iter().any(|node| node != own && living.contains(node))
    }

    pub fn set_unclean(&self, user: &UserId) {
        self.unclean.lock().expect("nothing panics while it holds the lock").insert(user.clone());
    }

    /// Once.
    pub fn take_unclean(&self, user: &UserId) -> bool {
        self.unclean.lock().expect("nothing panics while it holds the lock").remove(user)
    }
}
