//! Bluetick: the server and its command-line tools in one binary. This crate reads the settings,
//! assembles the parts, and talks to the operator. The chat itself is in the other crates.

mod archive;
mod audit;
mod banner;
mod cli;
mod commands;
mod failure;
mod figures;
#[cfg(feature = "fleet")]
mod fleet_keys;
#[cfg(feature = "fleet")]
mod fleet_store;
mod logging;
#[cfg(feature = "fleet")]
mod migrate;
mod output;
mod plan;
mod preflight;
mod prompt;
mod running;
mod settings;
mod stop_signals;
mod store;
mod users;

use std::process::ExitCode;

use clap::Parser;
use rustix::fs::Mode;

use crate::cli::{Cli, Command};
#[cfg(not(feature = "fleet"))]
use crate::failure::Failure;
#[cfg(not(feature = "fleet"))]
use crate::settings::NO_FLEET_ENGINE;

/// jemalloc uses a quarter less CPU time per message than the system allocator. It also returns
/// memory to the system after a load peak.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    // Files of the store, the archive and `bluetick chat` hold messages: only the owner may read
    // them.
    rustix::process::umask(Mode::RWXG | Mode::RWXO);
    let command = Cli::parse().command.unwrap_or_else(|| Command::Serve(Default::default()));
    let done = match &command {
        Command::Serve(arguments) => commands::serve::run(arguments),
        Command::User(command) => commands::user::run(command),
        Command::Archive(command) => commands::archive::run(command),
        Command::Erase(command) => commands::erase::run(command),
        Command::Backup(arguments) => commands::backup::run(arguments),
        Command::Restore(arguments) => commands::restore::run(arguments),
        Command::Restored(arguments) => commands::restored::run(arguments),
        Command::Check(arguments) => commands::check::run(arguments),
        Command::Token(arguments) => commands::token::run(arguments),
        Command::Chat(arguments) => commands::chat::run(arguments),
        Command::Config(command) => commands::config::run(command),
        Command::Bench(arguments) => commands::bench::run(arguments),
        Command::Health(arguments) => commands::health::run(arguments),
        Command::Plan(arguments) => commands::plan::run(arguments),
        #[cfg(feature = "fleet")]
        Command::Tables(command) => commands::tables::run(command),
        #[cfg(feature = "fleet")]
        Command::Hot(arguments) => commands::hot::run(arguments),
        #[cfg(feature = "fleet")]
        Command::Migrate(arguments) => commands::migrate::run(arguments),
        #[cfg(not(feature = "fleet"))]
        Command::Tables(_) | Command::Hot(_) | Command::Migrate(_) => Err(Failure::usage(NO_FLEET_ENGINE)),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}
