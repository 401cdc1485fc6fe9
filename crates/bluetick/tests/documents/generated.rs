//! Generates the reference pages of the configuration and the command line.

use std::fmt::Write;

use toml::Value;

use super::commands::Commands;
use super::settings::{Catalogue, Setting};

/// The width of generated prose.
const COLUMNS: usize = 100;

/// Settings whose default depends on the machine, with the words that replace it.
const OF_THE_MACHINE: [(&str, &str); 1] =
    [("limits.password_checks_at_once", "half of the processors, at least 1")];

/// Returns the page with all settings.
pub fn configuration(catalogue: &Catalogue) -> String {
    let mut page = String::from(
        "# Configuration\n\n\
         Generated from the settings of the program. Do not edit this page; `CONTRIBUTING.md` has the\n\
         command that renews it.\n\n\
         ## Sources\n\n\
         The server reads settings from four sources. Later sources override earlier ones:\n\n\
         1. defaults;\n\
         2. the settings file: `--config FILE`, else `$BLUETICK_CONFIG`, else `./bluetick.toml` if it exists;\n\
         3. environment variables;\n\
         4. flags: `--data-dir` for `store.data_dir` and `--listen` for `server.listen`.\n\n\
         The environment variable of a setting is `BLUETICK_`, then the key in capitals with `__` in place\n\
         of each dot. A list is a TOML array or a comma-separated text. An unknown key is an error, in the\n\
         file and in the environment.\n\n\
         `bluetick config example` prints a settings file with all defaults. `bluetick config check` prints\n\
         the settings in force with the source of each, and checks whether a server would start with them.\n\n\
         Three variables are not settings: `BLUETICK_CONFIG` names the settings file, `BLUETICK_LOG`\n\
         overrides `log.filter` for one run, and `BLUETICK_TOKEN` is the token for `bluetick chat`.\n\n\
         In `[limits]`, 0 disables a limit.\n\n## Sections\n\n",
    );
    let mut section = "";
    for setting in &catalogue.settings {
        if setting.section != section {
            section = &setting.section;
            let _infallible = writeln!(page, "- [`[{section}]`](#{})", section.replace('.', ""));
        }
    }
    for setting in &catalogue.settings {
        if setting.section != section {
            section = &setting.section;
            let _infallible = writeln!(page, "\n## `[{section}]`");
        }
        let _infallible = writeln!(page, "\n### `{}`\n\n{}\n", setting.key(), wrapped(&setting.about));
        let facts = format!("- {}. Default: {}.", kind(&setting.value), default(setting));
        let _infallible = writeln!(page, "{facts}\n- Environment: `{}`.", setting.variable());
    }
    page
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Integer(_) => "Whole number, 0 or more",
        Value::Boolean(_) => "`true` or `false`",
        Value::Array(_) => "List of texts",
        _ => "Text",
    }
}

fn default(setting: &Setting) -> String {
    let of_the_machine = OF_THE_MACHINE.iter().find(|(key, _)| *key == setting.key());
    match (of_the_machine, &setting.default) {
        (Some((_, words)), _) => (*words).to_owned(),
        (None, Some(value)) => format!("`{value}`"),
        (None, None) => "none".to_owned(),
    }
}

/// Breaks a text into lines.
fn wrapped(text: &str) -> String {
    let (mut wrapped, mut column) = (String::new(), 0);
    for word in text.split(' ') {
        let width = word.chars().count();
        if column > 0 && column + 1 + width > COLUMNS {
            wrapped.push('\n');
            column = 0;
        } else if column > 0 {
            wrapped.push(' ');
            column += 1;
        }
        wrapped += word;
        column += width;
    }
    wrapped
}

/// Returns the page with the help of all commands.
pub fn command_line(commands: &mut Commands) -> String {
    let mut page = String::from(
        "# Command line\n\n\
         Generated from the help texts of the program. Do not edit this page; `CONTRIBUTING.md` has the\n\
         command that renews it. The same texts are shown by `bluetick COMMAND --help`.\n",
    );
    let mut sections = Vec::new();
    collect(commands, &[], &mut sections);
    page.push('\n');
    for (name, _) in &sections {
        let _infallible = writeln!(page, "- [`{name}`](#{})", name.replace(' ', "-"));
    }
    for (name, text) in &sections {
        let _infallible = writeln!(page, "\n## `{name}`\n\n```text\n{text}\n```");
    }
    page
}

/// Collects the name and the help of a command and of the commands below it.
fn collect(commands: &mut Commands, path: &[String], sections: &mut Vec<(String, String)>) {
    let help = commands.help(path);
    let name: Vec<&str> = ["bluetick"].into_iter().chain(path.iter().map(String::as_str)).collect();
    let text: Vec<&str> = help.text.trim_end().lines().map(str::trim_end).collect();
    sections.push((name.join(" "), text.join("\n")));
    for command in help.commands.iter().filter(|command| *command != "help") {
        collect(commands, &[path, std::slice::from_ref(command)].concat(), sections);
    }
}
