//! Checks that relative links, their anchors, and the names of files resolve.

use std::collections::{BTreeSet, HashMap};
use std::path::{Component, Path, PathBuf};

use super::markdown::{Document, Piece, line_of};

/// Folders whose files are named in inline code with their path from the root.
const ROOTS: [&str; 7] = ["crates/", "deploy/", "docs/", "fuzz/", "sdk/", "tests/", "web/"];

/// Returns how many links were checked, and the problems found.
pub fn problems(root: &Path, documents: &[Document]) -> (usize, Vec<String>) {
    let mut anchors: HashMap<PathBuf, BTreeSet<String>> = HashMap::new();
    for document in documents {
        anchors.insert(document.path.clone(), document.anchors());
    }
    let (mut checked, mut problems) = (0, Vec::new());
    for document in documents {
        for Piece { line, text: target } in targets(document) {
            let is_elsewhere = target.contains("://") || target.starts_with("mailto:");
            if is_elsewhere {
                continue;
            }
            checked += 1;
            let (file, anchor) = target.split_once('#').unwrap_or((&target, ""));
            let path = match file {
                "" => document.path.clone(),
                file => normal(&document.path.parent().unwrap().join(file)),
            };
            if file.starts_with('/') || (!file.is_empty() && !root.join(&path).exists()) {
                problems.push(format!("{}: no file {target}", document.at(line)));
                continue;
            }
            if anchor.is_empty() || path.extension().is_none_or(|kind| kind != "md") {
                continue;
            }
            let known =
                anchors.entry(path.clone()).or_insert_with(|| Document::read(root, path.clone()).anchors());
            if !known.contains(anchor) {
                problems.push(format!("{}: no anchor {target}", document.at(line)));
            }
        }
    }
    (checked, problems)
}

/// Returns how many files were looked for, and those that do not exist. A name may contain `*`,
/// `…` or a placeholder in capitals, and is then checked up to it.
pub fn missing_files(root: &Path, documents: &[Document]) -> (usize, Vec<String>) {
    let (mut checked, mut problems) = (0, Vec::new());
    for document in documents {
        for Piece { line, text } in document.inline_code() {
            let is_path = ROOTS.iter().any(|start| text.starts_with(start)) && !text.contains(' ');
            if !is_path {
                continue;
            }
            checked += 1;
            let named = text.split(['*', '…', '{', '<', ':']).next().unwrap();
            let whole = named.len() == text.len() || text[named.len()..].starts_with(':');
            let path = if whole { named } else { named.rsplit_once('/').map_or("", |(folder, _)| folder) };
            if !root.join(path).exists() {
                problems.push(format!("{}: no file {text}", document.at(line)));
            }
        }
    }
    (checked, problems)
}

/// Returns the targets of all links and pictures outside code.
fn targets(document: &Document) -> Vec<Piece> {
    let prose = document.prose_without_code();
    let mut found = Vec::new();
    for (at, _) in prose.match_indices("](") {
        let start = at + 2;
        let Some(end) = prose[start..].find(')') else { continue };
        let target = prose[start..start + end].split_whitespace().next().unwrap_or("");
        found.push(Piece { line: line_of(&prose, at), text: target.trim_matches(['<', '>']).to_owned() });
    }
    for (index, line) in prose.lines().enumerate() {
        if let Some((_, target)) = line.strip_prefix('[').and_then(|rest| rest.split_once("]: ")) {
            found.push(Piece { line: index + 1, text: target.trim().to_owned() });
        }
    }
    for attribute in ["src=\"", "href=\""] {
        for (at, _) in prose.match_indices(attribute) {
            let rest = &prose[at + attribute.len()..];
            let target = rest.split('"').next().unwrap().to_owned();
            found.push(Piece { line: line_of(&prose, at), text: target });
        }
    }
    found
}

/// Resolves `.` and `..` without reading the disk.
fn normal(path: &Path) -> PathBuf {
    let mut parts = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => drop(parts.pop()),
            Component::CurDir => {}
            part => parts.push(part),
        }
    }
    parts
}
