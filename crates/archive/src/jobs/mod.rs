//! The parts of the archive jobs that all stores share.

pub mod fill;
pub mod layout;
pub mod pace;
pub mod selection;
pub mod state;
