//! User ids as names that people read: look-alike detection ([`Skeleton`]), reserved names, and the
//! checks for new names. The [`ids`](crate::ids) module defines which ids are valid.

use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt::Write;

use bluetick_types::ids::is_format;
use sha2::{Digest, Sha256};
use thiserror::Error;
use unicode_normalization::UnicodeNormalization;
use unicode_script::{Script, UnicodeScript};
use unicode_security::confusable_detection::skeleton;

use crate::UserId;

/// The revision of [`Skeleton::all`], from 0 to 15. Increment it with every change that alters the
/// result for any name. Otherwise existing stores keep an index of old skeletons and accept
/// look-alike names.
const SKELETON_REVISION: u8 = 2;

/// The version of skeletons: the Unicode version of the confusables data, with
/// [`SKELETON_REVISION`] in the upper four bits of the last byte. Skeletons of two versions may
/// differ, so an index of skeletons is valid for one version only.
pub const SKELETON_VERSION: [u8; 3] = {
    let (major, minor, patch) = unicode_security::UNICODE_VERSION;
    [major as u8, minor as u8, (SKELETON_REVISION << 4) | patch as u8]
};

/// A visible form of a name. A skeleton ignores case, compatibility forms, confusable letters of
/// other scripts (UTS 39), and invisible characters. Two names look alike when any skeleton of one
/// equals any skeleton of the other ([`Skeleton::all`]).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Skeleton(String);

impl Skeleton {
    /// Returns all distinct skeletons of a name: one folds the case first, one maps confusables
    /// first. A store indexes and compares all of them.
    pub fn all(name: &str) -> Vec<Skeleton> {
        let (folded, drawn) = (Skeleton::of(name), Skeleton::as_drawn(name));
        if folded == drawn { vec![folded] } else { vec![folded, drawn] }
    }

    /// Returns the skeleton that folds case first, then maps confusables.
    pub fn of(name: &str) -> Skeleton {
        // A confusable may map to an upper-case letter ("0" to "O"), which a second round folds.
        Skeleton(reduced(&reduced(name)))
    }

    /// Returns the skeleton that maps confusables first, then folds case. It differs from
    /// [`Skeleton::of`] where a capital looks like a letter of another name: `aIice` with a capital
    /// i looks like `alice`, and a Cyrillic `В` looks like a `B`.
    fn as_drawn(name: &str) -> Skeleton {
        let normal: String = name.nfkc().filter(|letter| !is_invisible(*letter)).collect();
        let drawn: String = skeleton(&normal).collect();
        Skeleton::of(&drawn)
    }

    /// Returns the plain spellings of names with this skeleton: the skeleton itself, and the
    /// skeleton with "m" in place of "rn". The skeleton of "m" is "rn".
    pub fn plain_spellings(&self) -> [String; 2] {
        [self.0.clone(), self.0.replace("rn", "m")]
    }

    /// Returns an index key of fixed length: 32 hexadecimal digits. A skeleton can be many times
    /// longer than its name.
    pub fn key(&self) -> String {
        let digest = Sha256::digest(self.0.as_bytes());
        digest[..16].iter().fold(String::with_capacity(32), |mut key, byte| {
            let _infallible = write!(key, "{byte:02x}");
            key
        })
    }
}

fn reduced(name: &str) -> String {
    // Convert to upper case first: this folds letters that lower case alone keeps apart, such as
    // "ß" and "ss".
    let folded = name.nfkc().flat_map(char::to_uppercase).flat_map(char::to_lowercase);
    let visible: String = folded.filter(|letter| !is_invisible(*letter)).nfkc().collect();
    without_hidden_dots(skeleton(&visible))
}

/// Removes each combining dot above (U+0307) that follows an `i` or `j`, because it overlaps the
/// letter's own dot.
fn without_hidden_dots(letters: impl Iterator<Item = char>) -> String {
    letters.fold(String::new(), |mut text, letter| {
        if letter != '\u{307}' || !text.ends_with(['i', 'j']) {
            text.push(letter);
        }
        text
    })
}

/// Returns whether the character shows nothing: controls, format characters, other
/// default-ignorable code points, and blanks of Braille, musical notation and Tifinagh.
fn is_invisible(letter: char) -> bool {
    letter.is_control()
        || is_format(letter)
        || matches!(letter,
            '\u{34f}' | '\u{115f}'..='\u{1160}' | '\u{17b4}'..='\u{17b5}' | '\u{180b}'..='\u{180f}'
            | '\u{2065}' | '\u{2800}' | '\u{2d7f}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{ffa0}'
            | '\u{fff0}'..='\u{fff8}' | '\u{1d159}' | '\u{e0000}'..='\u{e0fff}')
}

/// The reason why sign-up rejects a name.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum InvalidName {
    #[error("write it in its normal form (NFKC): {normal}")]
    NotNormal { normal: String },
    #[error("it needs at least one visible character")]
    Invisible,
    #[error("U+{code_point:04X} is private, not assigned, or shows nothing")]
    Undrawable { code_point: u32 },
}

/// Checks that a person can read the id and type it: the id is in NFKC form, and every character is
/// assigned and visible. The check neither changes nor restricts case.
pub fn check_new_name(name: &UserId) -> Result<(), InvalidName> {
    let normal: String = name.as_str().nfkc().collect();
    if normal != name.as_str() {
        return Err(InvalidName::NotNormal { normal });
    }
    if name.as_str().chars().all(is_invisible) {
        return Err(InvalidName::Invisible);
    }
    // Unicode assigns no script to private, unassigned and noncharacter code points.
    let is_undrawable = |letter: &char| is_invisible(*letter) || letter.script() == Script::Unknown;
    match name.as_str().chars().find(is_undrawable) {
        Some(letter) => Err(InvalidName::Undrawable { code_point: u32::from(letter) }),
        None => Ok(()),
    }
}

/// Names that sign-up refuses, compared by their skeletons. The operator can still assign them to
/// users.
#[derive(Clone, Debug)]
pub struct ReservedNames(HashSet<Skeleton>);

impl ReservedNames {
    /// Built-in reserved names. A reader could mistake them for the server or its operator.
    pub const ALWAYS: [&'static str; 6] = ["system", "void", "admin", "bluetick", "support", "root"];

    pub fn with<'a>(more: impl IntoIterator<Item = &'a str>) -> ReservedNames {
        let names = ReservedNames::ALWAYS.into_iter().chain(more);
        // Also reserve the upper-case form as drawn: there an `I` looks like an `l`.
        let looks = |name: &str| [Skeleton::of(name), Skeleton::as_drawn(&name.to_uppercase())];
        ReservedNames(names.flat_map(looks).collect())
    }

    pub fn contains(&self, name: &UserId) -> bool {
        Skeleton::all(name.as_str()).iter().any(|skeleton| self.0.contains(skeleton))
    }
}

impl Default for ReservedNames {
    fn default() -> Self {
        ReservedNames::with([])
    }
}

/// Removes the characters that reorder the surrounding text: bidi embeddings, overrides and
/// isolates. Clients show names and titles inside other text.
pub fn without_bidi_controls(text: &str) -> Cow<'_, str> {
    let reorders = |letter: char| matches!(letter, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    match text.contains(reorders) {
        true => Cow::Owned(text.replace(reorders, "")),
        false => Cow::Borrowed(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn alike(one: &str, other: &str) -> bool {
        Skeleton::of(one) == Skeleton::of(other)
    }

    #[test]
    fn names_that_share_any_skeleton_look_alike_in_both_orders() {
        let look_alike = |one: &str, other: &str| {
            let skeletons = Skeleton::all(other);
            Skeleton::all(one).iter().any(|skeleton| skeletons.contains(skeleton))
        };
        for (one, other) in [
            ("Ida", "lda"),
            ("BILL", "\u{412}ILL"),
            ("\u{412}\u{43e}\u{432}\u{430}", "\u{432}\u{43e}\u{432}\u{430}"), // Вова, вова
            ("\u{39d}\u{3b9}\u{3ba}", "\u{3bd}\u{3b9}\u{3ba}"),               // Greek capital and small nu
            ("Bob", "\u{412}ob"),
            ("aIice", "Alice"),
        ] {
            assert!(look_alike(one, other) && look_alike(other, one), "{one} and {other}");
        }
        assert!(!look_alike("ian", "lan") && !look_alike("ida", "lda"));
    }

    #[test]
    fn new_names_with_private_unassigned_or_blank_characters_are_refused() {
        for letter in ['\u{e000}', '\u{ffff}', '\u{378}', '\u{1d159}', '\u{2d7f}', '\u{34f}'] {
            let checked = check_new_name(&format!("alice{letter}").parse().unwrap());
            assert_eq!(checked, Err(InvalidName::Undrawable { code_point: u32::from(letter) }));
        }
        for good in ["anna-maria_2.0+x@example.org", "日本語", "محمد", "😀", "नमस्ते"] {
            assert_eq!(check_new_name(&good.parse().unwrap()), Ok(()), "{good}");
        }
    }

    #[test]
    fn capital_look_alikes_share_a_skeleton_with_the_name() {
        for (name, looks_like) in [
            ("aIice", "alice"),
            ("\u{412}ob", "bob"),
            ("\u{41d}ans", "hans"),
            ("\u{422}\u{41e}\u{41c}\u{41c}\u{423}", "tommy"),
            ("\u{39a}arl", "karl"),
            ("alice", "alice"),
        ] {
            assert_eq!(Skeleton::as_drawn(name), Skeleton::of(looks_like), "{name}");
        }
        assert_ne!(Skeleton::as_drawn("bob"), Skeleton::of("rob"));
        for name in ["BIuetick", "R\u{41e}\u{41e}\u{422}", "\u{410}D\u{41c}\u{406}N"] {
            assert!(ReservedNames::default().contains(&name.parse().unwrap()), "{name}");
        }
    }

    #[test]
    fn names_that_look_alike_have_equal_skeletons() {
        for other in [
            "Alice",
            "ALICE",
            "\u{430}lice",   // Cyrillic a
            "alic\u{435}",   // Cyrillic e
            "al\u{200b}ice", // zero-width space
            "al\u{34f}ice",  // combining grapheme joiner
            "\u{202e}alice", // right-to-left override
            "\u{ff41}lice",  // full-width a
            "a\u{217c}ice",  // Roman numeral fifty
            "a1ice",
            "a|ice",
            "ali\u{307}ce", // dot above on the dot of the i
            "ali\u{307}\u{307}ce",
            "al\u{131}\u{307}ce", // dotless i with a dot above
            "al\u{456}\u{307}ce", // Cyrillic i with a dot above
            "AL\u{130}CE",        // capital i with a dot above
        ] {
            assert!(alike("alice", other), "{other:?}");
        }
        for (one, other) in
            [("mike", "rnike"), ("bob0", "bobO"), ("straße", "STRASSE"), ("ο", "o"), ("jim", "j\u{307}im")]
        {
            assert!(alike(one, other), "{one} and {other}");
        }
    }

    #[test]
    fn names_that_differ_visibly_have_different_skeletons() {
        let names = [
            "alice",
            "alíce",
            "alicia",
            "\u{17c}eno",
            "zeno",
            "bob",
            "u1",
            "u2",
            "user10",
            "user11",
            "日本",
            "日木",
            "анна",
            "auth0|5f",
        ];
        for (at, one) in names.iter().enumerate() {
            for other in &names[at + 1..] {
                assert!(!alike(one, other), "{one} and {other}");
            }
        }
    }

    #[test]
    fn plain_spelling_of_a_name_folds_case_and_confusables() {
        for (name, plain) in [("Alice", "alice"), ("b0b", "bob"), ("Mike", "mike"), ("\u{430}nn", "ann")] {
            assert!(Skeleton::of(name).plain_spellings().contains(&plain.to_owned()), "{name}");
        }
    }

    #[test]
    fn version_of_skeletons_differs_from_the_first_revision() {
        let (major, minor, patch) = unicode_security::UNICODE_VERSION;
        assert_ne!(SKELETON_VERSION.map(u64::from), [major, minor, patch]);
    }

    #[test]
    fn skeleton_key_is_stable() {
        assert_eq!(Skeleton::of("alice").key(), Skeleton::of("Alice").key());
        assert_eq!(Skeleton::of("alice").key(), "2bd806c97f0e00af1a1fc3328fa763a9");
    }

    #[test]
    fn reserved_names_match_every_spelling_and_can_be_extended() {
        let names = ReservedNames::with(["Staff"]);
        for name in ["system", "System", "r00t", "аdmin", "staff", "STAFF", "blueтick"] {
            assert_eq!(names.contains(&name.parse().unwrap()), name != "blueтick", "{name}");
        }
        assert!(!names.contains(&"systems".parse().unwrap()));
        assert!(!ReservedNames::default().contains(&"staff".parse().unwrap()));
    }

    #[test]
    fn new_name_must_be_normalized_and_visible() {
        let check = |name: &str| check_new_name(&name.parse().unwrap());
        for good in ["alice", "Alice", "日本", "André", "alice@example.org"] {
            assert_eq!(check(good), Ok(()), "{good}");
        }
        let normal = "alice".to_owned();
        assert_eq!(check("\u{ff41}lice"), Err(InvalidName::NotNormal { normal }));
        let normal = "André".to_owned();
        assert_eq!(check("Andre\u{301}"), Err(InvalidName::NotNormal { normal }));
        assert_eq!(check("\u{1160}"), Err(InvalidName::Invisible));
    }

    #[test]
    fn bidi_controls_are_removed_and_other_text_stays() {
        assert_eq!(without_bidi_controls("a\u{202e}b\u{2066}c\u{2069}"), "abc");
        assert!(matches!(without_bidi_controls("שלום 👨\u{200d}👩 é"), Cow::Borrowed(_)));
    }
}
