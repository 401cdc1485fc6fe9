//! Section `[log]`.

use serde::{Deserialize, Serialize};
use tracing_subscriber::filter::{LevelFilter, Targets};

use super::suggest;

#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct LogSettings {
    pub format: LogFormat,
    /// `LEVEL`, or a list such as `info,bluetick_server=debug`.
    pub filter: String,
}

impl LogSettings {
    /// Parses a filter. `None` if it is invalid. A word alone must be a level: the parser would
    /// take a mistyped level for a module name and silence all other modules.
    pub fn targets(filter: &str) -> Option<Targets> {
        let readable = |part: &str| match part.split_once('=') {
            Some((module, level)) => {
                !module.is_empty() && !level.is_empty() && level.parse::<LevelFilter>().is_ok()
            }
            None => !part.is_empty() && part.parse::<LevelFilter>().is_ok(),
        };
        if filter.split(',').all(readable) { filter.parse().ok() } else { None }
    }

    /// Replaces invalid levels in the filter with the nearest valid ones. `None` if no level is
    /// near.
    pub fn meant(filter: &str) -> Option<String> {
        /// The levels that `meant` may suggest.
        const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];
        let level = |text: &str| suggest::nearest(&text.trim().to_lowercase(), LEVELS.into_iter());
        let parts =
            filter.split(',').filter(|part| !part.trim().is_empty()).map(|part| match part.split_once('=') {
                Some((module, text)) => Some(format!("{}={}", module.trim(), level(text)?)),
                None => level(part).map(str::to_owned),
            });
        let meant = parts.collect::<Option<Vec<_>>>()?.join(",");
        LogSettings::targets(&meant).map(|_| meant)
    }
}

impl Default for LogSettings {
    fn default() -> Self {
        LogSettings { format: LogFormat::Auto, filter: "info".into() }
    }
}

#[derive(Clone, Copy, Debug, Deserialize, Serialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// Human on a terminal, JSON otherwise.
    Auto,
    Human,
    Json,
}
