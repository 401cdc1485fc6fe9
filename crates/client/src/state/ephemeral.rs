//! Ephemeral state: typing and presence. It is never stored, and typing expires.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use bluetick_types::{ConversationId, UserId};
use tokio::time::Instant;

use crate::wire::bodies::Presence;

/// Minimum interval between two typing frames of one conversation. Must be shorter than `SHOWN`, or
/// the indicator flickers.
const TELL_EVERY: Duration = Duration::from_secs(3);
/// How long a user is shown as typing after the last typing frame. It must exceed `TELL_EVERY`, or
/// the indicator flickers.
const SHOWN: Duration = Duration::from_secs(5);
/// Maximum number of typing users held per conversation. Bounds memory.
const MOST_TYPISTS: usize = 50;
/// Maximum number of presences held. Bounds memory; further users have no known presence.
const MOST_PRESENCES: usize = 5_000;

/// Typing and presence of other users, and this user's typing frames.
#[derive(Default)]
pub struct Signals {
    typists: HashMap<ConversationId, HashMap<UserId, Instant>>,
    presence: HashMap<UserId, Presence>,
    told_at: HashMap<ConversationId, Instant>,
    to_tell: BTreeSet<ConversationId>,
}

impl Signals {
    /// Records that this user is typing. Returns whether a typing frame is due; if so, queues it.
    pub fn typing_here(&mut self, id: ConversationId, now: Instant) -> bool {
        let is_news = self.told_at.get(&id).is_none_or(|told| now.duration_since(*told) >= TELL_EVERY);
        if is_news {
            self.told_at.retain(|_, told| now.duration_since(*told) < TELL_EVERY);
            self.told_at.insert(id, now);
            self.to_tell.insert(id);
        }
        is_news
    }

    /// Records that this user's message was sent. The next key press sends a typing frame at once.
    pub fn sent_here(&mut self, id: ConversationId) {
        self.told_at.remove(&id);
        self.to_tell.remove(&id);
    }

    /// Takes the conversations that a typing frame is due for.
    pub fn take_to_tell(&mut self) -> BTreeSet<ConversationId> {
        std::mem::take(&mut self.to_tell)
    }

    /// Records that another user is typing.
    pub fn somebody_types(&mut self, id: ConversationId, user: UserId, now: Instant) {
        let typists = self.typists.entry(id).or_default();
        if typists.len() < MOST_TYPISTS || typists.contains_key(&user) {
            typists.insert(user, now + SHOWN);
        }
    }

    /// Records that the message of a typing user has arrived.
    pub fn stopped_typing(&mut self, id: ConversationId, user: &UserId) {
        if let Some(typists) = self.typists.get_mut(&id) {
            typists.remove(user);
        }
    }

    /// The users who are typing, sorted by user id.
    pub fn typists(&self, id: ConversationId, now: Instant) -> Vec<UserId> {
        let typists = self.typists.get(&id).into_iter().flatten();
        let mut names: Vec<UserId> =
            typists.filter(|(_, until)| **until > now).map(|(user, _)| user.clone()).collect();
        names.sort();
        names
    }

    /// When the next typing indicator expires.
    pub fn next_fading(&self) -> Option<Instant> {
        self.typists.values().flat_map(HashMap::values).copied().min()
    }

    /// Removes expired typing indicators. Returns whether any expired.
    pub fn fade(&mut self, now: Instant) -> bool {
        let before: usize = self.typists.values().map(HashMap::len).sum();
        for typists in self.typists.values_mut() {
            typists.retain(|_, until| *until > now);
        }
        self.typists.retain(|_, typists| !typists.is_empty());
        before > self.typists.values().map(HashMap::len).sum()
    }

    pub fn learn_presence(&mut self, presence: Presence) {
        if self.presence.len() < MOST_PRESENCES || self.presence.contains_key(&presence.user_id) {
            self.presence.insert(presence.user_id.clone(), presence);
        }
    }

    pub fn presence(&self, user: &UserId) -> Option<&Presence> {
        self.presence.get(user)
    }

    /// Forgets everything. Without a connection, presence and typing are unknown.
    pub fn clear(&mut self) {
        *self = Signals::default();
    }
}

#[cfg(test)]
mod tests {
    use super::super::test_support::{direct, user};
    use super::*;

    #[tokio::test]
    async fn typing_is_sent_every_three_seconds_and_at_once_after_a_message() {
        let mut signals = Signals::default();
        let now = Instant::now();
        assert!(signals.typing_here(direct(), now));
        assert!(!signals.typing_here(direct(), now + Duration::from_secs(2)));
        assert!(signals.typing_here(direct(), now + Duration::from_secs(3)));
        signals.sent_here(direct());
        assert!(signals.typing_here(direct(), now + Duration::from_secs(4)));
        assert_eq!(signals.take_to_tell().len(), 1);
    }

    #[tokio::test]
    async fn typing_ends_after_five_seconds_or_with_the_message() {
        let mut signals = Signals::default();
        let now = Instant::now();
        signals.somebody_types(direct(), user("bob"), now);
        signals.somebody_types(direct(), user("carol"), now);
        signals.stopped_typing(direct(), &user("carol"));
        assert_eq!(signals.typists(direct(), now + Duration::from_secs(4)), [user("bob")]);
        assert!(signals.fade(now + Duration::from_secs(5)));
        assert_eq!(signals.typists(direct(), now), []);
    }
}
