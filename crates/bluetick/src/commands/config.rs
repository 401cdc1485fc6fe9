//! `bluetick config`: what is in force and why, and a file to start from.

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
        }
        ConfigCommand::Example => print(&settings::example())?,
    }
    Ok(())
}
