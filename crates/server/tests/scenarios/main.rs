//! What the server promises, told as scenarios against a real one on a free port.

#![expect(clippy::unwrap_used, reason = "a helper of a test fails the test")]

mod abuse;
mod accounts;
mod archive;
mod audit;
mod catch_up;
mod conversations;
mod cors;
mod delivery;
mod documents;
mod draining;
mod fleet;
mod hanging_up;
mod harness;
mod hostile;
mod hostile_crowds;
mod hostile_frames;
mod hostile_local;
mod hostile_requests;
mod hostile_slow;
mod hostile_strangers;
mod idempotency;
mod in_memory;
mod inbox;
mod meanwhile;
mod messages;
mod names;
mod operations;
mod pages;
mod presence;
mod presence_http;
mod receipts;
mod revocation;
mod rigged_archive;
mod rigged_store;
mod ring;
mod sockets;
mod status;
mod typing;
