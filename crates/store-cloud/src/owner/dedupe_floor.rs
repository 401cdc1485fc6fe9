//! The dedupe floor of one conversation, by the monotonic time of its owner.

use std::collections::VecDeque;
use std::time::Duration;

use bluetick_core::Seq;
use tokio::time::Instant;

/// Observations of the head. The floor is the newest head that the owner observed a whole window
/// ago. Wall clocks take no part.
#[derive(Debug)]
pub struct DedupeFloor {
    window: Duration,
    /// Ascending. At most [`SAMPLES`] + 1.
    observed: VecDeque<(Instant, Seq)>,
}

/// The number of observations in one window. With fewer, ids are kept longer than needed; with
/// more, the floor is stored more often.
const SAMPLES: u32 = 32;

impl DedupeFloor {
    pub fn new(window: Duration) -> DedupeFloor {
        DedupeFloor { window, observed: VecDeque::new() }
    }

    /// Records that every row up to `head` exists now. Returns the floor if it has moved.
    pub fn observe(&mut self, head: Seq, now: Instant) -> Option<Seq> {
        let is_due = self
            .observed
            .back()
            .is_none_or(|(at, _)| now.saturating_duration_since(*at) >= self.window / SAMPLES);
        if is_due && head > Seq::ZERO {
            self.observed.push_back((now, head));
        }
        let mut floor = None;
        while self.observed.front().is_some_and(|(at, _)| now.saturating_duration_since(*at) >= self.window) {
            floor = self.observed.pop_front().map(|(_, head)| head);
        }
        floor
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn floor_is_a_head_that_was_observed_a_window_ago() {
        let window = Duration::from_secs(3_200);
        let mut floor = DedupeFloor::new(window);
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        assert_eq!(floor.observe(Seq::new(10), at(0)), None);
        assert_eq!(floor.observe(Seq::new(11), at(50)), None, "too soon for another sample");
        assert_eq!(floor.observe(Seq::new(20), at(100)), None);
        assert_eq!(floor.observe(Seq::new(30), at(3_199)), None);
        assert_eq!(floor.observe(Seq::new(30), at(3_200)), Some(Seq::new(10)));
        assert_eq!(floor.observe(Seq::new(40), at(9_000)), Some(Seq::new(30)));
    }

    #[tokio::test(start_paused = true)]
    async fn samples_stay_few_however_often_the_head_is_observed() {
        let mut floor = DedupeFloor::new(Duration::from_secs(3_200));
        let start = Instant::now();
        for second in 0..20_000 {
            floor.observe(Seq::new(second + 1), start + Duration::from_secs(second));
        }
        assert!(floor.observed.len() <= SAMPLES as usize + 1, "{}", floor.observed.len());
    }
}
