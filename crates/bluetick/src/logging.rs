//! Sets up logging to standard error: human-readable on a terminal, JSON otherwise.

use std::io::{self, IsTerminal};

use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Layer, fmt, registry};

use crate::failure::Failure;
use crate::settings::{LogFormat, LogSettings};

/// The environment variable that overrides `log.filter`.
const FILTER_VARIABLE: &str = "BLUETICK_LOG";

pub fn start(settings: &LogSettings) -> Result<(), Failure> {
    let on_terminal = io::stderr().is_terminal();
    let human = match settings.format {
        LogFormat::Auto => on_terminal,
        LogFormat::Human => true,
        LogFormat::Json => false,
    };
    let lines = if human {
        fmt::layer().with_writer(io::stderr).with_ansi(on_terminal).boxed()
    } else {
        fmt::layer().json().flatten_event(true).with_writer(io::stderr).boxed()
    };
    registry().with(lines.with_filter(filter(settings)?)).init();
    Ok(())
}

/// Checks whether [`start`] would succeed.
pub fn check(settings: &LogSettings) -> Result<(), Failure> {
    filter(settings).map(|_| ())
}

fn filter(settings: &LogSettings) -> Result<Targets, Failure> {
    match std::env::var(FILTER_VARIABLE) {
        Ok(text) => LogSettings::targets(&text).ok_or_else(|| {
            let expected = "a level or a list such as info,bluetick_server=debug";
            let meant = LogSettings::meant(&text).map(|meant| format!("; did you mean {meant:?}?"));
            let meant = meant.unwrap_or_default();
            Failure::usage(format!("{FILTER_VARIABLE} cannot be {text:?}: expected {expected}{meant}"))
        }),
        // Loading the settings reported an invalid filter already.
        Err(_) => Ok(LogSettings::targets(&settings.filter).unwrap_or_default()),
    }
}
