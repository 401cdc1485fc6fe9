//! The client crate against a real server, with and without network faults.

#![expect(clippy::unwrap_used, reason = "a test may stop where its own set-up fails")]

mod offline;
mod online;
mod proxy;
mod quick_start;
mod states;
mod world;
