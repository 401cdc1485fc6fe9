//! What clients see: the bodies of HTTP calls, the frames of the WebSocket, the codes of errors and closings, and
//! the documents generated from all of these. The only crate that serialises for clients.
//!
//! Sockets, routes and rules do not belong here: text comes in and domain types go out, and the other way round.

pub mod close;
pub mod decode;
pub mod document;
pub mod error;
pub mod frame;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
pub mod http;
mod json;
mod text;

pub use close::CloseCode;
pub use decode::{BadInput, decode};
pub use error::{ErrorCode, Remedy};
