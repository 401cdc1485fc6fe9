//! The scheduler of archive runs: finishes interrupted erasures when the server starts, then runs
//! the archive at the configured interval.

use std::sync::Arc;
use std::time::Duration;

use bluetick_core::Timestamp;
use bluetick_core::ports::{ArchiveError, ArchiveRun, Random};
use bluetick_core::time::Clock;

use super::{ArchiveSchedule, Archivist, Asker, Task};

/// Maximum sleep before the scheduler reads the clock again. A longer sleep would miss a clock
/// change or a suspended machine for that long.
const LOOK_AGAIN: Duration = Duration::from_secs(20);

/// Finishes interrupted erasures, then starts runs until the server stops this task. Returns after
/// the erasures if scheduled runs are disabled. If the archive is off and nothing expires, later
/// runs start only for unfinished erasures.
pub(crate) async fn schedule(
    archivist: Arc<Archivist>,
    schedule: ArchiveSchedule,
    clock: Arc<dyn Clock>,
    random: Arc<dyn Random>,
) {
    let started = clock.now();
    let status = archivist.archive().status().await;
    let mut is_paused = false;
    match &status {
        Ok(status) if status.unfinished_erasures > 0 => {
            tracing::info!(erasures = status.unfinished_erasures, "finishing what was to be erased");
            is_paused = take_turn(&archivist, is_paused).await.unwrap_or(is_paused);
        }
        Ok(_) => {}
        Err(error) => tracing::warn!(%error, "the archive does not say how it is"),
    }
    let mut is_off = false;
    let mut last = archivist.archive().counters().last_run_at.unwrap_or(started);
    while let Some(due) = schedule.next_turn(last, share(&*random)) {
        wait_until(due, &*clock).await;
        let now = clock.now();
        // After a suspend, the current time can be outside the window.
        if schedule.is_open(now) && (!is_off || has_unfinished_erasures(&archivist).await) {
            match take_turn(&archivist, is_paused).await {
                Some(paused) => is_paused = paused,
                None => is_off = true,
            }
        }
        last = now;
    }
}

/// Returns whether an erasure was interrupted, or erased content remains in files.
async fn has_unfinished_erasures(archivist: &Archivist) -> bool {
    archivist.archive().status().await.is_ok_and(|status| status.unfinished_erasures > 0)
}

/// Starts a run and waits for its end. Returns whether the last run failed; `None` if the archive
/// is off and nothing expires. A lasting failure is logged once when it begins and once when it
/// ends.
async fn take_turn(archivist: &Arc<Archivist>, was_paused: bool) -> Option<bool> {
    let ended = match archivist.begin(Task::Run(ArchiveRun::default()), Asker::Schedule) {
        Ok(taken) => taken.ended().await.map(|_| ()),
        Err(refused) => Err(refused),
    };
    Some(match ended {
        Ok(()) => {
            if was_paused {
                tracing::info!("the archive goes on");
            }
            false
        }
        // No archive destination is configured, and no retention time either.
        Err(ArchiveError::Off) => return None,
        // Another job is running, or the server is shutting down.
        Err(ArchiveError::Busy | ArchiveError::Stopped) => was_paused,
        Err(error) => {
            if !was_paused {
                tracing::warn!(%error, "the archive is paused; it tries again at its next turn, and everything else goes on");
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
        tokio::time::sleep(Duration::from_millis(left).min(LOOK_AGAIN)).await;
    }
}

/// Returns a random number from 0 to 1.
fn share(random: &dyn Random) -> f64 {
    let mut bytes = [0; 4];
    random.fill(&mut bytes);
    f64::from(u32::from_le_bytes(bytes)) / f64::from(u32::MAX)
}
