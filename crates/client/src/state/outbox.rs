//! The outbox: messages that the server has not acknowledged. Each is stored before its first
//! attempt. It stays under the same message_id until the server stores it or the user cancels it.
//!
//! At most one message per conversation is in flight. With two, a rate limit refusal of the first
//! would let the second overtake it. Conversations do not wait for each other.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};

use bluetick_types::{ConversationId, MessageId, Seq, Timestamp};
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use crate::wire::codes::CONVERSATION_NOT_FOUND;
use crate::wire::text;

/// Maximum number of messages in the outbox, failed ones included. `send` returns
/// `SendError::OutboxFull` above it.
pub const MOST_WAITING: usize = 1_000;
/// Maximum number of messages in flight, one per conversation. Must stay below the server's limit
/// of 256 queued sends per connection.
const MOST_IN_FLIGHT: usize = 32;
/// Number of finished messages whose send state can still be queried. It bounds memory.
const REMEMBERED: usize = 1_000;

/// A message that the server has not acknowledged, as far as this device knows.
#[derive(Clone, PartialEq, Eq, Deserialize, Serialize)]
pub struct OutboxItem {
    /// Position in the order of writing.
    pub number: u64,
    #[serde(with = "text::spelled")]
    pub conversation_id: ConversationId,
    #[serde(with = "text::message_id")]
    pub message_id: MessageId,
    pub content: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content_type: Option<String>,
    #[serde(with = "text::moment")]
    pub timestamp: Timestamp,
    /// The highest contiguous seq on this device when the message was written. On a resend, the
    /// server searches above it for an earlier copy.
    #[serde(with = "text::seq")]
    pub after_seq: Seq,
    /// A frame may have been sent, so the server may have the message. Stored before the first
    /// attempt.
    pub attempted: bool,
    /// Set if the server refused the message permanently.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<SendFailure>,
}

/// Omits the content, so that no message text reaches a log.
impl std::fmt::Debug for OutboxItem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "OutboxItem({} to {})", self.message_id, self.conversation_id)
    }
}

/// Why the server refused a message permanently: the error code and text.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct SendFailure {
    pub code: String,
    pub message: String,
}

/// The send state of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SendState {
    /// Waiting for the storage, a connection, its turn, or the end of a backoff pause.
    Queued,
    /// In flight: sent, not acknowledged.
    Sending,
    /// Stored by the server at this seq.
    Sent(Seq),
    /// Refused permanently. The user retries or cancels it.
    Failed(SendFailure),
}

struct WaitingMessage {
    item: OutboxItem,
    /// Whether the storage holds the item as it is here. It is not sent before that.
    kept: bool,
    in_flight_since: Option<Instant>,
    /// Whether an earlier frame carried the item, so that the next one is a resend.
    sent_before: bool,
}

/// A backoff pause of one conversation.
#[derive(Clone, Copy)]
struct BackoffPause {
    /// End of the pause; `None` once it is over. The count of refusals stays until a message of the
    /// conversation is stored.
    until: Option<Instant>,
    refusals: u32,
}

/// All unacknowledged messages, in the order of writing.
#[derive(Default)]
pub struct Outbox {
    waiting: BTreeMap<u64, WaitingMessage>,
    numbers: HashMap<MessageId, u64>,
    next_number: u64,
    /// Backoff pauses by conversation.
    holds: HashMap<ConversationId, BackoffPause>,
    in_flight: usize,
    /// Whether only one message may be in flight over all conversations, to find out which one the
    /// server refuses.
    solo: bool,
    /// The final states of the last finished messages.
    ended: VecDeque<(MessageId, SendState)>,
}

impl Outbox {
    /// Rebuilds the outbox from the stored items.
    pub fn restored(mut items: Vec<OutboxItem>) -> Outbox {
        items.sort_by_key(|item| item.number);
        let mut outbox = Outbox::default();
        for item in items {
            outbox.next_number = outbox.next_number.max(item.number + 1);
            outbox.insert(item, true);
        }
        outbox
    }

    fn insert(&mut self, item: OutboxItem, kept: bool) {
        self.numbers.insert(item.message_id.clone(), item.number);
        let sent_before = item.attempted;
        self.waiting.insert(item.number, WaitingMessage { item, kept, in_flight_since: None, sent_before });
    }

    pub fn is_full(&self) -> bool {
        self.waiting.len() >= MOST_WAITING
    }

    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Adds a new item and returns it with its number, to be stored. `attempted` records that its
    /// first attempt may follow as soon as it is stored.
    pub fn add(&mut self, mut item: OutboxItem, attempted: bool) -> OutboxItem {
        item.number = self.next_number;
        item.attempted = attempted;
        self.next_number += 1;
        self.insert(item.clone(), false);
        // The recorded attempt has not been made yet, so the first frame is not a resend.
        if let Some(waiting) = self.waiting.get_mut(&item.number) {
            waiting.sent_before = false;
        }
        item
    }

    fn find(&mut self, id: &MessageId) -> Option<&mut WaitingMessage> {
        self.waiting.get_mut(self.numbers.get(id)?)
    }

    /// Records that the item is stored. It may be sent from now on.
    pub fn kept(&mut self, id: &MessageId) {
        if let Some(waiting) = self.find(id) {
            waiting.kept = true;
        }
    }

    /// Marks the stored items without an attempt as attempted and returns them, to be stored. They
    /// are not sent until the storage writer has stored them.
    pub fn note_attempts(&mut self) -> Vec<OutboxItem> {
        let unnoted = self.waiting.values_mut().filter(|waiting| !waiting.item.attempted && waiting.kept);
        let note = |waiting: &mut WaitingMessage| {
            waiting.item.attempted = true;
            waiting.kept = false;
            waiting.item.clone()
        };
        unnoted.filter(|waiting| waiting.item.failure.is_none()).map(note).collect()
    }

    /// Takes the items that may be sent now, oldest first, at most one per conversation, and marks
    /// them as in flight. The flag says whether it is a resend.
    pub fn next_to_send(&mut self, now: Instant) -> Vec<(OutboxItem, bool)> {
        let most = if self.solo { 1 } else { MOST_IN_FLIGHT };
        let mut seen = HashSet::new();
        let mut going = Vec::new();
        for waiting in self.waiting.values_mut() {
            if self.in_flight >= most {
                break;
            }
            let item = &waiting.item;
            if item.failure.is_some() || !seen.insert(item.conversation_id) {
                continue;
            }
            let is_held = self.holds.get(&item.conversation_id).is_some_and(|hold| hold.until.is_some());
            if is_held || waiting.in_flight_since.is_some() || !waiting.kept || !item.attempted {
                continue;
            }
            waiting.in_flight_since = Some(now);
            self.in_flight += 1;
            going.push((item.clone(), waiting.sent_before));
            waiting.sent_before = true;
        }
        going
    }

    /// When the next backoff pause ends.
    pub fn next_release(&self) -> Option<Instant> {
        self.holds.values().filter_map(|hold| hold.until).min()
    }

    /// Ends the backoff pauses that are over. Keeps their count of refusals.
    pub fn release(&mut self, now: Instant) {
        for hold in self.holds.values_mut() {
            hold.until = hold.until.filter(|until| *until > now);
        }
    }

    /// When the oldest message in flight was sent.
    pub fn oldest_in_flight(&self) -> Option<Instant> {
        self.waiting.values().filter_map(|waiting| waiting.in_flight_since).min()
    }

    pub fn in_flight(&self) -> Vec<MessageId> {
        let flying = self.waiting.values().filter(|waiting| waiting.in_flight_since.is_some());
        flying.map(|waiting| waiting.item.message_id.clone()).collect()
    }

    /// Marks an item as no longer in flight.
    fn land(&mut self, number: u64) {
        if let Some(waiting) = self.waiting.get_mut(&number)
            && waiting.in_flight_since.take().is_some()
        {
            self.in_flight -= 1;
        }
    }

    /// Records that the server stored the message. Removes and returns its item, or `None` if it is
    /// not in the outbox.
    pub fn settle(&mut self, id: &MessageId, seq: Seq) -> Option<OutboxItem> {
        let number = *self.numbers.get(id)?;
        self.land(number);
        self.numbers.remove(id);
        let waiting = self.waiting.remove(&number)?;
        self.holds.remove(&waiting.item.conversation_id);
        if self.waiting.is_empty() {
            self.solo = false;
        }
        self.remember(id.clone(), SendState::Sent(seq));
        Some(waiting.item)
    }

    fn remember(&mut self, id: MessageId, state: SendState) {
        self.ended.push_back((id, state));
        if self.ended.len() > REMEMBERED {
            self.ended.pop_front();
        }
    }

    /// Removes and returns all items of a conversation that the user is no longer a member of.
    /// Their send state becomes `Failed`.
    pub fn give_up(&mut self, id: ConversationId) -> Vec<OutboxItem> {
        let of_it = self.waiting.iter().filter(|(_, waiting)| waiting.item.conversation_id == id);
        let numbers: Vec<u64> = of_it.map(|(number, _)| *number).collect();
        let mut given_up = Vec::new();
        for number in numbers {
            self.land(number);
            let Some(WaitingMessage { item, .. }) = self.waiting.remove(&number) else { continue };
            self.numbers.remove(&item.message_id);
            let why = item.failure.clone().unwrap_or_else(|| SendFailure {
                code: CONVERSATION_NOT_FOUND.into(),
                message: "you are no longer a member of this conversation".into(),
            });
            self.remember(item.message_id.clone(), SendState::Failed(why));
            given_up.push(item);
        }
        self.holds.remove(&id);
        if self.waiting.is_empty() {
            self.solo = false;
        }
        given_up
    }

    /// Handles a temporary refusal: pauses the item's conversation. `pause` maps the number of
    /// earlier refusals to a duration.
    pub fn hold(&mut self, id: &MessageId, now: Instant, pause: impl FnOnce(u32) -> std::time::Duration) {
        let Some(&number) = self.numbers.get(id) else { return };
        self.land(number);
        let Some(waiting) = self.waiting.get(&number) else { return };
        let id = waiting.item.conversation_id;
        let refusals = self.holds.get(&id).map_or(0, |hold| hold.refusals);
        self.holds.insert(id, BackoffPause { until: Some(now + pause(refusals)), refusals: refusals + 1 });
    }

    /// Handles a permanent refusal. Returns the failed item, to be stored.
    pub fn fail(&mut self, id: &MessageId, failure: SendFailure) -> Option<OutboxItem> {
        let number = *self.numbers.get(id)?;
        self.land(number);
        let waiting = self.waiting.get_mut(&number)?;
        waiting.item.failure = Some(failure);
        Some(waiting.item.clone())
    }

    /// Queues a failed item again and ends its conversation's pause. Returns the item, to be
    /// stored, or `None` if it has not failed.
    pub fn retry(&mut self, id: &MessageId) -> Option<OutboxItem> {
        let waiting = self.find(id)?;
        waiting.item.failure.take()?;
        let item = waiting.item.clone();
        self.holds.remove(&item.conversation_id);
        Some(item)
    }

    /// Removes an item that the server certainly does not have: never attempted, or refused
    /// permanently.
    pub fn cancel(&mut self, id: &MessageId) -> Result<OutboxItem, CannotCancel> {
        let number = *self.numbers.get(id).ok_or(CannotCancel::NotWaiting)?;
        let waiting = self.waiting.get(&number).ok_or(CannotCancel::NotWaiting)?;
        if waiting.item.failure.is_none() && waiting.item.attempted {
            return Err(CannotCancel::OnItsWay);
        }
        self.numbers.remove(id);
        Ok(self.waiting.remove(&number).ok_or(CannotCancel::NotWaiting)?.item)
    }

    /// Handles the end of a connection: nothing is in flight, and all backoff pauses end. Items
    /// that were in flight are resent with `retry`.
    pub fn connection_lost(&mut self) {
        for waiting in self.waiting.values_mut() {
            waiting.in_flight_since = None;
        }
        self.in_flight = 0;
        self.holds.clear();
    }

    /// Allows only one message in flight over all conversations, until the outbox is empty.
    pub fn go_solo(&mut self) {
        self.solo = true;
    }

    /// Handles a new store epoch: resets `after_seq`, because earlier seqs are meaningless. Returns
    /// all items, to be stored.
    pub fn another_epoch(&mut self) -> Vec<OutboxItem> {
        let forget = |waiting: &mut WaitingMessage| {
            waiting.item.after_seq = Seq::ZERO;
            waiting.item.clone()
        };
        self.waiting.values_mut().map(forget).collect()
    }

    /// The send state of a message. `None` if it is unknown or finished long ago.
    pub fn state(&self, id: &MessageId) -> Option<SendState> {
        if let Some(waiting) = self.numbers.get(id).and_then(|number| self.waiting.get(number)) {
            return Some(waiting.state());
        }
        let ended = self.ended.iter().rev().find(|(ended, _)| ended == id);
        ended.map(|(_, state)| state.clone())
    }

    /// The items of one conversation with their send states, in the order of writing.
    pub fn of_conversation(&self, id: ConversationId) -> Vec<(OutboxItem, SendState)> {
        let of_it = self.waiting.values().filter(|waiting| waiting.item.conversation_id == id);
        of_it.map(|waiting| (waiting.item.clone(), waiting.state())).collect()
    }

    pub fn items(&self) -> impl Iterator<Item = &OutboxItem> {
        self.waiting.values().map(|waiting| &waiting.item)
    }
}

impl WaitingMessage {
    fn state(&self) -> SendState {
        match (&self.item.failure, self.in_flight_since) {
            (Some(failure), _) => SendState::Failed(failure.clone()),
            (None, Some(_)) => SendState::Sending,
            (None, None) => SendState::Queued,
        }
    }
}

/// Why a message cannot be cancelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CannotCancel {
    #[error("the message was sent, and the server may have stored it")]
    OnItsWay,
    #[error("the message is not in the outbox")]
    NotWaiting,
}

#[cfg(test)]
#[path = "outbox_tests.rs"]
mod tests;
