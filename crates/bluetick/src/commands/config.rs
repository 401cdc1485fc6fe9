//! `bluetick config`: shows the effective settings and their sources, checks whether a server would
//! start with them, and prints an example file.

use crate::cli::{ConfigCheckArgs, ConfigCommand};
use crate::failure::Failure;
use crate::output::print;
use crate::preflight::{self, PreflightFindings};
use crate::settings::{self, Inputs, Loaded};

pub fn run(command: &ConfigCommand) -> Result<(), Failure> {
    match command {
        ConfigCommand::Check(arguments) => check(arguments),
        ConfigCommand::Example => print(&settings::example()),
    }
}

/// Shows the effective settings. Fails with every mistake that keeps a server from starting.
fn check(arguments: &ConfigCheckArgs) -> Result<(), Failure> {
    let (loaded, mistakes) = Loaded::load_what_fits(&Inputs::of_this_process(arguments.serve.flags()));
    print(&loaded.show())?;
    let found = match arguments.settings_only {
        true => PreflightFindings::default(),
        false => {
            let is_named = |part: &str| mistakes.iter().any(|mistake| mistake.is_about(part));
            preflight::everything(&loaded.settings, &is_named)
        }
    };
    for advice in loaded.settings.advice().chain(found.advice) {
        eprintln!("bluetick: {advice}");
    }
    let mistakes = mistakes.into_iter().map(Failure::usage);
    match Failure::all(mistakes.chain(found.mistakes).collect()) {
        // Every mistake is a usage error: the operator fixes it in the settings.
        Some(mistakes) => Err(Failure::usage(mistakes)),
        None => Ok(()),
    }
}
