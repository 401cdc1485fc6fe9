//! Several real `bluetick serve` processes on DynamoDB Local and a real Redis, under load and with
//! faults. At the end the checker compares the clients' logs with the histories: complete, in
//! order, without duplicates, and with a void in every gap.
//!
//! Each module covers one kind of fault. Measurements are printed; no test fails for slowness.

#![expect(clippy::unwrap_used, reason = "a test may stop where its own set-up fails")]

mod chaos;
mod chat;
mod dependencies;
mod graph;
mod load;
mod nodes;
mod redis;
mod tables;
mod writers;
