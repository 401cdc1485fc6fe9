//! The WebSocket: the handshake, the hello, and one loop per connection. Who gets which message is the hub's to
//! know; this is about one client.

mod catch_up;
mod farewell;
mod flights;
mod frames;
mod hello;
mod line;
mod marks;
mod pipe;
mod session;
mod timers;
mod typing;
mod upgrade;

pub(crate) use upgrade::{__path_upgrade, upgrade};
