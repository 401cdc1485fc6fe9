//! `bluetick restore`: creates a data directory from a backup.

use std::fmt::Write;
use std::sync::Arc;
use std::time::Instant;

use bluetick_archive::{BackupDestination, BackupLocation};
use bluetick_core::Timestamp;
use bluetick_core::ports::SystemRandom;
use bluetick_core::time::SystemClock;
use bluetick_server::audit::Act;
use bluetick_store_embedded::backup::{RestoreError, RestoreParts, Restored, restore};
use serde_json::json;

use crate::archive::JobMeter;
use crate::audit::note_done;
use crate::cli::RestoreArgs;
use crate::failure::Failure;
use crate::figures::{counted, time, utc};
use crate::output::print;
use crate::settings::{Inputs, Loaded, StoreEngine};

pub fn run(arguments: &RestoreArgs) -> Result<(), Failure> {
    let settings = Loaded::load(&Inputs::of_this_process(arguments.places.flags()))?.settings;
    if settings.store.engine != StoreEngine::Embedded {
        return Err(Failure::usage(
            "a backup becomes a data directory of the embedded store; `bluetick migrate` copies one into the tables of a fleet",
        ));
    }
    let place: BackupLocation = arguments.from.parse().map_err(Failure::usage)?;
    let destination = BackupDestination::open(&place, &settings.archive, false).map_err(Failure::usage)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .map_err(|error| Failure::failed(format!("cannot start threads: {error}")))?;
    let (started, meter) = (Instant::now(), Arc::new(JobMeter::new(arguments.output.json)));
    let data_dir = settings.store.data_dir.clone();
    let restoring = restore(RestoreParts {
        destination,
        data_dir: data_dir.clone(),
        segment_bytes: settings.store.embedded.segment_bytes,
        clock: Arc::new(SystemClock),
        random: Arc::new(SystemRandom),
        progress: Arc::clone(&meter) as _,
    });
    let restored = runtime.block_on(restoring);
    meter.clear();
    let restored = restored.map_err(failure)?;
    // The audit trail starts here: the directory must be empty before the restore.
    note_done(&settings, Act::Restore)?;
    let Restored { manifest, epoch, with_keys } = &restored;
    if arguments.output.json {
        let body = json!({
            "data_dir": data_dir,
            "made_at": manifest.made_at,
            "epoch": epoch.get(),
            "accounts": manifest.accounts,
            "conversations": manifest.conversations,
            "messages": manifest.messages,
            "archived_messages": manifest.archived_messages,
            "archive": manifest.archive,
            "with_keys": with_keys,
            "took_ms": u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX),
        });
        return print(&(serde_json::to_string_pretty(&body).expect("strings and numbers only") + "\n"));
    }
    let mut text = String::new();
    let mut line = |name: &str, about: String| {
        let _infallible = writeln!(text, "{name:<14} {about}");
    };
    line("Restored", data_dir.display().to_string());
    line("Snapshot of", utc(Timestamp::from_millis(manifest.made_at)));
    let (messages, conversations) =
        (counted(manifest.messages, "message"), counted(manifest.conversations, "conversation"));
    line("Contains", format!("{messages} in {conversations}, {}", counted(manifest.accounts, "account")));
    if manifest.archived_messages > 0 {
        let archived = counted(manifest.archived_messages, "message");
        line("In the archive", format!("{archived}, in {}", named(&manifest.archive)));
    }
    line("Epoch", format!("{}; clients drop their caches and read everything again", epoch.get()));
    if !with_keys {
        line(
            "Keys",
            "not in the backup; put token.key and admin.key back, or the server creates new ones".to_owned(),
        );
    }
    line("Took", time(started.elapsed()));
    print(&text)
}

fn named(archive: &str) -> &str {
    if archive.is_empty() { "an archive that was off when the backup was made" } else { archive }
}

fn failure(error: RestoreError) -> Failure {
    match error {
        RestoreError::NoBackup(_)
        | RestoreError::NotEmpty(_)
        | RestoreError::Interrupted(_)
        | RestoreError::Lock { .. } => Failure::usage(error),
        other => Failure::failed(other),
    }
}
