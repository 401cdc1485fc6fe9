//! `bluetick bench`: measuring.

use bluetick_bench::store::{self, StoreBench};
use bluetick_store_embedded::StoreSettings;

use crate::cli::BenchCommand;
use crate::failure::Failure;

pub fn run(command: &BenchCommand) -> Result<(), Failure> {
    let BenchCommand::Store(arguments) = command;
    let mut settings = StoreSettings::default();
    settings.checkpoint_bytes = arguments.checkpoint_bytes.unwrap_or(settings.checkpoint_bytes);
    if let Some(problem) = settings.problem() {
        return Err(Failure::usage(problem));
    }
    let bench = StoreBench {
        directory: arguments.dir.clone(),
        messages: arguments.messages,
        conversations: arguments.conversations as usize,
        in_flight: arguments.in_flight as usize,
        body_bytes: arguments.body as usize,
        read_seconds: arguments.read_seconds,
        settings,
    };
    store::run(bench).map_err(|error| match error {
        store::BenchError::NotEmpty(_) => Failure::usage(error),
        other => Failure::failed(other),
    })
}
