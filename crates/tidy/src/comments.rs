//! Rules about comments: their width, and how their sentences start.

use crate::layout::MAX_WIDTH;
use crate::{Rule, Violations};

/// Openings that hide the actor of a sentence.
const BANNED_OPENINGS: [&str; 9] = [
    "Whoever ",
    "Whatever ",
    "What is ",
    "Nobody ",
    "Somebody ",
    "Everybody ",
    "It is we ",
    "So long as ",
    "Nonsense ",
];

/// Returns the text of a line comment, or `None` if the line is no comment.
fn comment_text(line: &str) -> Option<&str> {
    let rest = line.trim_start().strip_prefix("//")?;
    Some(rest.trim_start_matches(['/', '!']).trim_start())
}

pub fn width(text: &str, found: &mut Violations<'_>) {
    for (index, line) in text.lines().enumerate() {
        let is_wide = line.chars().count() > MAX_WIDTH;
        // A long address can't be wrapped.
        if is_wide && comment_text(line).is_some_and(|comment| comment.split_whitespace().count() > 1) {
            found.add(index, Rule::CommentWidth, line);
        }
    }
}

pub fn openings(text: &str, found: &mut Violations<'_>) {
    for (index, line) in text.lines().enumerate() {
        let Some(comment) = comment_text(line) else { continue };
        let starts_badly =
            |sentence: &str| BANNED_OPENINGS.iter().any(|opening| sentence.starts_with(opening));
        let later_sentences = comment.match_indices(". ").map(|(at, _)| &comment[at + 2..]);
        if starts_badly(comment) || later_sentences.into_iter().any(starts_badly) {
            found.add(index, Rule::Opening, line);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::{Rule, rules_broken_by};

    #[test]
    fn comment_with_101_columns_is_refused() {
        let wide = format!("//! Header.\n// {}\n", "a b ".repeat(25));
        assert_eq!(rules_broken_by("a.rs", &wide), [Rule::CommentWidth]);
        assert_eq!(rules_broken_by("a.ts", &format!("// https://{}\n", "x".repeat(100))), []);
    }

    #[test]
    fn sentence_that_hides_its_actor_is_refused_anywhere_in_a_comment() {
        assert_eq!(rules_broken_by("a.rs", "//! Nobody reads it.\n"), [Rule::Opening]);
        assert_eq!(rules_broken_by("a.ts", "// It is durable. Whoever asks gets it.\n"), [Rule::Opening]);
        assert_eq!(rules_broken_by("a.rs", "//! The owner answers. Clients wait.\n"), []);
    }
}
