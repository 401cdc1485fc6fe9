//! Measuring Bluetick with its own tools. Results go to the terminal; what they mean is written in docs/benchmarks.md.

mod bare_log;
mod measure;
pub mod store;
mod workload;
