//! Rules about names: types and tests.

use crate::{Rule, Violations};

/// Type names that are metaphors, or that had several meanings in this workspace.
const BANNED_TYPES: &[&str] = &[
    "Archivist",
    "Books",
    "Boundaries",
    "Came",
    "Cell",
    "Court",
    "Crowd",
    "Depot",
    "Desk",
    "Errands",
    "Gate",
    "Heart",
    "Held",
    "Hints",
    "Hole",
    "Household",
    "Keeper",
    "Known",
    "Letters",
    "Lodger",
    "Look",
    "Neighbours",
    "News",
    "Parting",
    "Place",
    "Room",
    "Rooms",
    "Seat",
    "Shelf",
    "Standing",
    "Told",
    "Town",
    "Vault",
    "Way",
];

/// Words that a test name must not contain: they hide the actor.
const BANNED_TEST_WORDS: [&str; 12] = [
    "whoever",
    "nobody",
    "somebody",
    "everybody",
    "anybody",
    "nonsense",
    "told",
    "hears",
    "woken",
    "asleep",
    "neighbour",
    "strangers",
];

const DECLARATIONS: [&str; 4] = ["struct ", "enum ", "trait ", "type "];

pub fn types(text: &str, found: &mut Violations<'_>) {
    for (index, line) in text.lines().enumerate() {
        let code = line.trim_start();
        let code =
            code.strip_prefix("pub").map_or(code, |rest| rest.trim_start_matches(|c| c != ' ').trim_start());
        for declaration in DECLARATIONS {
            let Some(rest) = code.strip_prefix(declaration) else { continue };
            let name = rest.split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default();
            if BANNED_TYPES.contains(&name) {
                found.add(index, Rule::TypeName, line);
            }
        }
    }
}

fn has_banned_word(name: &str) -> bool {
    name.to_lowercase().split(|c: char| !c.is_alphanumeric()).any(|word| BANNED_TEST_WORDS.contains(&word))
}

pub fn rust_tests(text: &str, found: &mut Violations<'_>) {
    let mut is_test = false;
    for (index, line) in text.lines().enumerate() {
        let code = line.trim_start();
        if code.starts_with("#[test]") || (code.starts_with("#[") && code.contains("::test")) {
            is_test = true;
        } else if let Some((_, rest)) = code.split_once("fn ").filter(|_| is_test) {
            is_test = false;
            let name = rest.split('(').next().unwrap_or_default();
            if has_banned_word(name) {
                found.add(index, Rule::TestName, name);
            }
        }
    }
}

pub fn script_tests(text: &str, found: &mut Violations<'_>) {
    for (index, line) in text.lines().enumerate() {
        let code = line.trim_start();
        let Some(rest) = ["test(", "it("].iter().find_map(|call| code.strip_prefix(call)) else { continue };
        let quote = rest.chars().next().filter(|c| matches!(c, '"' | '\'' | '`'));
        let title = quote.and_then(|quote| rest[1..].split(quote).next()).unwrap_or_default();
        if has_banned_word(title) {
            found.add(index, Rule::TestName, title);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::{Rule, rules_broken_by};

    #[test]
    fn metaphor_as_type_name_is_refused_in_every_kind_of_declaration() {
        for line in ["struct Desk;", "pub enum Way {", "pub(crate) trait Keeper {", "    type Place = u8;"] {
            assert_eq!(
                rules_broken_by("a.rs", &format!("//! Header.\n{line}\n")),
                [Rule::TypeName],
                "{line}"
            );
        }
        assert_eq!(rules_broken_by("a.rs", "//! Header.\nstruct PlaceholderDesk;\n"), []);
    }

    #[test]
    fn test_name_without_an_actor_is_refused() {
        let test = |name: &str| format!("//! Header.\n#[tokio::test]\nasync fn {name}() {{}}\n");
        assert_eq!(rules_broken_by("a.rs", &test("nobody_is_disturbed")), [Rule::TestName]);
        assert_eq!(rules_broken_by("a.rs", &test("resend_returns_first_seq")), []);
        assert_eq!(
            rules_broken_by("a.mjs", "test(\"nobody is disturbed\", async () => {\n"),
            [Rule::TestName]
        );
    }
}
