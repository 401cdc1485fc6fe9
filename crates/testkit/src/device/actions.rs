//! The random actions of a device: sending messages and receipts (late, twice, out of order),
//! reading, making requests.

use serde_json::json;

use super::connection::{ConnectionEnd, DeviceConnection};
use super::{ReadState, Trouble};
use crate::names::ConversationName;

/// Upper bound on messages in the outbox. A larger outbox has more messages in flight at a crash.
const WINDOW: usize = 12;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadingHabit {
    /// Sends read receipts for everything.
    Eager,
    /// Leaves most messages unread.
    Lazy,
}

#[derive(Clone, Debug)]
pub struct Habits {
    /// The device sends positions in `hello`. Otherwise it relies on pending rows and on paging.
    pub tells_positions: bool,
    /// The user has no other device, so everything this one has not acknowledged is pending.
    pub only_device: bool,
    pub reader: ReadingHabit,
    /// Maximum length of a long absence in milliseconds; 0: none.
    pub long_absence_ms: u64,
    /// The device never ends a connection itself.
    pub stays_connected: bool,
    /// Maximum pause between two actions, in milliseconds.
    pub pause_ms: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ReceiptKind {
    Delivered,
    Read,
}

impl ReceiptKind {
    fn name(self) -> &'static str {
        match self {
            ReceiptKind::Delivered => "delivered",
            ReceiptKind::Read => "read",
        }
    }
}

impl DeviceConnection<'_> {
    /// Does one random action.
    pub async fn act(&mut self) -> Result<(), ConnectionEnd> {
        if self.send_next().await? {
            return Ok(());
        }
        let rooms = self.rooms();
        let Some(room) = self.device.dice.pick(&rooms).cloned() else {
            return self.read_inbox().await;
        };
        match self.device.dice.below(100) {
            0..40 => self.write_to(&room).await,
            40..70 => self.mark(&room, ReceiptKind::Delivered).await,
            70..82 => self.mark(&room, ReceiptKind::Read).await,
            82..88 => self.mark_by_call(&room).await,
            88..91 => self.write_by_call(&room).await,
            91..94 => self.ask_status(&room).await,
            94..97 => self.say(&json!({"type": "typing", "conversation_id": room.as_str()})).await,
            97..99 if self.caught_up => self.read_inbox().await,
            _ => self.say(&json!({"type": "ping"})).await,
        }
    }

    /// Sends everything that may be sent and up to three new messages, without pauses.
    pub async fn burst(&mut self) -> Result<(), ConnectionEnd> {
        while self.send_next().await? {}
        let rooms = self.rooms();
        for _ in 0..self.device.dice.below(4) {
            if let Some(room) = self.device.dice.pick(&rooms).cloned() {
                self.write_to(&room).await?;
            }
        }
        Ok(())
    }

    async fn write_to(&mut self, room: &ConversationName) -> Result<(), ConnectionEnd> {
        if self.device.outbox.len() < WINDOW {
            self.device.write(room);
            self.unsent += 1;
            self.send_next().await?;
        }
        Ok(())
    }

    /// Sends a message over HTTP, as from a notification. Only with an empty outbox: it must not
    /// overtake other messages.
    async fn write_by_call(&mut self, room: &ConversationName) -> Result<(), ConnectionEnd> {
        if self.device.has_unsent() {
            return Ok(());
        }
        self.device.write(room);
        let Some((room, body)) = self.device.attempt_by_call() else { return Ok(()) };
        let message_id = body["message_id"].as_str().unwrap_or_default().to_owned();
        let path = format!("/v1/conversations/{room}/messages");
        match self.ask(Some(&room), "POST", &path, Some(&body)).await? {
            Some(answer) if answer["seq"].as_u64().is_some() => {
                self.log(crate::checker::ClientEvent::Acknowledged {
                    conversation: room.as_str().to_owned(),
                    message_id: message_id.clone(),
                    seq: answer["seq"].as_u64().unwrap_or_default(),
                    // The message also arrives on the connection, so the answer must not count in
                    // the push order.
                    duplicate: true,
                });
            }
            Some(answer) => {
                let trouble = Trouble::Misspoken(answer.to_string());
                return Err(self.device.violation(Some(&room), trouble).into());
            }
            None => {
                self.device.record.happened.refused += 1;
                self.device.record.refused.insert(message_id.clone());
            }
        }
        self.settle_attempt(&message_id);
        Ok(())
    }

    /// Chooses the seq of a receipt, never above the end of the view, and records the claim.
    fn choose_mark(&mut self, room: &ConversationName, kind: ReceiptKind) -> u64 {
        let end = self.device.view_mut(room).end();
        let lazy = kind == ReceiptKind::Read && self.device.habits.reader == ReadingHabit::Lazy;
        let dice = &mut self.device.dice;
        let seq = match dice.below(10) {
            // Everything.
            0..7 => end,
            // All but the last few.
            7..9 => end.saturating_sub(dice.below(6)),
            // A random earlier seq.
            _ => dice.between(0, end),
        };
        let seq = if lazy { dice.between(0, seq / 2) } else { seq };
        self.device.record.happened.marks += 1;
        let read = if kind == ReceiptKind::Read { seq } else { 0 };
        self.device.record.claim(room, ReadState { delivered: seq, read });
        seq
    }

    async fn mark(&mut self, room: &ConversationName, kind: ReceiptKind) -> Result<(), ConnectionEnd> {
        let seq = self.choose_mark(room, kind);
        let frame = json!({"type": kind.name(), "conversation_id": room.as_str(), "seq": seq});
        self.say(&frame).await?;
        if self.device.dice.one_in(10) { self.say(&frame).await } else { Ok(()) }
    }

    /// Sends a receipt over HTTP. An answered receipt is durable.
    async fn mark_by_call(&mut self, room: &ConversationName) -> Result<(), ConnectionEnd> {
        let kind = if self.device.dice.one_in(2) { ReceiptKind::Read } else { ReceiptKind::Delivered };
        let seq = self.choose_mark(room, kind);
        self.mark_up_to(room, kind, seq).await
    }

    async fn mark_up_to(
        &mut self,
        room: &ConversationName,
        kind: ReceiptKind,
        seq: u64,
    ) -> Result<(), ConnectionEnd> {
        let path = format!("/v1/conversations/{room}/{}", kind.name());
        let answer = self.ask(Some(room), "POST", &path, Some(&json!({"seq": seq}))).await?;
        let Some(answer) = answer else { return Ok(()) };
        let Some(answered) = ReadState::from_json(&answer) else {
            let trouble = Trouble::Misspoken(answer.to_string());
            return Err(self.device.violation(Some(room), trouble).into());
        };
        self.device.record.happened.marks_answered += 1;
        let moved = if kind == ReceiptKind::Read { answered.read } else { answered.delivered };
        // The read state of a user who was removed and rejoined restarts lower.
        if moved < seq && !self.device.may_be_out(room) {
            let trouble = Trouble::MarkLost { marked: seq, answered };
            return Err(self.device.violation(Some(room), trouble).into());
        }
        let user = self.device.identity.user.clone();
        let steady = self.device.is_steady(room, &user);
        let heard = self.device.record.hear_answer((room.clone(), user), answered, steady);
        heard.map_err(|trouble| self.device.violation(Some(room), trouble).into())
    }
}
