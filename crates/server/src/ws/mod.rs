//! The WebSocket endpoint: the handshake, the `hello`, and one event loop per connection. The hub
//! decides which session gets which message.

mod catch_up;
mod close;
mod connection;
#[cfg(feature = "echo")]
mod echo;
mod frames;
mod hello;
mod receipts;
mod running_futures;
mod session;
mod session_loop;
mod session_presence;
mod socket_writer;
mod timers;
mod typing;
mod upgrade;

#[cfg(feature = "echo")]
pub(crate) use echo::echo;
pub(crate) use upgrade::{__path_upgrade, upgrade};
