//! The log of one conversation in the tables: rows that are written once.
//!
//! A [`ConversationLog`] is the state of one owner of the conversation. Any number of owners may
//! write at the same time, on any nodes. These rules keep them correct; they name no clock, lease,
//! cache or message between nodes:
//!
//! - **R1.** A row (conversation, seq) is written once, by a conditional put. The writer retries an
//!   unanswered put at the same seq until the row shows whose it is.
//! - **R2.** A writer puts at seq n only after it has read every row below n. For message ids it
//!   has read every row above the dedupe floor, or a fingerprint row in place of a complete block.
//! - **R3.** A grant row at seq g reserves the seqs g+1 to g+count for its [`Incarnation`], which
//!   may write them in parallel. Any other writer writes above this block only after it has filled
//!   each empty row of the block with a void. A grant is written only directly above a row of the
//!   same incarnation.
//! - **R4.** An epoch row at seq e says over how many partitions the rows above e are spread. It is
//!   never inside a block, and it is the last row of the partitions before it. A membership row
//!   reserves the rows of its further notices in the same way; any writer fills them with the
//!   notices that the row names.
//! - **R5.** Loaded state is a hint. Before it serves a read, a node reads row head + 1
//!   ([`ConversationLog::confirm`]).
//!
//! ADR 32 has the safety argument, and `tests/owner_protocol` a model with planted bugs. Members,
//! receipts and delivery do not belong here.

mod fingerprints;
mod incarnation;
mod load;
mod membership;
mod partitions;
mod reader;
mod row;
mod writer;

pub use fingerprints::{Fingerprint, FingerprintKey};
pub use incarnation::Incarnation;
pub use load::LogParts;
pub use membership::MembershipRow;
pub use partitions::{PartitionEpoch, PartitionMap};
pub use reader::LogReader;
pub use row::{LogEntry, LogRow, RowKind};
pub use writer::{Appended, ConversationLog, MAX_GRANT, PlantedBug};
