//! The frames of the WebSocket: one JSON object in each text frame, told apart by `type`.

mod client;
mod server;

pub use client::{ClientFrame, FrameError, Hello, Position, SendFrame, readable_message_id};
pub use server::{
    AckFrame, CaughtUpFrame, ErrorFrame, MessageFrame, PongFrame, WelcomeFrame, encode_ack, encode_caught_up,
    encode_error, encode_message, encode_pong, encode_welcome,
};
