//! Whole servers in one thread, under a simulated clock and network and on a simulated disk, tables and hints. A seed
//! decides what everybody does, what breaks and when; an auditor that sees only what clients see compares it with the
//! guarantees of the design. The same seed gives the same trace, byte for byte.
//!
//! Where to look: [`run`] is one seed, and [`process`] gives it a process of its own; [`world`] what the servers stand on; [`faults`] what breaks; `device`, `visitor` and `lodger`
//! are the clients; [`audit`] the guarantees, and `books` what must hold in the end; [`plant`] bugs on purpose; [`shrink`] what is left of a failure.

pub mod audit;
mod books;
mod clock;
mod device;
pub mod dice;
pub mod entropy;
pub mod faults;
mod http;
mod lodger;
mod network;
pub mod plant;
pub mod process;
pub mod run;
pub mod shrink;
mod town;
mod trace;
mod visitor;
mod websocket;
pub mod world;
