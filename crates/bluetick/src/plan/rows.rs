//! How large rows are: names of attributes and their values, as DynamoDB counts them, with ids of usual lengths
//! (27 bytes a conversation, 16 a user, 36 a message).

/// What DynamoDB adds to each row in its bill for storage.
pub const STORED_OVERHEAD: f64 = 100.0;

/// As much of a text as an inbox shows.
const PREVIEW_BYTES: f64 = 100.0;

/// A message without its text.
const MESSAGE: f64 = 206.0;

pub fn message(text: f64) -> f64 {
    MESSAGE + text
}

/// Its text is in the archive, and where is in the row.
pub const fn archived_message() -> f64 {
    MESSAGE + 60.0
}

pub fn inbox(text: f64) -> f64 {
    157.0 + text.min(PREVIEW_BYTES)
}

pub const STATUS: f64 = 120.0;
pub const PENDING: f64 = 100.0;
pub const MEMBER: f64 = 110.0;
pub const ROOM: f64 = 120.0;
/// With the rows it is found by.
pub const USER: f64 = 500.0;

/// A message in a segment: 45 bytes beside its text, compressed 1.65 times (docs/archive.md).
pub fn in_segment(text: f64) -> f64 {
    (45.0 + text) / 1.65
}
