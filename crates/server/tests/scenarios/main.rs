//! Scenario tests of the server: each test starts a real server on a free port.

#![expect(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

mod abuse;
mod accounts;
mod archive;
mod audit;
mod catch_up;
mod catch_up_concurrency;
mod client_disconnects;
mod conversations;
mod cors;
mod delivery;
mod documents;
mod draining;
mod faulty_archive;
mod faulty_store;
mod fleet;
mod harness;
mod hostile;
mod hostile_frames;
mod hostile_load;
mod hostile_local;
mod hostile_requests;
mod hostile_slow;
mod hostile_tokens_and_paths;
mod idempotency;
mod in_memory;
mod inbox;
mod messages;
mod names;
mod operations;
mod pages;
mod presence;
mod presence_http;
mod receipts;
mod revocation;
mod sockets;
mod status;
mod test_fleet;
mod typing;
