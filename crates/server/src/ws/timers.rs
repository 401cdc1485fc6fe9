//! The timers of one connection: next ping, idle timeout and token expiry. One sleep serves all
//! three.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bluetick_core::Timestamp;
use bluetick_core::time::Clock;
use bluetick_wire::CloseCode;
use tokio::time::{Instant, Sleep};

use crate::settings::{LimitSettings, seconds};

/// Maximum duration of one sleep. After a change of the wall clock, an expired token is noticed at
/// most this much later.
const MAX_SLEEP: Duration = Duration::from_secs(600);

pub(super) struct Timers {
    clock: Arc<dyn Clock>,
    expires_at: Timestamp,
    ping_every: Option<Duration>,
    idle_after: Option<Duration>,
    last_input_at: Instant,
    pinged_at: Instant,
    sleep: Pin<Box<Sleep>>,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Due {
    Nothing,
    Ping,
    Close(CloseCode),
}

impl Timers {
    pub fn new(limits: &LimitSettings, clock: Arc<dyn Clock>, expires_at: Timestamp) -> Timers {
        let now = Instant::now();
        let mut timers = Timers {
            clock,
            expires_at,
            ping_every: seconds(limits.ping_seconds),
            idle_after: seconds(limits.idle_seconds),
            last_input_at: now,
            pinged_at: now,
            sleep: Box::pin(tokio::time::sleep_until(now)),
        };
        timers.reset();
        timers
    }

    /// Records that the client sent something. The running sleep is not reset; [`Timers::due`]
    /// checks when it fires.
    pub fn input_received(&mut self) {
        self.last_input_at = Instant::now();
    }

    pub fn token_expired(&self) -> bool {
        self.clock.now() >= self.expires_at
    }

    pub fn poll_fired(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.sleep.as_mut().poll(cx)
    }

    /// Returns the action to take after the timer fired. Sets the timer again unless the connection
    /// must close.
    pub fn due(&mut self) -> Due {
        let now = Instant::now();
        if self.token_expired() {
            return Due::Close(CloseCode::TokenExpired);
        }
        if self.idle_after.is_some_and(|after| now >= self.last_input_at + after) {
            return Due::Close(CloseCode::IdleTimeout);
        }
        let ping = self.next_ping().is_some_and(|at| now >= at);
        if ping {
            self.pinged_at = now;
        }
        self.reset();
        if ping { Due::Ping } else { Due::Nothing }
    }

    fn next_ping(&self) -> Option<Instant> {
        self.ping_every.map(|every| self.last_input_at.max(self.pinged_at) + every)
    }

    /// Sets the timer to the earliest deadline.
    fn reset(&mut self) {
        let now = Instant::now();
        let left_ms = self.expires_at.millis().saturating_sub(self.clock.now().millis());
        let expiry = now + Duration::from_millis(u64::try_from(left_ms).unwrap_or(0)).min(MAX_SLEEP);
        let idle = self.idle_after.map(|after| self.last_input_at + after);
        let next = [self.next_ping(), idle].into_iter().flatten().fold(expiry, Instant::min);
        self.sleep.as_mut().reset(next);
    }
}

#[cfg(test)]
mod tests {
    use bluetick_core::time::ManualClock;

    use super::*;

    const NOW: Timestamp = Timestamp::from_millis(1_800_000_000_000);

    fn timers(clock: &Arc<ManualClock>, valid_ms: i64) -> Timers {
        Timers::new(&LimitSettings::default(), Arc::<ManualClock>::clone(clock), NOW.plus_millis(valid_ms))
    }

    async fn fired(timers: &mut Timers) {
        std::future::poll_fn(|cx| timers.poll_fired(cx)).await;
    }

    /// Waits until something is due. Returns it, and after how many seconds it was due.
    async fn next_due(timers: &mut Timers) -> (u64, Due) {
        let start = Instant::now();
        loop {
            fired(timers).await;
            match timers.due() {
                Due::Nothing => {}
                due => return (start.elapsed().as_secs(), due),
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn silent_client_is_pinged_twice_and_then_closed() {
        let mut timers = timers(&Arc::new(ManualClock::at(NOW)), 3_600_000);
        assert_eq!(next_due(&mut timers).await, (25, Due::Ping));
        assert_eq!(next_due(&mut timers).await, (25, Due::Ping));
        assert_eq!(next_due(&mut timers).await, (25, Due::Close(CloseCode::IdleTimeout)));
    }

    #[tokio::test(start_paused = true)]
    async fn active_client_is_not_closed_and_pinged_only_when_idle() {
        let mut timers = timers(&Arc::new(ManualClock::at(NOW)), 3_600_000);
        for _ in 0..10 {
            tokio::time::advance(Duration::from_secs(20)).await;
            timers.input_received();
            assert_eq!(timers.due(), Due::Nothing);
        }
        assert_eq!(next_due(&mut timers).await, (25, Due::Ping));
    }

    #[tokio::test(start_paused = true)]
    async fn token_expiry_wakes_the_connection() {
        let clock = Arc::new(ManualClock::at(NOW));
        let mut timers = timers(&clock, 3_000);
        let start = Instant::now();
        fired(&mut timers).await;
        assert_eq!(start.elapsed().as_secs(), 3);
        clock.advance_millis(3_000);
        assert_eq!(timers.due(), Due::Close(CloseCode::TokenExpired));
    }
}
