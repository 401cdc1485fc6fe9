//! Rules about words: reminders, and the messages of log lines.

use crate::{Rule, Violations};

/// Split, so that this file does not break its own rule.
const REMINDERS: [&str; 3] = [concat!("TO", "DO"), concat!("FIX", "ME"), concat!("XX", "X:")];
const LOG_MACROS: [&str; 5] = ["trace!(", "debug!(", "info!(", "warn!(", "error!("];

pub fn unfinished(text: &str, found: &mut Violations<'_>) {
    for (index, line) in text.lines().enumerate() {
        if REMINDERS.iter().any(|reminder| line.contains(reminder)) {
            found.add(index, Rule::Unfinished, line);
        }
    }
}

/// Finds log lines whose message is built from values. The message is the last argument.
pub fn log_messages(text: &str, found: &mut Violations<'_>) {
    let mut rest = text;
    let mut at = 0;
    while let Some((start, name)) =
        LOG_MACROS.iter().filter_map(|name| rest.find(name).map(|start| (start, *name))).min()
    {
        let arguments = &rest[start + name.len()..];
        let is_macro = !rest[..start].ends_with(|c: char| c.is_alphanumeric() || c == '_');
        let call = arguments.split(");").next().unwrap_or_default();
        if is_macro && call.lines().any(|line| is_formatted_message(line.trim())) {
            let index = text[..at + start].matches('\n').count();
            found.add(index, Rule::LogMessage, call);
        }
        at += start + name.len();
        rest = arguments;
    }
}

/// Returns whether the arguments on this line end with a text that contains a placeholder.
fn is_formatted_message(line: &str) -> bool {
    let message = line.trim_end_matches(',').strip_suffix('"').and_then(|text| text.rsplit_once('"'));
    message.is_some_and(|(before, message)| !before.ends_with('=') && message.contains('{'))
        || line.trim_start_matches('"').starts_with("{}")
}

#[cfg(test)]
mod tests {
    use crate::{Rule, rules_broken_by};

    #[test]
    fn reminder_is_refused_in_every_kind_of_file() {
        let line = concat!("// TO", "DO: later\n");
        assert_eq!(rules_broken_by("a.ts", line), [Rule::Unfinished]);
        assert_eq!(rules_broken_by("a.md", line), [Rule::Unfinished]);
    }

    #[test]
    fn log_message_with_a_placeholder_is_refused() {
        // The macro's name is added here, so that this file does not break its own rule.
        let rules = |arguments: &str| {
            rules_broken_by(
                "a.rs",
                &format!("//! Header.\nfn log() {{\n    tracing::{}!({arguments});\n}}\n", "warn"),
            )
        };
        assert_eq!(rules(r#""cannot read {path}""#), [Rule::LogMessage]);
        assert_eq!(rules(r#""{}", text"#), [Rule::LogMessage]);
        assert_eq!(rules(r#"%error, "archive run failed; will retry""#), []);
    }
}
