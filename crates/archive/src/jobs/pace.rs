//! The rate limit of a job.

use std::time::{Duration, Instant};

/// Upper bound on one sleep of [`Pace`]. A longer sleep delays shutdown at a slow rate.
const LONGEST_PAUSE: Duration = Duration::from_millis(100);

/// Rate limit of a job, in messages per second, to protect live traffic. Zero means no limit.
pub(super) struct Pace {
    messages_per_second: u64,
    started: Instant,
    moved: u64,
}

impl Pace {
    pub fn new(messages_per_second: u64) -> Pace {
        Pace { messages_per_second, started: Instant::now(), moved: 0 }
    }

    /// Counts moved messages. Unused time accumulates up to one second, which bounds the burst
    /// after a pause.
    pub fn count(&mut self, messages: u64) {
        let used = Duration::from_secs_f64(self.moved as f64 / self.messages_per_second.max(1) as f64);
        let unused = self.started.elapsed().saturating_sub(used);
        self.started += unused.saturating_sub(Duration::from_secs(1));
        self.moved += messages;
    }

    /// Returns how long to sleep before checking again, or `None` if the rate allows to continue.
    /// At most [`LONGEST_PAUSE`], so that shutdown is not delayed.
    pub fn pause(&self) -> Option<Duration> {
        if self.messages_per_second == 0 {
            return None;
        }
        let due = Duration::from_secs_f64(self.moved as f64 / self.messages_per_second as f64);
        let left = due.saturating_sub(self.started.elapsed());
        (!left.is_zero()).then_some(left.min(LONGEST_PAUSE))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zero_rate_never_pauses() {
        let mut pace = Pace::new(0);
        pace.count(1_000_000);
        assert_eq!(pace.pause(), None);
    }

    #[test]
    fn pause_is_bounded_while_the_rate_is_exceeded() {
        let mut pace = Pace::new(1);
        pace.count(1_000);
        assert_eq!(pace.pause(), Some(LONGEST_PAUSE));
    }
}
