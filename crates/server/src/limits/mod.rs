//! Rate limits and quotas per user, connection and log-in limits per address, and the limit on open
//! files. Handlers check them before they do any work.

mod bucket;
mod limit_table;
mod network;
mod open_files;
mod password_hash_pool;
mod per_address;
mod per_user;

pub(crate) use bucket::RefillRate;
pub use network::{InvalidNetwork, Network};
pub(crate) use open_files::connections_of_this_process;
pub use open_files::{file_limit_and_connections, raise_file_limit};
pub(crate) use password_hash_pool::PasswordHashPool;
pub(crate) use per_address::{AddressLimits, AddressPermit, ConnectionRefusal, KeyCheck};
pub(crate) use per_user::{Budgets, Quota, UserBudget};
