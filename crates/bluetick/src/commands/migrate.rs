//! `bluetick migrate`: copies a data directory into the tables of a fleet.

use bluetick_server::audit::Act;
use tokio::runtime;

use super::tables::must_have_tables;
use crate::audit::audited;
use crate::cli::MigrateArgs;
use crate::failure::Failure;
use crate::migrate::{self, MigrationPlan};
use crate::output::print;
use crate::settings::{Inputs, Loaded};

pub fn run(arguments: &MigrateArgs) -> Result<(), Failure> {
    let target = Loaded::load(&Inputs::of_this_process(arguments.flags()))?.settings;
    must_have_tables(&target)?;
    let source = Loaded::load(&Inputs::of_this_process(arguments.source_flags()))?.settings;
    let from = &arguments.from;
    if !from.join("tables").is_dir() {
        return Err(Failure::usage(format!(
            "{} is not a data directory of the embedded store",
            from.display()
        )));
    }
    let plan = MigrationPlan {
        source,
        target,
        verifies: !arguments.no_verify,
        from_start: arguments.from_start,
        into_existing: arguments.into_existing,
    };
    let runtime = runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Failure::failed(format!("cannot start threads: {error}")))?;
    let report = audited(&plan.source, Act::Migrate, None, || runtime.block_on(migrate::run(&plan)))?;
    print(&report.text())?;
    report.judge()
}
