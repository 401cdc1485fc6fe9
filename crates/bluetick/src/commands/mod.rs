//! What each command does, one a file.

pub mod bench;
pub mod chat;
pub mod config;
pub mod serve;
pub mod token;
pub mod user;
