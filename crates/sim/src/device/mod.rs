//! A user's device: it keeps received messages, sends messages and receipts, and reconnects after a
//! disconnect.

mod frames;
mod ticks;
mod view;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bluetick_core::{ConversationId, UserId};
use serde_json::{Value, json};
use ticks::OpenRequests;
pub use ticks::member_state;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};
use view::ReceivedSeqs;
pub use view::{DeviceReport, Has};

use crate::audit::ReadState;
use crate::cluster::{Cluster, short};
use crate::dice::Dice;
use crate::websocket::WebSocket;

pub struct Device {
    town: Arc<Cluster>,
    pub user: UserId,
    name: String,
    dice: Dice,
    /// The device sends no positions and relies on pending rows. It must be the only device of its
    /// user.
    forgetful: bool,
    conversations: Vec<ConversationId>,
    views: BTreeMap<ConversationId, ReceivedSeqs>,
    /// The read states of all members, as received since the device connected.
    ticks: BTreeMap<(ConversationId, UserId), ReadState>,
    /// Whether the device sends read receipts for everything after the busy phase.
    reads_in_the_end: bool,
    outbox: VecDeque<Unsent>,
    /// Acknowledged messages that may be sent again.
    sent: Vec<Unsent>,
    number: u64,
    connections: u64,
}

#[derive(Clone)]
struct Unsent {
    conversation: ConversationId,
    message_id: String,
    content: String,
    /// The last contiguous seq that the device had at the first attempt.
    after_seq: u64,
    attempts: u32,
}

/// The state of one connection.
struct ActiveConnection {
    socket: WebSocket,
    name: String,
    /// The last seq received in each conversation.
    shown: BTreeMap<ConversationId, u64>,
    caught_up: bool,
    /// Requests for the read states of the members.
    questions: OpenRequests,
    /// No receipt of this connection was refused.
    was_heard: bool,
}

/// The connection has ended.
struct ConnectionEnded;

impl Device {
    pub fn new(
        town: &Arc<Cluster>,
        user: UserId,
        number: usize,
        conversations: Vec<ConversationId>,
        forgetful: bool,
    ) -> Device {
        let name = format!("{user}/{number}");
        let mut dice = town.dice.of(&name);
        Device {
            town: Arc::clone(town),
            user,
            name,
            reads_in_the_end: dice.one_in(2),
            dice,
            forgetful,
            views: conversations.iter().map(|id| (*id, ReceivedSeqs::from_the_beginning())).collect(),
            conversations,
            ticks: BTreeMap::new(),
            outbox: VecDeque::new(),
            sent: Vec::new(),
            number: 0,
            connections: 0,
        }
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    pub async fn live(mut self, done: watch::Sender<DeviceReport>) {
        while !self.town.is_over() && !self.town.is_broken() {
            if let Some(connection) = self.connect().await {
                let ConnectionEnded = self.converse(connection, &done).await;
                done.send_replace(DeviceReport::default());
                self.note("is disconnected");
            }
            let pause = if self.town.is_calm() { 200 } else { 3_000 };
            sleep(self.dice.millis(20, pause)).await;
        }
    }

    fn note(&self, what: impl std::fmt::Display) {
        self.town.trace.note(&self.name, what);
    }

    async fn connect(&mut self) -> Option<ActiveConnection> {
        let (node, line) = self.town.connect(&mut self.dice)?;
        let mut socket = WebSocket::open(line).await?;
        self.connections += 1;
        let positions: serde_json::Map<_, _> = match self.forgetful {
            true => serde_json::Map::new(),
            false => self.views.iter().map(|(id, view)| (id.to_string(), json!(view.last))).collect(),
        };
        let shown: BTreeMap<_, _> = match self.forgetful {
            true => BTreeMap::new(),
            false => self.views.iter().map(|(id, view)| (*id, view.last)).collect(),
        };
        self.note(format_args!("connects to {node}, at {}", self.positions()));
        // A position in `hello` counts as a delivered receipt.
        self.ticks.clear();
        for view in self.views.values_mut() {
            view.said = ReadState::default();
        }
        for (id, last) in &shown {
            let said = ReadState { delivered: *last, read: 0 };
            self.town.auditor().says(*id, &self.user, said);
            self.knows_itself(*id, said);
        }
        let hello = json!({
            "type": "hello", "token": self.town.token(&self.user), "device_id": self.name, "positions": positions
        });
        if !socket.say(&hello.to_string()).await {
            return None;
        }
        let name = format!("{} on connection {}", self.name, self.connections);
        let questions = OpenRequests::none();
        Some(ActiveConnection { socket, name, shown, caught_up: false, questions, was_heard: true })
    }

    fn positions(&self) -> String {
        if self.forgetful {
            return "no positions".to_owned();
        }
        let views = self.views.iter().map(|(id, view)| format!("{}:{}", short(*id), view.last));
        views.collect::<Vec<_>>().join(" ")
    }

    async fn converse(
        &mut self,
        mut connection: ActiveConnection,
        done: &watch::Sender<DeviceReport>,
    ) -> ConnectionEnded {
        for index in 0..self.outbox.len() {
            let unsent = self.outbox[index].clone();
            if self.send(&mut connection, &unsent).await.is_err() {
                return ConnectionEnded;
            }
            self.outbox[index].attempts += 1;
        }
        loop {
            if self.town.is_over() || self.town.is_broken() {
                return ConnectionEnded;
            }
            let pause = self.dice.millis(20, 600);
            let heard = timeout(pause, connection.socket.hear()).await;
            let went_on = match heard {
                Ok(Some(text)) => self.heard(&mut connection, &text).await,
                Ok(None) => Err(ConnectionEnded),
                Err(_) => self.act(&mut connection).await,
            };
            self.hear_answers(&mut connection);
            self.show(&connection, done);
            if went_on.is_err() {
                return ConnectionEnded;
            }
        }
    }

    /// Publishes a report of the device's state. The report is empty while messages are unsent,
    /// catch-up is incomplete or requests are open.
    fn show(&self, connection: &ActiveConnection, done: &watch::Sender<DeviceReport>) {
        let is_done = self.outbox.is_empty() && connection.caught_up && connection.questions.are_answered();
        let has = |view| if self.forgetful { Has::after_reading_on(view) } else { Has::from(view) };
        let report = match is_done {
            true => DeviceReport {
                views: self.views.iter().map(|(id, view)| (*id, has(view))).collect(),
                ticks: self.ticks.clone(),
                was_heard: connection.was_heard,
            },
            false => DeviceReport::default(),
        };
        done.send_if_modified(|before| {
            let is_new = *before != report;
            *before = report;
            is_new
        });
    }

    async fn send(&self, connection: &mut ActiveConnection, unsent: &Unsent) -> Result<(), ConnectionEnded> {
        let Unsent { conversation, message_id, content, after_seq, attempts } = unsent;
        self.town.auditor().attempted(*conversation, &self.user, message_id, content);
        self.note(format_args!(
            "sends {message_id} to {}{}",
            short(*conversation),
            if *attempts > 0 { " again" } else { "" }
        ));
        let mut frame = json!({
            "type": "send", "conversation_id": conversation.to_string(), "message_id": message_id, "content": content
        });
        if *attempts > 1 {
            frame["retry"] = json!(true);
            frame["after_seq"] = json!(after_seq);
        }
        self.say(connection, &frame).await
    }

    async fn say(&self, connection: &mut ActiveConnection, frame: &Value) -> Result<(), ConnectionEnded> {
        match connection.socket.say(&frame.to_string()).await {
            true => Ok(()),
            false => Err(ConnectionEnded),
        }
    }

    async fn act(&mut self, connection: &mut ActiveConnection) -> Result<(), ConnectionEnded> {
        if self.town.is_calm() {
            return self.act_calmly(connection).await;
        }
        match self.dice.below(20) {
            0..=7 => {
                let conversation = *self.dice.pick(&self.conversations);
                self.number += 1;
                self.town.counts.sends.fetch_add(1, Ordering::SeqCst);
                let unsent = Unsent {
                    conversation,
                    message_id: format!("{}-{}", self.name.replace('/', "."), self.number),
                    content: format!("{} says {}", self.name, self.number),
                    after_seq: self.views.get(&conversation).map_or(0, |view| view.last),
                    attempts: 1,
                };
                let said = self.send(connection, &Unsent { attempts: 0, ..unsent.clone() }).await;
                self.outbox.push_back(unsent);
                said
            }
            8 if !self.sent.is_empty() => {
                let again = self.dice.pick(&self.sent).clone();
                self.send(connection, &again).await
            }
            9..=11 => self.mark(connection, false).await,
            12..=14 => self.mark(connection, true).await,
            15 => {
                let conversation = *self.dice.pick(&self.conversations);
                self.say(connection, &json!({"type": "typing", "conversation_id": conversation.to_string()}))
                    .await
            }
            17 if self.dice.one_in(3) => {
                self.note("hangs up");
                Err(ConnectionEnded)
            }
            _ => Ok(()),
        }
    }

    async fn act_calmly(&mut self, connection: &mut ActiveConnection) -> Result<(), ConnectionEnded> {
        if !connection.caught_up {
            return Ok(());
        }
        // The server may have answered with an error, so resend every unacknowledged message.
        for index in 0..self.outbox.len() {
            let unsent = self.outbox[index].clone();
            self.send(connection, &unsent).await?;
            self.outbox[index].attempts += 1;
        }
        if !self.outbox.is_empty() {
            sleep(Duration::from_millis(300)).await;
        }
        self.mark(connection, false).await?;
        if self.reads_in_the_end {
            self.mark(connection, true).await?;
        }
        Ok(())
    }

    /// Sends a receipt for each conversation in which the device has advanced.
    async fn mark(&mut self, connection: &mut ActiveConnection, read: bool) -> Result<(), ConnectionEnded> {
        let ids: Vec<_> = self.views.keys().copied().collect();
        for id in ids {
            let view = &self.views[&id];
            let said = if read { view.said.read } else { view.said.delivered };
            let last = view.last;
            if last > said {
                let now = ReadState { delivered: last, read: if read { last } else { 0 } };
                self.read_state(connection, id, now).await?;
                self.knows_itself(id, now);
                let said = &mut self.views.get_mut(&id).expect("the lines above found it").said;
                *said = said.further(now);
            }
        }
        Ok(())
    }

    async fn read_state(
        &self,
        connection: &mut ActiveConnection,
        id: ConversationId,
        said: ReadState,
    ) -> Result<(), ConnectionEnded> {
        let (kind, seq) = if said.read > 0 { ("read", said.read) } else { ("delivered", said.delivered) };
        self.town.auditor().says(id, &self.user, said);
        self.note(format_args!("sends {kind} {}:{seq}", short(id)));
        self.say(connection, &json!({"type": kind, "conversation_id": id.to_string(), "seq": seq})).await
    }
}
