//! Checks the message log: order, loss, duplicates, overwrites and density.

use bluetick_core::{ConversationId, UserId};
use serde_json::Value;

use super::{Auditor, Guarantee, Moment, ObservedConversation};

/// A message as a client received it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReceivedMessage {
    pub sender: String,
    pub message_id: String,
    pub content: String,
    pub content_type: String,
}

/// The known state when a client began to read a history. Messages that became known later may be
/// missing from it.
#[derive(Clone, Copy)]
pub struct HistoryReadStart {
    at: Moment,
    newest: u64,
}

impl ReceivedMessage {
    /// Parses a `message` frame or a message of a page.
    pub fn read(message: &Value) -> Option<(u64, ReceivedMessage)> {
        let text = |name: &str| Some(message.get(name)?.as_str()?.to_owned());
        let seen = ReceivedMessage {
            sender: text("sender_id")?,
            message_id: text("message_id")?,
            content: text("content")?,
            content_type: text("content_type").unwrap_or_else(|| "text".to_owned()),
        };
        Some((message.get("seq")?.as_u64()?, seen))
    }

    /// Returns whether a user sent the message: it is neither a notice nor a void.
    pub fn is_sent(&self) -> bool {
        self.content_type != "system" && self.content_type != "void"
    }
}

impl ObservedConversation {
    /// Finds a tick that was published before `before` and was above the head at that time.
    /// Requires that all seqs are known. A message counts as stored at that time if its first
    /// attempt was earlier or is unknown. Seqs below it may be filled later.
    fn tick_ahead(&self, before: Moment) -> Option<String> {
        let was_there = |seen: &ReceivedMessage, told: Moment| {
            let sender = seen.sender.parse::<UserId>().ok().filter(|_| seen.is_sent());
            let Some(sender) = sender else { return true };
            self.attempts.get(&(sender, seen.message_id.clone())).is_none_or(|(_, sent)| *sent < told)
        };
        let ahead = self
            .claims
            .iter()
            .filter(|(_, told)| **told < before)
            .find(|(tick, told)| !self.cells.range(**tick..).any(|(_, seen)| was_there(seen, **told)));
        ahead.map(|(tick, _)| {
            let seen = self.cells.get(tick);
            format!("a tick at {tick} was published before the message there or above was sent: {seen:?}")
        })
    }
}

impl Auditor {
    /// Records that a client is about to send a message. Only the first attempt is kept.
    pub fn attempted(&mut self, id: ConversationId, sender: &UserId, message_id: &str, content: &str) {
        let now = self.moment();
        let known = self.known(id);
        known
            .attempts
            .entry((sender.clone(), message_id.to_owned()))
            .or_insert_with(|| (content.to_owned(), now));
    }

    /// Records that a client received the ack of its message.
    pub fn acknowledged(&mut self, id: ConversationId, sender: &UserId, message_id: &str, seq: u64) {
        let known = self.known(id);
        known.acknowledged = known.acknowledged.max(seq);
        let key = (sender.clone(), message_id.to_owned());
        let Some((content, _)) = known.attempts.get(&key).cloned() else {
            let what = format!("{sender} got an ack of {message_id}, which it never sent");
            return self.find(Guarantee::NoOverwrite, Some(id), what);
        };
        let seen = ReceivedMessage {
            sender: sender.to_string(),
            message_id: message_id.to_owned(),
            content,
            content_type: "text".to_owned(),
        };
        self.saw(id, seq, &seen);
    }

    /// Records that a client received the message at `seq`. Reports an overwrite, a duplicate,
    /// content that was never sent, or a wrong message at a seq that must explain a tick.
    pub fn saw(&mut self, id: ConversationId, seq: u64, seen: &ReceivedMessage) {
        let known = self.known(id);
        match known.cells.get(&seq) {
            Some(before) if before == seen => return,
            Some(before) => {
                let guarantee = match before.is_sent() && seen.is_sent() {
                    true => Guarantee::NoOverwrite,
                    // A void or a notice and another message were seen at the same seq.
                    false => Guarantee::Dense,
                };
                let what = format!("{seq} was {before:?} and is {seen:?}");
                return self.find(guarantee, Some(id), what);
            }
            None => {}
        }
        known.cells.insert(seq, seen.clone());
        if let Some((user, _)) = known.owed.remove(&seq)
            && !(seen.is_sent() && seen.sender == user.as_str())
        {
            let what = format!(
                "{user} was reported to have all below {seq} before its devices reported it: {seen:?}"
            );
            return self.find(Guarantee::DeliveredByDevice, Some(id), what);
        }
        let known = self.known(id);
        if !seen.is_sent() {
            return;
        }
        let Ok(sender) = seen.sender.parse::<UserId>() else {
            return self.find(
                Guarantee::NoOverwrite,
                Some(id),
                format!("{seq} has no valid sender: {seen:?}"),
            );
        };
        let key = (sender, seen.message_id.clone());
        let attempt = known.attempts.get(&key).filter(|(content, _)| *content == seen.content);
        if attempt.is_none() {
            let what = format!("{seq} has content that {} never sent: {seen:?}", seen.sender);
            return self.find(Guarantee::NoOverwrite, Some(id), what);
        }
        if let Some(before) = known.places.insert(key, seq)
            && before != seq
        {
            let what = format!("{} of {} is at {before} and at {seq}", seen.message_id, seen.sender);
            self.find(Guarantee::NoDuplicate, Some(id), what);
        }
    }

    /// Returns the highest acknowledged seq. A page or inbox requested from now on must include it.
    pub fn stored_so_far(&self, id: ConversationId) -> u64 {
        self.conversations.get(&id).map_or(0, |known| known.acknowledged)
    }

    /// Checks a page, newest first, of a member who is in the conversation from its creation.
    /// `stored` is the highest acknowledged seq when the page was requested.
    pub fn page(&mut self, id: ConversationId, before: Option<u64>, limit: usize, stored: u64, page: &Value) {
        let head = page["head_seq"].as_u64().unwrap_or(0);
        if head < stored {
            let what = format!("{stored} was acknowledged, and a page requested later ends at {head}");
            return self.find(Guarantee::NoLoss, Some(id), what);
        }
        let messages: Vec<_> =
            page["messages"].as_array().into_iter().flatten().filter_map(ReceivedMessage::read).collect();
        let mut expected = before.map_or(head, |before| head.min(before.saturating_sub(1)));
        let least = usize::try_from(expected).unwrap_or(usize::MAX).min(limit);
        for (seq, seen) in &messages {
            if *seq != expected {
                let what = format!("a page has {seq} instead of {expected}");
                return self.find(Guarantee::Dense, Some(id), what);
            }
            expected = expected.saturating_sub(1);
            self.saw(id, *seq, seen);
        }
        if messages.len() < least {
            let what =
                format!("a page of {least} has only {} messages, down to {}", messages.len(), expected + 1);
            self.find(Guarantee::Dense, Some(id), what);
        }
    }

    /// Records that a client begins to read the whole history.
    pub fn begins_to_read(&mut self, id: ConversationId) -> HistoryReadStart {
        let newest = self.known(id).cells.last_key_value().map_or(0, |(seq, _)| *seq);
        HistoryReadStart { at: self.moment(), newest }
    }

    /// Checks the whole history at the end of the run, read by a member who is in the conversation
    /// from its creation.
    pub fn whole_history(
        &mut self,
        id: ConversationId,
        history: &[(u64, ReceivedMessage)],
        begun: HistoryReadStart,
    ) {
        for (expected, (seq, seen)) in (1..).zip(history) {
            if *seq != expected {
                return self.find(Guarantee::Dense, Some(id), format!("the final history lacks {expected}"));
            }
            self.saw(id, *seq, seen);
        }
        let head = history.last().map_or(0, |(seq, _)| *seq);
        let known = self.known(id);
        let lost = known
            .cells
            .range(head + 1..)
            .take_while(|(seq, _)| **seq <= begun.newest)
            .next()
            .map(|(seq, seen)| (*seq, seen.clone()));
        if let Some((seq, seen)) = lost {
            let what = format!("{seq} was received or acknowledged and is lost: {seen:?}");
            return self.find(Guarantee::NoLoss, Some(id), what);
        }
        if let Some(what) = known.tick_ahead(begun.at) {
            return self.find(Guarantee::TicksForward, Some(id), what);
        }
        let owed = known.owed.iter().find(|(_, (_, told))| *told < begun.at);
        if let Some((seq, (user, _))) = owed {
            let what = format!("{user} was reported to have all below {seq}, which no device reported");
            self.find(Guarantee::DeliveredByDevice, Some(id), what);
        }
    }

    /// Returns the number of seqs known contiguously from 1.
    pub fn known_head(&self, id: ConversationId) -> u64 {
        let Some(known) = self.conversations.get(&id) else { return 0 };
        known.cells.keys().zip(1..).take_while(|(seq, expected)| **seq == *expected).count() as u64
    }
}
