//! A client of Bluetick.
//!
//! Two layers. [`link`] is one connection with typed frames and nothing else. [`Client`] is a whole chat above it: it
//! comes back whenever the connection ends, keeps what was written until the server has it, fetches what was missed,
//! and answers from memory what a screen wants to know.
//!
//! Drawing, words for people and questions about passwords do not belong here.

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}

mod api;
mod backoff;
mod client;
mod conversation;
mod driver;
mod http;
mod keeper;
mod keeping;
pub mod link;
mod shared;
mod state;
pub mod storage;
mod ticks;
mod transport;
pub mod wire;

pub use api::{Api, ApiError, FixedToken, NoToken, PageFrom, TokenSource, log_in, log_out, sign_up, who_is};
pub use backoff::ReconnectSettings;
pub use client::{Client, ClientSettings, Glance, StartError};
pub use conversation::{Conversation, ConversationView, SendError, Watching};
pub use state::inbox::Row;
pub use state::outbox::{CannotCancel, OutboxItem, SendFailure, SendState};
pub use state::timeline::Window;
pub use state::{ConnectionState, Event, Phase};
pub use storage::{FileStorage, MemoryStorage, Storage};
pub use ticks::{Tick, tick_of};
pub use transport::{InvalidUrl, Server, ServerUrl};
