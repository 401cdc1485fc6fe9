//! Makes user text safe for a terminal: it cannot contain control sequences, and it is cut by
//! display width, not by bytes.

use unicode_segmentation::UnicodeSegmentation;
use unicode_width::UnicodeWidthStr;

/// Replacement for a tab.
const TAB: &str = "    ";

/// Sanitises a multi-line text. Replaces control characters with visible symbols and removes
/// characters that change the text direction.
pub fn safe(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        match c {
            '\r' if rest.peek() == Some(&'\n') => {}
            '\n' | '\r' | '\u{2028}' | '\u{2029}' => shown.push('\n'),
            '\t' => shown.push_str(TAB),
            '\0'..='\u{1f}' => shown.push(picture(c)),
            '\u{7f}' => shown.push('\u{2421}'),
            '\u{80}'..='\u{9f}' => shown.push('\u{fffd}'),
            '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}' => {}
            other => shown.push(other),
        }
    }
    shown
}

/// The Unicode symbol of a control character, such as ␛ for escape.
fn picture(control: char) -> char {
    char::from_u32(0x2400 + u32::from(control)).unwrap_or('\u{fffd}')
}

/// Like [`safe`], joined into one line. Trims each line and drops empty ones.
pub fn safe_line(text: &str) -> String {
    safe(text).split('\n').map(str::trim).filter(|line| !line.is_empty()).collect::<Vec<_>>().join(" ")
}

/// Display width, in columns.
pub fn width(text: &str) -> usize {
    text.width()
}

/// Cuts the text to `most` columns. A cut text ends with the ellipsis if that fits.
pub fn cut(text: &str, most: usize, ellipsis: &str) -> String {
    if width(text) <= most {
        return text.to_owned();
    }
    let mut kept = String::new();
    let room = most.saturating_sub(width(ellipsis));
    for grapheme in text.graphemes(true) {
        if !push_if_fits(&mut kept, grapheme, room) {
            break;
        }
    }
    push_if_fits(&mut kept, ellipsis, most);
    kept
}

/// Appends `more` if the line then takes at most `most` columns. Measures the whole line, because
/// adjacent characters can have a different width together.
fn push_if_fits(line: &mut String, more: &str, most: usize) -> bool {
    let end = line.len();
    line.push_str(more);
    let fits = width(line) <= most;
    if !fits {
        line.truncate(end);
    }
    fits
}

/// Wraps the text at `most` columns: at spaces, or within words that are longer than a line. The
/// text must be sanitised with [`safe`].
pub fn wrap(text: &str, most: usize) -> Vec<String> {
    let most = most.max(1);
    let mut lines = Vec::new();
    for paragraph in text.split('\n') {
        wrap_paragraph(paragraph, most, &mut lines);
    }
    lines
}

fn wrap_paragraph(paragraph: &str, most: usize, lines: &mut Vec<String>) {
    let mut line = String::new();
    for word in words_and_spaces(paragraph) {
        if push_if_fits(&mut line, word, most) {
            continue;
        }
        if word.starts_with(char::is_whitespace) {
            // The line break replaces the space.
            lines.push(std::mem::take(&mut line));
            continue;
        }
        if !line.is_empty() && width(word) <= most {
            lines.push(std::mem::take(&mut line).trim_end().to_owned());
        }
        for grapheme in word.graphemes(true) {
            break_in_word(grapheme, most, &mut line, lines);
        }
    }
    lines.push(line);
}

/// Appends a grapheme to the line, or to a new line. Splits a grapheme that is wider than a line
/// into characters, and replaces a character that is wider than a line.
fn break_in_word(grapheme: &str, most: usize, line: &mut String, lines: &mut Vec<String>) {
    if push_if_fits(line, grapheme, most) {
        return;
    }
    if !line.is_empty() {
        lines.push(std::mem::take(line));
    }
    if push_if_fits(line, grapheme, most) {
        return;
    }
    for character in grapheme.chars() {
        let mut text = character.to_string();
        if width(&text) > most {
            text = char::REPLACEMENT_CHARACTER.to_string();
        }
        if !push_if_fits(line, &text, most) {
            lines.push(std::mem::take(line));
            line.push_str(&text);
        }
    }
}

/// Splits the text into alternating runs of whitespace and non-whitespace.
fn words_and_spaces(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let is_space = rest.chars().next()?.is_whitespace();
        let end = rest.find(|c: char| c.is_whitespace() != is_space).unwrap_or(rest.len());
        let (run, behind) = rest.split_at(end);
        rest = behind;
        Some(run)
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn escape_sequences_are_shown_as_symbols() {
        assert_eq!(safe("\u{1b}[2J\u{1b}]0;title\u{7}"), "␛[2J␛]0;title␇");
        assert_eq!(safe("\u{9b}31m\u{7f}\0"), "\u{fffd}31m␡␀");
        assert_eq!(safe("a\r\nb\rc\u{2028}d\te"), "a\nb\nc\nd    e");
        assert_eq!(safe("user\u{202e}gpj.exe"), "usergpj.exe");
        assert_eq!(safe_line("  two\n\n lines\u{7} "), "two lines␇");
    }

    #[test]
    fn lines_break_at_spaces_and_inside_long_words() {
        assert_eq!(wrap("the quick brown fox", 10), ["the quick", "brown fox"]);
        assert_eq!(wrap("abcdefghij", 4), ["abcd", "efgh", "ij"]);
        assert_eq!(wrap("one\n\ntwo", 10), ["one", "", "two"]);
        assert_eq!(wrap("it is large. Or not", 11), ["it is", "large. Or", "not"]);
        assert_eq!(wrap("", 10), [""]);
    }

    #[test]
    fn width_counts_terminal_columns() {
        assert_eq!(wrap("日本語です", 4), ["日本", "語で", "す"]);
        assert_eq!(cut("日本語です", 5, "…"), "日本…");
        assert_eq!(cut("👩‍👩‍👧 family", 4, "…"), "👩‍👩‍👧 …");
        assert_eq!(cut("abc", 3, "…"), "abc");
        assert_eq!(cut("abc", 0, "…"), "");
    }

    /// A letter two columns wide with a combining mark that adds one column.
    #[test]
    fn grapheme_wider_than_the_line_is_broken_between_its_characters() {
        assert_eq!(wrap("\u{1b132}\u{11937}", 2), ["\u{1b132}", "\u{11937}"]);
        assert_eq!(wrap("\u{1b132}\u{11937}", 3), ["\u{1b132}\u{11937}"]);
        // A single character of three columns.
        assert_eq!(wrap("\u{17d8}", 2), ["\u{fffd}"]);
    }

    proptest! {
        #[test]
        fn wrapped_lines_have_no_control_characters_and_fit_the_width(text in any::<String>(), most in 2usize..40) {
            let shown = safe(&text);
            prop_assert!(!shown.chars().any(|c| c.is_control() && c != '\n'));
            prop_assert!(!safe_line(&text).chars().any(char::is_control));
            for line in wrap(&shown, most) {
                prop_assert!(width(&line) <= most, "{line:?}");
            }
            prop_assert!(width(&cut(&safe_line(&text), most, "…")) <= most);
        }

        #[test]
        fn wrapping_drops_only_spaces(text in "[a-z ]{0,80}", most in 1usize..20) {
            let letters = |text: &str| text.chars().filter(|c| *c != ' ').collect::<String>();
            prop_assert_eq!(letters(&wrap(&text, most).concat()), letters(&text));
        }
    }
}
