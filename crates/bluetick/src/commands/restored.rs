//! `bluetick restored`: declares that the data directory is an earlier copy of itself.

use std::io::{self, IsTerminal};

use bluetick_core::ports::SystemRandom;
use bluetick_core::time::SystemClock;
use bluetick_server::audit::Act;
use bluetick_store_embedded::LockError;
use bluetick_store_embedded::backup::{DeclareError, ReplacedStore};
use serde_json::json;

use crate::audit::audited;
use crate::cli::PutBackArgs;
use crate::failure::Failure;
use crate::output::print;
use crate::prompt::ask;
use crate::settings::{Inputs, Loaded, Settings, StoreEngine};

pub fn run(arguments: &PutBackArgs) -> Result<(), Failure> {
    let settings = Loaded::load(&Inputs::of_this_process(arguments.places.flags()))?.settings;
    if settings.store.engine != StoreEngine::Embedded {
        return Err(Failure::usage(
            "this changes the epoch of a data directory of the embedded store; a fleet has `bluetick tables restored`",
        ));
    }
    let put_back = ReplacedStore::open(&settings.store.data_dir).map_err(failure)?;
    consent(arguments, &settings)?;
    let epoch = audited(&settings, Act::Restored, None, || {
        put_back.declare_restored(&SystemClock, &SystemRandom).map_err(failure)
    })?;
    if arguments.output.json {
        let body = json!({"data_dir": settings.store.data_dir, "epoch": epoch.get()});
        return print(&(serde_json::to_string_pretty(&body).expect("strings and numbers only") + "\n"));
    }
    print(&format!("the epoch is {} now; clients drop their caches and read everything again\n", epoch.get()))
}

fn consent(arguments: &PutBackArgs, settings: &Settings) -> Result<(), Failure> {
    if arguments.yes {
        return Ok(());
    }
    if !io::stdin().is_terminal() {
        let advice = "every client drops its cache; pass --yes if there is no terminal";
        return Err(Failure::usage(advice));
    }
    let data_dir = settings.store.data_dir.display();
    eprintln!("Every client of {data_dir} will drop its cache and read everything again.");
    if ask("Type yes to continue: ")? == "yes" { Ok(()) } else { Err(Failure::usage("nothing was changed")) }
}

fn failure(error: DeclareError) -> Failure {
    match error {
        DeclareError::Lock { error: LockError::InUse(_), .. } => {
            Failure::usage(format!("{error}; stop the server first"))
        }
        DeclareError::Lock { .. } | DeclareError::NoStore(_) | DeclareError::HalfRestored(_) => {
            Failure::usage(error)
        }
        other => Failure::failed(other),
    }
}
