//! Typing indicators: ephemeral events for the connected members, never stored.

use std::collections::HashMap;
use std::time::Duration;

use bluetick_core::{ConversationId, Members, UserId};
use bluetick_wire::frame::encode_typing;
use parking_lot::Mutex;
use tokio::time::Instant;

use super::messages::each_member;
use super::{EncodedFrame, Sessions};
use crate::metrics::{Dropped, Metrics};

/// Number of members above which all typing events of a group share one rate limit. A larger value
/// multiplies the frames of busy groups.
const LARGE_GROUP: usize = 50;

/// Minimum interval between two typing events of such a group. A shorter one multiplies the frames;
/// a longer one makes indicators disappear while a member types.
const GROUP_INTERVAL: Duration = Duration::from_secs(1);

/// A rate limit per key: one event per `interval`. Tracks at most `max_keys` keys; while all of
/// them are active, events of new keys are refused.
pub(crate) struct Throttle<Key> {
    interval: Duration,
    max_keys: usize,
    last_event: HashMap<Key, Instant>,
}

impl<Key: std::hash::Hash + Eq> Throttle<Key> {
    pub fn new(interval: Duration, max_keys: usize) -> Throttle<Key> {
        Throttle { interval, max_keys, last_event: HashMap::new() }
    }

    /// Returns whether an event of this key is allowed now, and records it if so.
    pub fn allows(&mut self, key: Key) -> bool {
        let now = Instant::now();
        if self.last_event.get(&key).is_some_and(|last_event| now < *last_event + self.interval) {
            return false;
        }
        if self.last_event.len() >= self.max_keys {
            let interval = self.interval;
            self.last_event.retain(|_, last_event| now < *last_event + interval);
            if self.last_event.len() >= self.max_keys {
                return false;
            }
        }
        self.last_event.insert(key, now);
        true
    }
}

/// Delivers typing events to the sessions of this node.
pub(super) struct TypingIndicators {
    groups: Mutex<Throttle<ConversationId>>,
}

impl TypingIndicators {
    pub fn new() -> TypingIndicators {
        TypingIndicators { groups: Mutex::new(Throttle::new(GROUP_INTERVAL, 4_096)) }
    }

    /// Pushes a typing event to the other members. Returns `false` if the group's rate limit
    /// dropped it.
    pub fn push(
        &self,
        sessions: &Sessions,
        metrics: &Metrics,
        id: ConversationId,
        members: &Members,
        user: &UserId,
    ) -> bool {
        if members.len() > LARGE_GROUP && !self.groups.lock().allows(id) {
            metrics.dropped(Dropped::Ephemeral, 1);
            return false;
        }
        let frame = EncodedFrame::from(encode_typing(id, user));
        let (mut pushes, mut dropped) = (0, 0);
        each_member(sessions, members, |member| member.user != *user, &mut |session| match session
            .outbox
            .push_ephemeral(frame.clone())
        {
            true => pushes += 1,
            false => dropped += 1,
        });
        metrics.pushes.inc_by(pushes);
        metrics.dropped(Dropped::Ephemeral, dropped);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn throttle_limits_each_key_and_refuses_new_keys_when_full() {
        let mut throttle = Throttle::new(Duration::from_secs(2), 2);
        assert_eq!(["a", "a", "b", "c"].map(|key| throttle.allows(key)), [true, false, true, false]);
        tokio::time::advance(Duration::from_secs(1)).await;
        assert!(!throttle.allows("a"));
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(["c", "a", "b"].map(|key| throttle.allows(key)), [true, true, false]);
    }
}
