//! WebSocket frames: one JSON object per text frame. The field `type` selects the kind.

pub(crate) mod client;
pub(crate) mod scan;
mod server;

pub use client::{
    ClientFrame, FrameError, Hello, Position, ReceiptFrame, SendFrame, TypingFrame, readable_message_id,
};
pub use server::{
    AckFrame, BacklogFrame, CaughtUpFrame, ComeBackFrame, ConversationFrame, ErrorFrame, GoneFrame,
    MessageFrame, PongFrame, PresenceFrame, ReceiptsFrame, StatusFrame, TypingServerFrame, WelcomeFrame,
    encode_ack, encode_backlog, encode_caught_up, encode_come_back, encode_conversation, encode_error,
    encode_gone, encode_message, encode_pong, encode_presence, encode_receipts, encode_status, encode_typing,
    encode_welcome, write_ack, write_message, write_status,
};
