//! The layers laid over each other: defaults < file < environment < flags.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;

use serde::Deserialize;
use toml::{Table, Value};

use super::catalogue::{self, Known};
use super::error::{SettingsError, Source};
use super::{Settings, environment, file, validate};

/// What the command line says.
#[derive(Clone, Debug, Default)]
pub struct Flags {
    pub config: Option<PathBuf>,
    pub data_dir: Option<PathBuf>,
    pub listen: Option<String>,
}

/// Everything settings are made from.
#[derive(Clone, Debug, Default)]
pub struct Inputs {
    pub flags: Flags,
    pub environment: Vec<(OsString, OsString)>,
    pub working_directory: PathBuf,
}

impl Inputs {
    /// What this process was started with.
    pub fn of_this_process(flags: Flags) -> Inputs {
        Inputs { flags, environment: std::env::vars_os().collect(), working_directory: ".".into() }
    }
}

/// One value that somebody gave.
pub struct Entry {
    pub key: String,
    pub value: Value,
    pub from: Source,
}

pub struct Loaded {
    pub settings: Settings,
    /// What is not a default, by key.
    given: BTreeMap<String, (Value, Source)>,
}

impl Loaded {
    /// Reads all layers; the values fit their kinds, and together they can work.
    pub fn load(inputs: &Inputs) -> Result<Loaded, SettingsError> {
        let known = catalogue::all();
        let mut given = BTreeMap::new();
        let layers = [file::entries(inputs, &known)?, environment::entries(&inputs.environment, &known)?];
        for entry in layers.into_iter().flatten().chain(flag_entries(&inputs.flags)) {
            check_alone(&entry, &known)?;
            given.insert(entry.key, (entry.value, entry.from));
        }
        let mut table = Table::new();
        for (key, (value, _)) in &given {
            put(&mut table, key, value.clone());
        }
        let settings = Settings::deserialize(table).expect("each value was accepted by itself");
        let loaded = Loaded { settings, given };
        validate::check(&loaded)?;
        Ok(loaded)
    }

    pub fn given(&self, key: &str) -> Option<&(Value, Source)> {
        self.given.get(key)
    }

    pub fn source(&self, key: &str) -> Source {
        self.given(key).map_or(Source::Default, |(_, source)| source.clone())
    }
}

/// Without the values as they were given, since these may be secrets.
impl fmt::Debug for Loaded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Loaded").field("settings", &self.settings).finish_non_exhaustive()
    }
}

fn flag_entries(flags: &Flags) -> Vec<Entry> {
    let entry = |key: &str, value: String, flag| Entry {
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

/// Tries a value alone among defaults, so that a refusal can name it.
fn check_alone(entry: &Entry, known: &[Known]) -> Result<(), SettingsError> {
    let mut table = Table::new();
    put(&mut table, &entry.key, entry.value.clone());
    let Err(error) = Settings::deserialize(table) else { return Ok(()) };
    let known = known.iter().find(|known| known.key == entry.key).expect("unknown keys were refused before");
    let fits_kind = match &entry.value {
        Value::String(_) => known.kind == catalogue::Kind::Text,
        Value::Array(values) => known.kind == catalogue::Kind::List && values.iter().all(Value::is_str),
        Value::Integer(number) => known.kind == catalogue::Kind::Number && *number >= 0,
        _ => false,
    };
    // A value of the right kind was refused for more than its kind, such as a word that is not among the choices.
    let expected = if fits_kind { in_plain_words(error.message()) } else { known.kind.expected().to_owned() };
    let shown =
        if catalogue::is_secret(&entry.key) { catalogue::HIDDEN.into() } else { entry.value.to_string() };
    Err(SettingsError::BadValue { key: entry.key.clone(), shown, from: entry.from.clone(), expected })
}

/// serde says "invalid value: integer `5000000000`, expected u32"; the operator's part is what comes last.
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

/// Names what is not known, and what was probably meant.
pub fn unknown_key(key: String, from: Source, known: &[Known]) -> SettingsError {
    if known.iter().any(|known| known.section() == key) {
        let hint = format!("; [{key}] is a section, and what is set stands in it");
        return SettingsError::UnknownKey { key, from, hint };
    }
    let hint = match closest(&key, known) {
        Some(closest) => match &from {
            Source::Environment(_) => format!("; did you mean {}?", environment::name_of(closest)),
            _ => format!("; did you mean {closest}?"),
        },
        None => "; `bluetick config example` lists all settings".into(),
    };
    SettingsError::UnknownKey { key, from, hint }
}

/// The nearest key by spelling, or one of the same name in another section.
fn closest<'a>(key: &str, known: &'a [Known]) -> Option<&'a str> {
    let name = key.rsplit('.').next().unwrap_or(key);
    if let Some(elsewhere) = known.iter().find(|known| known.name() == name) {
        return Some(&elsewhere.key);
    }
    // One underscore in place of two is the usual slip in the environment.
    let plain = |key: &str| key.replace(['.', '-'], "_");
    let distance = |known: &&Known| strsim::damerau_levenshtein(&plain(&known.key), &plain(key));
    let nearest = known.iter().min_by_key(distance)?;
    (distance(&nearest) <= 3).then_some(nearest.key.as_str())
}
