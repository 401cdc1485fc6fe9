//! The scheduler of archive runs: finishes interrupted erasures when the server starts, then runs
//! the archive at the configured interval.

use std::sync::Arc;
use std::time::Duration;

use bluetick_core::Timestamp;
use bluetick_core::ports::{ArchiveError, ArchiveRun, Random};
use bluetick_core::time::Clock;

use super::{ArchiveJobRunner, ArchiveSchedule, JobOrigin, Task};

/// Maximum sleep before the scheduler reads the clock again. A longer sleep would miss a clock
/// change or a suspended machine for that long.
const MAX_SLEEP: Duration = Duration::from_secs(20);

/// Finishes interrupted erasures, then starts runs until the server stops this task. Returns after
/// the erasures if scheduled runs are disabled. If the archive is off and nothing expires, later
/// runs start only for unfinished erasures.
pub(crate) async fn schedule(
    archiver: Arc<ArchiveJobRunner>,
    schedule: ArchiveSchedule,
    clock: Arc<dyn Clock>,
    random: Arc<dyn Random>,
) {
    let started = clock.now();
    let status = archiver.archive().status().await;
    let mut is_failing = false;
    match &status {
        Ok(status) if status.unfinished_erasures > 0 => {
            tracing::info!(erasures = status.unfinished_erasures, "finishing interrupted erasures");
            is_failing = run_once(&archiver, is_failing).await.unwrap_or(is_failing);
        }
        Ok(_) => {}
        Err(error) => tracing::warn!(%error, "archive status unavailable"),
    }
    let mut is_off = false;
    let mut last = archiver.archive().counters().last_run_at.unwrap_or(started);
    while let Some(due) = schedule.next_run(last, share(&*random)) {
        wait_until(due, &*clock).await;
        let now = clock.now();
        // After a suspend, the current time can be outside the window.
        if schedule.is_open(now) && (!is_off || has_unfinished_erasures(&archiver).await) {
            match run_once(&archiver, is_failing).await {
                Some(failing) => is_failing = failing,
                None => is_off = true,
            }
        }
        last = now;
    }
}

/// Returns whether an erasure was interrupted, or erased content remains in files.
async fn has_unfinished_erasures(archiver: &ArchiveJobRunner) -> bool {
    archiver.archive().status().await.is_ok_and(|status| status.unfinished_erasures > 0)
}

/// Starts a run and waits for its end. Returns whether the last run failed; `None` if the archive
/// is off and nothing expires. A lasting failure is logged once when it begins and once when it
/// ends.
async fn run_once(archiver: &Arc<ArchiveJobRunner>, was_failing: bool) -> Option<bool> {
    let finished = match archiver.start(Task::Run(ArchiveRun::default()), JobOrigin::Schedule) {
        Ok(started) => started.finished().await.map(|_| ()),
        Err(refused) => Err(refused),
    };
    Some(match finished {
        Ok(()) => {
            if was_failing {
                tracing::info!("archive run succeeded again");
            }
            false
        }
        // No archive destination is configured, and no retention time either.
        Err(ArchiveError::Off) => return None,
        // Another job is running, or the server is shutting down.
        Err(ArchiveError::Busy | ArchiveError::Stopped) => was_failing,
        Err(error) => {
            if !was_failing {
                tracing::warn!(%error, "archive run failed; will retry");
            }
            true
        }
    })
}

/// Sleeps until the clock shows `due`.
async fn wait_until(due: Timestamp, clock: &dyn Clock) {
    loop {
        let left = due.millis().saturating_sub(clock.now().millis());
        let Ok(left) = u64::try_from(left) else { return };
        if left == 0 {
            return;
        }
        tokio::time::sleep(Duration::from_millis(left).min(MAX_SLEEP)).await;
    }
}

/// Returns a random number from 0 to 1.
fn share(random: &dyn Random) -> f64 {
    let mut bytes = [0; 4];
    random.fill(&mut bytes);
    f64::from(u32::from_le_bytes(bytes)) / f64::from(u32::MAX)
}
