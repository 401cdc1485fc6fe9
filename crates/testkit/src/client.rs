//! A client that sends messages, logs everything it does and receives, and always reconnects.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream};

use crate::checker::{ClientEvent, ClientLog};

pub type Socket = WebSocketStream<MaybeTlsStream<TcpStream>>;

/// The last seq that a client has of each conversation.
pub type Positions = HashMap<String, u64>;

/// Connects, sends `hello` with positions, and collects frames until it is caught up. Returns
/// `None` if the server is down or the connection ends.
pub async fn connect(address: &str, token: &str, positions: &Positions) -> Option<(Socket, Vec<Value>)> {
    let (mut socket, _) = tokio_tungstenite::connect_async(format!("ws://{address}/v1/ws")).await.ok()?;
    let hello = json!({"type": "hello", "token": token, "positions": positions});
    socket.send(Message::text(hello.to_string())).await.ok()?;
    let mut missed = Vec::new();
    loop {
        let frame = next_frame(&mut socket).await?;
        match frame["type"].as_str() {
            Some("caught_up") => return Some((socket, missed)),
            Some("welcome") => {}
            _ => missed.push(frame),
        }
    }
}

/// Returns the epoch in the server's `welcome`; `None` if the connection fails.
pub async fn epoch(address: &str, token: &str) -> Option<u64> {
    let (mut socket, _) = tokio_tungstenite::connect_async(format!("ws://{address}/v1/ws")).await.ok()?;
    let hello = json!({"type": "hello", "token": token});
    socket.send(Message::text(hello.to_string())).await.ok()?;
    loop {
        let frame = next_frame(&mut socket).await?;
        if frame["type"] == "welcome" {
            return frame["epoch"].as_u64();
        }
    }
}

/// Returns the next JSON frame; `None` when the connection ends.
pub async fn next_frame(socket: &mut Socket) -> Option<Value> {
    loop {
        match socket.next().await?.ok()? {
            Message::Text(text) => return Some(serde_json::from_str(&text).unwrap()),
            Message::Close(_) => return None,
            _ => {}
        }
    }
}

/// The current server addresses, and whether all clients must stop.
#[derive(Clone, Debug, Default)]
pub struct Situation {
    /// All addresses are equivalent; empty while no server runs.
    pub addresses: Vec<String>,
    pub stop: bool,
}

/// Waits until `stop` is set.
pub async fn stopped(situation: &mut watch::Receiver<Situation>) {
    // A dropped sender also means the end.
    let _stop_or_gone = situation.wait_for(|now| now.stop).await.is_ok();
}

/// A sender of numbered messages to several conversations in turn.
pub struct MessageSender {
    pub name: String,
    pub token: String,
    pub conversations: Vec<String>,
    /// Maximum number of unacknowledged messages.
    pub window: usize,
}

struct Attempt {
    conversation: String,
    message_id: String,
    content: String,
}

impl MessageSender {
    /// Sends until `stop` is set and returns the log. On a new connection it first resends
    /// unacknowledged messages.
    pub async fn run(self, mut situation: watch::Receiver<Situation>) -> ClientLog {
        let mut log = ClientLog { sender: self.name.clone(), events: Vec::new() };
        let mut unacknowledged: VecDeque<Attempt> = VecDeque::new();
        let mut positions = Positions::new();
        let mut number = 0_u64;
        loop {
            let now = situation.borrow_and_update().clone();
            if now.stop {
                return log;
            }
            // Vary the server, if there are several.
            let next = number as usize % now.addresses.len().max(1);
            let socket = match now.addresses.get(next) {
                Some(address) => connect(address, &self.token, &positions).await,
                None => None,
            };
            let Some((mut socket, missed)) = socket else {
                // Wait for an address change, or retry soon because the server may be starting.
                let _ = tokio::time::timeout(Duration::from_millis(20), situation.changed()).await;
                continue;
            };
            log.events.push(ClientEvent::Connected);
            missed.iter().for_each(|frame| hear(frame, &mut log, &mut unacknowledged, &mut positions));
            let mut resend = unacknowledged.len();
            loop {
                let may_send = resend > 0 || unacknowledged.len() < self.window;
                if may_send && !situation.borrow().stop {
                    if resend == 0 {
                        number += 1;
                        unacknowledged.push_back(self.attempt(number));
                    }
                    let index =
                        if resend > 0 { unacknowledged.len() - resend } else { unacknowledged.len() - 1 };
                    resend = resend.saturating_sub(1);
                    let attempt = &unacknowledged[index];
                    log.events.push(ClientEvent::Attempted {
                        conversation: attempt.conversation.clone(),
                        message_id: attempt.message_id.clone(),
                        content: attempt.content.clone(),
                    });
                    let frame = json!({
                        "type": "send", "conversation_id": attempt.conversation,
                        "message_id": attempt.message_id, "content": attempt.content,
                    });
                    if socket.send(Message::text(frame.to_string())).await.is_err() {
                        break;
                    }
                    continue;
                }
                tokio::select! {
                    frame = next_frame(&mut socket) => match frame {
                        Some(frame) => hear(&frame, &mut log, &mut unacknowledged, &mut positions),
                        None => break,
                    },
                    _ = situation.changed() => if situation.borrow().stop { return log },
                }
            }
        }
    }

    fn attempt(&self, number: u64) -> Attempt {
        let conversation = self.conversations[number as usize % self.conversations.len()].clone();
        let message_id = format!("{}-{number}", self.name);
        let filler = "lorem ipsum ".repeat(number as usize % 17);
        Attempt { conversation, content: format!("{message_id} {filler}"), message_id }
    }
}

fn hear(
    frame: &Value,
    log: &mut ClientLog,
    unacknowledged: &mut VecDeque<Attempt>,
    positions: &mut Positions,
) {
    let text = |field: &str| frame[field].as_str().unwrap().to_owned();
    let number = |field: &str| frame[field].as_u64().unwrap();
    match frame["type"].as_str() {
        Some("ack") => {
            let message_id = text("message_id");
            unacknowledged.retain(|attempt| attempt.message_id != message_id);
            let (conversation, seq) = (text("conversation_id"), number("seq"));
            let duplicate = frame["duplicate"].as_bool().unwrap();
            if !duplicate {
                positions.insert(conversation.clone(), seq);
            }
            log.events.push(ClientEvent::Acknowledged { conversation, message_id, seq, duplicate });
        }
        Some("message") => {
            let (conversation, seq) = (text("conversation_id"), number("seq"));
            positions.insert(conversation.clone(), seq);
            let (sender, content) = (text("sender_id"), text("content"));
            log.events.push(ClientEvent::Received { conversation, seq, sender, content });
        }
        Some("backlog") => {
            let (conversation, up_to) = (text("conversation_id"), number("head_seq"));
            positions.insert(conversation.clone(), up_to);
            log.events.push(ClientEvent::LeftOut { conversation, up_to });
        }
        Some("error") => panic!("a good client was refused: {frame}"),
        _ => {}
    }
}
