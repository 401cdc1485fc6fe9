//! Types that the server and the client libraries share: identifiers, seqs, times, read states and
//! the tick of a message.
//!
//! Rules that only the server applies belong to `bluetick-core`, encodings to `bluetick-wire` and
//! to the client crate.

pub mod ids;
pub mod random;
pub mod read_state;
pub mod seq;
pub mod ticks;
pub mod time;

pub use ids::{ConversationId, ConversationKind, InvalidId, MessageId, UserId};
pub use random::{Random, SystemRandom};
pub use read_state::{ReadState, ReceiptKind};
pub use seq::{Epoch, Seq};
pub use ticks::{Tick, tick_state};
pub use time::Timestamp;
