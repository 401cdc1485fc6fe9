//! Several real `bluetick serve` on one DynamoDB Local and a real Redis, under load, while things break. In the end the
//! checker judges what all clients saw, and the histories: complete, in order, once, without a hole that is not a void.
//!
//! One module for each thing that breaks. What is measured is printed; no test fails because something was slow.

#![expect(clippy::unwrap_used, reason = "a test may stop where its own set-up fails")]

mod chaos;
mod chat;
mod graph;
mod ground;
mod load;
mod nodes;
mod redis;
mod tables;
mod writers;
