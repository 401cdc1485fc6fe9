//! Limits the logging of failed accepts to one line when an episode of failures begins and one when
//! it ends.

use std::io;
use std::time::Duration;

use tokio::time::Instant;

/// Time without a failure after which the next accepted connection ends the episode. A shorter time
/// would log many short episodes, because successes and failures alternate while file descriptors
/// are scarce.
const QUIET: Duration = Duration::from_secs(10);

/// Counts failed accepts in the current episode, for the log.
#[derive(Debug, Default)]
pub(super) struct AcceptFailures {
    failed: u64,
    last: Option<Instant>,
}

impl AcceptFailures {
    /// Records a failed accept. Logs the first one of an episode.
    pub fn failed(&mut self, error: &io::Error, now: Instant) {
        if self.begins(now) {
            tracing::warn!(%error, "accept failed; will retry");
        }
    }

    /// Records an accepted connection. Logs the end of an episode.
    pub fn accepted(&mut self, now: Instant) {
        if let Some(failed_accepts) = self.ends(now) {
            tracing::info!(failed_accepts, "accepting connections again");
        }
    }

    /// Counts a failure. Returns whether it is the first of an episode.
    fn begins(&mut self, now: Instant) -> bool {
        self.failed += 1;
        self.last.replace(now).is_none()
    }

    /// Returns the number of failures if this success ends the episode.
    fn ends(&mut self, now: Instant) -> Option<u64> {
        let last = self.last?;
        if now.duration_since(last) < QUIET {
            return None;
        }
        let failed = self.failed;
        *self = AcceptFailures::default();
        Some(failed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failure_episode_is_logged_once_at_its_begin_and_once_at_its_end() {
        let (mut failures, start) = (AcceptFailures::default(), Instant::now());
        let at = |seconds| start + Duration::from_secs(seconds);
        assert_eq!(failures.ends(at(0)), None);
        assert!(failures.begins(at(0)));
        for second in 1..=100 {
            assert!(!failures.begins(at(second)));
            assert_eq!(failures.ends(at(second)), None);
        }
        assert_eq!(failures.ends(at(109)), None);
        assert_eq!(failures.ends(at(110)), Some(101));
        assert_eq!(failures.ends(at(120)), None);
        assert!(failures.begins(at(121)));
    }
}
