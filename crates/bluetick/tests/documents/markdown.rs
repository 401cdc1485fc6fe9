//! Splits Markdown files into prose, inline code and code blocks.

use std::collections::{BTreeSet, HashMap};
use std::fs;
use std::path::{Path, PathBuf};

/// Folders without documents of this project.
const SKIPPED: [&str; 4] = ["target", "node_modules", "dist", "corpus"];

/// One Markdown file.
#[derive(Clone, Debug)]
pub struct Document {
    /// The path below the root of the repository.
    pub path: PathBuf,
    pub text: String,
}

/// A piece of a document, and the line where it starts, from 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    pub line: usize,
    pub text: String,
}

/// A fenced code block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    pub language: String,
    pub code: Piece,
}

/// Returns all documents of the repository, without the ADRs.
pub fn all_documents(root: &Path) -> Vec<Document> {
    let mut found = Vec::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_str().unwrap().to_owned();
            let is_skipped = name.starts_with('.') || SKIPPED.contains(&name.as_str());
            if path.is_dir() {
                if !is_skipped && !path.ends_with("docs/adr") {
                    folders.push(path);
                }
            } else if name.ends_with(".md") {
                found.push(Document::read(root, path.strip_prefix(root).unwrap().to_owned()));
            }
        }
    }
    found.sort_by(|one, other| one.path.cmp(&other.path));
    assert!(found.len() > 20, "only {} documents were found", found.len());
    found
}

impl Document {
    pub fn read(root: &Path, path: PathBuf) -> Document {
        let text = fs::read_to_string(root.join(&path));
        let text = text.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        Document { path, text }
    }

    /// Returns `path:line`, as editors understand it.
    pub fn at(&self, line: usize) -> String {
        format!("{}:{line}", self.path.display())
    }

    pub fn blocks(&self) -> Vec<Block> {
        self.split().1
    }

    /// Returns the text with fenced blocks blanked, so that line numbers stay.
    pub fn prose(&self) -> String {
        self.split().0
    }

    fn split(&self) -> (String, Vec<Block>) {
        let (mut prose, mut blocks) = (String::new(), Vec::new());
        let mut open: Option<(String, Block)> = None;
        for (index, line) in self.text.lines().enumerate() {
            let trimmed = line.trim_start();
            let fence = ['`', '~'].into_iter().find_map(|mark| {
                let length = trimmed.chars().take_while(|c| *c == mark).count();
                (length >= 3).then(|| trimmed[..length].to_owned())
            });
            match (&mut open, fence) {
                (None, Some(fence)) => {
                    let language = trimmed[fence.len()..].split_whitespace().next().unwrap_or("").to_owned();
                    let code = Piece { line: index + 2, text: String::new() };
                    open = Some((fence, Block { language, code }));
                }
                (Some((opening, _)), Some(fence)) if fence.starts_with(opening.as_str()) => {
                    blocks.extend(open.take().map(|(_, block)| block));
                }
                (Some((_, block)), _) => {
                    block.code.text += line;
                    block.code.text.push('\n');
                }
                (None, None) => prose += line,
            }
            prose.push('\n');
        }
        (prose, blocks)
    }

    /// Returns the inline code, with line breaks and escaped pipes replaced.
    pub fn inline_code(&self) -> Vec<Piece> {
        let prose = self.prose();
        code_spans(&prose)
            .into_iter()
            .map(|(start, end)| {
                let inner = prose[start..end].trim_matches('`');
                let text = inner.replace('\n', " ").replace("\\|", "|").trim().to_owned();
                Piece { line: line_of(&prose, start), text }
            })
            .collect()
    }

    /// Returns the prose with inline code blanked.
    pub fn prose_without_code(&self) -> String {
        let prose = self.prose();
        let mut bytes = prose.clone().into_bytes();
        for (start, end) in code_spans(&prose) {
            for byte in &mut bytes[start..end] {
                if *byte != b'\n' {
                    *byte = b' ';
                }
            }
        }
        String::from_utf8(bytes).unwrap()
    }

    /// Returns the headings with their level.
    pub fn headings(&self) -> Vec<(usize, String)> {
        let prose = self.prose();
        let heading = |line: &str| {
            let level = line.chars().take_while(|c| *c == '#').count();
            let text = line[level..].strip_prefix(' ')?.trim().to_owned();
            (1..=6).contains(&level).then_some((level, text))
        };
        prose.lines().filter_map(heading).collect()
    }

    /// Returns the anchors of the headings, as GitHub makes them, and those of `<a id="…">`.
    pub fn anchors(&self) -> BTreeSet<String> {
        let mut seen: HashMap<String, usize> = HashMap::new();
        let mut anchors = BTreeSet::new();
        for (_, heading) in self.headings() {
            let slug = slug(&heading);
            let count = seen.entry(slug.clone()).and_modify(|count| *count += 1).or_insert(0);
            anchors.insert(if *count == 0 { slug } else { format!("{slug}-{count}") });
        }
        let quoted = self.text.split("<a id=\"").skip(1).filter_map(|rest| rest.split('"').next());
        anchors.extend(quoted.map(str::to_owned));
        anchors
    }

    /// Returns the cells of every table row under each heading. The headers and the lines below
    /// them are left out.
    pub fn rows(&self) -> Vec<(String, Vec<String>)> {
        let (mut section, mut rows) = (String::new(), Vec::new());
        let prose = self.prose();
        let lines: Vec<&str> = prose.lines().collect();
        for (index, line) in lines.iter().enumerate() {
            if line.starts_with('#') {
                section = line.trim_start_matches('#').trim().to_owned();
            }
            let is_below = |line: &str| line.starts_with("|-");
            let is_header = lines.get(index + 1).is_some_and(|next| is_below(next));
            if line.starts_with('|') && !is_below(line) && !is_header {
                let cells = line.trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect();
                rows.push((section.clone(), cells));
            }
        }
        rows
    }
}

/// Returns the line of a byte position, from 1.
pub fn line_of(text: &str, position: usize) -> usize {
    text[..position].matches('\n').count() + 1
}

/// Returns the byte ranges of inline code, with the backticks. A span ends within its paragraph.
fn code_spans(prose: &str) -> Vec<(usize, usize)> {
    let bytes = prose.as_bytes();
    let run = |at: usize| bytes[at..].iter().take_while(|byte| **byte == b'`').count();
    let (mut spans, mut at) = (Vec::new(), 0);
    while at < bytes.len() {
        let length = if bytes[at] == b'`' { run(at) } else { 0 };
        if length == 0 {
            at += 1;
            continue;
        }
        let (start, mut end) = (at, at + length);
        let mut found = None;
        while end < bytes.len() && !bytes[end..].starts_with(b"\n\n") {
            let closing = if bytes[end] == b'`' { run(end) } else { 0 };
            if closing == length {
                found = Some(end + closing);
                break;
            }
            end += closing.max(1);
        }
        at = found.unwrap_or(start + length);
        spans.extend(found.map(|end| (start, end)));
    }
    spans
}

/// Returns the anchor that GitHub makes from a heading.
fn slug(heading: &str) -> String {
    let mut text = String::new();
    let mut rest = heading;
    // A link counts with its text only.
    while let Some((before, after)) = rest.split_once("](") {
        text += &before.replacen('[', "", 1);
        rest = after.split_once(')').map_or("", |(_, rest)| rest);
    }
    text += rest;
    let kept = text.trim().chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.flat_map(char::to_lowercase).map(|c| if c == ' ' { '-' } else { c }).collect()
}
