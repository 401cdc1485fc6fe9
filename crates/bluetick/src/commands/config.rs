//! `bluetick config`: what is in force and why, and a file to start from.

use bluetick_core::time::{Clock, SystemClock};
use bluetick_server::tls_advice;

use crate::cli::ConfigCommand;
use crate::failure::Failure;
use crate::output::print;
use crate::settings::{self, Inputs, Loaded};

pub fn run(command: &ConfigCommand) -> Result<(), Failure> {
    match command {
        ConfigCommand::Check(arguments) => {
            let loaded = Loaded::load(&Inputs::of_this_process(arguments.flags()))?;
            print(&loaded.show())?;
            for advice in loaded.settings.advice() {
                eprintln!("bluetick: {advice}");
            }
            // Last, so that what is in force is shown whatever is wrong with the files.
            let advice = tls_advice(&loaded.settings.server.tls, SystemClock.now());
            if let Some(advice) = advice.map_err(|error| Failure::usage(error.to_string()))? {
                eprintln!("bluetick: {advice}");
            }
        }
        ConfigCommand::Example => print(&settings::example())?,
    }
    Ok(())
}
