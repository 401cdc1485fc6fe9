//! Checks that settings and their environment variables exist, by `bluetick config example`.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use toml::{Table, Value};

use super::markdown::{Document, Piece};
use crate::support::Shell;

/// The endings of file names. A dotted word with one of them is not a setting.
const FILE_ENDINGS: [&str; 12] =
    ["rs", "md", "ts", "tsx", "js", "mjs", "json", "toml", "svg", "pem", "py", "log"];

/// One setting, as the program describes it.
#[derive(Clone, Debug)]
pub struct Setting {
    pub section: String,
    pub name: String,
    pub about: String,
    /// `None` if the setting has no default.
    pub default: Option<Value>,
    /// An example value. It tells the type.
    pub value: Value,
}

impl Setting {
    pub fn key(&self) -> String {
        format!("{}.{}", self.section, self.name)
    }

    pub fn variable(&self) -> String {
        format!("BLUETICK_{}", self.key().to_ascii_uppercase().replace('.', "__"))
    }
}

/// All settings of the program.
pub struct Catalogue {
    pub settings: Vec<Setting>,
    pub checked: usize,
    keys: BTreeSet<String>,
    sections: BTreeSet<String>,
    /// The source of the audit log. Its acts have names like settings, such as `archive.run`.
    audit_source: String,
}

impl Catalogue {
    /// Reads the settings from `bluetick config example`.
    pub fn of_the_program() -> Catalogue {
        /// Ends the description of a setting without a default.
        const UNSET: &str = " Not set by default.";
        let printed = Shell::new().run(&["config", "example"]).printed();
        let (mut settings, mut section, mut about): (Vec<Setting>, _, _) =
            (Vec::new(), String::new(), Vec::new());
        for line in printed.lines() {
            if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
                section = name.to_owned();
            } else if let Some(comment) = line.strip_prefix("# ") {
                about.push(comment);
            } else if let Some((name, value)) = line.strip_prefix('#').and_then(|rest| rest.split_once(" = "))
            {
                // The first setting of a section may follow a comment about the section.
                let is_first = settings.last().is_none_or(|last| last.section != section);
                assert!(about.len() == 1 || (is_first && about.len() == 2), "{section}.{name}: {about:?}");
                let about = std::mem::take(&mut about).pop().unwrap();
                let value: Value = value.parse().unwrap();
                let default = (!about.ends_with(UNSET)).then(|| value.clone());
                let about = about.trim_end_matches(UNSET).to_owned();
                settings.push(Setting {
                    section: section.clone(),
                    name: name.to_owned(),
                    about,
                    default,
                    value,
                });
            } else {
                about.clear();
            }
        }
        assert!(settings.len() > 100, "only {} settings were read", settings.len());
        let keys = settings.iter().map(Setting::key).collect();
        let mut sections: BTreeSet<String> = settings.iter().map(|setting| setting.section.clone()).collect();
        let outer: Vec<String> =
            sections.iter().filter_map(|name| Some(name.split_once('.')?.0.to_owned())).collect();
        sections.extend(outer);
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../server/src/audit");
        let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        let audit_source = files.map(|file| fs::read_to_string(file).unwrap()).collect();
        Catalogue { settings, checked: 0, keys, sections, audit_source }
    }

    pub fn problems(&mut self, document: &Document) -> Vec<String> {
        let mut named: Vec<(Piece, bool)> = Vec::new();
        for piece in document.inline_code() {
            named.extend(self.in_inline_code(piece));
        }
        for block in document.blocks().into_iter().filter(|block| block.language == "toml") {
            let keys = self.in_toml(&block.code.text);
            named.extend(keys.into_iter().map(|text| (Piece { line: block.code.line, text }, false)));
        }
        for (index, line) in document.text.lines().enumerate() {
            let keys = variables(line).map(|text| (Piece { line: index + 1, text }, false));
            named.extend(keys);
        }
        self.checked += named.len();
        let is_known = |(piece, is_section): &(Piece, bool)| match is_section {
            true => self.sections.contains(&piece.text),
            false => self.keys.contains(&piece.text) || self.sections.contains(&piece.text),
        };
        let unknown = named.iter().filter(|named| !is_known(named));
        unknown.map(|(piece, _)| format!("{}: no setting {}", document.at(piece.line), piece.text)).collect()
    }

    /// Returns the key in `a.b`, `a.b = value` or `[a.b]` if it looks like a setting. Also returns
    /// whether it is a section.
    fn in_inline_code(&self, piece: Piece) -> Option<(Piece, bool)> {
        let text = piece.text.split_once(" = ").map_or(piece.text.as_str(), |(key, _)| key);
        let bracketed = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
        let key = bracketed.unwrap_or(text);
        let (outer, inner) = key.split_once('.')?;
        let is_word = |word: &str| {
            !word.is_empty() && word.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
        };
        let is_setting = self.sections.contains(outer)
            && inner.split('.').all(is_word)
            && !FILE_ENDINGS.iter().any(|ending| inner.split('.').any(|part| part == *ending))
            && !self.audit_source.contains(&format!("\"{key}\""));
        is_setting.then(|| (Piece { line: piece.line, text: key.to_owned() }, bracketed.is_some()))
    }

    /// Returns the keys of a settings file. A file of another kind has other tables.
    fn in_toml(&self, text: &str) -> Vec<String> {
        let table: Table = text.parse().unwrap_or_else(|error| panic!("{text}\n{error}"));
        let mut keys = Vec::new();
        let is_settings = table.keys().any(|name| self.sections.contains(name));
        if is_settings {
            flatten("", &table, &mut keys);
        }
        keys
    }
}

fn flatten(section: &str, table: &Table, keys: &mut Vec<String>) {
    for (name, value) in table {
        let key = if section.is_empty() { name.clone() } else { format!("{section}.{name}") };
        match value {
            Value::Table(table) => flatten(&key, table, keys),
            _ => keys.push(key),
        }
    }
}

/// Returns the keys of the `BLUETICK_SECTION__NAME` variables in a line.
fn variables(line: &str) -> impl Iterator<Item = String> {
    let words = line.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    let named = words.filter_map(|word| word.strip_prefix("BLUETICK_"));
    let named = named.filter(|name| name.contains("__") && !name.chars().any(|c| c.is_ascii_lowercase()));
    named.map(|name| name.to_ascii_lowercase().replace("__", "."))
}
