//! Ticks: forward only, read implies delivered, and nothing that no device said.

use std::collections::BTreeMap;

use bluetick_core::{ConversationId, UserId};

use super::{Auditor, Guarantee};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Boundaries {
    pub delivered: u64,
    pub read: u64,
}

#[derive(Default)]
pub struct Ticks {
    /// The furthest that any device of somebody said, from the moment it said so. A message of one's own says that all
    /// before it was read.
    said: BTreeMap<(ConversationId, UserId), Boundaries>,
    /// What each observer was told last of somebody.
    told: BTreeMap<(String, ConversationId, UserId), Boundaries>,
}

impl Auditor {
    /// A device is about to say how far it has come.
    pub fn says(&mut self, id: ConversationId, user: &UserId, said: Boundaries) {
        let before = self.ticks.said.entry((id, user.clone())).or_default();
        before.delivered = before.delivered.max(said.delivered).max(said.read);
        before.read = before.read.max(said.read);
    }

    /// `observer` was told how far somebody has come. An observer is somebody to whom time goes one way: a connection, or
    /// one person who asks one question after the other.
    pub fn told(&mut self, observer: &str, id: ConversationId, user: &UserId, now: Boundaries) {
        if now.read > now.delivered {
            let what = format!(
                "{observer} was told that {user} has read up to {} and has only up to {}",
                now.read, now.delivered
            );
            return self.find(Guarantee::TicksForward, Some(id), what);
        }
        let key = (observer.to_owned(), id, user.clone());
        let before = self.ticks.told.insert(key, now).unwrap_or_default();
        if now.delivered < before.delivered || now.read < before.read {
            let what = format!("{observer} was told of {user} first {before:?} and then {now:?}");
            return self.find(Guarantee::TicksForward, Some(id), what);
        }
        let said = self.ticks.said.get(&(id, user.clone())).copied().unwrap_or_default();
        let own = self.own_newest(id, user).saturating_sub(1);
        let most = Boundaries { delivered: said.delivered.max(own), read: said.read.max(own) };
        // A message of its own says so too, also while nobody has seen yet where it is.
        if (now.delivered > most.delivered || now.read > most.read) && !self.has_message_on_its_way(id, user)
        {
            let what = format!("{observer} was told of {user} {now:?}; its devices said {most:?} at most");
            self.find(Guarantee::DeliveredByDevice, Some(id), what);
        }
    }

    fn has_message_on_its_way(&self, id: ConversationId, user: &UserId) -> bool {
        let Some(known) = self.conversations.get(&id) else { return false };
        let own = known
            .attempts
            .range((user.clone(), String::new())..)
            .take_while(|((sender, _), _)| sender == user);
        own.into_iter().any(|(attempt, _)| !known.places.contains_key(attempt))
    }

    /// The newest place with a message of this person, as far as anybody has seen.
    fn own_newest(&self, id: ConversationId, user: &UserId) -> u64 {
        let Some(known) = self.conversations.get(&id) else { return 0 };
        let own =
            known.places.range((user.clone(), String::new())..).take_while(|((sender, _), _)| sender == user);
        own.map(|(_, seq)| *seq).max().unwrap_or(0)
    }
}
