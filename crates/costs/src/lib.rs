//! What a message costs, counted: instructions (under callgrind, compared with `instructions.toml`) and allocations (in
//! a test with ceilings). Times depend on the machine and on what else it does; counts hardly do, so a change of the
//! code shows in them.
//!
//! The server and the store are the real ones, with real sockets and syncs, in a process of their own with whoever talks
//! to them. Those who talk ([`Device`]) have everything ready that they will say and only count frames, on the main
//! thread, so that what is counted is the server's. Measuring how fast it all is belongs to `bluetick bench`.

mod callgrind;
mod check;
mod device;
mod kept;
mod seed;
mod workload;
mod world;

pub use callgrind::perform;
pub use check::check;
pub use device::Device;
pub use workload::{Path, Rehearsed};
pub use world::World;
