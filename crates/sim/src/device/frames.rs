//! Handles the frames that a device receives.

use bluetick_core::ConversationId;
use serde_json::Value;

use super::view::ReceivedSeqs;
use super::{ActiveConnection, ConnectionEnded, Device};
use crate::audit::{Guarantee, MembershipNotice, ReadState, ReceivedMessage};
use crate::cluster::short;

impl Device {
    pub(super) async fn heard(
        &mut self,
        connection: &mut ActiveConnection,
        text: &str,
    ) -> Result<(), ConnectionEnded> {
        let Ok(frame) = serde_json::from_str::<Value>(text) else {
            self.town.auditor().find(
                Guarantee::Order,
                None,
                format!("{} received a frame that is not JSON: {text}", self.name),
            );
            return Err(ConnectionEnded);
        };
        let id = frame["conversation_id"].as_str().and_then(|id| id.parse::<ConversationId>().ok());
        match (frame["type"].as_str().unwrap_or_default(), id) {
            ("message", Some(id)) => self.message(connection, id, &frame),
            ("ack", Some(id)) => self.acknowledged(connection, id, &frame),
            ("status", Some(id)) => self.status(id, &frame),
            ("caught_up", _) => {
                self.note("is caught up");
                connection.caught_up = true;
                self.conversations.clone().into_iter().for_each(|id| self.ask(connection, id));
            }
            ("gone", Some(id)) => {
                self.note(format_args!("learns that it is no longer a member of {}", short(id)));
                self.drop_out(id);
            }
            ("error", _) => self.refused(connection, &frame),
            _ => {}
        }
        Ok(())
    }

    /// Forgets a conversation that the user is not a member of any more.
    fn drop_out(&mut self, id: ConversationId) {
        self.views.remove(&id);
        self.ticks.retain(|(of, _), _| *of != id);
        self.conversations.retain(|other| *other != id);
        self.outbox.retain(|unsent| unsent.conversation != id);
        self.sent.retain(|sent| sent.conversation != id);
    }

    fn refused(&mut self, connection: &mut ActiveConnection, frame: &Value) {
        self.note(format_args!("is refused: {} {}", frame["code"], frame["message_id"]));
        let Some(id) = frame["message_id"].as_str() else {
            // The error does not name the refused receipt, so send all receipts again.
            self.views.values_mut().for_each(|view| view.said = ReadState::default());
            connection.was_heard = false;
            return;
        };
        // The user may have been removed meanwhile. Founders are never removed, so for them it is a
        // finding.
        if frame["code"] == "conversation_not_found" {
            let mut auditor = self.town.auditor();
            let to =
                self.outbox.iter().find(|unsent| unsent.message_id == id).map(|unsent| unsent.conversation);
            if let Some(to) = to.filter(|to| auditor.is_founder(*to, &self.user)) {
                let what = format!(
                    "{} is a member of {}, and the server refused {id} with conversation_not_found",
                    self.name,
                    short(to)
                );
                auditor.find(Guarantee::NoLoss, Some(to), what);
            }
            drop(auditor);
            self.outbox.retain(|unsent| unsent.message_id != id);
        }
    }

    fn message(&mut self, connection: &mut ActiveConnection, id: ConversationId, frame: &Value) {
        let Some((seq, seen)) = ReceivedMessage::read(frame) else {
            let what = format!("{} received an incomplete message: {frame}", self.name);
            return self.town.auditor().find(Guarantee::Order, Some(id), what);
        };
        self.note(format_args!("receives {}:{seq} {}", short(id), seen.message_id));
        let mut auditor = self.town.auditor();
        if !auditor.was_let_in(id, &self.user) {
            return auditor.intruded(id, &self.user, "receive a message of it");
        }
        auditor.showed(id, &self.user, seq, &seen);
        drop(auditor);
        if seen.is_sent() && seen.sender == self.user.as_str() {
            self.has_said(id, seq);
        }
        match seen.notice() {
            Some(MembershipNotice::Joined(user)) if user == self.user => self.join(connection, id, seq),
            Some(MembershipNotice::Left(user)) if user == self.user => {
                connection.shown.insert(id, seq);
                self.drop_out(id);
            }
            _ => self.place(connection, id, seq),
        }
    }

    /// The user joins at `seq`. The device drops its messages from an earlier membership.
    fn join(&mut self, connection: &mut ActiveConnection, id: ConversationId, seq: u64) {
        let before = connection.shown.get(&id).copied().max(self.views.get(&id).map(|view| view.last));
        if before.is_none_or(|before| before < seq) {
            connection.shown.remove(&id);
            self.drop_out(id);
        }
        self.place(connection, id, seq);
    }

    /// Records that the connection has reached `seq` in the conversation, and checks the order.
    fn place(&mut self, connection: &mut ActiveConnection, id: ConversationId, seq: u64) {
        let shown = connection.shown.insert(id, seq);
        if let Some(before) = shown
            && seq <= before
        {
            let what = format!("{} received {seq} after {before}", connection.name);
            return self.town.auditor().find(Guarantee::Order, Some(id), what);
        }
        let has = self.views.get(&id).map(|view| view.last);
        // Messages that the device already has may lie between: the server does not send them
        // again.
        let through = shown.into_iter().chain(has).max();
        // Gaps are allowed in two cases. A forgetful device sent no positions, and the ack with the
        // seq of its own message may arrive after higher seqs. A user who is being removed misses
        // the latest messages but still gets acks. The final check requires both to have
        // everything.
        let is_sure = !self.forgetful && !self.town.auditor().has_started_again(id, &self.user);
        if let Some(through) = through
            && seq > through + 1
            && is_sure
        {
            let what = format!("{} has {through} and received {seq} next", connection.name);
            return self.town.auditor().find(Guarantee::OnceInTheView, Some(id), what);
        }
        self.views.entry(id).or_insert_with(|| ReceivedSeqs::from(seq)).add(seq);
        if !self.conversations.contains(&id) {
            self.conversations.push(id);
            self.ask(connection, id);
        }
    }

    fn acknowledged(&mut self, connection: &mut ActiveConnection, id: ConversationId, frame: &Value) {
        let (Some(message_id), Some(seq)) = (frame["message_id"].as_str(), frame["seq"].as_u64()) else {
            let what = format!("{} received an incomplete ack: {frame}", self.name);
            return self.town.auditor().find(Guarantee::NoLoss, Some(id), what);
        };
        let duplicate = frame["duplicate"].as_bool().unwrap_or_default();
        self.note(format_args!(
            "gets the ack of {message_id} at {}:{seq}{}",
            short(id),
            if duplicate { " already" } else { "" }
        ));
        self.town.auditor().acknowledged(id, &self.user, message_id, seq);
        self.has_said(id, seq);
        let mut was_tried_before = false;
        if let Some(index) = self.outbox.iter().position(|unsent| unsent.message_id == message_id)
            && let Some(stored) = self.outbox.remove(index)
        {
            was_tried_before = stored.attempts > 1;
            self.sent.push(stored);
        }
        // A duplicate's ack does not advance the connection: the server sends the stored message
        // only to devices whose positions are below it. The same holds for the first ack of a
        // message whose earlier attempt was stored without an answer, if the device already has
        // that seq.
        let has = self.views.get(&id).map_or(0, |view| view.last);
        match duplicate || (was_tried_before && seq <= has) {
            false => self.place(connection, id, seq),
            // The user may have been removed meanwhile.
            true if self.forgetful => {
                if let Some(view) = self.views.get_mut(&id) {
                    view.add(seq);
                }
            }
            true => {}
        }
    }
}
