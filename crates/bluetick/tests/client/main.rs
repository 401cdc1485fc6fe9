//! The client crate against the real server: what a person sees, and what the network cannot take away.

#![expect(clippy::unwrap_used, reason = "a test may stop where its own set-up fails")]

mod offline;
mod proxy;
mod quick_start;
mod states;
mod together;
mod world;
