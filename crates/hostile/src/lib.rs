//! What must hold whatever bytes come in. For each way in there is one function that takes any bytes, reads them as the
//! server or the client would, and panics where something does not hold: a reader that panics, takes memory without
//! bound, believes what nobody signed, or reads back something else than was written.
//!
//! The fuzzer (`fuzz/`) calls them with bytes it makes up; a test calls them with the corpus that it left. Checksums are
//! set right on the way, where they would keep the fuzzer out of what lies behind them.

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

/// Every target by its name, which is also that of its corpus.
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

/// Feeds the target of this name.
///
/// # Panics
/// Where something does not hold, and where there is no such target.
pub fn feed(name: &str, bytes: &[u8]) {
    let target = TARGETS.iter().find(|(known, _)| *known == name);
    target.expect("a target that exists").1(bytes);
}

/// The first byte says which of so many ways; the rest is the input.
fn choice(bytes: &[u8], ways: u8) -> Option<(u8, &[u8])> {
    bytes.split_first().map(|(first, rest)| (first % ways, rest))
}
