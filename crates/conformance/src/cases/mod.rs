//! The cases, by what they are about.

#![expect(clippy::unwrap_used, reason = "a case fails where it stands")]

mod durable;
mod ids;
mod listening;
mod members;
mod messages;
mod users;

pub use durable::*;
pub use ids::*;
pub use listening::*;
pub use members::*;
pub use messages::*;
pub use users::*;
