//! The settings of a fleet: the sections `[store.fleet]`, `[store.dynamodb]` and `[store.redis]`.
//!
//! They are a crate of their own, so that a build without the fleet engine reads the same
//! configuration file. Connecting to anything does not belong here.

mod dynamo;
mod engine;
mod layout;
mod redis;

pub use dynamo::DynamoSettings;
pub use engine::EngineSettings;
pub use layout::Layout;
pub use redis::{RedisMode, RedisSettings, masked};
