//! Benchmarks for Bluetick. Every workload returns a [`BenchReport`].
//! docs/explanation/performance.md explains the figures.

pub mod archive;
pub mod attack;
mod bare_log;
mod chat_texts;
mod data_directory;
mod error;
mod files;
pub mod group;
pub mod history;
pub mod idle;
pub mod inbox;
mod latencies;
mod load;
mod measure;
mod pages;
pub mod pairs;
mod progress;
pub mod reconnect;
mod report;
mod schedule;
mod seed;
pub mod store;
mod traffic;
mod under_test;
mod watcher;
mod websocket;
mod workload;

pub use data_directory::{Ground, StoredCounts};
pub use error::BenchError;
pub use load::Load;
pub use report::BenchReport;
