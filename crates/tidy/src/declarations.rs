//! Finds the type declarations of production code in the text of a Rust file.
//!
//! Decides which declarations count. Which names are refused belongs to the rules.

/// A type declared at module level.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Declaration {
    /// The number of the line, from 0.
    pub index: usize,
    pub name: String,
}

const KEYWORDS: [&str; 5] = ["struct", "enum", "union", "trait", "type"];

/// Returns whether `path` belongs to a crate's sources and not to its tests.
pub fn is_production(path: &str) -> bool {
    let mut folders: Vec<&str> = path.split('/').collect();
    let Some(file) = folders.pop().and_then(|file| file.strip_suffix(".rs")) else { return false };
    let is_test = ["tests", "test_support"].contains(&file)
        || file.ends_with("_tests")
        || file.ends_with("_properties")
        || folders.contains(&"tests");
    matches!(folders[..], ["crates", _, "src", ..]) && !is_test
}

/// Returns the types that `text` declares at module level, outside `#[cfg(test)]` items.
///
/// Types local to a function, associated types and types inside macros do not count.
pub fn of(text: &str) -> Vec<Declaration> {
    let code = without_comments_and_literals(text);
    let tokens = tokens(&code);
    let mut found = Vec::new();
    // One entry for each open brace: whether it opened a module whose types count.
    let mut is_counted = vec![true];
    let mut item = ItemContext::default();
    let mut at = 0;
    while let Some(&(index, token)) = tokens.get(at) {
        at += 1;
        match token {
            "#" => {
                let end = end_of_attribute(&tokens, at);
                item.is_test |= is_test_attribute(&tokens[at..end]);
                if item.is_test && tokens.get(at).is_some_and(|(_, token)| *token == "!") {
                    return Vec::new();
                }
                at = end;
            }
            "{" => {
                is_counted.push(is_counted.last() == Some(&true) && item.is_module && !item.is_test);
                item = ItemContext::default();
            }
            "}" => {
                is_counted.pop();
                item = ItemContext::default();
            }
            ";" => item = ItemContext::default(),
            "mod" => item.is_module = true,
            _ if KEYWORDS.contains(&token) && is_counted.last() == Some(&true) => {
                let name = tokens.get(at).map(|(_, name)| *name).filter(|name| is_word(name));
                if let Some(name) = name.filter(|_| !item.is_test) {
                    found.push(Declaration { index, name: name.to_owned() });
                }
            }
            _ => {}
        }
    }
    found
}

/// The attributes and keywords seen so far of the item at the current token.
#[derive(Default)]
struct ItemContext {
    is_test: bool,
    is_module: bool,
}

fn is_word(token: &str) -> bool {
    token.starts_with(|c: char| c.is_alphabetic() || c == '_')
}

fn is_test_attribute(tokens: &[(usize, &str)]) -> bool {
    let text: String = tokens.iter().map(|(_, token)| *token).collect();
    ["cfg(test)", "cfg(all(test", "cfg(any(test"].iter().any(|start| text.contains(start))
}

/// Returns the position after the `]` of the attribute whose first token is at `start`.
fn end_of_attribute(tokens: &[(usize, &str)], start: usize) -> usize {
    let mut depth = 0;
    for (at, (_, token)) in tokens.iter().enumerate().skip(start) {
        match *token {
            "[" => depth += 1,
            "]" if depth == 1 => return at + 1,
            "]" => depth -= 1,
            "!" => {}
            // Not an attribute, such as `#` in a macro.
            _ if depth == 0 => return start,
            _ => {}
        }
    }
    tokens.len()
}

/// Splits code into words and single characters, each with the number of its line, from 0.
fn tokens(code: &str) -> Vec<(usize, &str)> {
    let is_part_of_word = |c: char| c.is_alphanumeric() || c == '_';
    let mut tokens = Vec::new();
    for (index, line) in code.lines().enumerate() {
        let mut rest = line.trim_start();
        while let Some(first) = rest.chars().next() {
            let word = rest.find(|c| !is_part_of_word(c)).unwrap_or(rest.len());
            let (token, later) = rest.split_at(if word == 0 { first.len_utf8() } else { word });
            tokens.push((index, token));
            rest = later.trim_start();
        }
    }
    tokens
}

/// Replaces comments, strings and characters by nothing, and keeps the line breaks.
fn without_comments_and_literals(text: &str) -> String {
    let mut code = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let length = if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if rest.starts_with("/*") {
            rest.find("*/").map_or(rest.len(), |end| end + 2)
        } else if first == '"' {
            end_of_string(rest)
        } else if let Some(fence) = raw_string_fence(rest).filter(|_| !ends_with_word(&code)) {
            let close = format!("\"{}", "#".repeat(fence));
            let open = fence + 2;
            rest[open..].find(&close).map_or(rest.len(), |end| open + end + close.len())
        } else if first == '\'' {
            length_of_character(rest)
        } else {
            code.push(first);
            rest = &rest[first.len_utf8()..];
            continue;
        };
        let (skipped, later) = rest.split_at(length);
        code.extend(skipped.chars().filter(|c| *c == '\n'));
        code.push(' ');
        rest = later;
    }
    code
}

fn ends_with_word(code: &str) -> bool {
    code.ends_with(|c: char| c.is_alphanumeric() || c == '_') && !code.ends_with('b')
}

/// Returns the length of the string that `text` starts with, quotes included.
fn end_of_string(text: &str) -> usize {
    let mut is_escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        if c == '"' && !is_escaped {
            return at + 1;
        }
        is_escaped = c == '\\' && !is_escaped;
    }
    text.len()
}

/// Returns the number of `#` before the quote of a raw string, or `None` if `text` starts with
/// anything else.
fn raw_string_fence(text: &str) -> Option<usize> {
    let after = text.strip_prefix('r')?;
    let fence = after.len() - after.trim_start_matches('#').len();
    after[fence..].starts_with('"').then_some(fence)
}

/// Returns the length of the character literal that `text` starts with. A lifetime has none, so
/// only its quote is skipped.
fn length_of_character(text: &str) -> usize {
    let mut chars = text.char_indices().skip(1);
    match chars.next() {
        Some((_, '\\')) => text[3..].find('\'').map_or(text.len(), |end| 3 + end + 1),
        _ => chars.next().filter(|(_, c)| *c == '\'').map_or(1, |(at, _)| at + 1),
    }
}

#[cfg(test)]
mod tests {
    use super::{is_production, of};

    fn names(text: &str) -> Vec<String> {
        of(text).into_iter().map(|declaration| declaration.name).collect()
    }

    #[test]
    fn declarations_at_module_level_are_found_with_their_lines() {
        let text = "//! Header.\npub(crate) struct A<T>(T);\nenum B {}\nmod inner {\n    pub trait C {}\n}\n\
                    type D = u8;\n";
        assert_eq!(names(text), ["A", "B", "C", "D"]);
        assert_eq!(of(text).iter().map(|found| found.index).collect::<Vec<_>>(), [1, 2, 4, 6]);
    }

    #[test]
    fn local_associated_and_test_types_do_not_count() {
        for text in [
            "fn f() { struct Local; }",
            "impl A for B { type Item = u8; }",
            "#[cfg(test)]\nmod tests { struct Fake; }",
            "#[cfg(all(test, unix))] pub struct Fake;",
            "#![cfg(test)] struct Fake;",
            "macro_rules! id { ($name:ident) => { pub struct $name; } }",
        ] {
            assert_eq!(names(text), [""; 0], "{text}");
        }
        assert_eq!(names("trait Port { type Item; }"), ["Port"]);
        assert_eq!(names("#[cfg(test)]\nmod tests;\n#[cfg(unix)]\nstruct Real;"), ["Real"]);
    }

    #[test]
    fn comments_and_literals_hide_no_declaration_and_declare_none() {
        let hidden = "// struct A;\n/* enum B {} */\nconst C: &str = \"struct D; {\";\n\
                      const E: &str = r#\"\" enum F {\"#;\nconst G: [char; 3] = ['{', '\\'', '\"'];\n";
        assert_eq!(names(hidden), [""; 0]);
        assert_eq!(names(&format!("{hidden}struct Real<'a>(&'a str);\n")), ["Real"]);
    }

    #[test]
    fn only_sources_of_crates_are_production() {
        assert!(is_production("crates/core/src/ports/store.rs"));
        for path in [
            "crates/core/tests/store.rs",
            "crates/core/src/tests.rs",
            "crates/core/src/tests/store.rs",
            "crates/core/src/inbox_tests.rs",
            "crates/core/src/inbox_properties.rs",
            "crates/core/src/list.txt",
            "fuzz/src/lib.rs",
        ] {
            assert!(!is_production(path), "{path}");
        }
    }
}
