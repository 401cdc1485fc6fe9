//! A connection that a test controls frame by frame. It checks nothing and does nothing on its own;
//! for that use [`Device`](crate::device::Device).

use std::time::Duration;

use futures_util::SinkExt;
use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::Message;

use crate::client::{Positions, Socket, connect, next_frame};

pub struct Talker {
    socket: Socket,
    /// Frames of other kinds that arrived before the requested ones.
    passed_over: Vec<Value>,
}

/// Time limit for connecting and for each awaited frame. It is longer than any operation of a
/// running server takes.
const PATIENCE: Duration = Duration::from_secs(60);

impl Talker {
    /// Connects and waits until it is caught up. `hear` returns the frames received meanwhile.
    pub async fn connect(address: &str, token: &str) -> Talker {
        let nothing = Positions::new();
        let connecting = tokio::time::timeout(PATIENCE, connect(address, token, &nothing));
        let (socket, missed) = connecting.await.unwrap().expect("the server answers");
        Talker { socket, passed_over: missed }
    }

    pub async fn say(&mut self, frame: Value) {
        self.socket.send(Message::text(frame.to_string())).await.unwrap();
    }

    /// Returns the first unread frame of this kind and keeps the frames before it. Panics if none
    /// arrives within `PATIENCE` or the connection ends.
    pub async fn hear(&mut self, kind: &str) -> Value {
        let waited_for = tokio::time::timeout(PATIENCE, self.next_of(kind)).await;
        let waited_for = waited_for.unwrap_or_else(|_| panic!("no {kind} arrived: {:?}", self.passed_over));
        waited_for.unwrap_or_else(|| panic!("the connection ended before a {kind}: {:?}", self.passed_over))
    }

    async fn next_of(&mut self, kind: &str) -> Option<Value> {
        if let Some(at) = self.passed_over.iter().position(|frame| frame["type"] == kind) {
            return Some(self.passed_over.remove(at));
        }
        loop {
            let frame = next_frame(&mut self.socket).await?;
            if frame["type"] == kind {
                return Some(frame);
            }
            self.passed_over.push(frame);
        }
    }

    pub async fn send(&mut self, conversation: &str, message_id: &str, content: &str) {
        let frame = json!({
            "type": "send", "conversation_id": conversation, "message_id": message_id, "content": content,
        });
        self.say(frame).await;
    }

    /// Returns how many frames of a kind have arrived and were not read.
    pub fn unheard(&self, kind: &str) -> usize {
        self.passed_over.iter().filter(|frame| frame["type"] == kind).count()
    }
}
