//! Copies an embedded store into the tables of a fleet: reads the source, tracks the progress, and
//! reports the result.
//!
//! `bluetick_store_embedded::export` reads the source. `bluetick_store_cloud::import` writes the
//! rows.

mod meter;
mod report;
mod source;
mod store_copy;

use std::sync::Arc;
use std::time::{Duration, Instant};

use bluetick_core::ports::Store;
use bluetick_core::time::{Clock, SystemClock};
use bluetick_core::{Epoch, StoreError};
use bluetick_store_cloud::import::{ImportError, Importer, Marker};
use bluetick_store_cloud::rows::dynamo::{DynamoRows, DynamoSettings};
use bluetick_store_embedded::EmbeddedStore;
use bluetick_store_embedded::export::Inventory;

use self::meter::{MigrationMeter, MigrationStage, MigrationTally};
pub use self::report::MigrationReport;
use self::store_copy::StoreCopy;
use crate::failure::Failure;
use crate::fleet_keys;
use crate::settings::Settings;
use crate::stop_signals::StopSignals;

/// The parameters of a migration.
pub struct MigrationPlan {
    /// The settings of the source server, with its data directory.
    pub source: Settings,
    /// The settings of the fleet.
    pub target: Settings,
    pub verifies: bool,
    pub from_start: bool,
    pub into_existing: bool,
}

/// Minimum deadline for a request to the tables, in milliseconds. DynamoDB throttles new tables for
/// minutes, so a shorter deadline fails the migration.
const PATIENCE_MS: u64 = 300_000;
/// Minimum timeout of one attempt of a request to the tables, in milliseconds. With a shorter one,
/// large batches time out and are repeated.
const ATTEMPT_MS: u64 = 10_000;

pub async fn run(plan: &MigrationPlan) -> Result<MigrationReport, Failure> {
    let mut stop = StopSignals::listen()?;
    let store = source::open(&plan.source).await?;
    let meter = MigrationMeter::new();
    let tally = MigrationTally::default();
    let outcome = tokio::select! {
        outcome = with_meter(&meter, &tally, migrate(plan, &store, &tally, &meter)) => outcome,
        _signal = stop.next() => {
            let goes_on = "copied rows stay, and the same command continues from there";
            Err(Failure::failed(format!("stopped; {goes_on}")))
        }
    };
    meter.clear();
    store.close().await;
    outcome
}

async fn migrate(
    plan: &MigrationPlan,
    store: &Arc<EmbeddedStore>,
    tally: &MigrationTally,
    meter: &MigrationMeter,
) -> Result<MigrationReport, Failure> {
    let began = Instant::now();
    let inventory = store.begin_export().await.map_err(in_source)?;
    source::must_be_readable(&inventory, &plan.source)?;
    let rows = DynamoRows::open(&patient(&plan.target.store.dynamodb)).await.map_err(Failure::failed)?;
    let importer = Importer::new(Arc::new(rows.clone()));
    let mut marker = begin(plan, &inventory, &rows, &importer).await?;
    let mut report = MigrationReport { archived: inventory.archived, ..MigrationReport::default() };
    if inventory.epoch != Epoch::FIRST {
        report.notes.push(format!(
            "the store was restored from a backup once (epoch {}); clients drop their caches and read everything again",
            inventory.epoch.get()
        ));
    }
    let store_copy = StoreCopy { store, importer: &importer, tally, may_replace: marker.began_vacant };
    if let Some(at) = marker.finished_at {
        report.was_finished_at = Some(at);
    } else {
        tally.begin(MigrationStage::Copying, &inventory, &marker);
        store_copy.copy(&mut marker).await?;
        share_keys(plan, &importer, &mut report).await?;
        report.written = tally.written();
        report.were_there = tally.were_there();
    }
    (report.people, report.conversations, report.messages) =
        (marker.people, marker.conversations, marker.messages);
    (report.lost, report.erased) = (marker.lost, marker.erased);
    if plan.verifies {
        meter.clear();
        tally.begin(MigrationStage::Comparing, &inventory, &marker.instead("", 0, false));
        report.comparison = Some(store_copy.compare().await?);
    }
    let is_right = report.comparison.as_ref().is_none_or(|found| found.differences == 0);
    if is_right && marker.finished_at.is_none() {
        marker.finished_at = Some(SystemClock.now());
        importer.save(&mut marker).await.map_err(in_target)?;
    }
    report.took = began.elapsed();
    Ok(report)
}

/// Returns the marker of the copy to resume, or saves that of a new one. Fails if the tables hold
/// another copy, or other data without `--into-existing`.
async fn begin(
    plan: &MigrationPlan,
    inventory: &Inventory,
    rows: &DynamoRows,
    importer: &Importer,
) -> Result<Marker, Failure> {
    let Inventory { name, position, .. } = inventory;
    let other_tables = "use other tables (store.dynamodb.table_prefix)";
    let mut marker = match importer.marker().await.map_err(in_target)? {
        Some(marker) if marker.source == *name => {
            let goes_on = !plan.from_start && marker.position == *position;
            match (marker.finished_at, goes_on) {
                (Some(_), _) if marker.position != *position => {
                    return Err(Failure::failed(format!(
                        "the data directory changed after it had been copied into these tables; {other_tables}"
                    )));
                }
                (Some(_), _) | (None, true) => return Ok(marker),
                // Start over. Keep `began_vacant`: it says whether existing rows are from the
                // earlier run.
                (None, false) => marker.instead(name, *position, marker.began_vacant),
            }
        }
        Some(marker) if marker.finished_at.is_none() => {
            return Err(Failure::failed(format!(
                "another data directory is being copied into these tables; finish that, or {other_tables}"
            )));
        }
        found => {
            let in_use = rows.in_use().await.map_err(Failure::failed)?;
            if let Some(table) = &in_use
                && !plan.into_existing
            {
                return Err(Failure::failed(format!(
                    "table {table} is not empty; {other_tables}, or --into-existing"
                )));
            }
            match found {
                Some(marker) => marker.instead(name, *position, in_use.is_none()),
                None => Marker::new(name, *position, in_use.is_none()),
            }
        }
    };
    importer.save(&mut marker).await.map_err(in_target)?;
    Ok(marker)
}

/// Copies the token key and the admin key to the fleet, if the data directory has them. Reports
/// keys that the fleet already has with another value.
async fn share_keys(
    plan: &MigrationPlan,
    importer: &Importer,
    report: &mut MigrationReport,
) -> Result<(), Failure> {
    for name in fleet_keys::NAMES {
        let path = plan.source.store.data_dir.join(name);
        let Ok(text) = std::fs::read_to_string(&path) else { continue };
        if !importer.share(name, text.trim()).await.map_err(in_target)? {
            report.notes.push(format!("the fleet already has another {name}, which stays"));
        }
    }
    Ok(())
}

async fn with_meter<T>(meter: &MigrationMeter, tally: &MigrationTally, work: impl Future<Output = T>) -> T {
    tokio::pin!(work);
    loop {
        tokio::select! {
            done = &mut work => return done,
            () = tokio::time::sleep(Duration::from_millis(200)) => meter.show(tally),
        }
    }
}

fn patient(settings: &DynamoSettings) -> DynamoSettings {
    DynamoSettings {
        deadline_ms: settings.deadline_ms.max(PATIENCE_MS),
        attempt_timeout_ms: settings.attempt_timeout_ms.max(ATTEMPT_MS),
        ..settings.clone()
    }
}

fn in_source(error: StoreError) -> Failure {
    Failure::failed(format!("the data directory cannot be read: {error}"))
}

fn in_target(error: ImportError) -> Failure {
    Failure::failed(format!("the tables cannot be filled: {error}"))
}
