//! The implementation of each command, one file per command.

pub mod archive;
pub mod backup;
pub mod bench;
pub mod chat;
pub mod check;
pub mod config;
pub mod erase;
pub mod health;
#[cfg(feature = "fleet")]
pub mod hot;
#[cfg(feature = "fleet")]
pub mod migrate;
pub mod plan;
pub mod restore;
pub mod restored;
pub mod serve;
#[cfg(feature = "fleet")]
pub mod tables;
pub mod token;
pub mod user;
