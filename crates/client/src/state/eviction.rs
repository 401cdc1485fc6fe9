//! Memory limits: which messages the client holds, and when it evicts them.

use std::collections::HashMap;
use std::sync::Arc;

use bluetick_types::{ConversationId, Seq, Timestamp};

use super::timeline::{Timeline, TimelineUpdate};
use super::{KEPT_MESSAGES, KEPT_TIMELINES, MOST_SHOWN, State};
use crate::wire::bodies::Message;

impl State {
    /// Adds a received message to its timeline and trims the timeline.
    pub(super) fn put_into_timeline(&mut self, message: &Arc<Message>, first_seq: Seq) {
        let is_watched = self.watched.contains_key(&message.conversation_id);
        let has_all = self.inbox.get(message.conversation_id).is_some_and(|row| row.have_seq >= message.seq);
        let timeline = self.timelines.entry(message.conversation_id).or_default();
        if timeline.take(message, first_seq) == TimelineUpdate::Passed {
            let window = timeline.window();
            if !(has_all && window.reaches_head && message.seq > window.to_seq.next()) {
                return;
            }
            // The device has received the messages in between, but this timeline does not hold
            // them. Start a new run.
            timeline.begin_anew();
            timeline.take(message, first_seq);
        }
        // Trim in large steps, so that the cost per message stays constant.
        let (most, left) =
            if is_watched { (MOST_SHOWN, MOST_SHOWN / 2) } else { (2 * KEPT_MESSAGES, KEPT_MESSAGES) };
        if timeline.messages().len() > most {
            timeline.drop_oldest(left);
        }
    }

    /// Returns the timeline and marks it as most recently used.
    pub fn touch(&mut self, id: ConversationId) -> &mut Timeline {
        self.looks += 1;
        let looks = self.looks;
        let timeline = self.timelines.entry(id).or_default();
        timeline.touched = looks;
        timeline
    }

    /// Adds a watcher.
    pub fn watch(&mut self, id: ConversationId) {
        self.touch(id);
        *self.watched.entry(id).or_default() += 1;
    }

    /// Removes a watcher. Without watchers, trims the timeline to the newest messages, or clears it
    /// if it does not reach the head.
    pub fn unwatch(&mut self, id: ConversationId) {
        let Some(count) = self.watched.get_mut(&id) else { return };
        *count -= 1;
        if *count > 0 {
            return;
        }
        self.watched.remove(&id);
        if let Some(timeline) = self.timelines.get_mut(&id) {
            if timeline.window().reaches_head {
                timeline.drop_oldest(KEPT_MESSAGES);
            } else {
                timeline.begin_anew();
            }
        }
    }

    /// Evicts unwatched timelines above `KEPT_TIMELINES`, least recently used first.
    pub fn let_go(&mut self) {
        if self.timelines.len() <= KEPT_TIMELINES {
            return;
        }
        let latest: HashMap<ConversationId, Timestamp> =
            self.inbox.rows().map(|row| (row.entry.conversation_id, row.entry.last_at)).collect();
        let mut ranked: Vec<_> = self
            .timelines
            .iter()
            .filter(|(id, _)| !self.watched.contains_key(id))
            .map(|(id, timeline)| (timeline.touched, latest.get(id).copied(), *id))
            .collect();
        ranked.sort();
        let surplus = self.timelines.len() - KEPT_TIMELINES;
        for (_, _, id) in ranked.into_iter().take(surplus) {
            self.timelines.remove(&id);
            self.dirty.insert(id);
        }
    }
}
