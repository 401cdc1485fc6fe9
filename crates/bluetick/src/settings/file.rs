//! Settings from a TOML file. A file named by `--config` or `BLUETICK_CONFIG` must exist. The
//! default file, `bluetick.toml` in the working directory, is optional.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use toml::{Table, Value};

use super::catalogue::SettingInfo;
use super::error::{SettingsError, Source};
use super::layers::{Inputs, SettingEntry, unknown_key, unknown_section};

/// Environment variable with the path of the settings file.
const CONFIG_VARIABLE: &str = "BLUETICK_CONFIG";
/// Settings file in the working directory, read when no other file is named.
const USUAL_NAME: &str = "bluetick.toml";

/// Reads the settings from the file. Invalid entries go to `mistakes`. An unreadable file sets
/// nothing.
pub fn entries(
    inputs: &Inputs,
    known: &[SettingInfo],
    mistakes: &mut Vec<SettingsError>,
) -> Vec<SettingEntry> {
    let mut entries = Vec::new();
    match table(inputs) {
        Ok(Some((table, path))) => {
            collect(
                "",
                table,
                &Source::File(path),
                known,
                &mut FileSettings { entries: &mut entries, mistakes },
            );
        }
        Ok(None) => {}
        Err(error) => mistakes.push(error),
    }
    entries
}

/// The parsed TOML file and its path. `None` if no file was named and the default file does not
/// exist.
fn table(inputs: &Inputs) -> Result<Option<(Table, PathBuf)>, SettingsError> {
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
                None => Ok(None),
            };
        }
        Err(source) => return Err(SettingsError::UnreadableFile { path, source }),
    };
    match text.parse::<Table>() {
        Ok(table) => Ok(Some((table, path))),
        Err(error) => {
            let line = error.span().map_or(1, |span| 1 + text[..span.start].matches('\n').count());
            Err(SettingsError::NotToml { path, line, reason: error.message().into() })
        }
    }
}

fn named_file(inputs: &Inputs) -> Option<(PathBuf, &'static str)> {
    if let Some(path) = &inputs.flags.config {
        return Some((path.clone(), "--config"));
    }
    let variable = inputs.environment.iter().find(|(name, _)| name == CONFIG_VARIABLE);
    variable.map(|(_, path)| (Path::new(path).into(), CONFIG_VARIABLE))
}

struct FileSettings<'a> {
    entries: &'a mut Vec<SettingEntry>,
    mistakes: &'a mut Vec<SettingsError>,
}

fn collect(section: &str, table: Table, from: &Source, known: &[SettingInfo], found: &mut FileSettings<'_>) {
    for (name, value) in table {
        let key = if section.is_empty() { name } else { format!("{section}.{name}") };
        let is_section = known.iter().any(|known| known.section() == key);
        match value {
            Value::Table(table) if is_section => collect(&key, table, from, known, found),
            Value::Table(_) => found.mistakes.push(unknown_section(key, from.clone(), known)),
            value if known.iter().any(|known| known.key == key) => {
                found.entries.push(SettingEntry { key, value, from: from.clone() });
            }
            _ => found.mistakes.push(unknown_key(key, from.clone(), known)),
        }
    }
}
