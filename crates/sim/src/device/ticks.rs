//! The read states of other members, as a device learns them. The connection pushes new changes;
//! the device requests earlier ones over HTTP when it is caught up.

use std::sync::Arc;
use std::time::Duration;

use bluetick_core::{ConversationId, UserId};
use serde_json::Value;
use tokio::sync::mpsc;
use tokio::time::sleep;

use super::{ActiveConnection, Device};
use crate::audit::{ReadState, ReadStates};
use crate::cluster::short;
use crate::http;

/// The answer to a request for the read states of a conversation, and the read states published
/// before the request.
pub struct StatusRequest {
    /// Identifies the request: answers arrive in any order.
    question: u64,
    id: ConversationId,
    before: ReadStates,
    /// `None`: the user is not a member (404).
    members: Option<Value>,
}

/// Parses the read state of a user from an answer or a frame.
pub fn member_state(said: &Value) -> Option<(UserId, ReadState)> {
    let user = said["user_id"].as_str()?.parse().ok()?;
    let read_state = ReadState {
        delivered: said["last_delivered_seq"].as_u64().unwrap_or(0),
        read: said["last_read_seq"].as_u64().unwrap_or(0),
    };
    Some((user, read_state))
}

/// The open requests of a connection.
pub struct OpenRequests {
    answers: mpsc::UnboundedReceiver<StatusRequest>,
    asking: mpsc::UnboundedSender<StatusRequest>,
    open: usize,
}

impl OpenRequests {
    pub fn none() -> OpenRequests {
        let (asking, answers) = mpsc::unbounded_channel();
        OpenRequests { answers, asking, open: 0 }
    }

    pub fn are_answered(&self) -> bool {
        self.open == 0
    }
}

/// Delay before a failed request is repeated. A longer delay keeps the final check waiting.
const PAUSE: Duration = Duration::from_millis(500);

impl Device {
    /// Requests the read states in a separate task while the connection continues. The task retries
    /// until it gets an answer or the connection ends.
    pub(super) fn ask(&mut self, connection: &mut ActiveConnection, id: ConversationId) {
        connection.questions.open += 1;
        let (town, asking) = (Arc::clone(&self.town), connection.questions.asking.clone());
        let question = self.dice.throw();
        let (token, mut dice) = (town.token(&self.user), self.dice.of(&format!("question {question}")));
        tokio::spawn(async move {
            while !asking.is_closed() && !town.is_over() {
                let before = town.auditor().told_so_far(id);
                let path = format!("/v1/conversations/{id}/status");
                let answer = http::call(&town, &mut dice, &token, "GET", &path, None).await;
                let members = match answer {
                    Some(answer) if answer.is_done() => Some(answer.body["members"].clone()),
                    Some(answer) if answer.status == 404 => None,
                    _ => {
                        sleep(PAUSE).await;
                        continue;
                    }
                };
                // Sending fails if the connection has ended; the answer is not needed then.
                let _ = asking.send(StatusRequest { question, id, before, members });
                return;
            }
        });
    }

    pub(super) fn hear_answers(&mut self, connection: &mut ActiveConnection) {
        while let Ok(StatusRequest { question, id, before, members }) =
            connection.questions.answers.try_recv()
        {
            connection.questions.open -= 1;
            let members = members.as_ref().and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
            for (user, now) in members.iter().filter_map(member_state) {
                self.learn(id, &user, now);
                let name = format!("{}, with question {question:x},", self.name);
                self.town.auditor().answered(&name, id, &user, &before, now);
            }
        }
    }

    fn learn(&mut self, id: ConversationId, user: &UserId, now: ReadState) {
        let known = self.ticks.entry((id, user.clone())).or_default();
        *known = known.further(now);
    }

    /// A message of the user implies that the user has read everything before it.
    pub(super) fn has_said(&mut self, id: ConversationId, seq: u64) {
        let before = seq.saturating_sub(1);
        self.knows_itself(id, ReadState { delivered: before, read: before });
    }

    /// Applies the device's own receipts: the server does not publish them back.
    pub(super) fn knows_itself(&mut self, id: ConversationId, said: ReadState) {
        self.learn(id, &self.user.clone(), said);
    }

    pub(super) fn status(&mut self, id: ConversationId, frame: &Value) {
        let Some((user, told)) = member_state(frame) else { return };
        self.note(format_args!(
            "receives that {user} has {}:{} and read {}",
            short(id),
            told.delivered,
            told.read
        ));
        self.learn(id, &user, told);
        // In a fleet, another node may publish an older read state. Clients keep the maximum, as
        // `learn` does, so each connection is a separate observer.
        let observer = match self.town.has_one_node() {
            true => self.name.clone(),
            false => format!("{} on connection {}", self.name, self.connections),
        };
        let mut auditor = self.town.auditor();
        if !auditor.was_let_in(id, &self.user) {
            return auditor.intruded(id, &self.user, "receive a tick of it");
        }
        auditor.told(&observer, id, &user, told);
    }
}
