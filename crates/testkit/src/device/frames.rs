//! Handles the frames of a connection and checks them against the contract and earlier frames.

use serde_json::Value;

use super::connection::{ConnectionEnd, DeviceConnection};
use super::gaps::{GapOrigin, MissingRange};
use super::{ReadState, ReceivedMessage, Trouble};
use crate::checker::ClientEvent;
use crate::names::{ConversationName, UserName};

impl DeviceConnection<'_> {
    pub fn hear(&mut self, frame: &Value) -> Result<(), ConnectionEnd> {
        let conversation = frame["conversation_id"].as_str().map(ConversationName::new);
        match (frame["type"].as_str(), conversation) {
            (Some("welcome"), _) => self.device.epoch = frame["epoch"].as_u64(),
            (Some("caught_up"), _) => self.caught_up = true,
            (Some("message"), Some(conversation)) => return self.hear_message(&conversation, frame),
            (Some("ack"), Some(conversation)) => return self.hear_ack(&conversation, frame),
            (Some("backlog"), Some(conversation)) => return self.hear_backlog(&conversation, frame),
            (Some("status"), Some(conversation)) => return self.hear_status(&conversation, frame),
            (Some("receipts"), Some(conversation)) => {
                let Some(told) = ReadState::from_json(frame) else { return Err(self.misspoken(frame)) };
                let heard = self.device.record.hear_receipts(&conversation, told);
                heard.map_err(|trouble| self.violated(&conversation, trouble))?;
            }
            (Some("error"), about) => return self.hear_error(frame, about.as_ref()),
            (Some("gone"), Some(conversation)) => {
                if !self.device.may_be_out(&conversation) {
                    return Err(self.misspoken(frame));
                }
                self.device.record.happened.gone += 1;
                self.forget(&conversation);
            }
            (Some("conversation"), Some(conversation)) => {
                // The conversation is new to the user, or the user changed a setting of it.
                self.device.view_mut(&conversation);
            }
            (Some("typing" | "presence" | "pong"), _) => {}
            (Some("come_back"), _) if self.device.is_patient => {
                let Some(after_ms) = frame["after_ms"].as_u64() else { return Err(self.misspoken(frame)) };
                self.device.come_back_ms = Some(after_ms);
                self.device.record.sent_away_ms.push(after_ms);
            }
            _ => return Err(self.misspoken(frame)),
        }
        Ok(())
    }

    fn hear_message(&mut self, conversation: &ConversationName, frame: &Value) -> Result<(), ConnectionEnd> {
        let Some(message) = ReceivedMessage::from_json(frame) else { return Err(self.misspoken(frame)) };
        if self.is_left_out(conversation, message.seq)
            && self.device.view_mut(conversation).ends_with(&message)
        {
            // The removal notice inside a skipped range. The user cannot fetch the range any more.
            self.forget(conversation);
            return Ok(());
        }
        self.show(conversation, &message)?;
        self.device.meter.delivered();
        self.log(ClientEvent::Received {
            conversation: conversation.as_str().to_owned(),
            seq: message.seq,
            sender: message.sender.as_str().to_owned(),
            content: message.content.clone(),
        });
        self.keep(conversation, message)
    }

    fn is_left_out(&self, conversation: &ConversationName, seq: u64) -> bool {
        let left_out = self.left_out.get(conversation);
        left_out.is_some_and(|(after, until)| *after < seq && seq <= *until)
    }

    fn is_next(&self, conversation: &ConversationName, seq: u64) -> bool {
        let after = self.shown.get(conversation).or_else(|| self.listed.get(conversation));
        after.is_none_or(|after| after + 1 == seq)
    }

    /// Checks the push order of this connection: each seq follows the last one, whatever the view
    /// already has.
    fn show(
        &mut self,
        conversation: &ConversationName,
        message: &ReceivedMessage,
    ) -> Result<(), ConnectionEnd> {
        let after = self.shown.insert(conversation.clone(), message.seq);
        let after = after.or_else(|| self.listed.get(conversation).copied());
        let joining = self.device.view_mut(conversation).begins_with(message);
        // A user who is removed during catch-up gets the removal notice but not the messages before
        // it.
        let view = self.device.views.get(conversation);
        // In a fleet, the same holds while earlier messages are in flight from another node.
        let may_miss = !self.caught_up || self.device.is_patient;
        let leaving = view.is_some_and(|view| view.left() || (may_miss && view.ends_with(message)));
        match after {
            Some(after) if message.seq == after + 1 => {}
            Some(after) if message.seq > after && (joining || leaving) => {
                let conversation = conversation.as_str().to_owned();
                self.log(ClientEvent::LeftOut { conversation, up_to: message.seq - 1 });
            }
            Some(after) if message.seq <= after => {
                return Err(self.violated(conversation, Trouble::OutOfOrder { after, then: message.seq }));
            }
            Some(after) => {
                return Err(self.violated(conversation, Trouble::Gap { after, then: message.seq }));
            }
            // The first message of a conversation that `hello` did not list.
            None => {
                let end = self.device.view_mut(conversation).end();
                if message.seq > end + 1 && !joining && !leaving && !self.gaps.contains_key(conversation) {
                    self.open_gap(
                        conversation,
                        MissingRange { until: message.seq - 1, origin: GapOrigin::Passed },
                    );
                }
            }
        }
        Ok(())
    }

    fn hear_ack(&mut self, conversation: &ConversationName, frame: &Value) -> Result<(), ConnectionEnd> {
        let (Some(message_id), Some(seq), Some(duplicate)) =
            (frame["message_id"].as_str(), frame["seq"].as_u64(), frame["duplicate"].as_bool())
        else {
            return Err(self.misspoken(frame));
        };
        let Some(attempt) = self.device.outbox.iter().find(|attempt| attempt.message_id == message_id) else {
            // This is a second ack on the connection, or the ack of a message that was never sent.
            return Err(self.misspoken(frame));
        };
        let message = ReceivedMessage {
            seq,
            sender: self.device.identity.user.clone(),
            message_id: message_id.to_owned(),
            content: attempt.content.clone(),
            content_type: attempt.content_type.unwrap_or("text").to_owned(),
        };
        self.settle_attempt(message_id);
        self.device.meter.acknowledged();
        // Duplicates and messages in a skipped range are delivered separately; the ack only reports
        // the seq.
        let left_out = self.is_left_out(conversation, seq);
        // The same holds for a message from before the user was removed during catch-up.
        let thrown_out = !self.caught_up && self.device.may_be_out(conversation);
        let elsewhere = duplicate || left_out || (thrown_out && !self.is_next(conversation, seq));
        if !elsewhere {
            self.show(conversation, &message)?;
        }
        self.log(ClientEvent::Acknowledged {
            conversation: conversation.as_str().to_owned(),
            message_id: message_id.to_owned(),
            seq,
            duplicate: elsewhere,
        });
        if elsewhere { Ok(()) } else { self.keep(conversation, message) }
    }

    fn hear_backlog(&mut self, conversation: &ConversationName, frame: &Value) -> Result<(), ConnectionEnd> {
        self.device.record.happened.backlog_frames += 1;
        let (Some(after), Some(until)) = (frame["next_after_seq"].as_u64(), frame["head_seq"].as_u64())
        else {
            return Err(self.misspoken(frame));
        };
        let before = self.shown.insert(conversation.clone(), until);
        let before = before.or_else(|| self.listed.get(conversation).copied());
        let fits = before.is_none_or(|before| before == after) || self.device.may_be_out(conversation);
        if !fits || until <= after || self.caught_up {
            return Err(self.misspoken(frame));
        }
        self.left_out.insert(conversation.clone(), (after, until));
        self.log(ClientEvent::LeftOut { conversation: conversation.as_str().to_owned(), up_to: until });
        self.open_gap(conversation, MissingRange { until, origin: GapOrigin::Announced });
        Ok(())
    }

    fn hear_status(&mut self, conversation: &ConversationName, frame: &Value) -> Result<(), ConnectionEnd> {
        let (Some(user), Some(told)) = (frame["user_id"].as_str(), ReadState::from_json(frame)) else {
            return Err(self.misspoken(frame));
        };
        let user = UserName::new(user);
        // After catch-up the connection has received every message that a member can have
        // acknowledged.
        let sent = self.shown.get(conversation).or_else(|| self.listed.get(conversation)).copied();
        let sure = self.caught_up && !self.device.may_be_out(conversation);
        if let Some(sent) = sent.filter(|sent| sure && told.delivered > *sent) {
            return Err(self.violated(conversation, Trouble::AheadOfMessages { of: user, told, sent }));
        }
        let steady = self.device.is_steady(conversation, &user);
        let heard = self.device.record.hear_status((conversation.clone(), user), told, steady);
        heard.map_err(|trouble| self.violated(conversation, trouble))
    }

    fn hear_error(&mut self, frame: &Value, about: Option<&ConversationName>) -> Result<(), ConnectionEnd> {
        if self.device.takes_for_later(&frame["code"]) {
            self.put_off(frame["message_id"].as_str());
            return Ok(());
        }
        let may_be_out = match about {
            Some(conversation) => self.device.may_be_out(conversation),
            None => self.device.may_be_out_somewhere(),
        };
        if frame["code"] != "conversation_not_found" || !may_be_out {
            let trouble = Trouble::Refused(frame.to_string());
            return Err(self.device.violation(about, trouble).into());
        }
        if let Some(message_id) = frame["message_id"].as_str() {
            self.settle_attempt(message_id);
            self.device.record.happened.refused += 1;
            self.device.record.refused.insert(message_id.to_owned());
        }
        Ok(())
    }

    fn violated(&self, conversation: &ConversationName, trouble: Trouble) -> ConnectionEnd {
        self.device.violation(Some(conversation), trouble).into()
    }

    fn misspoken(&self, frame: &Value) -> ConnectionEnd {
        self.device.violation(None, Trouble::Misspoken(frame.to_string())).into()
    }
}
