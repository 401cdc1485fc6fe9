//! Merges the layers of settings: defaults < file < environment < flags.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;

use serde::Deserialize;
use toml::{Table, Value};

use super::catalogue::{self, SettingInfo};
use super::error::{Mistakes, SettingsError, Source};
use super::{Settings, environment, file, suggest, validate};

/// Settings from the command line.
#[derive(Clone, Debug, Default)]
pub struct Flags {
    pub config: Option<PathBuf>,
    pub data_dir: Option<PathBuf>,
    pub listen: Option<String>,
}

/// All sources of settings except the defaults.
#[derive(Clone, Debug, Default)]
pub struct Inputs {
    pub flags: Flags,
    pub environment: Vec<(OsString, OsString)>,
    pub working_directory: PathBuf,
}

impl Inputs {
    /// The environment and the working directory of this process.
    pub fn of_this_process(flags: Flags) -> Inputs {
        Inputs { flags, environment: std::env::vars_os().collect(), working_directory: ".".into() }
    }
}

/// One value from the file, the environment or a flag.
pub struct SettingEntry {
    pub key: String,
    pub value: Value,
    pub from: Source,
}

#[derive(Clone)]
pub struct Loaded {
    pub settings: Settings,
    /// Values that are not defaults, by key.
    given: BTreeMap<String, (Value, Source)>,
    /// Keys with a refused value in any layer.
    refused: BTreeSet<String>,
    /// Keys whose effective value a rule refused.
    unworkable: BTreeSet<String>,
}

impl Loaded {
    /// Reads all layers; every value must have its type, and the combination must be valid.
    /// Otherwise returns every mistake.
    pub fn load(inputs: &Inputs) -> Result<Loaded, Mistakes> {
        match Loaded::load_what_fits(inputs) {
            (loaded, mistakes) if mistakes.is_empty() => Ok(loaded),
            (_, mistakes) => Err(Mistakes(mistakes)),
        }
    }

    /// Reads all layers, skips values of the wrong type, and returns every mistake with the valid
    /// rest.
    pub fn load_what_fits(inputs: &Inputs) -> (Loaded, Vec<SettingsError>) {
        let known = catalogue::all();
        let (mut given, mut mistakes) = (BTreeMap::new(), Vec::new());
        let layers = [
            file::entries(inputs, &known, &mut mistakes),
            environment::entries(&inputs.environment, &known, &mut mistakes),
            flag_entries(&inputs.flags),
        ];
        for entry in layers.into_iter().flatten() {
            match check_alone(&entry, &known) {
                Ok(()) => drop(given.insert(entry.key, (entry.value, entry.from))),
                Err(error) => mistakes.push(error),
            }
        }
        let refused = mistakes.iter().filter_map(SettingsError::key).map(str::to_owned).collect();
        let mut loaded =
            Loaded { settings: settings_of(&given), given, refused, unworkable: BTreeSet::new() };
        let unworkable = validate::mistakes(&loaded);
        loaded.unworkable = unworkable.iter().filter_map(SettingsError::key).map(str::to_owned).collect();
        mistakes.extend(unworkable);
        (loaded, mistakes)
    }

    /// The same settings with the default for `key`. `None` if no layer sets `key`.
    pub(super) fn without(&self, key: &str) -> Option<Loaded> {
        let mut given = self.given.clone();
        given.remove(key)?;
        Some(Loaded { settings: settings_of(&given), given, ..self.clone() })
    }

    /// Whether a value for the key was refused, so that the effective value is not the configured
    /// one.
    pub(super) fn was_refused(&self, key: &str) -> bool {
        self.refused.contains(key)
    }

    pub fn given(&self, key: &str) -> Option<&(Value, Source)> {
        self.given.get(key)
    }

    /// The source of the shown value, and whether this or another value for the key was refused.
    pub(super) fn origin(&self, key: &str) -> String {
        let refusal = match (self.unworkable.contains(key), self.was_refused(key)) {
            (true, _) => "; refused",
            (false, true) => "; another value was refused",
            (false, false) => "",
        };
        format!("{}{refusal}", self.source(key))
    }

    pub fn source(&self, key: &str) -> Source {
        self.given(key).map_or(Source::Default, |(_, source)| source.clone())
    }
}

/// Leaves out the configured values, because they may be secrets.
impl fmt::Debug for Loaded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Loaded").field("settings", &self.settings).finish_non_exhaustive()
    }
}

fn flag_entries(flags: &Flags) -> Vec<SettingEntry> {
    let entry = |key: &str, value: String, flag| SettingEntry {
        key: key.into(),
        value: Value::String(value),
        from: Source::Flag(flag),
    };
    let data_dir = flags.data_dir.as_ref().map(|path| path.to_string_lossy().into_owned());
    [
        data_dir.map(|path| entry("store.data_dir", path, "--data-dir")),
        flags.listen.clone().map(|listen| entry("server.listen", listen, "--listen")),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// Checks a value alone among defaults, so that the error can name its key.
fn check_alone(entry: &SettingEntry, known: &[SettingInfo]) -> Result<(), SettingsError> {
    let mut table = Table::new();
    put(&mut table, &entry.key, entry.value.clone());
    let Err(error) = Settings::deserialize(table) else { return Ok(()) };
    let known = known.iter().find(|known| known.key == entry.key).expect("unknown keys were refused before");
    let fits_kind = match &entry.value {
        Value::String(_) => known.kind == catalogue::SettingKind::Text,
        Value::Array(values) => {
            known.kind == catalogue::SettingKind::List && values.iter().all(Value::is_str)
        }
        Value::Integer(number) => known.kind == catalogue::SettingKind::Number && *number >= 0,
        _ => false,
    };
    // A value of the right type was refused for another reason, such as an unknown choice.
    let expected = fits_kind.then(|| in_plain_words(error.message()));
    Err(bad_value(known, &entry.value, &entry.from, expected))
}

/// Reports an unusable value. `expected` overrides the description of the setting's type.
pub fn bad_value(
    known: &SettingInfo,
    given: &Value,
    from: &Source,
    expected: Option<String>,
) -> SettingsError {
    let given = &catalogue::without_credentials(&known.key, given);
    let mut expected = expected.unwrap_or_else(|| known.kind.expected().to_owned());
    let is_secret = catalogue::is_secret(&known.key);
    if !is_secret && let Some(meant) = suggest::value(known.kind, given, &expected) {
        expected += &format!("; did you mean {meant}?");
    }
    let shown = if is_secret { catalogue::HIDDEN.into() } else { given.to_string() };
    SettingsError::BadValue { key: known.key.clone(), shown, from: from.clone(), expected }
}

/// Extracts the expected value from a serde message such as "invalid value: integer `5000000000`,
/// expected u32".
fn in_plain_words(message: &str) -> String {
    match message.split_once(", expected ").map_or(message, |(_, expected)| expected) {
        "u32" => format!("a whole number from 0 to {}", u32::MAX),
        other => other.replace('`', "\""),
    }
}

fn put(table: &mut Table, key: &str, value: Value) {
    match key.split_once('.') {
        None => {
            table.insert(key.into(), value);
        }
        Some((section, rest)) => {
            let section = table.entry(section).or_insert_with(|| Value::Table(Table::new()));
            put(section.as_table_mut().expect("a section holds settings"), rest, value);
        }
    }
}

fn settings_of(given: &BTreeMap<String, (Value, Source)>) -> Settings {
    let mut table = Table::new();
    for (key, (value, _)) in given {
        put(&mut table, key, value.clone());
    }
    Settings::deserialize(table).expect("each value was accepted by itself")
}

/// The error for an unknown key, with a suggestion.
pub fn unknown_key(key: String, from: Source, known: &[SettingInfo]) -> SettingsError {
    if known.iter().any(|known| known.section() == key) {
        let hint = format!("; [{key}] is a section; put settings inside it");
        return SettingsError::UnknownKey { key, from, hint };
    }
    let hint = match (suggest::key(&key, known), &from) {
        (Some(meant), Source::Environment(_)) => format!("; did you mean {}?", environment::name_of(meant)),
        (Some(meant), _) => format!("; did you mean {meant}?"),
        (None, _) => LISTED.into(),
    };
    SettingsError::UnknownKey { key, from, hint }
}

/// The error for an unknown section of a file, with a suggestion.
pub fn unknown_section(key: String, from: Source, known: &[SettingInfo]) -> SettingsError {
    let meant = suggest::section(&key, known);
    let hint = meant.map_or_else(|| LISTED.into(), |meant| format!("; did you mean [{meant}]?"));
    SettingsError::UnknownKey { key, from, hint }
}

/// Hint for an unknown setting that resembles no known one.
const LISTED: &str = "; `bluetick config example` lists all settings";
