//! Checks that unsafe code occurs only in known places and that each place states why it is sound.

#![expect(clippy::unwrap_used, reason = "a test may stop where its own set-up fails")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The start of a lint attribute's arguments that permits unsafe code.
const PERMISSION: &str = "(unsafe_code";

fn repository() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

fn files_below(folder: &Path, ending: &str, found: &mut Vec<PathBuf>) {
    for entry in folder.read_dir().unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true if path.ends_with("target") => {}
            true => files_below(&path, ending, found),
            false if path.to_str().unwrap().ends_with(ending) => found.push(path),
            false => {}
        }
    }
}

/// Removes comments and quoted text from a line. It is approximate, but sufficient for this search.
fn code_of(line: &str) -> String {
    let before_comment = line.split("//").next().unwrap_or_default();
    before_comment.split('"').step_by(2).collect()
}

/// Returns the lines directly above a line, up to the previous statement or block, nearest first.
fn said_above<'a>(lines: &'a [&'a str], at: usize) -> impl Iterator<Item = &'a str> {
    let above = lines[..at].iter().rev().map(|line| line.trim());
    // Do not stop at attributes, which may span several lines.
    above.take_while(|line| !line.is_empty() && !line.ends_with(';') && *line != "}")
}

#[test]
fn every_unsafe_block_and_permission_states_its_reason() {
    let mut sources = Vec::new();
    for folder in ["crates", "fuzz/src", "fuzz/fuzz_targets"] {
        files_below(&repository().join(folder), ".rs", &mut sources);
    }
    let mut blocks = BTreeMap::new();
    for path in &sources {
        let text = std::fs::read_to_string(path).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        for (at, line) in lines.iter().enumerate() {
            let says = |word: &str| said_above(&lines, at).any(|comment| comment.contains(word));
            let place = || format!("{}:{}: {line}", path.display(), at + 1);
            let code = code_of(line);
            if code.contains("unsafe {") {
                let file = path.strip_prefix(repository()).unwrap().to_str().unwrap().to_owned();
                *blocks.entry(file).or_insert(0) += 1;
                assert!(says("// SAFETY: "), "{}", place());
            }
            if code.contains("unsafe fn") || code.contains("unsafe extern") || code.contains("unsafe impl") {
                assert!(says("/// # Safety"), "{}", place());
            }
        }
        let code: String =
            lines.iter().map(|line| code_of(line)).collect::<String>().split_whitespace().collect();
        for (at, _) in code.match_indices(PERMISSION) {
            let is_expected =
                code[..at].ends_with("expect") && code[at + PERMISSION.len()..].starts_with(",reason=");
            assert!(is_expected, "{}: unsafe code without a reason", path.display());
        }
    }
    assert!(sources.len() > 300, "only {} files were checked", sources.len());
    // A new block of unsafe code must be added here, so that a reviewer notices it.
    let known = [
        // Sets the scheduling policy of a thread.
        ("crates/server/src/limits/password_hash_pool.rs".to_owned(), 1),
        // Replaces the system's randomness with randomness from the simulation's seed.
        ("crates/sim/src/entropy.rs".to_owned(), 1),
        // Maps the tables into memory and sets a flag of the map.
        ("crates/store-embedded/src/tables/opening.rs".to_owned(), 2),
    ];
    assert_eq!(blocks, BTreeMap::from(known), "blocks of unsafe code");
}

#[test]
fn every_crate_inherits_the_workspace_lints_that_deny_unsafe_code() {
    let workspace = std::fs::read_to_string(repository().join("Cargo.toml")).unwrap();
    assert!(workspace.contains("unsafe_code = \"deny\""));
    for entry in repository().join("crates").read_dir().unwrap() {
        let manifest = entry.unwrap().path().join("Cargo.toml");
        let text = std::fs::read_to_string(&manifest).unwrap();
        assert!(text.contains("[lints]\nworkspace = true"), "{}", manifest.display());
    }
}
