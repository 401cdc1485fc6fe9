//! The WebSocket: the handshake, the hello, and one loop per connection. Who gets which message is the hub's to
//! know; this is about one client.

mod farewell;
mod frames;
mod hello;
mod pipe;
mod session;
mod timers;
mod upgrade;

pub(crate) use upgrade::{__path_upgrade, upgrade};
