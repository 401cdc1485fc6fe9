//! Tools for tests of a whole server. They use the public contract only and know nothing of the
//! server's internals.

#![expect(clippy::unwrap_used, reason = "a test stops where its own set-up fails")]

pub mod checker;
pub mod client;
pub mod device;
pub mod dice;
pub mod dynamo;
pub mod dynamo_proxy;
pub mod fleet;
pub mod graph;
pub mod http;
pub mod load;
pub mod meter;
pub mod model;
pub mod names;
pub mod process;
pub mod redis;
pub mod remains;
pub mod s3;
pub mod soak;
pub mod talker;
