//! Client library for Bluetick.
//!
//! The library has two layers. [`link`] is one WebSocket connection with typed frames and no state.
//! [`Client`] is a complete chat client on top of it. It reconnects, stores unsent messages until
//! the server acknowledges them, fetches missed messages, and answers reads from memory.
//!
//! Rendering, user-facing texts and password prompts do not belong here.

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}

mod api;
mod backoff;
mod client;
mod conversation;
mod driver;
mod http;
pub mod link;
mod shared;
mod state;
pub mod storage;
mod storage_writer;
mod stored_state;
mod ticks;
mod transport;
pub mod wire;

pub use api::{Api, ApiError, FixedToken, NoToken, PageFrom, TokenSource, log_in, log_out, sign_up, who_is};
pub use backoff::ReconnectSettings;
pub use client::{Client, ClientSettings, InboxSummary, StartError};
pub use conversation::{Conversation, ConversationView, SendError, Watching};
pub use state::inbox::Row;
pub use state::outbox::{CannotCancel, OutboxItem, SendFailure, SendState};
pub use state::timeline::Window;
pub use state::{ConnectionState, Event, Phase};
pub use storage::{FileStorage, MemoryStorage, Storage};
pub use ticks::{Tick, tick_of};
pub use transport::{InvalidUrl, Server, ServerUrl};
