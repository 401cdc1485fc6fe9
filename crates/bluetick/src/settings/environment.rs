//! Settings from `BLUETICK_*` environment variables: `BLUETICK_LIMITS__SENDS_PER_SECOND` is
//! `limits.sends_per_second`. The type of the setting decides how the text is parsed, so a secret
//! made of digits stays a text.

use std::ffi::OsString;

use toml::Value;

use super::catalogue::{SettingInfo, SettingKind};
use super::error::{SettingsError, Source};
use super::layers::{SettingEntry, bad_value, unknown_key};

/// Prefix of every environment variable that is read as a setting.
const PREFIX: &str = "BLUETICK_";
/// Variables that are not settings: the settings file, the log filter, and the token for `chat`.
const NOT_SETTINGS: [&str; 3] = ["CONFIG", "LOG", "TOKEN"];

/// Reads the settings from the environment. Unusable variables go to `mistakes`.
pub fn entries(
    environment: &[(OsString, OsString)],
    known: &[SettingInfo],
    mistakes: &mut Vec<SettingsError>,
) -> Vec<SettingEntry> {
    let mut entries = Vec::new();
    for (name, text) in environment {
        let Some(name) = name.to_str() else { continue };
        let Some(rest) = name.strip_prefix(PREFIX) else { continue };
        if NOT_SETTINGS.contains(&rest) || is_service_link(rest) {
            continue;
        }
        let key = rest.to_ascii_lowercase().replace("__", ".");
        let from = Source::Environment(name.into());
        let Some(found) = known.iter().find(|known| known.key == key) else {
            mistakes.push(unknown_key(key, from, known));
            continue;
        };
        let Some(text) = text.to_str() else {
            mistakes.push(SettingsError::NotUtf8 { name: name.into() });
            continue;
        };
        match parse(found.kind, text) {
            Some(value) => entries.push(SettingEntry { key, value, from }),
            None => mistakes.push(bad_value(found, &Value::String(text.into()), &from, None)),
        }
    }
    entries.sort_by(|one, other| one.key.cmp(&other.key));
    entries
}

/// The environment variable of a setting.
pub fn name_of(key: &str) -> String {
    format!("{PREFIX}{}", key.to_ascii_uppercase().replace('.', "__"))
}

/// Whether Kubernetes sets the variable in every pod for a service called `bluetick`.
fn is_service_link(rest: &str) -> bool {
    let numbered = |prefix: &str| {
        rest.strip_prefix(prefix).is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
    };
    matches!(rest, "SERVICE_HOST" | "SERVICE_PORT" | "PORT")
        || rest.starts_with("SERVICE_PORT_")
        || numbered("PORT_")
}

fn parse(kind: SettingKind, text: &str) -> Option<Value> {
    match kind {
        SettingKind::Text => Some(Value::String(text.into())),
        SettingKind::Number => as_toml(text).filter(Value::is_integer),
        SettingKind::Switch => as_toml(text).filter(Value::is_bool),
        SettingKind::List if text.trim_start().starts_with('[') => as_toml(text).filter(Value::is_array),
        SettingKind::List => Some(comma_separated(text)),
    }
}

fn as_toml(text: &str) -> Option<Value> {
    text.trim().parse().ok()
}

fn comma_separated(text: &str) -> Value {
    let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
    Value::Array(parts.map(|part| Value::String(part.into())).collect())
}
