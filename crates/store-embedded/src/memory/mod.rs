//! What the log says and the tables may not know yet, kept so that reading is quick and writing needs no reading.

mod generation;
mod ids;
mod room;
mod rooms;
mod users;

pub use generation::Generation;
pub use ids::IdTable;
pub use room::{Room, RoomState, TailMessage, Written};
pub use rooms::Rooms;
pub use users::Users;
