//! The public protocol: HTTP bodies, WebSocket frames, error codes, close codes, and the documents
//! generated from them. No other crate serialises for clients.
//!
//! This crate converts between text and domain types. Sockets, routes and business rules do not
//! belong here.

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
