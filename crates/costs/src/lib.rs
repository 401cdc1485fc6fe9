//! Counts what a message costs: instructions (under callgrind, compared with `instructions.toml`)
//! and allocations (in a test with upper bounds). Unlike times, counts hardly depend on the machine
//! and its load, so they reveal code changes.
//!
//! The server and the store are real, with real sockets and syncs. The clients run in the same
//! process on the main thread. A client ([`Device`]) encodes its frames in advance and only counts
//! received frames, so the counted costs are the server's. `bluetick bench` measures speed.

mod callgrind;
mod check;
mod device;
mod seed;
mod stored_costs;
mod workload;
mod world;

pub use callgrind::perform;
pub use check::check;
pub use device::Device;
pub use workload::{Path, Rehearsed};
pub use world::MeasuredServer;
