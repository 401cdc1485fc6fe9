//! Shows the effective settings as TOML, each with its source. Secrets, and credentials in URLs,
//! are masked.

use std::fmt::Write;

use toml::Value;

use super::catalogue::{self, SettingInfo};
use super::layers::Loaded;

/// Replaces a secret in the output.
const MASK: &str = "\"***\"";
/// Column at which the comments with the sources start.
const COMMENT_COLUMN: usize = 48;

impl Loaded {
    pub fn show(&self) -> String {
        let mut text = String::from("# The effective settings and their sources.\n");
        let mut section = String::new();
        for known in catalogue::all() {
            if known.section() != section {
                section = known.section().into();
                let _infallible = writeln!(text, "\n[{section}]");
            }
            let line = self.line(&known);
            let _infallible = writeln!(text, "{line:COMMENT_COLUMN$} # {}", self.origin(&known.key));
        }
        text
    }

    /// The settings that are not defaults, by key, for the audit trail. Secrets, and
    /// credentials in URLs, are masked.
    pub fn set_by_somebody(&self) -> serde_json::Value {
        let mut all = serde_json::Map::new();
        for known in catalogue::all() {
            if self.given(&known.key).is_some() {
                let line = self.line(&known);
                let value = line.split_once(" = ").map_or("", |(_, value)| value);
                all.insert(known.key.clone(), value.into());
            }
        }
        all.into()
    }

    fn line(&self, known: &SettingInfo) -> String {
        let name = known.name();
        let value: Option<&Value> = self.given(&known.key).map(|(value, _)| value).or(known.default.as_ref());
        match value {
            Some(_) if catalogue::is_secret(&known.key) => format!("{name} = {MASK}"),
            Some(value) => format!("{name} = {}", catalogue::without_credentials(&known.key, value)),
            None => format!("# {name} is not set"),
        }
    }
}
