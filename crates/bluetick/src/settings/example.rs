//! Prints an example settings file: every setting with its default, commented out.

use std::fmt::Write;

use super::catalogue::{self, SettingKind};
use super::environment;

pub fn example() -> String {
    let mut text = String::from(
        "# Bluetick's settings with their defaults. Remove the # before a setting to change it.\n\
         # Read from --config FILE, or BLUETICK_CONFIG, or ./bluetick.toml. The environment overrides the file\n\
         # and flags override both; for example, ",
    );
    let _infallible = writeln!(
        text,
        "{}=0 is limits.sends_per_second = 0.",
        environment::name_of("limits.sends_per_second")
    );
    let mut section = String::new();
    for known in catalogue::all() {
        if known.section() != section {
            section = known.section().into();
            let _infallible = writeln!(text, "\n[{section}]");
            if section == "limits" {
                text.push_str("# 0 disables a limit.\n");
            }
        }
        let value = match (&known.default, known.kind) {
            (Some(value), _) => value.to_string(),
            (None, SettingKind::Text) => "\"\"".into(),
            (None, _) => continue,
        };
        let unset = if known.default.is_none() { " Not set by default." } else { "" };
        let _infallible = writeln!(text, "# {}{unset}\n#{} = {value}", known.about, known.name());
    }
    text
}
