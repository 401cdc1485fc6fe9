//! The archive's own turns: finishes erasures when the server starts, and then runs as often as it is set.

use std::sync::Arc;
use std::time::Duration;

use bluetick_core::Timestamp;
use bluetick_core::ports::{ArchiveError, ArchiveRun, Random};
use bluetick_core::time::Clock;

use super::{ArchiveSchedule, Archivist, Asker, Task};

/// The clock is looked at again this often at least: it may be set, and a machine may sleep.
const LOOK_AGAIN: Duration = Duration::from_secs(20);

/// Runs until the server stops it. Returns immediately if the archive runs only on request. If the
/// archive is off and nothing expires, it only finishes erasures.
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
        // A machine that slept may wake up at another hour.
        if schedule.is_open(now) && (!is_off || has_unfinished_erasures(&archivist).await) {
            match take_turn(&archivist, is_paused).await {
                Some(paused) => is_paused = paused,
                None => is_off = true,
            }
        }
        last = now;
    }
}

/// Whether an erasure was interrupted, or erased content remains in files.
async fn has_unfinished_erasures(archivist: &Archivist) -> bool {
    archivist.archive().status().await.is_ok_and(|status| status.unfinished_erasures > 0)
}

/// Returns whether the archive is paused now; `None` when it is off and nothing expires. A lasting
/// failure is logged once when it begins and once when it ends.
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
        // No place to move to, and nothing that expires.
        Err(ArchiveError::Off) => return None,
        // Somebody else's job is under way, or the server is going.
        Err(ArchiveError::Busy | ArchiveError::Stopped) => was_paused,
        Err(error) => {
            if !was_paused {
                tracing::warn!(%error, "the archive is paused; it tries again at its next turn, and everything else goes on");
            }
            true
        }
    })
}

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

fn share(random: &dyn Random) -> f64 {
    let mut bytes = [0; 4];
    random.fill(&mut bytes);
    f64::from(u32::from_le_bytes(bytes)) / f64::from(u32::MAX)
}
