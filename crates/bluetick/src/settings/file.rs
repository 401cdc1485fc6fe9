//! Settings from a TOML file. The file is named by a flag or by `BLUETICK_CONFIG` and must then be there, or it is
//! `bluetick.toml` in the working directory and may be missing.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use toml::{Table, Value};

use super::catalogue::Known;
use super::error::{SettingsError, Source};
use super::layers::{Entry, Inputs, unknown_key};

const CONFIG_VARIABLE: &str = "BLUETICK_CONFIG";
const USUAL_NAME: &str = "bluetick.toml";

pub fn entries(inputs: &Inputs, known: &[Known]) -> Result<Vec<Entry>, SettingsError> {
    let named = named_file(inputs);
    let path = match &named {
        Some((path, _)) => path.clone(),
        None => inputs.working_directory.join(USUAL_NAME),
    };
    let text = match fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return match named {
                Some((path, named_by)) => Err(SettingsError::MissingFile { path, named_by }),
                None => Ok(Vec::new()),
            };
        }
        Err(source) => return Err(SettingsError::UnreadableFile { path, source }),
    };
    let table: Table = text.parse().map_err(|error: toml::de::Error| {
        let line = error.span().map_or(1, |span| 1 + text[..span.start].matches('\n').count());
        SettingsError::NotToml { path: path.clone(), line, reason: error.message().into() }
    })?;
    let mut entries = Vec::new();
    collect("", table, &Source::File(path), known, &mut entries)?;
    Ok(entries)
}

fn named_file(inputs: &Inputs) -> Option<(PathBuf, &'static str)> {
    if let Some(path) = &inputs.flags.config {
        return Some((path.clone(), "--config"));
    }
    let variable = inputs.environment.iter().find(|(name, _)| name == CONFIG_VARIABLE);
    variable.map(|(_, path)| (Path::new(path).into(), CONFIG_VARIABLE))
}

fn collect(
    section: &str,
    table: Table,
    from: &Source,
    known: &[Known],
    entries: &mut Vec<Entry>,
) -> Result<(), SettingsError> {
    for (name, value) in table {
        let key = if section.is_empty() { name } else { format!("{section}.{name}") };
        let is_section = known.iter().any(|known| known.section() == key);
        match value {
            Value::Table(table) if is_section => collect(&key, table, from, known, entries)?,
            value if known.iter().any(|known| known.key == key) => {
                entries.push(Entry { key, value, from: from.clone() });
            }
            _ => return Err(unknown_key(key, from.clone(), known)),
        }
    }
    Ok(())
}
