//! The whole engine with conversations that are too busy for one partition of the tables.
#![expect(clippy::unwrap_used, reason = "a test stops where its own set-up fails")]

mod busy;
mod coalesced;
mod graph;
mod imported;
mod node;
