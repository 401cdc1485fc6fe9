//! Sizes of rows in bytes, as DynamoDB counts them: attribute names and values, with ids of typical
//! length (27 bytes for a conversation, 16 for a user, 36 for a message).

/// Bytes that DynamoDB adds to each row when it bills storage.
pub const STORED_OVERHEAD: f64 = 100.0;

/// Maximum size of a preview in an inbox row.
const PREVIEW_BYTES: f64 = 100.0;

/// A message row without its text.
const MESSAGE: f64 = 206.0;

pub fn message(text: f64) -> f64 {
    MESSAGE + text
}

/// A message row with a reference to the archive in place of its text.
pub const fn archived_message() -> f64 {
    MESSAGE + 60.0
}

pub fn inbox(text: f64) -> f64 {
    157.0 + text.min(PREVIEW_BYTES)
}

/// The read state of one member.
pub const STATUS: f64 = 120.0;
/// A pending row.
pub const PENDING: f64 = 100.0;
/// One member of a conversation.
pub const MEMBER: f64 = 110.0;
/// The metadata of a conversation.
pub const CONVERSATION: f64 = 120.0;
/// A user, with the index rows for lookup.
pub const USER: f64 = 500.0;

/// A message in a segment: its text and 45 bytes, compressed by a factor of 1.65
/// (docs/explanation/archive.md).
pub fn in_segment(text: f64) -> f64 {
    (45.0 + text) / 1.65
}
