//! Handles the frames of a connection and checks them against the ledger and earlier frames.

use serde_json::Value;
use tokio::time::Instant;

use super::connection_run::{ConnectionRun, misspoken};
use super::device::ConnectionEnd;
use super::ledger::{Breach, ConversationBreach, Shown};
use crate::device::ReadState;
use crate::names::{ConversationName, UserName};

/// The largest page size that the server allows, in messages. A larger request is refused.
const PAGE: u64 = 100;

impl ConnectionRun<'_> {
    pub(super) async fn hear(&mut self, frame: &Value) -> Result<(), ConnectionEnd> {
        let room = frame["conversation_id"].as_str().map(ConversationName::new);
        match (frame["type"].as_str(), room) {
            (Some("message"), Some(room)) => self.hear_message(&room, frame),
            (Some("ack"), Some(room)) => self.hear_ack(&room, frame),
            (Some("status"), Some(room)) => self.hear_status(&room, frame, true),
            (Some("backlog"), Some(room)) => self.hear_backlog(&room, frame).await,
            (Some("caught_up"), _) => {
                self.caught_up = true;
                // Messages due earlier waited for the catch-up; their latency says nothing about
                // the server.
                self.life.write_what_is_due(false);
                Ok(())
            }
            (Some("welcome" | "receipts" | "conversation" | "typing" | "presence" | "pong"), _) => Ok(()),
            (_, room) => Err(misspoken(room.as_ref(), frame.to_string())),
        }
    }

    /// On a connection, each conversation continues by one from its position in `hello`.
    fn hear_message(&mut self, room: &ConversationName, frame: &Value) -> Result<(), ConnectionEnd> {
        let next = self.life.views[room].end + 1;
        self.take(room, frame, next)?;
        self.life.happened.received += 1;
        self.seen(room, next);
        Ok(())
    }

    fn seen(&mut self, room: &ConversationName, end: u64) {
        if let Some(view) = self.life.views.get_mut(room) {
            view.end = end;
        }
    }

    fn hear_ack(&mut self, room: &ConversationName, frame: &Value) -> Result<(), ConnectionEnd> {
        let (Some(message_id), Some(seq), Some(duplicate)) =
            (frame["message_id"].as_str(), frame["seq"].as_u64(), frame["duplicate"].as_bool())
        else {
            return Err(misspoken(Some(room), frame.to_string()));
        };
        let is_it = |attempt: &super::device::Attempt| {
            attempt.conversation == *room && attempt.name.id() == message_id
        };
        let at = self.life.outbox.iter().take(self.under_way).position(is_it);
        let Some(attempt) = at.and_then(|at| self.life.outbox.remove(at)) else {
            return Err(misspoken(Some(room), format!("an ack of a message that is not in flight: {frame}")));
        };
        self.under_way -= 1;
        self.life.happened.acknowledged += 1;
        self.life.happened.duplicates += u64::from(duplicate);
        if let Some(due) = attempt.due {
            self.life.world.acks.record(Instant::now().saturating_duration_since(due));
        }
        let broken =
            |breach| ConnectionEnd::Broken(ConversationBreach { conversation: room.clone(), breach });
        self.life.world.ledger.acknowledged(room, attempt.name, seq).map_err(broken)?;
        // Duplicates and messages in a skipped range are delivered separately.
        let left_out = self.left_out.get(room).is_some_and(|(after, until)| *after < seq && seq <= *until);
        if duplicate || left_out {
            return Ok(());
        }
        // The ack replaces the push of the device's own message.
        let after = self.life.views[room].end;
        if seq != after + 1 {
            return Err(broken(Breach::Gap { after, then: seq }));
        }
        self.seen(room, seq);
        Ok(())
    }

    /// Fetches the skipped messages. Frames that arrive meanwhile wait in the socket.
    async fn hear_backlog(&mut self, room: &ConversationName, frame: &Value) -> Result<(), ConnectionEnd> {
        let after = self.life.views[room].end;
        let (Some(next_after), Some(until)) = (frame["next_after_seq"].as_u64(), frame["head_seq"].as_u64())
        else {
            return Err(misspoken(Some(room), frame.to_string()));
        };
        if next_after != after || until <= after || self.caught_up {
            return Err(misspoken(Some(room), format!("after {after}: {frame}")));
        }
        self.life.happened.backlog_frames += 1;
        self.left_out.insert(room.clone(), (after, until));
        while self.life.views[room].end < until {
            let end = self.life.views[room].end;
            let page = self.ask(room, &format!("messages?after_seq={end}&limit={PAGE}")).await?;
            let messages = page["messages"].as_array().map(Vec::as_slice).unwrap_or_default();
            let wanted = messages.iter().take((until - end) as usize);
            if messages.is_empty() {
                return Err(misspoken(Some(room), format!("nothing above {end} of {until}: {page}")));
            }
            for (seq, message) in (end + 1..).zip(wanted) {
                self.take(room, message, seq)?;
                self.seen(room, seq);
            }
        }
        Ok(())
    }

    /// Checks a read state. Frames are ordered within the connection; answers are not.
    pub(super) fn hear_status(
        &mut self,
        room: &ConversationName,
        status: &Value,
        is_frame: bool,
    ) -> Result<(), ConnectionEnd> {
        let (Some(user), Some(told)) = (status["user_id"].as_str(), ReadState::from_json(status)) else {
            return Err(misspoken(Some(room), status.to_string()));
        };
        let of = UserName::new(user);
        let broken =
            |breach| ConnectionEnd::Broken(ConversationBreach { conversation: room.clone(), breach });
        self.life.happened.statuses += 1;
        let mut from = ReadState::default();
        if is_frame {
            from = self.heard.insert((room.clone(), of.clone()), told).unwrap_or_default();
            // After catch-up the connection has received every message that a member can have
            // acknowledged.
            let most = ReadState { delivered: self.life.views[room].end, read: self.life.views[room].end };
            if self.caught_up && !most.covers(told) {
                let least = ReadState::default();
                return Err(broken(Breach::TickOutOfBounds { of, found: told, least, most }));
            }
        }
        if told.read > told.delivered || !told.covers(from) {
            return Err(broken(Breach::TickWentBack { of, from, to: told }));
        }
        self.life.world.ledger.told(room, &of, told);
        Ok(())
    }
}

impl<'a> Shown<'a> {
    pub fn of_json(message: &'a Value) -> Option<Shown<'a>> {
        Some(Shown {
            seq: message["seq"].as_u64()?,
            sender: message["sender_id"].as_str()?,
            message_id: message["message_id"].as_str()?,
            content: message["content"].as_str()?,
            is_notice: message["content_type"] == "system",
        })
    }
}
