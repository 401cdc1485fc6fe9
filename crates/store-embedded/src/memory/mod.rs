//! The state that the log contains and the tables may not contain yet. It keeps reads fast and
//! spares writes a lookup in the tables.

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
