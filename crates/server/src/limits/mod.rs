//! Rate limits and quotas per user, and connection and log-in limits per address. Handlers check
//! them before they do any work.

mod bucket;
mod limit_table;
mod network;
mod password_hash_pool;
mod per_address;
mod per_user;

pub(crate) use bucket::RefillRate;
pub use network::{InvalidNetwork, Network};
pub(crate) use password_hash_pool::PasswordHashPool;
pub(crate) use per_address::{AddressLimits, AddressPermit, ConnectionRefusal, KeyCheck};
pub(crate) use per_user::{Budgets, Quota, UserBudget};
