//! Limits the logging of repeated trouble in the accept loop to one line when an episode begins and
//! one when it ends.

use std::time::Duration;

use tokio::time::Instant;

/// Time without trouble after which the next accepted connection ends the episode. A shorter time
/// would log many short episodes, because successes and failures alternate while file descriptors
/// are scarce.
const QUIET: Duration = Duration::from_secs(10);

/// Counts one kind of trouble in the current episode, for the log.
#[derive(Debug, Default)]
pub(super) struct Episode {
    count: u64,
    last: Option<Instant>,
}

impl Episode {
    /// Counts one occurrence. Returns whether it is the first of an episode, which the caller logs.
    pub fn begins(&mut self, now: Instant) -> bool {
        self.count += 1;
        self.last.replace(now).is_none()
    }

    /// Records an accepted connection. If it ends the episode, returns the number of occurrences,
    /// which the caller logs.
    pub fn ends(&mut self, now: Instant) -> Option<u64> {
        let last = self.last?;
        if now.duration_since(last) < QUIET {
            return None;
        }
        let count = self.count;
        *self = Episode::default();
        Some(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn episode_is_reported_once_at_its_begin_and_once_at_its_end() {
        let (mut failures, start) = (Episode::default(), Instant::now());
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
