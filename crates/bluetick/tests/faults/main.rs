//! The real server on a faulty machine: it is suspended for seconds, its clock jumps, its file
//! system becomes read-only, its power fails, bits of its files flip while it is down. At the end
//! the tests compare the logs of the clients with the server's history.
//!
//! A shim between the server and the C library injects the faults (shim.c, by LD_PRELOAD).

#![expect(clippy::unwrap_used, reason = "a test may stop where its own set-up fails")]

mod at_rest;
mod machine;
mod power;
mod world;
