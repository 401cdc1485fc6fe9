//! `bluetick tables`: creates the tables of a fleet and checks them.

use std::fmt::Display;
use std::future::Future;
use std::io::{self, IsTerminal};
use std::time::Duration;

use bluetick_core::{Epoch, StoreError};
use bluetick_fleet_settings::masked;
use bluetick_store_cloud::raise_epoch;
use bluetick_store_cloud::rows::RowsError;
use bluetick_store_cloud::rows::dynamo::tables::{self, Findings};
use bluetick_store_cloud::rows::dynamo::{Connection, DynamoRows, DynamoSettings};
use tokio::runtime;
use tokio::time::{Instant, sleep};

use crate::cli::{RestoredArgs, TablesArgs, TablesCommand};
use crate::failure::Failure;
use crate::figures::{counted, time};
use crate::output::print;
use crate::prompt::ask;
use crate::settings::{Inputs, Loaded, Settings, StoreEngine};

/// Interval between the lines that report waiting. Creating tables on AWS takes some seconds; with
/// a longer interval the command seems to hang.
const SAY_EVERY: Duration = Duration::from_secs(5);

pub fn run(command: &TablesCommand) -> Result<(), Failure> {
    match command {
        TablesCommand::Create(arguments) => {
            let settings = settings(arguments)?;
            let done = block_on(waiting_for("the tables", create(&settings)))?;
            print(&(done.join("\n") + "\n"))
        }
        TablesCommand::Check(arguments) => {
            let settings = settings(arguments)?;
            let found = block_on(waiting_for("the engine", check(&settings)))?;
            print(&told(&found))?;
            judge(&found)
        }
        TablesCommand::Restored(arguments) => {
            let settings = settings(&arguments.tables)?;
            consent(arguments, &settings)?;
            let epoch = block_on(waiting_for("the tables", restored(&settings)))?;
            print(&format!("the epoch is {} now; start the nodes, with an empty Redis\n", epoch.get()))
        }
    }
}

fn consent(arguments: &RestoredArgs, settings: &DynamoSettings) -> Result<(), Failure> {
    if arguments.yes {
        return Ok(());
    }
    if !io::stdin().is_terminal() {
        let advice = "every client drops its cache; pass --yes if there is no terminal";
        return Err(Failure::usage(advice));
    }
    let prefix = &settings.table_prefix;
    eprintln!(
        "Every client of the tables {prefix}… will drop its cache and read everything again. No node may serve them now."
    );
    if ask("Type yes to continue: ")? == "yes" { Ok(()) } else { Err(Failure::usage("nothing was changed")) }
}

async fn restored(settings: &DynamoSettings) -> Result<Epoch, StoreError> {
    let rows = DynamoRows::open(settings).await.map_err(StoreError::from)?;
    raise_epoch(&rows).await
}

async fn create(settings: &DynamoSettings) -> Result<Vec<String>, String> {
    let created = async { tables::create(&Connection::new(settings).await?).await };
    created.await.map_err(|error: RowsError| with_endpoint(&error, settings))
}

async fn check(settings: &DynamoSettings) -> Result<Findings, String> {
    let checked = async { tables::check(&Connection::new(settings).await?).await };
    checked.await.map_err(|error: RowsError| with_endpoint(&error, settings))
}

/// Adds the configured endpoint to an error of the tables.
pub fn with_endpoint(error: &impl Display, settings: &DynamoSettings) -> String {
    match &settings.endpoint {
        Some(endpoint) => format!("{error} (store.dynamodb.endpoint {})", masked(endpoint)),
        None => error.to_string(),
    }
}

fn settings(arguments: &TablesArgs) -> Result<DynamoSettings, Failure> {
    let settings = Loaded::load(&Inputs::of_this_process(arguments.flags()))?.settings;
    must_have_tables(&settings)?;
    Ok(settings.store.dynamodb)
}

/// Fails unless `store.engine` is "dynamodb".
pub fn must_have_tables(settings: &Settings) -> Result<(), Failure> {
    match settings.store.engine {
        StoreEngine::DynamoDb => Ok(()),
        StoreEngine::Embedded => Err(Failure::usage(
            "store.engine is \"embedded\", which keeps everything in the data directory; set it to \"dynamodb\" \
             (BLUETICK_STORE__ENGINE=dynamodb), and store.dynamodb and store.redis with it",
        )),
    }
}

pub fn block_on<T>(work: impl Future<Output = Result<T, impl Display>>) -> Result<T, Failure> {
    let runtime = runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Failure::failed(format!("cannot start: {error}")))?;
    runtime.block_on(work).map_err(Failure::failed)
}

/// Awaits `work`, and reports on standard error every `SAY_EVERY` that it is still waiting.
pub async fn waiting_for<T>(whom: &str, work: impl Future<Output = T>) -> T {
    let began = Instant::now();
    tokio::pin!(work);
    loop {
        tokio::select! {
            done = &mut work => return done,
            () = sleep(SAY_EVERY) => eprintln!("bluetick: waiting for {whom}, {} so far", time(began.elapsed())),
        }
    }
}

fn told(found: &Findings) -> String {
    let all = [&found.wrong, &found.unprotected, &found.notes];
    let lines: String = all.into_iter().flatten().map(|sentence| format!("{sentence}\n")).collect();
    if found.wrong.is_empty() && found.unprotected.is_empty() {
        lines + "the tables are correct\n"
    } else {
        lines
    }
}

fn judge(found: &Findings) -> Result<(), Failure> {
    let mends = "`bluetick tables create` creates missing tables and protects all tables";
    let (wrong, unprotected) = (found.wrong.len() as u64, found.unprotected.len() as u64);
    match (wrong, unprotected) {
        (0, 0) => Ok(()),
        (0, _) => {
            let safeties =
                if unprotected == 1 { "1 protection is" } else { &format!("{unprotected} protections are") };
            Err(Failure::failed(format!("the tables work, and {safeties} off; {mends}")))
        }
        _ => {
            let tables = counted(wrong, "table");
            Err(Failure::failed(format!("a node does not start with {tables} wrong or missing; {mends}")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failed(found: &Findings) -> Option<String> {
        match judge(found) {
            Ok(()) => None,
            Err(Failure::Failed(sentence) | Failure::Usage(sentence)) => Some(sentence),
        }
    }

    #[test]
    fn table_feature_unknown_to_the_engine_is_reported_without_failure() {
        let found = Findings { notes: vec!["table a: this engine has no x".into()], ..Findings::default() };
        assert_eq!(failed(&found), None);
        assert_eq!(told(&found), "table a: this engine has no x\nthe tables are correct\n");
    }

    #[test]
    fn wrong_or_unprotected_tables_are_a_failure() {
        let wrong = Findings { wrong: vec!["table a is missing".into()], ..Findings::default() };
        assert!(failed(&wrong).is_some_and(|said| said.contains("1 table wrong or missing")));
        let off = vec!["table a: x is off".into(), "table b: x is off".into()];
        let unprotected = Findings { unprotected: off, ..Findings::default() };
        assert!(failed(&unprotected).is_some_and(|said| said.contains("2 protections are off")));
        assert_eq!(told(&unprotected), "table a: x is off\ntable b: x is off\n");
    }
}
