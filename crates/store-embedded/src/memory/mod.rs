//! What the log says and the tables may not know yet, kept so that reading is quick and writing needs no reading.

mod generation;
mod ids;
mod noted;
mod pages;
mod profiles;
mod recent;
mod room;
mod rooms;
mod seats;
mod users;

pub use generation::Generation;
pub use ids::IdTable;
pub use noted::Noted;
pub use pages::Pages;
pub use profiles::Profiles;
pub use recent::Recent;
pub use room::{NoticesAbove, Room, RoomState, TailMessage, Written};
pub use rooms::Rooms;
pub use seats::{Seats, Stale};
pub use users::{Matching, Users};
