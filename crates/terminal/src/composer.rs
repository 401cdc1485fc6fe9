//! A text input of one or several lines, with a cursor.

use unicode_segmentation::UnicodeSegmentation;

use crate::text;

/// Upper bound on the text, in bytes. The composer drops further characters, typed or pasted.
const MOST_BYTES: usize = 256 * 1024;

/// A text input and its cursor.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Composer {
    text: String,
    /// Byte offset, always on a grapheme boundary.
    cursor: usize,
}

impl Composer {
    /// An input that holds `text`, with the cursor at its end.
    pub fn with(text: &str) -> Composer {
        Composer { text: text.to_owned(), cursor: text.len() }
    }

    pub fn text(&self) -> &str {
        &self.text
    }

    pub fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    /// Returns the text and clears the input.
    pub fn take(&mut self) -> String {
        self.cursor = 0;
        std::mem::take(&mut self.text)
    }

    pub fn insert(&mut self, c: char) {
        if self.text.len() + c.len_utf8() <= MOST_BYTES {
            self.text.insert(self.cursor, c);
            self.cursor += c.len_utf8();
        }
    }

    /// Inserts pasted text. Keeps line breaks and tabs, and drops all other control characters.
    pub fn paste(&mut self, pasted: &str) {
        let pasted = pasted.replace("\r\n", "\n").replace('\r', "\n");
        for c in pasted.chars().filter(|c| !c.is_control() || matches!(c, '\n' | '\t')) {
            self.insert(c);
        }
    }

    /// Byte offset of the grapheme before the cursor.
    fn before(&self) -> Option<usize> {
        self.text[..self.cursor].grapheme_indices(true).next_back().map(|(at, _)| at)
    }

    /// Byte offset behind the grapheme at the cursor.
    fn after(&self) -> Option<usize> {
        self.text[self.cursor..].graphemes(true).next().map(|next| self.cursor + next.len())
    }

    pub fn left(&mut self) {
        self.cursor = self.before().unwrap_or(0);
    }

    pub fn right(&mut self) {
        self.cursor = self.after().unwrap_or(self.text.len());
    }

    pub fn backspace(&mut self) {
        if let Some(start) = self.before() {
            self.text.replace_range(start..self.cursor, "");
            self.cursor = start;
        }
    }

    pub fn delete(&mut self) {
        if let Some(end) = self.after() {
            self.text.replace_range(self.cursor..end, "");
        }
    }

    /// Deletes the word before the cursor and the spaces behind it.
    pub fn delete_word(&mut self) {
        let before = &self.text[..self.cursor];
        let kept = before
            .trim_end()
            .rfind(char::is_whitespace)
            .map_or(0, |at| at + before[at..].chars().next().map_or(0, char::len_utf8));
        self.text.replace_range(kept..self.cursor, "");
        self.cursor = kept;
    }

    fn line_start(&self) -> usize {
        self.text[..self.cursor].rfind('\n').map_or(0, |at| at + 1)
    }

    fn line_end(&self) -> usize {
        self.text[self.cursor..].find('\n').map_or(self.text.len(), |at| self.cursor + at)
    }

    pub fn home(&mut self) {
        self.cursor = self.line_start();
    }

    pub fn end(&mut self) {
        self.cursor = self.line_end();
    }

    /// Moves the cursor one line up and keeps its column. Returns `false` on the first line.
    pub fn up(&mut self) -> bool {
        let start = self.line_start();
        if start == 0 {
            return false;
        }
        let column = self.text[start..self.cursor].graphemes(true).count();
        self.cursor = start - 1;
        self.move_to_column(column);
        true
    }

    /// Moves the cursor one line down and keeps its column. Returns `false` on the last line.
    pub fn down(&mut self) -> bool {
        let end = self.line_end();
        if end == self.text.len() {
            return false;
        }
        let column = self.text[self.line_start()..self.cursor].graphemes(true).count();
        self.cursor = end + 1;
        self.move_to_column(column);
        true
    }

    fn move_to_column(&mut self, column: usize) {
        let (start, end) = (self.line_start(), self.line_end());
        let line = &self.text[start..end];
        self.cursor = line.grapheme_indices(true).nth(column).map_or(end, |(at, _)| start + at);
    }

    /// Wraps the text at `width` columns (at least 2). Returns the rows and the cursor's row and
    /// column.
    pub fn layout(&self, width: usize) -> (Vec<String>, (usize, usize)) {
        let width = width.max(2);
        let mut rows = Vec::new();
        let mut cursor = (0, 0);
        let mut at = 0;
        for line in self.text.split('\n') {
            let first_row = rows.len();
            let mut row = String::new();
            let mut used = 0;
            let mut offset = at;
            for grapheme in line.graphemes(true) {
                let shown = text::safe(grapheme);
                let wide = text::width(&shown);
                if used + wide > width {
                    rows.push(std::mem::take(&mut row));
                    used = 0;
                }
                if offset == self.cursor {
                    cursor = (rows.len(), used);
                }
                row.push_str(&shown);
                used += wide;
                offset += grapheme.len();
            }
            if offset == self.cursor {
                // The cursor behind a full row goes to the start of the next one.
                if used >= width {
                    rows.push(std::mem::take(&mut row));
                    used = 0;
                }
                cursor = (rows.len(), used);
            }
            if !row.is_empty() || rows.len() == first_row || cursor.0 == rows.len() {
                rows.push(row);
            }
            at = offset + 1;
        }
        (rows, cursor)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn backspace_deletes_a_whole_grapheme() {
        let mut composer = Composer::with("a👩‍👩‍👧é");
        composer.backspace();
        composer.backspace();
        assert_eq!(composer.text(), "a");
        composer.paste("b\r\nc\u{1b}[31m");
        assert_eq!(composer.text(), "ab\nc[31m");
    }

    #[test]
    fn cursor_keeps_its_column_between_lines() {
        let mut composer = Composer::with("first\nno\nthird");
        assert!(composer.up() && composer.up());
        composer.insert('!');
        assert_eq!(composer.text(), "fi!rst\nno\nthird");
        assert!(!composer.up());
        assert!(composer.down() && composer.down() && !composer.down());
    }

    #[test]
    fn ctrl_w_deletes_the_word_before_the_cursor() {
        let mut composer = Composer::with("one two  ");
        composer.delete_word();
        assert_eq!(composer.text(), "one ");
        composer.delete_word();
        assert_eq!(composer.text(), "");
        composer.delete_word();
    }

    #[test]
    fn long_lines_wrap_and_the_cursor_follows() {
        assert_eq!(Composer::with("abcdef").layout(4), (vec!["abcd".into(), "ef".into()], (1, 2)));
        assert_eq!(Composer::with("abcd").layout(4), (vec!["abcd".into(), String::new()], (1, 0)));
        assert_eq!(Composer::with("").layout(4), (vec![String::new()], (0, 0)));
        assert_eq!(Composer::with("a\n").layout(4), (vec!["a".into(), String::new()], (1, 0)));
        assert_eq!(Composer::with("日本語").layout(4).1, (1, 2));
    }

    proptest! {
        #[test]
        fn any_key_sequence_keeps_the_composer_valid(keys in prop::collection::vec(0u8..12, 0..60), width in 2usize..10) {
            let mut composer = Composer::default();
            for key in keys {
                match key {
                    0 => composer.left(),
                    1 => composer.right(),
                    2 => composer.backspace(),
                    3 => composer.delete(),
                    4 => composer.delete_word(),
                    5 => composer.home(),
                    6 => composer.end(),
                    7 => drop(composer.up()),
                    8 => drop(composer.down()),
                    9 => composer.insert('日'),
                    10 => composer.insert('\n'),
                    _ => composer.paste("e\u{301} x"),
                }
                prop_assert!(composer.text.is_char_boundary(composer.cursor));
                let (rows, (row, column)) = composer.layout(width);
                prop_assert!(row < rows.len() && column < width.max(2), "{rows:?} {row} {column}");
            }
        }
    }
}
