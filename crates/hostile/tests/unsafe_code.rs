//! The compiler's word that memory is safe holds but for a few places, each of which says why it may be believed.

#![expect(clippy::unwrap_used, reason = "a test may stop where its own set-up fails")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// How whoever is allowed something for once is told so.
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

/// Comments and what stands in quotes are no code. Rough, and right for what is looked for.
fn code_of(line: &str) -> String {
    let before_comment = line.split("//").next().unwrap_or_default();
    before_comment.split('"').step_by(2).collect()
}

/// The comments that stand right above a line, attributes passed over.
fn said_above<'a>(lines: &'a [&'a str], at: usize) -> impl Iterator<Item = &'a str> {
    let above = lines[..at].iter().rev().map(|line| line.trim());
    // An attribute may take several lines.
    above.take_while(|line| !line.is_empty() && !line.ends_with(';') && *line != "}")
}

#[test]
fn every_unsafe_block_says_why_it_is_safe_and_every_permission_for_one_has_a_reason() {
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
            assert!(is_expected, "{}: a permission without a reason", path.display());
        }
    }
    assert!(sources.len() > 300, "only {} files were looked through", sources.len());
    // Whoever needs another one looks here, and thinks twice.
    let known = [
        // The policy by which the system lets a thread run.
        ("crates/server/src/limits/passwords.rs".to_owned(), 1),
        // Randomness that follows from the seed of a simulation takes the place of the system's.
        ("crates/sim/src/entropy.rs".to_owned(), 1),
        // The map of the tables, and a flag of it.
        ("crates/store-embedded/src/tables/opening.rs".to_owned(), 2),
    ];
    assert_eq!(blocks, BTreeMap::from(known), "blocks of unsafe code");
}

#[test]
fn every_crate_obeys_the_lints_of_the_workspace_which_deny_unsafe_code() {
    let workspace = std::fs::read_to_string(repository().join("Cargo.toml")).unwrap();
    assert!(workspace.contains("unsafe_code = \"deny\""));
    for entry in repository().join("crates").read_dir().unwrap() {
        let manifest = entry.unwrap().path().join("Cargo.toml");
        let text = std::fs::read_to_string(&manifest).unwrap();
        assert!(text.contains("[lints]\nworkspace = true"), "{}", manifest.display());
    }
}
