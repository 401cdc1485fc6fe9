//! The rule about type names that several places of the workspace declare.

use std::collections::{BTreeMap, BTreeSet};

use crate::{Rule, RuleViolation, declarations};

/// A type name that several crates may declare, because it means the same in each of them.
struct SameMeaning {
    name: &'static str,
    /// The crates that may declare the name. A declaration elsewhere is refused.
    crates: &'static [&'static str],
    #[expect(dead_code, reason = "written for the reader of the list")]
    reason: &'static str,
}

const fn same(name: &'static str, crates: &'static [&'static str], reason: &'static str) -> SameMeaning {
    SameMeaning { name, crates, reason }
}

const SAME_MEANING: &[SameMeaning] = &[
    same(
        "Attempt",
        &["testkit"],
        "a message that a simulated device sent and the server has not acknowledged",
    ),
    same("ClientFrame", &["client", "wire"], "the SDK encodes the frame that the server decodes"),
    same("ConnectionEnd", &["testkit"], "why the connection of a simulated device ended"),
    same("Conversation", &["client", "core"], "the conversation of the glossary; the SDK has a handle to it"),
    same("ConversationBody", &["client", "wire"], "the SDK decodes the body that the server encodes"),
    same(
        "Device",
        &["costs", "sim", "testkit"],
        "a simulated client installation; each suite drives its own",
    ),
    same(
        "Dice",
        &["bench", "conformance", "sim", "testkit"],
        "a random number generator that follows from its seed",
    ),
    same("ErrorBody", &["client", "wire"], "the SDK decodes the body that the server encodes"),
    same("ErrorDetail", &["client", "wire"], "the SDK decodes the body that the server encodes"),
    same("ErrorFrame", &["client", "wire"], "the SDK decodes the frame that the server encodes"),
    same(
        "InboxEntry",
        &["client", "core"],
        "the SDK decodes what the core shows of a conversation in an inbox",
    ),
    same("InboxPage", &["client", "core"], "the SDK decodes what the core returns as a page of the inbox"),
    same("JsonResponse", &["bluetick", "sim"], "the status and the JSON body of an HTTP response"),
    same("LastMessage", &["client", "core"], "the SDK decodes the preview that the core makes"),
    same(
        "LastRun",
        &["archive", "store-embedded"],
        "the last archive run; the embedded store keeps it on disk",
    ),
    same("Member", &["client", "core"], "the SDK decodes a member of a conversation"),
    same("MemberStatus", &["client", "core"], "the SDK decodes the read state of a member"),
    same("Message", &["client", "core"], "the SDK decodes a stored message"),
    same("Notice", &["client", "core"], "the SDK decodes the notice that the core stores"),
    same("Page", &["client", "core"], "the SDK decodes a page of the history"),
    same("PageFrom", &["client", "core"], "where a page of the history starts; the SDK requests it"),
    same("PeopleBody", &["client", "wire"], "the SDK decodes the body that the server encodes"),
    same("Person", &["client", "core"], "the SDK decodes the public part of an account"),
    same("Position", &["client", "core", "wire"], "what a device has of a conversation, up to a seq"),
    same(
        "Profile",
        &["client", "core"],
        "the profile of a user; the SDK decodes the part that the API shows",
    ),
    same(
        "ReadState",
        &["client", "sim", "testkit", "types"],
        "the delivered and the read seq; tests keep their own",
    ),
    same(
        "ReceiptCounts",
        &["client", "core", "testkit"],
        "the receipts of one message; testkit counts for itself",
    ),
    same(
        "ReceiptKind",
        &["testkit", "types"],
        "delivered or read; simulated devices share no code with the server",
    ),
    same("ReceivedMessage", &["sim", "testkit"], "a message as a simulated device received it"),
    same("Remedy", &["client", "wire"], "what a client does about an error"),
    same("SendFrame", &["client", "wire"], "the SDK encodes the frame that the server decodes"),
    same("Statuses", &["client", "core"], "the SDK decodes the read states of all members"),
    same(
        "Tick",
        &["client", "types"],
        "the tick of a message; the SDK adds those of messages that are not sent",
    ),
];

/// Crates whose types do not count, each with the reason.
const EXEMPT_CRATES: &[(&str, &str)] = &[("store-cloud", "the next fleet engine replaces this crate")];

/// Collects the type names of the workspace, to find those with several declarations.
#[derive(Default)]
pub struct TypeNames {
    by_name: BTreeMap<String, Vec<DeclaredAt>>,
}

/// Where a type is declared.
struct DeclaredAt {
    path: String,
    /// The number of the line, from 1.
    line: usize,
}

impl DeclaredAt {
    fn crate_name(&self) -> &str {
        self.path.split('/').nth(1).unwrap_or_default()
    }
}

impl TypeNames {
    /// Adds the types of one file. `path` is relative to the root of the repository. Ignores tests
    /// and everything outside the sources of the crates.
    pub fn read(&mut self, path: &str, text: &str) {
        let is_exempt = |(name, _): &(&str, &str)| path.starts_with(&format!("crates/{name}/"));
        if !declarations::is_production(path) || EXEMPT_CRATES.iter().any(is_exempt) {
            return;
        }
        for found in declarations::of(text) {
            let found_at = DeclaredAt { path: path.to_owned(), line: found.index + 1 };
            self.by_name.entry(found.name).or_default().push(found_at);
        }
    }

    /// Returns the declarations that share their name without an entry in `SAME_MEANING`, and the
    /// entries that allow nothing.
    pub fn violations(&self) -> Vec<RuleViolation> {
        self.violations_except(SAME_MEANING)
    }

    fn violations_except(&self, allowed: &[SameMeaning]) -> Vec<RuleViolation> {
        let mut violations = Vec::new();
        for (name, declared) in self.by_name.iter().filter(|(_, declared)| declared.len() > 1) {
            let allowed_crates =
                allowed.iter().find(|entry| entry.name == name).map_or(&[][..], |entry| entry.crates);
            if declared.iter().all(|found| allowed_crates.contains(&found.crate_name())) {
                continue;
            }
            violations.extend(declared.iter().map(|found| RuleViolation {
                path: found.path.clone(),
                line: found.line,
                rule: Rule::DuplicateTypeName,
                found: name.clone(),
            }));
        }
        violations.extend(allowed.iter().filter(|entry| !self.is_needed(entry)).map(|entry| RuleViolation {
            path: "crates/tidy/src/duplicates.rs".to_owned(),
            line: 1,
            rule: Rule::StaleSameMeaning,
            found: format!("{} in {}", entry.name, entry.crates.join(", ")),
        }));
        violations
    }

    /// Returns whether the name has several declarations, at least one in each crate of the entry.
    fn is_needed(&self, entry: &SameMeaning) -> bool {
        let declared = self.by_name.get(entry.name).map_or(&[][..], Vec::as_slice);
        let declaring: BTreeSet<&str> = declared.iter().map(DeclaredAt::crate_name).collect();
        declared.len() > 1 && entry.crates.iter().all(|name| declaring.contains(name))
    }
}

#[cfg(test)]
mod tests {
    use super::{SameMeaning, TypeNames, same};
    use crate::Rule;

    fn broken(files: &[(&str, &str)], allowed: &[SameMeaning]) -> Vec<(Rule, String)> {
        let mut names = TypeNames::default();
        for (path, text) in files {
            names.read(path, text);
        }
        let violations = names.violations_except(allowed);
        violations.into_iter().map(|violation| (violation.rule, violation.to_string())).collect()
    }

    const CHAT_IN_CORE: (&str, &str) = ("crates/core/src/chat.rs", "//! Header.\npub struct Chat;\n");
    const CHAT_IN_TERMINAL: (&str, &str) = ("crates/terminal/src/model.rs", "enum Chat {}\n");

    #[test]
    fn type_name_with_two_declarations_is_refused_at_both() {
        assert_eq!(
            broken(&[CHAT_IN_CORE, CHAT_IN_TERMINAL], &[]),
            [
                (Rule::DuplicateTypeName, "crates/core/src/chat.rs:2: Chat".to_owned()),
                (Rule::DuplicateTypeName, "crates/terminal/src/model.rs:1: Chat".to_owned()),
            ]
        );
        let two_modules = "mod a { struct Chat; }\nmod b { struct Chat; }\n";
        assert_eq!(broken(&[("crates/core/src/lib.rs", two_modules)], &[]).len(), 2);
    }

    #[test]
    fn type_name_with_one_declaration_in_production_code_is_allowed() {
        let elsewhere = [
            CHAT_IN_CORE,
            ("crates/core/tests/chat.rs", "struct Chat;\n"),
            ("crates/core/src/chat/tests.rs", "struct Chat;\n"),
            ("crates/server/src/lib.rs", "#[cfg(test)]\nmod tests {\n    struct Chat;\n}\n"),
            ("crates/server/src/local.rs", "fn f() {\n    struct Chat;\n}\n"),
            ("crates/store-cloud/src/lib.rs", "struct Chat;\n"),
        ];
        assert_eq!(broken(&elsewhere, &[]), []);
    }

    #[test]
    fn same_meaning_allows_a_name_in_its_crates_only() {
        let entry = || [same("Chat", &["core", "terminal"], "a test")];
        assert_eq!(broken(&[CHAT_IN_CORE, CHAT_IN_TERMINAL], &entry()), []);
        let third = ("crates/bench/src/seed.rs", "struct Chat;\n");
        assert_eq!(broken(&[CHAT_IN_CORE, CHAT_IN_TERMINAL, third], &entry()).len(), 3);
    }

    #[test]
    fn entry_without_a_duplicate_is_refused() {
        let stale = "crates/tidy/src/duplicates.rs:1: Chat in core, terminal";
        let entry = || [same("Chat", &["core", "terminal"], "a test")];
        assert_eq!(broken(&[CHAT_IN_CORE], &entry()), [(Rule::StaleSameMeaning, stale.to_owned())]);
        assert_eq!(broken(&[], &entry()), [(Rule::StaleSameMeaning, stale.to_owned())]);
    }
}
