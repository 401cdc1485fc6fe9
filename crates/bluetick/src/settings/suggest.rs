//! Suggests corrections for settings: the nearest key, section or value.

use toml::Value;

use super::catalogue::{SettingInfo, SettingKind};

/// Maximum edit distance between an unknown key and a suggestion. A larger one suggests unrelated
/// keys.
const KEY_DISTANCE: usize = 3;

/// The key with the same last part in another section, or else the nearest key by edit distance.
pub fn key<'a>(key: &str, known: &'a [SettingInfo]) -> Option<&'a str> {
    // A single underscore instead of two is the most common mistake in environment variables.
    let plain = |key: &str| key.replace(['.', '-'], "_");
    let distance = |known: &&SettingInfo| strsim::damerau_levenshtein(&plain(&known.key), &plain(key));
    let name = key.rsplit('.').next().unwrap_or(key);
    let same_name = known.iter().filter(|known| known.name() == name).min_by_key(distance);
    let nearest = || known.iter().min_by_key(distance).filter(|nearest| distance(nearest) <= KEY_DISTANCE);
    same_name.or_else(nearest).map(|known| known.key.as_str())
}

/// The section whose name is nearest to `key`.
pub fn section<'a>(key: &str, known: &'a [SettingInfo]) -> Option<&'a str> {
    nearest(key, known.iter().map(SettingInfo::section))
}

/// The nearest candidate with an edit distance of at most a third of the length of `word`.
pub fn nearest<'a>(word: &str, candidates: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let most = (word.chars().count() / 3).max(1);
    let measured = candidates.map(|candidate| (strsim::damerau_levenshtein(candidate, word), candidate));
    let near = measured.filter(|(distance, _)| *distance <= most);
    near.min_by_key(|(distance, _)| *distance).map(|(_, candidate)| candidate)
}

/// Suggests a value of the right type in place of `given`, in TOML syntax. `expected` may list the
/// choices in quotes.
pub fn value(kind: SettingKind, given: &Value, expected: &str) -> Option<String> {
    match (kind, given) {
        (SettingKind::Switch, Value::String(text)) => switch(text),
        (SettingKind::Switch, Value::Integer(number)) => switch(&number.to_string()),
        (SettingKind::Number, Value::String(text)) => number(text),
        (SettingKind::List, Value::String(_)) => Some(format!("[{given}]")),
        (SettingKind::Text, Value::Integer(_) | Value::Float(_) | Value::Boolean(_) | Value::Datetime(_)) => {
            Some(format!("\"{given}\""))
        }
        (SettingKind::Text, Value::String(text)) => {
            let choices = expected.split('"').skip(1).step_by(2);
            nearest(&text.to_lowercase(), choices).map(|choice| format!("\"{choice}\""))
        }
        _ => None,
    }
}

fn switch(text: &str) -> Option<String> {
    let word = match text.trim().trim_matches('"').to_lowercase().as_str() {
        "true" | "yes" | "on" | "1" => "true",
        "false" | "no" | "off" | "0" => "false",
        other => nearest(other, ["true", "false"].into_iter())?,
    };
    Some(word.into())
}

/// Parses digits in quotes, with separators, or with the suffix `s` for seconds.
fn number(text: &str) -> Option<String> {
    let digits = text.trim().trim_matches('"').replace([',', '_', ' ', '\''], "");
    let digits = digits.strip_suffix('s').unwrap_or(&digits);
    digits.parse::<u64>().ok().map(|number| number.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn value_of_wrong_type_is_suggested_in_the_right_type() {
        let text = |text: &str| Value::String(text.into());
        for (kind, given, expected) in [
            (SettingKind::Switch, text("Yes"), Some("true")),
            (SettingKind::Switch, text("flase"), Some("false")),
            (SettingKind::Switch, Value::Integer(0), Some("false")),
            (SettingKind::Switch, text("maybe"), None),
            (SettingKind::Number, text("1,000"), Some("1000")),
            (SettingKind::Number, text("30s"), Some("30")),
            (SettingKind::Number, text("many"), None),
            (SettingKind::List, text("a"), Some("[\"a\"]")),
            (SettingKind::Text, Value::Integer(8080), Some("\"8080\"")),
        ] {
            assert_eq!(value(kind, &given, "").as_deref(), expected, "{given}");
        }
        let choices = "one of \"auto\", \"human\", \"json\"";
        assert_eq!(value(SettingKind::Text, &text("JSON"), choices).as_deref(), Some("\"json\""));
        assert_eq!(value(SettingKind::Text, &text("jason"), choices).as_deref(), Some("\"json\""));
        assert_eq!(value(SettingKind::Text, &text("xml"), choices), None);
    }
}
