//! Rate limits and quotas per user, and connection and log-in limits per address. Handlers check
//! them before they do any work.

mod bucket;
mod network;
mod passwords;
mod per_address;
mod per_user;
mod table;

pub(crate) use bucket::Rate;
pub use network::{InvalidNetwork, Network};
pub(crate) use passwords::PasswordDesk;
pub(crate) use per_address::{AddressPlace, Addresses, KeyCheck, TurnedAway};
pub(crate) use per_user::{Budgets, Quota, UserBudget};
