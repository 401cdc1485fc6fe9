//! The WebSocket endpoint: the handshake, the `hello`, and one event loop per connection. Which
//! session gets which message is decided in the hub.

mod catch_up;
#[cfg(feature = "echo")]
mod echo;
mod farewell;
mod flights;
mod frames;
mod hello;
mod line;
mod pipe;
mod receipts;
mod session;
mod timers;
mod typing;
mod upgrade;

#[cfg(feature = "echo")]
pub(crate) use echo::echo;
pub(crate) use upgrade::{__path_upgrade, upgrade};
