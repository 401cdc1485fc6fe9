//! Rules about the shape of a file: its length, its header and the width of its text.

use crate::{Rule, Violations};

/// Upper bound on the lines of a source file. A longer file has more than one responsibility.
const MAX_LINES: usize = 600;
/// Upper bound on the width of a line of text, in characters. Wider lines wrap in side-by-side
/// views.
pub const MAX_WIDTH: usize = 100;

pub fn length(text: &str, found: &mut Violations<'_>) {
    let lines = text.lines().count();
    if lines > MAX_LINES {
        found.add(0, Rule::FileLength, &format!("{lines} lines"));
    }
}

/// A file that only includes or starts a fuzz target needs a header as well.
pub fn module_header(text: &str, found: &mut Violations<'_>) {
    let first = text.lines().find(|line| !line.is_empty() && !line.starts_with("#!"));
    if !first.is_some_and(|line| line.starts_with("//!")) {
        found.add(0, Rule::ModuleHeader, first.unwrap_or_default());
    }
}

pub fn markdown_width(text: &str, found: &mut Violations<'_>) {
    let mut in_code = false;
    for (index, line) in text.lines().enumerate() {
        let trimmed = line.trim_start();
        if trimmed.starts_with("```") {
            in_code = !in_code;
        }
        let is_exempt = in_code
            || trimmed.starts_with('|')
            || trimmed.starts_with('#')
            || trimmed.starts_with('<')
            || trimmed.starts_with("![")
            || is_one_word(trimmed);
        if !is_exempt && line.chars().count() > MAX_WIDTH {
            found.add(index, Rule::MarkdownWidth, line);
        }
    }
}

/// Returns whether the line can't be wrapped, such as a list item with one long link.
fn is_one_word(line: &str) -> bool {
    let text = line.trim_start_matches(['-', '*', '>', ' ']);
    let without_label = text.split_once("](").map_or(text, |(_, target)| target);
    without_label.split_whitespace().count() <= 1
}

#[cfg(test)]
mod tests {
    use super::MAX_LINES;
    use crate::{Rule, rules_broken_by};

    #[test]
    fn rust_file_with_601_lines_is_refused() {
        let allowed = format!("//! Header.\n{}", "\n".repeat(MAX_LINES - 1));
        assert_eq!(rules_broken_by("a.rs", &allowed), []);
        assert_eq!(rules_broken_by("a.rs", &format!("{allowed}\n")), [Rule::FileLength]);
    }

    #[test]
    fn rust_file_without_header_is_refused() {
        assert_eq!(rules_broken_by("a.rs", "fn main() {}\n"), [Rule::ModuleHeader]);
        assert_eq!(rules_broken_by("a.rs", "#![no_main]\n//! A header.\n"), []);
    }

    #[test]
    fn wide_markdown_is_refused_except_tables_links_and_code() {
        let wide = "word ".repeat(21);
        assert_eq!(rules_broken_by("a.md", &wide), [Rule::MarkdownWidth]);
        let link = format!("- [label of a link](https://example.org/{})", "x".repeat(100));
        for allowed in [format!("| {wide} |"), format!("```\n{wide}\n```"), format!("# {wide}"), link] {
            assert_eq!(rules_broken_by("a.md", &allowed), [], "{allowed}");
        }
    }
}
