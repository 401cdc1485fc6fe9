//! Benchmarks for Bluetick. Every workload returns a [`BenchReport`].
//! docs/explanation/performance.md explains the figures.

pub mod archive;
pub mod attack;
mod bare_log;
mod error;
mod files;
mod ground;
pub mod group;
pub mod history;
pub mod idle;
pub mod inbox;
mod latencies;
mod line;
mod load;
mod measure;
mod pages;
pub mod pairs;
mod progress;
pub mod reconnect;
mod report;
mod schedule;
mod seed;
mod small_talk;
pub mod store;
mod talk;
mod under_test;
mod watcher;
mod workload;

pub use error::BenchError;
pub use ground::{Ground, StoredCounts};
pub use load::Load;
pub use report::BenchReport;
