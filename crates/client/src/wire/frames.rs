//! The WebSocket frames. A received frame stays text until the caller decodes it.

use std::collections::BTreeMap;
use std::io::{self, Write};

use bluetick_types::{ConversationId, MessageId, Seq, Timestamp, UserId};
use serde::{Deserialize, Serialize};
use thiserror::Error;
use tokio_tungstenite::tungstenite::Utf8Bytes;

use super::bodies::{InboxEntry, Message, Presence, ReadState};
use super::text;

/// A frame from the client to the server. Not `Debug`, because it holds tokens and message content.
#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ClientFrame<'a> {
    /// The first frame of a connection. `positions` maps conversation ids to what the device has.
    Hello {
        token: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        device_id: Option<&'a str>,
        #[serde(skip_serializing_if = "BTreeMap::is_empty")]
        positions: BTreeMap<String, Position>,
    },
    Send(SendFrame<'a>),
    /// Cumulative receipt: the device has every message up to `seq`.
    Delivered {
        #[serde(with = "text::spelled")]
        conversation_id: ConversationId,
        #[serde(with = "text::seq")]
        seq: Seq,
    },
    /// Cumulative receipt: the user has read every message up to `seq`.
    Read {
        #[serde(with = "text::spelled")]
        conversation_id: ConversationId,
        #[serde(with = "text::seq")]
        seq: Seq,
    },
    /// The user is typing.
    Typing {
        #[serde(with = "text::spelled")]
        conversation_id: ConversationId,
    },
    Ping,
}

impl ClientFrame<'_> {
    /// Encodes the frame as JSON.
    pub fn encode(&self) -> String {
        match self {
            ClientFrame::Send(send) => send.encode(),
            other => serde_json::to_string(other).expect("a frame holds strings and numbers only"),
        }
    }
}

/// A `send` frame: a message to store.
#[derive(Clone, Serialize)]
pub struct SendFrame<'a> {
    #[serde(with = "text::spelled")]
    pub conversation_id: ConversationId,
    #[serde(with = "text::message_id")]
    pub message_id: MessageId,
    pub content: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub content_type: Option<&'a str>,
    #[serde(with = "text::moment_if_any", skip_serializing_if = "Option::is_none")]
    pub timestamp: Option<Timestamp>,
    /// A resend: the server may already have stored the message above `after_seq`.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub retry: bool,
    /// The highest seq that the client had before its first attempt. The server searches above it
    /// for an earlier copy.
    #[serde(with = "text::seq_if_any", skip_serializing_if = "Option::is_none")]
    pub after_seq: Option<Seq>,
}

/// Initial buffer capacity for all fields except the content, in bytes. A smaller value causes
/// reallocations.
const USUAL_BYTES_AROUND: usize = 224;

impl<'a> SendFrame<'a> {
    /// A first attempt to send a text.
    pub fn text(conversation_id: ConversationId, message_id: MessageId, content: &'a str) -> SendFrame<'a> {
        let (content_type, timestamp, retry, after_seq) = (None, None, false, None);
        SendFrame { conversation_id, message_id, content, content_type, timestamp, retry, after_seq }
    }

    /// Encodes the frame without serde, because serde takes twice the time and this is the hot path
    /// of a busy sender.
    fn encode(&self) -> String {
        let mut json = Vec::with_capacity(USUAL_BYTES_AROUND + self.content.len() + self.content.len() / 8);
        self.write(&mut json).expect("a frame holds strings and numbers only");
        String::from_utf8(json).expect("JSON is UTF-8")
    }

    fn write(&self, json: &mut Vec<u8>) -> io::Result<()> {
        write!(json, r#"{{"type":"send","conversation_id":"{}","message_id":"#, self.conversation_id)?;
        match &self.message_id {
            id @ MessageId::Uuid(_) => write!(json, r#""{id}""#)?,
            MessageId::Text(id) => serde_json::to_writer(&mut *json, id.as_ref())?,
        }
        json.extend_from_slice(br#","content":"#);
        serde_json::to_writer(&mut *json, self.content)?;
        if let Some(content_type) = self.content_type {
            json.extend_from_slice(br#","content_type":"#);
            serde_json::to_writer(&mut *json, content_type)?;
        }
        if let Some(timestamp) = self.timestamp {
            write!(json, r#","timestamp":{}"#, timestamp.millis())?;
        }
        if self.retry {
            json.extend_from_slice(br#","retry":true"#);
        }
        if let Some(after_seq) = self.after_seq {
            write!(json, r#","after_seq":{after_seq}"#)?;
        }
        json.push(b'}');
        Ok(())
    }
}

/// The device's position in a conversation: it has every message up to `seq` of this store epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Position {
    pub epoch: u64,
    #[serde(with = "text::seq")]
    pub seq: Seq,
}

macro_rules! kinds {
    ($($kind:ident = $name:literal;)*) => {
        /// The type of a server frame.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum FrameKind {
            $($kind,)*
            /// A type that this client does not know.
            Unknown,
        }

        impl FrameKind {
            fn named(name: &str) -> FrameKind {
                match name { $($name => FrameKind::$kind,)* _ => FrameKind::Unknown }
            }
        }
    };
}

kinds! {
    Welcome = "welcome";
    CaughtUp = "caught_up";
    Pong = "pong";
    Ack = "ack";
    Message = "message";
    Status = "status";
    ReceiptCounts = "receipts";
    Typing = "typing";
    Presence = "presence";
    Conversation = "conversation";
    Backlog = "backlog";
    Error = "error";
    Gone = "gone";
    ComeBack = "come_back";
}

/// A received server frame as text. Decoding is separate and optional.
#[derive(Clone)]
pub struct Frame(Utf8Bytes);

/// A server frame whose fields did not parse.
#[derive(Debug, Error)]
#[error("a frame of the server was not understood: {0}")]
pub struct BadFrame(#[from] serde_json::Error);

impl Frame {
    pub fn new(text: Utf8Bytes) -> Frame {
        Frame(text)
    }

    /// The JSON text of the frame.
    pub fn text(&self) -> &str {
        &self.0
    }

    /// The type of the frame. Cheap if `type` is the first field, as the server writes it;
    /// otherwise parses the frame.
    pub fn kind(&self) -> FrameKind {
        let name = self.0.strip_prefix(r#"{"type":""#).and_then(|rest| rest.split_once('"'));
        match name {
            Some((name, _)) => FrameKind::named(name),
            None => self.searched_kind(),
        }
    }

    fn searched_kind(&self) -> FrameKind {
        #[derive(Deserialize)]
        struct Envelope<'a> {
            #[serde(borrow, rename = "type")]
            kind: std::borrow::Cow<'a, str>,
        }
        let envelope = serde_json::from_str::<Envelope<'_>>(&self.0);
        envelope.map_or(FrameKind::Unknown, |envelope| FrameKind::named(&envelope.kind))
    }

    /// Decodes the frame. A frame of an unknown type decodes to [`ServerFrame::Unknown`].
    pub fn decode(&self) -> Result<ServerFrame, BadFrame> {
        let text = self.0.as_str();
        Ok(match self.kind() {
            FrameKind::Welcome => ServerFrame::Welcome(serde_json::from_str(text)?),
            FrameKind::CaughtUp => ServerFrame::CaughtUp,
            FrameKind::Pong => ServerFrame::Pong,
            FrameKind::Ack => ServerFrame::Ack(serde_json::from_str(text)?),
            FrameKind::Message => ServerFrame::Message(serde_json::from_str(text)?),
            FrameKind::Status => ServerFrame::Status(serde_json::from_str(text)?),
            FrameKind::ReceiptCounts => ServerFrame::ReceiptCounts(serde_json::from_str(text)?),
            FrameKind::Typing => ServerFrame::Typing(serde_json::from_str(text)?),
            FrameKind::Presence => ServerFrame::Presence(serde_json::from_str(text)?),
            FrameKind::Conversation => ServerFrame::Conversation(serde_json::from_str(text)?),
            FrameKind::Backlog => ServerFrame::Backlog(serde_json::from_str(text)?),
            FrameKind::Error => ServerFrame::Error(serde_json::from_str(text)?),
            FrameKind::Gone => ServerFrame::Gone(serde_json::from_str(text)?),
            FrameKind::ComeBack => ServerFrame::ComeBack(serde_json::from_str(text)?),
            FrameKind::Unknown => ServerFrame::Unknown,
        })
    }
}

/// A decoded frame from the server.
#[derive(Debug)]
pub enum ServerFrame {
    Welcome(Welcome),
    CaughtUp,
    Pong,
    Ack(Ack),
    Message(Message),
    Status(Status),
    ReceiptCounts(AllMarks),
    Typing(Typing),
    Presence(Presence),
    Conversation(Box<InboxEntry>),
    Backlog(Backlog),
    Error(ErrorFrame),
    Gone(Gone),
    ComeBack(ComeBack),
    Unknown,
}

/// The answer to `hello`: who the token belongs to, the store's epoch, and the server's clock.
#[derive(Debug, Deserialize)]
pub struct Welcome {
    #[serde(with = "text::spelled")]
    pub user_id: UserId,
    pub epoch: u64,
    #[serde(with = "text::moment")]
    pub server_time: Timestamp,
}

/// The server stored a message. On the connection that sent it, the ack replaces the `message`
/// frame.
#[derive(Debug, Deserialize)]
pub struct Ack {
    #[serde(with = "text::spelled")]
    pub conversation_id: ConversationId,
    #[serde(with = "text::message_id")]
    pub message_id: MessageId,
    #[serde(with = "text::seq")]
    pub seq: Seq,
    #[serde(with = "text::moment")]
    pub received_at: Timestamp,
    pub duplicate: bool,
}

/// The read state of one member moved forward.
#[derive(Debug, Deserialize)]
pub struct Status {
    #[serde(with = "text::spelled")]
    pub conversation_id: ConversationId,
    #[serde(with = "text::spelled")]
    pub user_id: UserId,
    #[serde(flatten)]
    pub marks: ReadState,
    /// The user's unread count. Sent only to the user's own devices, and only if the server has it
    /// at hand.
    #[serde(default)]
    pub unread: Option<u64>,
}

/// The combined read state of all other members of a group: that of the member furthest behind.
#[derive(Debug, Deserialize)]
pub struct AllMarks {
    #[serde(with = "text::spelled")]
    pub conversation_id: ConversationId,
    #[serde(flatten)]
    pub marks: ReadState,
}

/// A member is typing.
#[derive(Debug, Deserialize)]
pub struct Typing {
    #[serde(with = "text::spelled")]
    pub conversation_id: ConversationId,
    #[serde(with = "text::spelled")]
    pub user_id: UserId,
}

/// The device missed more messages than the server pushes. The client fetches the rest by HTTP.
#[derive(Debug, Deserialize)]
pub struct Backlog {
    #[serde(with = "text::spelled")]
    pub conversation_id: ConversationId,
    /// The server pushed everything up to this seq; continue with `after_seq` set to it.
    #[serde(with = "text::seq")]
    pub next_after_seq: Seq,
    #[serde(with = "text::seq")]
    pub head_seq: Seq,
}

/// The server refused a frame. `message_id` or `conversation_id` name what it concerns, if known.
#[derive(Debug, Deserialize)]
pub struct ErrorFrame {
    pub code: String,
    pub message: String,
    #[serde(default)]
    pub message_id: Option<String>,
    #[serde(with = "text::spelled_if_any", default)]
    pub conversation_id: Option<ConversationId>,
}

/// The user is no longer a member of the conversation.
#[derive(Debug, Deserialize)]
pub struct Gone {
    #[serde(with = "text::spelled")]
    pub conversation_id: ConversationId,
}

/// Sent just before a close: how long to wait before reconnecting, in milliseconds.
#[derive(Debug, Deserialize)]
pub struct ComeBack {
    pub after_ms: u64,
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn hand_written_send_frame_equals_serde(
            id in "[!-~]{1,20}",
            content in any::<String>(),
            content_type in prop::option::of("[!-~]{1,9}"),
            timestamp in prop::option::of(any::<i64>()),
            after_seq in prop::option::of(0u64..1 << 53),
            retry in any::<bool>(),
        ) {
            let send = SendFrame {
                conversation_id: ConversationId::group([7; 15]),
                message_id: MessageId::from_stored(&id),
                content: &content,
                content_type: content_type.as_deref(),
                timestamp: timestamp.map(Timestamp::from_millis),
                retry,
                after_seq: after_seq.map(Seq::new),
            };
            let by_serde = serde_json::to_value(ClientFrame::Send(send.clone())).unwrap();
            prop_assert_eq!(serde_json::from_str::<serde_json::Value>(&send.encode()).unwrap(), by_serde);
        }
    }
}
