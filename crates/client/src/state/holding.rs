//! How much is held: messages of many conversations, but not of all, and not without end.

use std::collections::HashMap;
use std::sync::Arc;

use bluetick_core::{ConversationId, Seq, Timestamp};

use super::timeline::{Taken, Timeline};
use super::{KEPT_MESSAGES, KEPT_TIMELINES, MOST_SHOWN, State};
use crate::wire::bodies::Message;

impl State {
    pub(super) fn put_into_timeline(&mut self, message: &Arc<Message>, first_seq: Seq) {
        let is_watched = self.watched.contains_key(&message.conversation_id);
        let has_all = self.inbox.get(message.conversation_id).is_some_and(|row| row.have_seq >= message.seq);
        let timeline = self.timelines.entry(message.conversation_id).or_default();
        if timeline.take(message, first_seq) == Taken::Passed {
            let window = timeline.window();
            if !(has_all && window.reaches_head && message.seq > window.to_seq.next()) {
                return;
            }
            // What lies between came while these messages were let go: the run begins anew.
            timeline.begin_anew();
            timeline.take(message, first_seq);
        }
        // Cut in steps, so that a message costs no more than itself.
        let (most, left) =
            if is_watched { (MOST_SHOWN, MOST_SHOWN / 2) } else { (2 * KEPT_MESSAGES, KEPT_MESSAGES) };
        if timeline.messages().len() > most {
            timeline.drop_oldest(left);
        }
    }

    /// Somebody looks at it.
    pub fn touch(&mut self, id: ConversationId) -> &mut Timeline {
        self.looks += 1;
        let looks = self.looks;
        let timeline = self.timelines.entry(id).or_default();
        timeline.touched = looks;
        timeline
    }

    pub fn watch(&mut self, id: ConversationId) {
        self.touch(id);
        *self.watched.entry(id).or_default() += 1;
    }

    /// Nobody looks any more: a few of the newest are enough, and of a run that does not reach them nothing.
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

    /// Lets go of messages that nobody looks at: those looked at longest ago first.
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
