//! The state that the log contains and the tables may not contain yet. It makes reads fast and
//! saves writes a lookup in the tables.

mod conversation;
mod generation;
mod ids;
mod member_states;
mod page_cache;
mod profiles;
mod recent;
mod recent_listing;
mod residents;
mod users;

pub use conversation::{
    CheckpointedState, ConversationState, NoticesAbove, ResidentConversation, TailMessage,
};
pub use generation::Generation;
pub use ids::IdTable;
pub use member_states::{MemberStates, StaleMembers};
pub use page_cache::PageCache;
pub use profiles::Profiles;
pub use recent::Recent;
pub use recent_listing::RecentListing;
pub use residents::ResidentConversations;
pub use users::{MatchingUsers, Users};
