//! The reference model of the final state, computed from the history and from the devices' claims.
//! It uses no number that the server computes: it derives members, read states and unread counts
//! itself.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::checker::HistoryMessage;
use crate::device::{DeviceRecord, MembershipStep, ReadState, ReceivedMessage};
use crate::names::{ConversationName, Membership, UserName};

/// The complete history of a conversation and its members.
#[derive(Clone, Debug)]
pub struct ConversationHistory {
    pub messages: Vec<ReceivedMessage>,
    /// `received_at` of the newest message that is not a void; `None` if there is none.
    pub last_at: Option<i64>,
    /// The final members, with the first seq visible to each.
    pub members: BTreeMap<UserName, u64>,
}

impl ConversationHistory {
    /// `founders` are members before the first message. All other changes follow from notices.
    /// Returns `None` if a message is malformed.
    pub fn new(founders: &[UserName], messages: &[Value]) -> Option<ConversationHistory> {
        let seen: Option<Vec<ReceivedMessage>> = messages.iter().map(ReceivedMessage::from_json).collect();
        let seen = seen?;
        let mut members: BTreeMap<UserName, u64> = founders.iter().map(|user| (user.clone(), 1)).collect();
        for message in &seen {
            match message.step() {
                Some(MembershipStep::Joined(user)) => members.insert(user, message.seq),
                Some(MembershipStep::Left(user)) => members.remove(&user),
                None => None,
            };
        }
        let last = messages.iter().rev().find(|message| message["content_type"] != "void");
        let last_at = last.and_then(|message| message["received_at"].as_i64());
        Some(ConversationHistory { messages: seen, last_at, members })
    }

    pub fn head(&self) -> u64 {
        self.messages.last().map_or(0, |message| message.seq)
    }

    /// Returns the messages visible to a member; `None` if the user is not a member.
    pub fn visible_to(&self, user: &UserName) -> Option<&[ReceivedMessage]> {
        let first = *self.members.get(user)?;
        Some(&self.messages[(first - 1).min(self.messages.len() as u64) as usize..])
    }

    /// Counts the visible messages of others above `read`, without notices and voids.
    pub fn unread(&self, user: &UserName, read: u64) -> u64 {
        let counts =
            |message: &&ReceivedMessage| message.seq > read && message.sender != *user && message.is_said();
        self.visible_to(user).unwrap_or_default().iter().filter(counts).count() as u64
    }

    /// Returns the highest seq of a message that the user sent since it last joined; 0 if there is
    /// none.
    pub fn last_own(&self, user: &UserName) -> u64 {
        let own = |message: &&ReceivedMessage| message.sender == *user && message.is_said();
        self.visible_to(user).unwrap_or_default().iter().rev().find(own).map_or(0, |message| message.seq)
    }

    /// Counts who has the message at `seq`. The sender and later members do not count. `None` for a
    /// void and for a seq above the head: the server answers `message_not_found` there.
    pub fn receipts(&self, seq: u64, standing: &BTreeMap<UserName, ReadState>) -> Option<ReceiptCounts> {
        let message = self.messages.get(usize::try_from(seq.checked_sub(1)?).ok()?)?;
        if message.is_void() {
            return None;
        }
        let sender = &message.sender;
        let mut receipts = ReceiptCounts::default();
        for (user, joined) in self.members.iter().filter(|(user, joined)| **joined <= seq && *user != sender)
        {
            let stands = standing_since(standing, user, *joined);
            receipts.recipients += 1;
            receipts.delivered += u64::from(stands.delivered >= seq);
            receipts.read += u64::from(stands.read >= seq);
        }
        Some(receipts)
    }

    /// Returns the minimum read state of all other members. No member counts as behind messages
    /// that it cannot see.
    pub fn others(&self, user: &UserName, standing: &BTreeMap<UserName, ReadState>) -> ReadState {
        let others = self.members.iter().filter(|(other, _)| *other != user);
        let stands = others.map(|(other, joined)| standing_since(standing, other, *joined));
        let lowest = stands.reduce(|one, other| ReadState {
            delivered: one.delivered.min(other.delivered),
            read: one.read.min(other.read),
        });
        lowest.unwrap_or_default()
    }

    pub fn stored(&self) -> Vec<HistoryMessage> {
        self.messages.iter().map(HistoryMessage::from).collect()
    }
}

fn standing_since(standing: &BTreeMap<UserName, ReadState>, user: &UserName, joined: u64) -> ReadState {
    let floor = ReadState { delivered: joined - 1, read: joined - 1 };
    standing.get(user).copied().unwrap_or_default().max(floor)
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReceiptCounts {
    pub recipients: u64,
    pub delivered: u64,
    pub read: u64,
}

impl ReceiptCounts {
    /// Parses an answer to `GET …/status?seq=`. Returns `None` if no message has this seq. Any
    /// other answer is an error with its text.
    pub fn from_answer(status: u16, body: &Value) -> Result<Option<ReceiptCounts>, String> {
        if status == 404 && body["error"]["code"] == "message_not_found" {
            return Ok(None);
        }
        let count = |field: &str| body[field].as_u64();
        match (count("recipient_count"), count("delivered_count"), count("read_count")) {
            (Some(recipients), Some(delivered), Some(read)) if status == 200 => {
                Ok(Some(ReceiptCounts { recipients, delivered, read }))
            }
            _ => Err(format!("{status} {body}")),
        }
    }
}

/// The inclusive bounds of a member's read state. A receipt that was never published may be lost in
/// a crash; a published one may not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bounds {
    pub least: ReadState,
    pub most: ReadState,
}

impl Bounds {
    pub fn hold(&self, found: ReadState) -> bool {
        found.covers(self.least) && self.most.covers(found)
    }
}

/// The claims and received read states of all devices, merged.
#[derive(Clone, Debug, Default)]
pub struct ClaimedReadStates {
    claims: BTreeMap<Membership, ReadState>,
    told: BTreeMap<Membership, ReadState>,
}

impl ClaimedReadStates {
    pub fn add(&mut self, user: &UserName, record: &DeviceRecord) {
        for (conversation, claim) in &record.claims {
            let most = self.claims.entry((conversation.clone(), user.clone())).or_default();
            *most = most.max(*claim);
        }
        for (seat, told) in &record.told {
            let most = self.told.entry(seat.clone()).or_default();
            *most = most.max(*told);
        }
    }

    /// Returns the maximum read state that any device received of each member.
    pub fn told(&self) -> impl Iterator<Item = (&Membership, ReadState)> {
        self.told.iter().map(|(seat, told)| (seat, *told))
    }

    /// Returns the bounds of a member's read state. `steady` members were never removed; the ticks
    /// of the others restarted at some time.
    pub fn bounds(
        &self,
        conversation: &ConversationName,
        user: &UserName,
        thread: &ConversationHistory,
        steady: bool,
    ) -> Bounds {
        let seat = (conversation.clone(), user.clone());
        let of = |map: &BTreeMap<Membership, ReadState>| map.get(&seat).copied().unwrap_or_default();
        // A reply implies that the user has read everything before it.
        let replied = thread.last_own(user).saturating_sub(1);
        let replied = ReadState { delivered: replied, read: replied };
        let claimed = of(&self.claims);
        let claimed = ReadState { delivered: claimed.delivered.max(claimed.read), ..claimed };
        let least = if steady { of(&self.told).max(replied) } else { replied };
        Bounds { least, most: claimed.max(replied) }
    }
}

#[cfg(test)]
mod tests;
