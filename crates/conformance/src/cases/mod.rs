//! The cases, by what they are about.

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
