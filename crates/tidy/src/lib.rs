//! Rules for wording and layout that the compiler and the linter do not check.
//!
//! Most rules read the text of one file and return its violations. The rule about duplicate type
//! names reads the sources of all crates. The test `tests/repository.rs` applies all rules to all
//! files that git tracks. Rules about behaviour belong to the tests of the crates.

mod comments;
mod declarations;
mod duplicates;
mod layout;
mod names;
mod words;

pub use duplicates::TypeNames;

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

/// A line that breaks a rule.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RuleViolation {
    /// The path of the file, relative to the root of the repository.
    pub path: String,
    /// The number of the line, from 1. A rule about a whole file names line 1.
    pub line: usize,
    pub rule: Rule,
    /// The text that breaks the rule.
    pub found: String,
}

impl fmt::Display for RuleViolation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let RuleViolation { path, line, found, .. } = self;
        write!(f, "{path}:{line}: {found}")
    }
}

/// A rule of this repository.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rule {
    FileLength,
    CommentWidth,
    MarkdownWidth,
    ModuleHeader,
    Opening,
    Unfinished,
    TypeName,
    DuplicateTypeName,
    StaleSameMeaning,
    LogMessage,
    TestName,
}

impl Rule {
    /// Returns what the rule requires and how to meet it.
    pub fn explanation(self) -> &'static str {
        match self {
            Rule::FileLength => {
                "A source file has at most 600 lines. Split it: one noun with its state, or one verb, per file."
            }
            Rule::CommentWidth => "A comment is at most 100 columns wide. Wrap it.",
            Rule::MarkdownWidth => {
                "Markdown text is at most 100 columns wide. Wrap it. Tables, links, headings and code are exempt."
            }
            Rule::ModuleHeader => {
                "A Rust file starts with `//!`: what the module is responsible for, and what belongs elsewhere."
            }
            Rule::Opening => {
                "A sentence names its actor. Replace this opening with the component that acts: the server, the client."
            }
            Rule::Unfinished => "Finish the work or file an issue. The repository holds no reminders.",
            Rule::TypeName => {
                "This name is a metaphor or has several meanings. Use the word of the field: docs/glossary.md."
            }
            Rule::DuplicateTypeName => {
                "A type name has one meaning in the workspace. Rename the less known type, so that its name says what it \
                 holds. If both types mean the same, name the crates and the reason in `SAME_MEANING` of \
                 crates/tidy/src/duplicates.rs."
            }
            Rule::StaleSameMeaning => {
                "This entry of `SAME_MEANING` names a type or a crate without such a duplicate. Remove it."
            }
            Rule::LogMessage => {
                "The message of a log line is a constant text, so that it can be found. Move values into fields."
            }
            Rule::TestName => {
                "A test name states the condition and the expected result, and names the actor: resend_returns_first_seq."
            }
        }
    }
}

/// Checks one file. `path` is relative to the root of the repository and decides which rules apply.
pub fn check(path: &str, text: &str) -> Vec<RuleViolation> {
    let mut found = Violations { path, list: Vec::new() };
    match Path::new(path).extension().and_then(|extension| extension.to_str()) {
        Some("rs") => {
            layout::length(text, &mut found);
            layout::module_header(text, &mut found);
            comments::width(text, &mut found);
            comments::openings(text, &mut found);
            names::types(text, &mut found);
            names::rust_tests(text, &mut found);
            words::log_messages(text, &mut found);
            words::unfinished(text, &mut found);
        }
        Some("ts" | "tsx" | "mjs" | "js") => {
            layout::length(text, &mut found);
            comments::width(text, &mut found);
            comments::openings(text, &mut found);
            names::script_tests(text, &mut found);
            words::unfinished(text, &mut found);
        }
        Some("md") => {
            layout::markdown_width(text, &mut found);
            words::unfinished(text, &mut found);
        }
        Some("py" | "sh" | "css" | "toml" | "yaml" | "yml") => {
            layout::length(text, &mut found);
            words::unfinished(text, &mut found);
        }
        _ => {}
    }
    found.list
}

/// Lists violations by rule, each rule with its explanation.
pub fn report(violations: &[RuleViolation]) -> String {
    let mut by_rule = BTreeMap::<Rule, Vec<&RuleViolation>>::new();
    for violation in violations {
        by_rule.entry(violation.rule).or_default().push(violation);
    }
    let mut report = String::new();
    for (rule, violations) in by_rule {
        let lines: Vec<String> = violations.iter().map(|violation| format!("    {violation}")).collect();
        report += &format!("{}\n{}\n\n", rule.explanation(), lines.join("\n"));
    }
    report
}

/// Collects the violations of one file.
struct Violations<'a> {
    path: &'a str,
    list: Vec<RuleViolation>,
}

impl Violations<'_> {
    /// Adds a violation. `index` is the number of the line, from 0.
    fn add(&mut self, index: usize, rule: Rule, found: &str) {
        self.list.push(RuleViolation {
            path: self.path.to_owned(),
            line: index + 1,
            rule,
            found: found.trim().to_owned(),
        });
    }
}

#[cfg(test)]
fn rules_broken_by(path: &str, text: &str) -> Vec<Rule> {
    check(path, text).into_iter().map(|violation| violation.rule).collect()
}
