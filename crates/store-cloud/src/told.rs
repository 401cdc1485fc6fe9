//! What people connected here were told of each other's read state. News of them come from several nodes in any order;
//! nobody is told less than before.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use bluetick_core::ports::{CommittedChange, ReadStateMoved};
use bluetick_core::{ConversationId, Member, MemberState, ReadState, Seq};

use crate::engine::Engine;
use crate::standings::Whose;

#[derive(Default)]
pub(crate) struct Told(Mutex<HashMap<Whose, Last>>);

#[derive(Clone, Copy, Default)]
struct Last {
    /// The joining it belongs to; whoever joins again starts again.
    joined: Seq,
    own: ReadState,
    shown: ReadState,
}

const MOST_KEPT: usize = 200_000;

fn further(one: ReadState, other: ReadState) -> ReadState {
    ReadState { delivered: one.delivered.max(other.delivered), read: one.read.max(other.read) }
}

impl Last {
    /// The same, never behind what was told before; `None` where nothing in it is new.
    fn forward(&mut self, moved: ReadStateMoved) -> Option<ReadStateMoved> {
        let before = *self;
        self.own = further(self.own, moved.own);
        self.shown = moved.shown.map_or(self.shown, |shown| further(self.shown, shown));
        let shown = moved.shown.is_some() && self.shown != before.shown;
        if self.own == before.own && !shown {
            return None;
        }
        let is_latest = self.own == moved.own;
        Some(ReadStateMoved {
            own: self.own,
            shown: shown.then_some(self.shown),
            unread: moved.unread.filter(|_| is_latest),
            ..moved
        })
    }
}

impl Engine {
    /// Tells that somebody's read state have moved, here or at another node, to the people connected here.
    pub(crate) fn tell_moved(&self, moved: ReadStateMoved) {
        let joined = moved.members.get(&moved.user).map_or(Seq::ZERO, |member| member.joined_seq);
        let whose = (moved.conversation, moved.user.clone());
        let mut told = self.told.0.lock().expect("a listener does not panic");
        if told.len() >= MOST_KEPT {
            told.clear();
        }
        let last = told.entry(whose).or_default();
        if last.joined != joined {
            *last = Last { joined, ..Last::default() };
        }
        // Under the lock, so that two cannot change places.
        if let Some(moved) = last.forward(moved) {
            self.listener.changed(vec![CommittedChange::ReadState(moved)]);
        }
    }

    /// Whether people here have been told that a member has come so far. If not, another device of it has, at another node:
    /// then what one of its devices says is news to that very device, too.
    pub(crate) fn was_told_here(&self, id: ConversationId, member: &Member, own: ReadState) -> bool {
        let told = self.told.0.lock().expect("a listener does not panic");
        let last = told.get(&(id, member.user.clone())).filter(|last| last.joined == member.joined_seq);
        let last = last.map_or(ReadState::default(), |last| last.own);
        further(last, own) == last
    }

    /// Where a member stands, as it sees itself or others do: never behind what people here were told of it.
    pub(crate) fn at_least_as_told(
        &self,
        id: ConversationId,
        member: &Member,
        member_state: &MemberState,
        own: bool,
    ) -> ReadState {
        let told = self.told.0.lock().expect("a listener does not panic");
        let last = told.get(&(id, member.user.clone())).filter(|last| last.joined == member.joined_seq);
        let last = last.copied().unwrap_or_default();
        if own { further(member_state.own(), last.own) } else { further(member_state.shown(), last.shown) }
    }

    /// The same, of another node's news: nobody hears that somebody has a message that it has not been told of itself.
    pub(crate) async fn hear_moved(self: &Arc<Engine>, moved: ReadStateMoved) {
        let id = moved.conversation;
        let through =
            moved.shown.map_or(moved.own.delivered, |shown| shown.delivered.max(moved.own.delivered));
        if self.rooms.announced(id).is_none_or(|announced| announced >= through) {
            return self.tell_moved(moved);
        }
        let engine = Arc::clone(self);
        tokio::spawn(async move {
            match engine.catch_up_to(id, through).await {
                Ok(()) => engine.tell_moved(moved),
                Err(error) => {
                    tracing::debug!(conversation = %id, %error, "that somebody moved is not told yet");
                    engine.repair.notify_one();
                }
            }
        });
    }
}
