//! Measuring Bluetick with its own tools. Results go to the terminal; what they mean is written in docs/benchmarks.md.

pub mod archive;
mod bare_log;
pub mod group;
pub mod history;
pub mod idle;
pub mod inbox;
mod measure;
pub mod pairs;
pub mod reconnect;
mod scratch;
mod seed;
mod small_talk;
pub mod store;
mod talk;
mod under_test;
mod workload;

pub use scratch::BenchError;
