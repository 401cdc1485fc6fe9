//! Somebody's device: it keeps what it was sent, sends, says how far it has come, and loses its connection.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bluetick_core::{ConversationId, UserId};
use serde_json::{Value, json};
use tokio::time::{sleep, timeout};

use crate::audit::{Boundaries, Guarantee, Seen};
use crate::dice::Dice;
use crate::town::{Town, short};
use crate::websocket::WebSocket;

pub struct Device {
    town: Arc<Town>,
    pub user: UserId,
    name: String,
    dice: Dice,
    /// It never tells where it stands and relies on what the server owes it. The only device of its user.
    forgetful: bool,
    conversations: Vec<ConversationId>,
    views: BTreeMap<ConversationId, View>,
    outbox: VecDeque<Unsent>,
    /// What was acknowledged lately, to be sent again.
    sent: Vec<Unsent>,
    number: u64,
    connections: u64,
}

/// What a device has of a conversation: from some place on all of it up to the last, and some above.
#[derive(Default)]
struct View {
    last: u64,
    above: BTreeSet<u64>,
    said: Boundaries,
}

impl View {
    fn from(first: u64) -> View {
        View { last: first, ..View::default() }
    }

    fn add(&mut self, seq: u64) {
        self.above.insert(seq);
        while self.above.first().is_some_and(|first| *first <= self.last + 1) {
            self.last = self.last.max(self.above.pop_first().unwrap_or(0));
        }
    }
}

#[derive(Clone)]
struct Unsent {
    conversation: ConversationId,
    message_id: String,
    content: String,
    /// What the device knew at its first attempt.
    after_seq: u64,
    attempts: u32,
}

/// One connection as the device sees it.
struct Connection {
    socket: WebSocket,
    /// For ticks, time goes one way on a connection.
    observer: String,
    /// The newest place it was shown of each conversation.
    shown: BTreeMap<ConversationId, u64>,
    caught_up: bool,
}

/// The connection is over.
struct Over;

impl Device {
    pub fn new(
        town: &Arc<Town>,
        user: UserId,
        number: usize,
        conversations: Vec<ConversationId>,
        forgetful: bool,
    ) -> Device {
        let name = format!("{user}/{number}");
        let dice = town.dice.of(&name);
        Device {
            town: Arc::clone(town),
            user,
            name,
            dice,
            forgetful,
            conversations,
            views: BTreeMap::new(),
            outbox: VecDeque::new(),
            sent: Vec::new(),
            number: 0,
            connections: 0,
        }
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    pub async fn live(mut self, done: tokio::sync::watch::Sender<BTreeMap<ConversationId, u64>>) {
        while !self.town.is_over() && !self.town.is_broken() {
            if let Some(connection) = self.connect().await {
                let Over = self.converse(connection, &done).await;
                self.note("is disconnected");
            }
            let pause = if self.town.is_calm() { 200 } else { 3_000 };
            sleep(self.dice.millis(20, pause)).await;
        }
    }

    fn note(&self, what: impl std::fmt::Display) {
        self.town.trace.note(&self.name, what);
    }

    async fn connect(&mut self) -> Option<Connection> {
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
        // Saying where it stands is saying what it has.
        for (id, last) in &shown {
            self.town.auditor().says(*id, &self.user, Boundaries { delivered: *last, read: 0 });
        }
        let hello = json!({
            "type": "hello", "token": self.town.token(&self.user), "device_id": self.name, "positions": positions
        });
        if !socket.say(&hello.to_string()).await {
            return None;
        }
        let observer = format!("{} on connection {}", self.name, self.connections);
        Some(Connection { socket, observer, shown, caught_up: false })
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
        mut connection: Connection,
        done: &tokio::sync::watch::Sender<BTreeMap<ConversationId, u64>>,
    ) -> Over {
        for index in 0..self.outbox.len() {
            let unsent = self.outbox[index].clone();
            if self.send(&mut connection, &unsent).await.is_err() {
                return Over;
            }
            self.outbox[index].attempts += 1;
        }
        loop {
            if self.town.is_over() || self.town.is_broken() {
                return Over;
            }
            let pause = self.dice.millis(20, 600);
            let heard = timeout(pause, connection.socket.hear()).await;
            let went_on = match heard {
                Ok(Some(text)) => self.heard(&mut connection, &text).await,
                Ok(None) => Err(Over),
                Err(_) => self.act(&mut connection).await,
            };
            // A device whose outbox is empty shows how far it has come.
            let views = match self.outbox.is_empty() && connection.caught_up {
                true => self.views.iter().map(|(id, view)| (*id, view.last)).collect(),
                false => BTreeMap::new(),
            };
            done.send_if_modified(|before| {
                let is_new = *before != views;
                *before = views;
                is_new
            });
            if went_on.is_err() {
                return Over;
            }
        }
    }

    async fn send(&self, connection: &mut Connection, unsent: &Unsent) -> Result<(), Over> {
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

    async fn say(&self, connection: &mut Connection, frame: &Value) -> Result<(), Over> {
        match connection.socket.say(&frame.to_string()).await {
            true => Ok(()),
            false => Err(Over),
        }
    }

    async fn act(&mut self, connection: &mut Connection) -> Result<(), Over> {
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
                Err(Over)
            }
            _ => Ok(()),
        }
    }

    async fn act_calmly(&mut self, connection: &mut Connection) -> Result<(), Over> {
        if !connection.caught_up {
            return Ok(());
        }
        // An answer may have been an error; what is not acknowledged is sent until it is.
        for index in 0..self.outbox.len() {
            let unsent = self.outbox[index].clone();
            self.send(connection, &unsent).await?;
            self.outbox[index].attempts += 1;
        }
        if !self.outbox.is_empty() {
            sleep(Duration::from_millis(300)).await;
        }
        self.mark(connection, false).await
    }

    /// Says of every conversation how far it has come, where that is news.
    async fn mark(&mut self, connection: &mut Connection, read: bool) -> Result<(), Over> {
        let ids: Vec<_> = self.views.keys().copied().collect();
        for id in ids {
            let view = &self.views[&id];
            let said = if read { view.said.read } else { view.said.delivered };
            let last = view.last;
            if last > said {
                self.boundaries(connection, id, last, read).await?;
                let said = &mut self.views.get_mut(&id).expect("it was there just now").said;
                said.delivered = said.delivered.max(last);
                said.read = if read { last } else { said.read };
            }
        }
        Ok(())
    }

    async fn boundaries(
        &self,
        connection: &mut Connection,
        id: ConversationId,
        seq: u64,
        read: bool,
    ) -> Result<(), Over> {
        let kind = if read { "read" } else { "delivered" };
        let said = Boundaries { delivered: seq, read: if read { seq } else { 0 } };
        self.town.auditor().says(id, &self.user, said);
        self.note(format_args!("says {kind} {}:{seq}", short(id)));
        self.say(connection, &json!({"type": kind, "conversation_id": id.to_string(), "seq": seq})).await
    }

    async fn heard(&mut self, connection: &mut Connection, text: &str) -> Result<(), Over> {
        let Ok(frame) = serde_json::from_str::<Value>(text) else {
            self.town.auditor().find(Guarantee::Order, None, format!("{} heard no JSON: {text}", self.name));
            return Err(Over);
        };
        let id = frame["conversation_id"].as_str().and_then(|id| id.parse::<ConversationId>().ok());
        match (frame["type"].as_str().unwrap_or_default(), id) {
            ("message", Some(id)) => self.message(connection, id, &frame),
            ("ack", Some(id)) => self.acknowledged(connection, id, &frame),
            ("status", Some(id)) => self.status(connection, id, &frame),
            ("caught_up", _) => {
                self.note("is caught up");
                connection.caught_up = true;
            }
            ("gone", Some(id)) => {
                self.note(format_args!("is told that {} is gone", short(id)));
                self.views.remove(&id);
                self.conversations.retain(|other| *other != id);
                self.outbox.retain(|unsent| unsent.conversation != id);
            }
            ("error", _) => self.refused(&frame),
            _ => {}
        }
        Ok(())
    }

    fn refused(&mut self, frame: &Value) {
        self.note(format_args!("is refused: {} {}", frame["code"], frame["message_id"]));
        // Somebody has taken it out of the conversation meanwhile.
        if frame["code"] == "not_a_member"
            && let Some(id) = frame["message_id"].as_str()
        {
            self.outbox.retain(|unsent| unsent.message_id != id);
        }
    }

    fn message(&mut self, connection: &mut Connection, id: ConversationId, frame: &Value) {
        let Some((seq, seen)) = Seen::read(frame) else {
            let what = format!("{} was sent half a message: {frame}", self.name);
            return self.town.auditor().find(Guarantee::Order, Some(id), what);
        };
        self.note(format_args!("is shown {}:{seq} {}", short(id), seen.message_id));
        let mut auditor = self.town.auditor();
        if !auditor.may_see(id, &self.user) {
            return auditor.intruded(id, &self.user, "hear a message of it");
        }
        auditor.saw(id, seq, &seen);
        drop(auditor);
        self.place(connection, id, seq);
    }

    /// The connection has come to this place of the conversation.
    fn place(&mut self, connection: &mut Connection, id: ConversationId, seq: u64) {
        let shown = connection.shown.insert(id, seq);
        if let Some(before) = shown
            && seq <= before
        {
            let what = format!("{} was shown {seq} after {before}", connection.observer);
            return self.town.auditor().find(Guarantee::Order, Some(id), what);
        }
        let has = self.views.get(&id).map(|view| view.last);
        // What it has and was not asked for again may lie between.
        let through = shown.into_iter().chain(has).max();
        // A forgetful one has told nobody what it has; where it sent something itself, the ack that tells the place may
        // come later than what lies above. In the end it must have everything, too.
        if let Some(through) = through
            && seq > through + 1
            && !self.forgetful
        {
            let what = format!("{} has {through} and was shown {seq} next", connection.observer);
            return self.town.auditor().find(Guarantee::OnceInTheView, Some(id), what);
        }
        self.views.entry(id).or_insert_with(|| View::from(seq)).add(seq);
        if !self.conversations.contains(&id) {
            self.conversations.push(id);
        }
    }

    fn acknowledged(&mut self, connection: &mut Connection, id: ConversationId, frame: &Value) {
        let (Some(message_id), Some(seq)) = (frame["message_id"].as_str(), frame["seq"].as_u64()) else {
            let what = format!("{} was sent half an ack: {frame}", self.name);
            return self.town.auditor().find(Guarantee::NoLoss, Some(id), what);
        };
        let duplicate = frame["duplicate"].as_bool().unwrap_or_default();
        self.note(format_args!(
            "is told that {message_id} is stored at {}:{seq}{}",
            short(id),
            if duplicate { " already" } else { "" }
        ));
        self.town.auditor().acknowledged(id, &self.user, message_id, seq);
        let mut was_tried_before = false;
        if let Some(index) = self.outbox.iter().position(|unsent| unsent.message_id == message_id)
            && let Some(stored) = self.outbox.remove(index)
        {
            was_tried_before = stored.attempts > 1;
            self.sent.push(stored);
        }
        // The ack of a message that was stored before comes besides the message itself, which is sent only to those who say
        // that they do not have it.
        // So does the first ack of one whose earlier attempt was stored and got no answer, where the device has it.
        let has = self.views.get(&id).map_or(0, |view| view.last);
        match duplicate || (was_tried_before && seq <= has) {
            false => self.place(connection, id, seq),
            true if self.forgetful => self.views.entry(id).or_insert_with(|| View::from(seq)).add(seq),
            true => {}
        }
    }

    fn status(&mut self, connection: &mut Connection, id: ConversationId, frame: &Value) {
        let Some(user) = frame["user_id"].as_str().and_then(|user| user.parse::<UserId>().ok()) else {
            return;
        };
        let told = Boundaries {
            delivered: frame["last_delivered_seq"].as_u64().unwrap_or(0),
            read: frame["last_read_seq"].as_u64().unwrap_or(0),
        };
        self.note(format_args!(
            "is told that {user} has {}:{} and read {}",
            short(id),
            told.delivered,
            told.read
        ));
        let mut auditor = self.town.auditor();
        if !auditor.may_see(id, &self.user) {
            return auditor.intruded(id, &self.user, "hear a tick of it");
        }
        auditor.told(&connection.observer, id, &user, told);
    }
}
