//! Messages on their way. Each is kept before its first attempt and stays, under the same message_id, until the server
//! has it or a person gives it up.
//!
//! In a conversation one message is on its way at a time: were there two, a refusal of the first for its rate would let
//! the second overtake it. Conversations do not wait for each other.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};

use bluetick_core::{ConversationId, MessageId, Seq, Timestamp};
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use crate::wire::codes::CONVERSATION_NOT_FOUND;
use crate::wire::text;

/// Beyond this, writing is refused with a clear word.
pub const MOST_WAITING: usize = 1_000;
/// How many conversations send at the same time; the server lets 256 sends of one connection wait.
const MOST_IN_FLIGHT: usize = 32;
/// Those that are not waiting any more and whose state can still be asked for.
const REMEMBERED: usize = 1_000;

/// A message that is not with the server yet, as far as this device knows.
#[derive(Clone, PartialEq, Eq, Deserialize, Serialize)]
pub struct OutboxItem {
    /// The order of writing.
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
    /// Everything up to here was known before the first attempt: above it the server looks for an earlier attempt.
    #[serde(with = "text::seq")]
    pub after_seq: Seq,
    /// An attempt may have been made, so the server may have it.
    pub attempted: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<SendFailure>,
}

/// Texts of people stay out of logs.
impl std::fmt::Debug for OutboxItem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "OutboxItem({} to {})", self.message_id, self.conversation_id)
    }
}

/// Why the server does not take a message.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct SendFailure {
    pub code: String,
    pub message: String,
}

/// Where a message is on its way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SendState {
    /// Waits for a connection, for its turn, or for a pause to end.
    Queued,
    Sending,
    Sent(Seq),
    /// Refused for good; a person tries again or gives it up.
    Failed(SendFailure),
}

struct Waiting {
    item: OutboxItem,
    /// It is in the storage as it is here; before that it is not sent.
    kept: bool,
    in_flight_since: Option<Instant>,
    /// A frame of this connection or an earlier one carried it.
    sent_before: bool,
}

#[derive(Clone, Copy)]
struct Hold {
    /// `None` once the pause is over; the refusals are counted until something of the conversation is sent.
    until: Option<Instant>,
    refusals: u32,
}

#[derive(Default)]
pub struct Outbox {
    waiting: BTreeMap<u64, Waiting>,
    numbers: HashMap<MessageId, u64>,
    next_number: u64,
    /// Conversations whose line stands still for a moment.
    holds: HashMap<ConversationId, Hold>,
    in_flight: usize,
    /// One at a time over all conversations, to find out which of them the server cannot stand.
    solo: bool,
    /// What became of the latest that are not waiting any more.
    ended: VecDeque<(MessageId, SendState)>,
}

impl Outbox {
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
        self.waiting.insert(item.number, Waiting { item, kept, in_flight_since: None, sent_before });
    }

    pub fn is_full(&self) -> bool {
        self.waiting.len() >= MOST_WAITING
    }

    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// `attempted` says that the first attempt may follow at once. It is sent once it is kept.
    pub fn add(&mut self, mut item: OutboxItem, attempted: bool) -> OutboxItem {
        item.number = self.next_number;
        item.attempted = attempted;
        self.next_number += 1;
        self.insert(item.clone(), false);
        // The attempt that is noted has not been made.
        if let Some(waiting) = self.waiting.get_mut(&item.number) {
            waiting.sent_before = false;
        }
        item
    }

    fn find(&mut self, id: &MessageId) -> Option<&mut Waiting> {
        self.waiting.get_mut(self.numbers.get(id)?)
    }

    /// It is in the storage.
    pub fn kept(&mut self, id: &MessageId) {
        if let Some(waiting) = self.find(id) {
            waiting.kept = true;
        }
    }

    /// Those that have to be noted as attempted before they can go. They are not sent until they are kept.
    pub fn note_attempts(&mut self) -> Vec<OutboxItem> {
        let unnoted = self.waiting.values_mut().filter(|waiting| !waiting.item.attempted && waiting.kept);
        let note = |waiting: &mut Waiting| {
            waiting.item.attempted = true;
            waiting.kept = false;
            waiting.item.clone()
        };
        unnoted.filter(|waiting| waiting.item.failure.is_none()).map(note).collect()
    }

    /// What can go now, first come first served, one of each conversation. They count as on their way from now on.
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

    /// When the next held line may go on.
    pub fn next_release(&self) -> Option<Instant> {
        self.holds.values().filter_map(|hold| hold.until).min()
    }

    pub fn release(&mut self, now: Instant) {
        for hold in self.holds.values_mut() {
            hold.until = hold.until.filter(|until| *until > now);
        }
    }

    pub fn oldest_in_flight(&self) -> Option<Instant> {
        self.waiting.values().filter_map(|waiting| waiting.in_flight_since).min()
    }

    pub fn in_flight(&self) -> Vec<MessageId> {
        let flying = self.waiting.values().filter(|waiting| waiting.in_flight_since.is_some());
        flying.map(|waiting| waiting.item.message_id.clone()).collect()
    }

    fn land(&mut self, number: u64) {
        if let Some(waiting) = self.waiting.get_mut(&number)
            && waiting.in_flight_since.take().is_some()
        {
            self.in_flight -= 1;
        }
    }

    /// The server has it. Removes and returns the item, if it was waiting.
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

    /// One is not in this conversation any more: nothing of it can be sent. Removes and returns what was waiting.
    pub fn give_up(&mut self, id: ConversationId) -> Vec<OutboxItem> {
        let of_it = self.waiting.iter().filter(|(_, waiting)| waiting.item.conversation_id == id);
        let numbers: Vec<u64> = of_it.map(|(number, _)| *number).collect();
        let mut given_up = Vec::new();
        for number in numbers {
            self.land(number);
            let Some(Waiting { item, .. }) = self.waiting.remove(&number) else { continue };
            self.numbers.remove(&item.message_id);
            let why = item.failure.clone().unwrap_or_else(|| SendFailure {
                code: CONVERSATION_NOT_FOUND.into(),
                message: "one is not in this conversation any more".into(),
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

    /// Refused for now: its conversation waits until `pause` of the number of refusals is over.
    pub fn hold(&mut self, id: &MessageId, now: Instant, pause: impl FnOnce(u32) -> std::time::Duration) {
        let Some(&number) = self.numbers.get(id) else { return };
        self.land(number);
        let Some(waiting) = self.waiting.get(&number) else { return };
        let id = waiting.item.conversation_id;
        let refusals = self.holds.get(&id).map_or(0, |hold| hold.refusals);
        self.holds.insert(id, Hold { until: Some(now + pause(refusals)), refusals: refusals + 1 });
    }

    /// Refused for good. Returns it as it is now, to be kept.
    pub fn fail(&mut self, id: &MessageId, failure: SendFailure) -> Option<OutboxItem> {
        let number = *self.numbers.get(id)?;
        self.land(number);
        let waiting = self.waiting.get_mut(&number)?;
        waiting.item.failure = Some(failure);
        Some(waiting.item.clone())
    }

    /// A person tries again.
    pub fn retry(&mut self, id: &MessageId) -> Option<OutboxItem> {
        let waiting = self.find(id)?;
        waiting.item.failure.take()?;
        let item = waiting.item.clone();
        self.holds.remove(&item.conversation_id);
        Some(item)
    }

    /// Gives it up, where it is certain that the server does not have it: never attempted, or refused for good.
    pub fn cancel(&mut self, id: &MessageId) -> Result<OutboxItem, CannotCancel> {
        let number = *self.numbers.get(id).ok_or(CannotCancel::NotWaiting)?;
        let waiting = self.waiting.get(&number).ok_or(CannotCancel::NotWaiting)?;
        if waiting.item.failure.is_none() && waiting.item.attempted {
            return Err(CannotCancel::OnItsWay);
        }
        self.numbers.remove(id);
        Ok(self.waiting.remove(&number).ok_or(CannotCancel::NotWaiting)?.item)
    }

    /// The connection ended: nothing is on its way any more, and what was may be with the server.
    pub fn connection_lost(&mut self) {
        for waiting in self.waiting.values_mut() {
            waiting.in_flight_since = None;
        }
        self.in_flight = 0;
        self.holds.clear();
    }

    /// From now on one at a time, until the line is empty.
    pub fn go_solo(&mut self) {
        self.solo = true;
    }

    /// The store was restored to an earlier state: what was known then says nothing any more.
    pub fn another_epoch(&mut self) -> Vec<OutboxItem> {
        let forget = |waiting: &mut Waiting| {
            waiting.item.after_seq = Seq::ZERO;
            waiting.item.clone()
        };
        self.waiting.values_mut().map(forget).collect()
    }

    pub fn state(&self, id: &MessageId) -> Option<SendState> {
        if let Some(waiting) = self.numbers.get(id).and_then(|number| self.waiting.get(number)) {
            return Some(waiting.state());
        }
        let ended = self.ended.iter().rev().find(|(ended, _)| ended == id);
        ended.map(|(_, state)| state.clone())
    }

    /// In the order of writing.
    pub fn of_conversation(&self, id: ConversationId) -> Vec<(OutboxItem, SendState)> {
        let of_it = self.waiting.values().filter(|waiting| waiting.item.conversation_id == id);
        of_it.map(|waiting| (waiting.item.clone(), waiting.state())).collect()
    }

    pub fn items(&self) -> impl Iterator<Item = &OutboxItem> {
        self.waiting.values().map(|waiting| &waiting.item)
    }
}

impl Waiting {
    fn state(&self) -> SendState {
        match (&self.item.failure, self.in_flight_since) {
            (Some(failure), _) => SendState::Failed(failure.clone()),
            (None, Some(_)) => SendState::Sending,
            (None, None) => SendState::Queued,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CannotCancel {
    #[error("it is on its way, and the server may have it already")]
    OnItsWay,
    #[error("it is not waiting any more")]
    NotWaiting,
}

#[cfg(test)]
#[path = "outbox_tests.rs"]
mod tests;
