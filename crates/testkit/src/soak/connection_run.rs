//! One connection of a device: `hello`, catch-up, then sending due messages and random other
//! actions.

use std::collections::HashMap;
use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use serde_json::{Map, Value, json};
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until, timeout};
use tokio_tungstenite::tungstenite::Message;

use super::device::{ConnectionEnd, Life};
use super::ledger::{Breach, ConversationBreach, Shown};
use crate::client::{Situation, Socket, stopped};
use crate::device::ReadState;
use crate::http::request_until_answered;
use crate::names::{ConversationName, Membership};

/// Upper bound on unacknowledged sends on a connection. A larger one measures how long sends queue
/// after an absence.
const WINDOW: usize = 64;
/// Time limit for an operation. It is longer than any operation of a running server takes.
const PATIENCE: Duration = Duration::from_secs(60);
/// Minimum and maximum pause between two actions besides sending, in milliseconds. Shorter pauses
/// add load beyond the planned message rate.
const CHORE_MS: (u64, u64) = (100, 500);
/// Close codes after which a client reconnects: the server failed or restarts, or this process was
/// too slow.
const COMING_BACK: [u16; 5] = [1011, 1012, 4408, 4410, 4413];

pub(super) struct ConnectionRun<'a> {
    pub life: &'a mut Life,
    pub socket: Socket,
    pub caught_up: bool,
    /// Number of messages at the front of the outbox that this connection has sent.
    pub under_way: usize,
    /// The read states received on this connection.
    pub heard: HashMap<Membership, ReadState>,
    /// The seq range that a `backlog` frame skipped: above the first, up to the second.
    pub left_out: HashMap<ConversationName, (u64, u64)>,
}

impl Life {
    pub(super) async fn spell(
        &mut self,
        situation: &mut watch::Receiver<Situation>,
    ) -> Result<(), ConnectionEnd> {
        let length_ms =
            if self.dice.one_in(8) { self.dice.between(1, 60) } else { self.dice.between(2_000, 30_000) };
        let end = Instant::now() + Duration::from_millis(length_ms);
        let mut spell = ConnectionRun::open(self).await?;
        let mut next_chore = Instant::now();
        loop {
            spell.send_what_waits().await?;
            let next_due = spell.life.next_due;
            tokio::select! {
                frame = spell.next() => {
                    let frame = frame?;
                    spell.hear(&frame).await?;
                }
                () = sleep_until(next_due), if spell.caught_up => spell.life.write_what_is_due(true),
                () = sleep_until(next_chore), if spell.caught_up => {
                    let pause_ms = spell.life.dice.between(CHORE_MS.0, CHORE_MS.1);
                    next_chore = Instant::now() + Duration::from_millis(pause_ms);
                    spell.chore().await?;
                }
                () = sleep_until(end) => break,
                () = stopped(situation) => break,
            }
        }
        let socket = spell.socket;
        self.part(socket).await;
        Ok(())
    }

    pub(super) async fn settle_once(&mut self) -> Result<(), ConnectionEnd> {
        let mut spell = ConnectionRun::open(self).await?;
        while !spell.caught_up || !spell.life.outbox.is_empty() {
            spell.send_what_waits().await?;
            let frame = spell.next().await?;
            spell.hear(&frame).await?;
        }
        // The connection may have ended already.
        let _closed = timeout(PATIENCE, spell.socket.close(None)).await;
        Ok(())
    }
}

impl<'a> ConnectionRun<'a> {
    async fn open(life: &'a mut Life) -> Result<ConnectionRun<'a>, ConnectionEnd> {
        let url = format!("ws://{}/v1/ws", life.world.address);
        let connecting = timeout(PATIENCE, tokio_tungstenite::connect_async(url));
        let Ok(Ok((socket, _))) = connecting.await else { return Err(ConnectionEnd::Lost) };
        life.happened.connections += 1;
        let mut positions = Map::new();
        for (conversation, view) in &life.views {
            positions.insert(conversation.as_str().to_owned(), json!(view.end));
            // A position counts as a delivered receipt.
            let claim = ReadState { delivered: view.end, read: 0 };
            life.world.ledger.claim(conversation, &life.user, claim);
        }
        let hello = json!({
            "type": "hello", "token": life.token, "device_id": format!("device-{}", life.writer.0), "positions": positions,
        });
        let mut spell = ConnectionRun {
            life,
            socket,
            caught_up: false,
            under_way: 0,
            heard: HashMap::new(),
            left_out: HashMap::new(),
        };
        spell.say(&hello).await?;
        Ok(spell)
    }

    async fn say(&mut self, frame: &Value) -> Result<(), ConnectionEnd> {
        match timeout(PATIENCE, self.socket.send(Message::text(frame.to_string()))).await {
            Ok(Ok(())) => Ok(()),
            _ => Err(ConnectionEnd::Lost),
        }
    }

    /// Returns the next frame. Cancellation-safe: dropping the future loses no frame.
    async fn next(&mut self) -> Result<Value, ConnectionEnd> {
        loop {
            match self.socket.next().await {
                Some(Ok(Message::Text(text))) => return Ok(serde_json::from_str(&text).unwrap()),
                Some(Ok(Message::Close(reason))) => {
                    let code = reason.as_ref().map_or(0, |reason| reason.code.into());
                    return Err(match COMING_BACK.contains(&code) {
                        true => ConnectionEnd::Lost,
                        false => misspoken(None, format!("the server closed with {reason:?}")),
                    });
                }
                Some(Ok(_)) => {}
                Some(Err(_)) | None => return Err(ConnectionEnd::Lost),
            }
        }
    }

    async fn send_what_waits(&mut self) -> Result<(), ConnectionEnd> {
        while self.caught_up && self.under_way < WINDOW.min(self.life.outbox.len()) {
            let attempt = &mut self.life.outbox[self.under_way];
            let mut frame = json!({
                "type": "send", "conversation_id": attempt.conversation.as_str(),
                "message_id": attempt.name.id(), "content": attempt.name.content(),
            });
            if attempt.tried {
                frame["retry"] = json!(true);
                frame["after_seq"] = json!(attempt.after_seq);
                // The latency of a resend mostly measures how long the device was away.
                attempt.due = None;
                self.life.happened.resends += 1;
            }
            attempt.tried = true;
            self.under_way += 1;
            self.say(&frame).await?;
        }
        Ok(())
    }

    /// Does one random action.
    async fn chore(&mut self) -> Result<(), ConnectionEnd> {
        let Some(room) = self.life.dice.pick(&self.life.rooms).cloned() else { return Ok(()) };
        match self.life.dice.below(100) {
            0..45 => self.mark(&room, "delivered").await,
            45..65 => self.mark(&room, "read").await,
            65..80 => self.read_old_page(&room).await,
            80..85 => self.read_inbox().await,
            85..92 => self.ask_status(&room).await,
            92..97 => self.say(&json!({"type": "typing", "conversation_id": room.as_str()})).await,
            _ => self.say(&json!({"type": "ping"})).await,
        }
    }

    /// Sends a receipt, never above the end of the view.
    async fn mark(&mut self, room: &ConversationName, kind: &str) -> Result<(), ConnectionEnd> {
        let end = self.life.views[room].end;
        let seq = if self.life.dice.one_in(4) { self.life.dice.between(end / 2, end) } else { end };
        self.life.happened.marks += 1;
        let read = if kind == "read" { seq } else { 0 };
        self.life.world.ledger.claim(room, &self.life.user, ReadState { delivered: seq, read });
        self.say(&json!({"type": kind, "conversation_id": room.as_str(), "seq": seq})).await
    }

    /// Reads a page anywhere in the conversation; most of them lie in the archive.
    async fn read_old_page(&mut self, room: &ConversationName) -> Result<(), ConnectionEnd> {
        let end = self.life.views[room].end;
        if end == 0 {
            return Ok(());
        }
        let (before, limit) = (self.life.dice.between(2, end + 1), self.life.dice.between(1, 100));
        let page = self.ask(room, &format!("messages?before_seq={before}&limit={limit}")).await?;
        let mut messages: Vec<&Value> = page["messages"].as_array().into_iter().flatten().collect();
        messages.sort_by_key(|message| message["seq"].as_u64());
        let wanted = limit.min(before - 1);
        let first = before - wanted;
        if messages.len() as u64 != wanted {
            return Err(misspoken(Some(room), format!("{} of {wanted} before {before}", messages.len())));
        }
        for (seq, message) in (first..).zip(messages) {
            self.take(room, message, seq)?;
        }
        self.life.happened.old_pages += 1;
        Ok(())
    }

    /// Checks that the heads in the inbox are not below the ends of the device's views.
    async fn read_inbox(&mut self) -> Result<(), ConnectionEnd> {
        let before: Vec<(ConversationName, u64)> =
            self.life.ends().map(|(room, end)| (room.clone(), end)).collect();
        let page = self.ask_path(None, "/v1/conversations?limit=100").await?;
        let entries: HashMap<&str, &Value> = page["conversations"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|entry| Some((entry["conversation_id"].as_str()?, entry)))
            .collect();
        for (room, end) in before {
            let head = entries.get(room.as_str()).and_then(|entry| entry["last_seq"].as_u64()).unwrap_or(0);
            if head < end {
                return Err(ConnectionEnd::Broken(ConversationBreach {
                    conversation: room,
                    breach: Breach::Lost { seq: end, head },
                }));
            }
        }
        self.life.happened.inbox_pages += 1;
        Ok(())
    }

    async fn ask_status(&mut self, room: &ConversationName) -> Result<(), ConnectionEnd> {
        let answer = self.ask(room, "status").await?;
        for member in answer["members"].as_array().into_iter().flatten() {
            self.hear_status(room, member, false)?;
        }
        Ok(())
    }

    pub(super) async fn ask(&mut self, room: &ConversationName, what: &str) -> Result<Value, ConnectionEnd> {
        self.ask_path(Some(room), &format!("/v1/conversations/{room}/{what}")).await
    }

    async fn ask_path(
        &mut self,
        room: Option<&ConversationName>,
        path: &str,
    ) -> Result<Value, ConnectionEnd> {
        let asking = request_until_answered(&self.life.world.address, "GET", path, &self.life.token, None);
        match timeout(PATIENCE, asking).await {
            Ok(Ok((200, answer))) => Ok(answer),
            Ok(Ok((status, answer))) => Err(misspoken(room, format!("GET {path}: {status} {answer}"))),
            _ => Err(ConnectionEnd::Lost),
        }
    }

    /// Checks a message that must be at `seq` against the ledger.
    pub(super) fn take(
        &self,
        room: &ConversationName,
        message: &Value,
        seq: u64,
    ) -> Result<(), ConnectionEnd> {
        let Some(shown) = Shown::of_json(message) else {
            return Err(misspoken(Some(room), format!("a message: {message}")));
        };
        let broken =
            |breach| ConnectionEnd::Broken(ConversationBreach { conversation: room.clone(), breach });
        if shown.seq != seq {
            return Err(broken(Breach::Gap { after: seq - 1, then: shown.seq }));
        }
        self.life.world.ledger.shown(room, shown).map(drop).map_err(broken)
    }
}

pub(super) fn misspoken(room: Option<&ConversationName>, what: String) -> ConnectionEnd {
    let breach = Breach::Misspoken(what);
    ConnectionEnd::Broken(match room {
        Some(room) => ConversationBreach { conversation: room.clone(), breach },
        None => ConversationBreach::anywhere(breach),
    })
}
