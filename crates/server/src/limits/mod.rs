//! How much one user may ask for, and how much may come from one address. Checked before any work is done.

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
