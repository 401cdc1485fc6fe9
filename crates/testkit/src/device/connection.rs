//! One connection of a device: opens it, sends frames on it, and makes HTTP requests beside it.
//! `frames` checks received frames; `gaps` fetches missing messages.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use serde_json::{Map, Value, json};
use tokio::time::{Instant, sleep_until};
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::CloseFrame;

use super::gaps::MissingRange;
use super::{Device, ReadState, ReceivedMessage, Trouble, ViolationReport};
use crate::checker::ClientEvent;
use crate::client::Socket;
use crate::http;
use crate::names::ConversationName;

/// Time limit for an operation. It is longer than any operation of a running server takes.
const PATIENCE: Duration = Duration::from_secs(30);

/// Why a connection ended.
pub(super) enum ConnectionEnd {
    /// The network failed or the server ended.
    Lost,
    Violated(Box<ViolationReport>),
}

impl From<ViolationReport> for ConnectionEnd {
    fn from(violation: ViolationReport) -> ConnectionEnd {
        ConnectionEnd::Violated(Box::new(violation))
    }
}

pub(super) struct DeviceConnection<'a> {
    pub device: &'a mut Device,
    pub socket: Socket,
    pub address: String,
    /// The positions sent in `hello`.
    pub listed: HashMap<ConversationName, u64>,
    /// The last seq of each conversation that this connection received, or that a `backlog` frame
    /// skipped.
    pub shown: HashMap<ConversationName, u64>,
    /// The seq range that a `backlog` frame skipped: above the first, up to the second. Acks of the
    /// device's own messages in this range still arrive.
    pub left_out: HashMap<ConversationName, (u64, u64)>,
    pub gaps: BTreeMap<ConversationName, MissingRange>,
    /// Messages above a gap, held back until it is closed.
    pub ahead: HashMap<ConversationName, BTreeMap<u64, ReceivedMessage>>,
    pub caught_up: bool,
    /// Number of messages at the end of the outbox that this connection has not sent yet.
    pub unsent: usize,
    /// After a temporary refusal, the device sends nothing before this time.
    resting_until: Option<Instant>,
}

/// Error codes of temporary refusals; the client retries.
const LATER: [&str; 3] = ["store_unavailable", "overloaded", "draining"];
/// Close codes after which a client reconnects: server error and restart.
const COMING_BACK: [u16; 2] = [1011, 1012];
/// Upper bound on the pause after a temporary refusal, in milliseconds; a quarter of it is the
/// lower bound. A longer pause leaves fewer sends for the test.
const REST_MS: u64 = 200;

impl<'a> DeviceConnection<'a> {
    /// Connects and sends `hello`, without waiting for an answer.
    pub async fn open(device: &'a mut Device, address: &str) -> Result<DeviceConnection<'a>, ConnectionEnd> {
        let url = format!("ws://{address}/v1/ws");
        let connecting = tokio::time::timeout(PATIENCE, tokio_tungstenite::connect_async(url));
        let Ok(Ok((socket, _))) = connecting.await else { return Err(ConnectionEnd::Lost) };
        device.record.connected();
        if device.is_patient {
            // Another node may publish older read states.
            device.record.forget_heard();
        }
        let unsent = device.outbox.len();
        let mut connection = DeviceConnection {
            device,
            socket,
            address: address.to_owned(),
            listed: HashMap::new(),
            shown: HashMap::new(),
            left_out: HashMap::new(),
            gaps: BTreeMap::new(),
            ahead: HashMap::new(),
            caught_up: false,
            unsent,
            resting_until: None,
        };
        let hello = connection.hello();
        connection.say(&hello).await?;
        Ok(connection)
    }

    fn hello(&mut self) -> Value {
        let device = &mut *self.device;
        let mut hello = json!({
            "type": "hello", "token": device.identity.token, "device_id": device.identity.name.as_str(),
        });
        if !device.habits.tells_positions {
            return hello;
        }
        let mut positions = Map::new();
        for (conversation, view) in device.views.iter().filter(|(_, view)| !view.left()) {
            let seq = view.end();
            let position = match device.epoch {
                Some(epoch) if device.dice.one_in(2) => json!({"epoch": epoch, "seq": seq}),
                _ => json!(seq),
            };
            positions.insert(conversation.as_str().to_owned(), position);
            self.listed.insert(conversation.clone(), seq);
            // A position counts as a delivered receipt.
            device.record.claim(conversation, ReadState { delivered: seq, read: 0 });
        }
        hello["positions"] = Value::Object(positions);
        hello
    }

    pub async fn say(&mut self, frame: &Value) -> Result<(), ConnectionEnd> {
        if frame["type"] == "hello" {
            let positions = &frame["positions"];
            self.device.record.note("-> hello", positions);
        } else {
            self.device.record.note("->", frame);
        }
        let sending = self.socket.send(Message::text(frame.to_string()));
        match tokio::time::timeout(PATIENCE, sending).await {
            Ok(Ok(())) => Ok(()),
            _ => Err(ConnectionEnd::Lost),
        }
    }

    /// Returns the next frame. Cancellation-safe: dropping the future loses no frame.
    pub async fn next(&mut self) -> Result<Value, ConnectionEnd> {
        loop {
            match self.socket.next().await {
                Some(Ok(Message::Text(text))) => {
                    let frame: Value = serde_json::from_str(&text).unwrap();
                    self.device.record.note("<-", &frame);
                    return Ok(frame);
                }
                Some(Ok(Message::Close(reason))) if self.device.comes_back_after(reason.as_ref()) => {
                    return Err(ConnectionEnd::Lost);
                }
                Some(Ok(Message::Close(reason))) => {
                    let reason = format!("{reason:?}");
                    return Err(self.device.violation(None, Trouble::Closed(reason)).into());
                }
                Some(Ok(_)) => {}
                Some(Err(_)) | None => return Err(ConnectionEnd::Lost),
            }
        }
    }

    /// Sends the next unsent message of the outbox. Returns false if there is none or sending must
    /// wait.
    pub async fn send_next(&mut self) -> Result<bool, ConnectionEnd> {
        if self.unsent == 0 {
            return Ok(false);
        }
        let at = self.device.outbox.len() - self.unsent;
        let is_resting = self.resting_until.is_some_and(|until| Instant::now() < until);
        if is_resting || (self.device.is_patient && at > 0) {
            return Ok(false);
        }
        self.unsent -= 1;
        let frame = self.device.attempt(at);
        self.say(&frame).await?;
        Ok(true)
    }

    /// Handles a temporary refusal: pauses sending, and marks the refused message as unsent.
    pub fn put_off(&mut self, message_id: Option<&str>) {
        self.device.record.happened.put_off += 1;
        let rest_ms = self.device.dice.between(REST_MS / 4, REST_MS);
        self.resting_until = Some(Instant::now() + Duration::from_millis(rest_ms));
        let under_way = self.device.outbox.len() - self.unsent;
        let mut under_way = self.device.outbox.iter().take(under_way);
        if under_way.any(|attempt| Some(attempt.message_id.as_str()) == message_id) {
            self.unsent += 1;
        }
    }

    /// Returns the end of the pause, or a time far in the future if there is none.
    pub fn rest_ends(&self) -> Instant {
        let now = Instant::now();
        self.resting_until.filter(|until| *until > now).unwrap_or(now + PATIENCE)
    }

    /// Removes a message from the outbox after its ack or final refusal.
    pub fn settle_attempt(&mut self, message_id: &str) {
        let Some(at) = self.device.outbox.iter().position(|attempt| attempt.message_id == message_id) else {
            return;
        };
        // The message may be queued for a resend when an earlier attempt is answered.
        if at >= self.device.outbox.len() - self.unsent {
            self.unsent -= 1;
        }
        self.device.outbox.remove(at);
    }

    /// Handles that the user is no longer a member: drops the conversation and its gaps.
    pub fn forget(&mut self, conversation: &ConversationName) {
        self.device.drop_conversation(conversation);
        self.gaps.remove(conversation);
        self.ahead.remove(conversation);
    }

    /// Makes an HTTP request. Returns `None` on 404 if the user may have been removed; any other
    /// error status is a violation.
    pub async fn ask(
        &mut self,
        conversation: Option<&ConversationName>,
        method: &str,
        path: &str,
        body: Option<&Value>,
    ) -> Result<Option<Value>, ConnectionEnd> {
        let asking = self.ask_until_answered(method, path, body);
        let Ok(Ok((status, answer))) = tokio::time::timeout(PATIENCE, asking).await else {
            return Err(ConnectionEnd::Lost);
        };
        match conversation {
            _ if status < 300 => Ok(Some(answer)),
            Some(conversation) if status == 404 && self.device.may_be_out(conversation) => {
                self.forget(conversation);
                Ok(None)
            }
            _ => {
                let trouble = Trouble::Refused(format!("{method} {path}: {status} {answer}"));
                Err(self.device.violation(conversation, trouble).into())
            }
        }
    }
}

impl DeviceConnection<'_> {
    /// Repeats the request while it is temporarily refused.
    async fn ask_until_answered(
        &mut self,
        method: &str,
        path: &str,
        body: Option<&Value>,
    ) -> std::io::Result<(u16, Value)> {
        loop {
            let token = &self.device.identity.token;
            let (status, answer) = http::request(&self.address, method, path, token, body).await?;
            self.device.record.note_text(format!("== {method} {path} {status}"));
            if status != 503 || !self.device.takes_for_later(&answer["error"]["code"]) {
                return Ok((status, answer));
            }
            self.put_off(None);
            sleep_until(self.rest_ends()).await;
        }
    }
}

impl Device {
    pub(super) fn takes_for_later(&self, code: &Value) -> bool {
        self.is_patient && code.as_str().is_some_and(|code| LATER.contains(&code))
    }

    fn comes_back_after(&self, close: Option<&CloseFrame>) -> bool {
        self.is_patient && close.is_some_and(|close| COMING_BACK.contains(&close.code.into()))
    }

    /// Builds the send frame of a message of the outbox and logs the attempt.
    fn attempt(&mut self, at: usize) -> Value {
        let again = self.outbox[at].tried;
        self.outbox[at].tried = true;
        self.record.happened.resends += usize::from(again);
        let says_so = again && self.dice.one_in(2);
        let attempt = &self.outbox[at];
        self.record.log.events.push(ClientEvent::Attempted {
            conversation: attempt.conversation.as_str().to_owned(),
            message_id: attempt.message_id.clone(),
            content: attempt.content.clone(),
        });
        let mut frame = attempt.body();
        frame["type"] = json!("send");
        frame["conversation_id"] = json!(attempt.conversation.as_str());
        if says_so {
            frame["retry"] = json!(true);
            frame["after_seq"] = json!(attempt.after_seq);
        }
        frame
    }

    /// Builds the HTTP body of the newest message of the outbox and logs the attempt.
    pub(super) fn attempt_by_call(&mut self) -> Option<(ConversationName, Value)> {
        let at = self.outbox.len().checked_sub(1)?;
        let mut body = self.attempt(at);
        body.as_object_mut()?.remove("type");
        body.as_object_mut()?.remove("conversation_id");
        Some((self.outbox[at].conversation.clone(), body))
    }
}

impl super::Attempt {
    fn body(&self) -> Value {
        let mut body = json!({"message_id": self.message_id, "content": self.content});
        if let Some(content_type) = self.content_type {
            body["content_type"] = json!(content_type);
        }
        body
    }
}
