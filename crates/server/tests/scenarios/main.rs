//! What the server promises, told as scenarios against a real one on a free port.

#![expect(clippy::unwrap_used, reason = "a helper of a test fails the test")]

mod abuse;
mod accounts;
mod archive;
mod catch_up;
mod conversations;
mod delivery;
mod documents;
mod draining;
mod fleet;
mod harness;
mod idempotency;
mod inbox;
mod meanwhile;
mod messages;
mod operations;
mod pages;
mod presence;
mod presence_http;
mod receipts;
mod rigged_archive;
mod rigged_store;
mod ring;
mod sockets;
mod status;
mod typing;
