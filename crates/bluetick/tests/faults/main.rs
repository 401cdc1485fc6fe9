//! The real server on a machine that misbehaves: it is stopped for seconds, its clock jumps, its file system becomes
//! read-only, its power goes, bits of its files flip while it is down. What clients saw is compared with what is there.
//!
//! What no signal can do is done between the server and the C library (shim.c, by LD_PRELOAD).

#![expect(clippy::unwrap_used, reason = "a test may stop where its own set-up fails")]

mod at_rest;
mod machine;
mod power;
mod world;
