//! The test cases, grouped by topic.

#![expect(clippy::unwrap_used, reason = "a case fails where it stands")]

mod at_random;
mod changes;
mod durable;
mod ids;
mod inbox;
mod inbox_at_random;
mod listening;
mod members;
mod messages;
mod pending;
mod profiles;
mod receipts;
mod ticks;
mod unread;
mod users;

pub use at_random::*;
pub use changes::*;
pub use durable::*;
pub use ids::*;
pub use inbox::*;
pub use inbox_at_random::*;
pub use listening::*;
pub use members::*;
pub use messages::*;
pub use pending::*;
pub use profiles::*;
pub use receipts::*;
pub use ticks::*;
use tokio::task::JoinSet;
pub use unread::*;
pub use users::*;

/// Runs all futures concurrently and waits for all of them. Panics if one of them panics.
async fn at_once<T: Send + 'static>(doing: impl IntoIterator<Item: Future<Output = T> + Send + 'static>) {
    let mut tasks: JoinSet<T> = doing.into_iter().collect();
    while let Some(done) = tasks.join_next().await {
        done.unwrap();
    }
}
