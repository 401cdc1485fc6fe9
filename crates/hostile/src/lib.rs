//! Fuzz targets. Each target is a function that takes arbitrary bytes and reads them like the
//! server or the client does. It panics if a parser panics, accepts an unsigned token, or reads
//! back other data than was written. It must also not allocate memory without bound.
//!
//! The fuzzer (`fuzz/`) calls the targets with generated inputs; a test calls them with the stored
//! corpus. Some targets correct checksums, because the fuzzer could not get past them otherwise.

mod bodies;
mod chunks;
mod cloud;
mod cursors;
mod events;
mod frames;
mod journal;
mod log;
mod rows;
mod segments;
mod tokens;

pub type Target = fn(&[u8]);

/// All targets by name. The corpus directory of a target has the same name.
pub const TARGETS: [(&str, Target); 13] = [
    ("bodies", bodies::any_body),
    ("chunks", chunks::any_chunk),
    ("client_frames", frames::any_client_frame),
    ("client_journal", journal::any_journal),
    ("cloud_rows", cloud::any_row),
    ("cloud_texts", cloud::any_text),
    ("cursors", cursors::any_query),
    ("events", events::any_batch),
    ("log", log::any_damage),
    ("rows", rows::any_row),
    ("segments", segments::any_segment),
    ("server_frames", frames::any_server_frame),
    ("tokens", tokens::any_token),
];

/// Runs the target with this name on `bytes`.
///
/// # Panics Panics if the target finds a violation or does not exist.
pub fn feed(name: &str, bytes: &[u8]) {
    let target = TARGETS.iter().find(|(known, _)| *known == name);
    target.expect("the target exists").1(bytes);
}

/// Uses the first byte to choose one of `ways` variants. Returns the variant and the rest of the
/// input.
fn choice(bytes: &[u8], ways: u8) -> Option<(u8, &[u8])> {
    bytes.split_first().map(|(first, rest)| (first % ways, rest))
}
