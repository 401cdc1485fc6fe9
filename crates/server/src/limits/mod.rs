//! How much one user may ask for. Checked before any work is done.

mod bucket;
mod passwords;
mod per_user;

pub(crate) use bucket::Rate;
pub(crate) use passwords::PasswordDesk;
pub(crate) use per_user::{Budgets, UserBudget};
