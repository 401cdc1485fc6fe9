//! Deterministic simulation of whole servers in one thread: clock, network, disk, tables and Redis
//! are simulated. The seed decides every client action and every fault. An auditor sees only what
//! clients see and checks it against docs/explanation/guarantees.md. The same seed produces the
//! same trace, byte for byte.
//!
//! Modules: [`run`] runs one seed, and [`process`] runs it in a separate process. [`world`]
//! simulates the infrastructure and [`faults`] injects failures. `device`, `http_auditor` and
//! `user_session` are the clients. [`audit`] checks the guarantees during a run, and `ledger`
//! checks the final state. [`plant`] adds deliberate bugs, and [`shrink`] minimizes a failing run.

pub mod audit;
mod clock;
mod cluster;
mod device;
pub mod dice;
pub mod entropy;
pub mod faults;
mod http;
mod http_auditor;
mod ledger;
mod network;
pub mod plant;
pub mod process;
pub mod run;
pub mod shrink;
mod trace;
mod user_session;
mod websocket;
pub mod world;
