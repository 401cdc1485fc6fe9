//! The schedule of an open loop: messages are due at fixed times, regardless of earlier acks. A
//! closed loop would hide latency (coordinated omission), because it sends nothing while it waits.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::Notify;

/// The due time of each message of each sender. Messages are evenly spaced, and the senders take
/// turns.
#[derive(Clone, Copy, Debug)]
pub struct Schedule {
    per_second: u64,
    senders: u64,
}

impl Schedule {
    pub fn new(per_second: u64, senders: usize) -> Schedule {
        assert!(per_second > 0 && senders > 0, "an open loop has a rate and at least one sender");
        Schedule { per_second, senders: senders as u64 }
    }

    /// Returns when a sender's message is due, relative to the start. Senders and messages are
    /// numbered from 0.
    pub fn due(&self, sender: usize, number: u64) -> Duration {
        self.moment(number * self.senders + sender as u64)
    }

    fn moment(&self, turn: u64) -> Duration {
        let nanos = u128::from(turn) * 1_000_000_000 / u128::from(self.per_second);
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    /// Returns how many turns of all senders are due at `elapsed`.
    pub fn turns_by(&self, elapsed: Duration) -> u64 {
        // A turn is due when its time, rounded down to a nanosecond, is not later than `elapsed`.
        let turns = ((elapsed.as_nanos() + 1) * u128::from(self.per_second)).div_ceil(1_000_000_000);
        u64::try_from(turns).unwrap_or(u64::MAX)
    }

    /// Returns how many of the first `turns` turns belong to this sender.
    pub fn of_sender(&self, sender: usize, turns: u64) -> u64 {
        (turns + self.senders - 1 - sender as u64) / self.senders
    }
}

/// Notifies senders when messages are due. It runs on its own thread, because the runtime's timer
/// resolution of one millisecond is as long as the measured latencies.
pub struct Pacer {
    pub schedule: Schedule,
    pub started: Instant,
    turns: AtomicU64,
    wake: Vec<Notify>,
    stop: AtomicBool,
}

/// Lower bound on a sleep of the pacer thread. Shorter sleeps cost more CPU than the added
/// precision is worth.
const LEAST_SLEEP: Duration = Duration::from_micros(50);

impl Pacer {
    /// Starts the pacer thread. It runs until `stop` is called.
    pub fn start(schedule: Schedule) -> Arc<Pacer> {
        let pacer = Arc::new(Pacer {
            schedule,
            started: Instant::now(),
            turns: AtomicU64::new(0),
            wake: (0..schedule.senders).map(|_| Notify::new()).collect(),
            stop: AtomicBool::new(false),
        });
        let keeper = Arc::clone(&pacer);
        std::thread::spawn(move || keeper.keep());
        pacer
    }

    fn keep(&self) {
        let mut told = 0;
        while !self.stop.load(Ordering::Relaxed) {
            let elapsed = self.started.elapsed();
            let turns = self.schedule.turns_by(elapsed);
            if turns > told {
                self.turns.store(turns, Ordering::Release);
                // Notify a sender with several due turns only once.
                for turn in told..turns.min(told + self.schedule.senders) {
                    self.wake[(turn % self.schedule.senders) as usize].notify_one();
                }
                told = turns;
            }
            let next = self.schedule.moment(told);
            std::thread::sleep(next.saturating_sub(self.started.elapsed()).max(LEAST_SLEEP));
        }
        for sender in &self.wake {
            sender.notify_one();
        }
    }

    /// Stops the pacer. No further messages become due.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    pub fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Returns how many messages of this sender are due so far.
    pub fn due_count(&self, sender: usize) -> u64 {
        self.schedule.of_sender(sender, self.turns.load(Ordering::Acquire))
    }

    pub fn turns(&self) -> u64 {
        self.turns.load(Ordering::Acquire)
    }

    pub fn due(&self, sender: usize, number: u64) -> Instant {
        self.started + self.schedule.due(sender, number)
    }

    /// Waits until more messages of this sender are due or the pacer stops.
    pub async fn more(&self, sender: usize) {
        self.wake[sender].notified().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schedule_spaces_messages_evenly_and_alternates_senders() {
        let schedule = Schedule::new(1_000, 4);
        let mut all: Vec<(Duration, usize)> = Vec::new();
        for number in 0..3 {
            for sender in 0..4 {
                all.push((schedule.due(sender, number), sender));
            }
        }
        for (turn, (due, sender)) in all.into_iter().enumerate() {
            assert_eq!((due, sender), (Duration::from_millis(turn as u64), turn % 4));
        }
    }

    #[test]
    fn uneven_rate_does_not_drift() {
        let schedule = Schedule::new(7_777, 3);
        assert_eq!(schedule.moment(7_777 * 3_600), Duration::from_secs(3_600));
    }

    #[test]
    fn due_messages_are_those_scheduled_up_to_now() {
        for rate in [1, 3, 999, 7_777, 100_000, 1_000_000_000] {
            let schedule = Schedule::new(rate, 3);
            for nanos in [0, 1, 999, 1_000, 333_333_333, 333_333_334, 1_000_000_000, 86_399_123_456_789] {
                let elapsed = Duration::from_nanos(nanos);
                let turns = schedule.turns_by(elapsed);
                assert!(schedule.moment(turns - 1) <= elapsed, "{rate} {nanos} {turns}");
                assert!(schedule.moment(turns) > elapsed, "{rate} {nanos} {turns}");
            }
        }
    }

    #[test]
    fn turns_of_all_senders_cover_the_schedule() {
        let schedule = Schedule::new(10, 3);
        for turns in 0..20 {
            let of_each: Vec<u64> = (0..3).map(|sender| schedule.of_sender(sender, turns)).collect();
            assert_eq!(of_each.iter().sum::<u64>(), turns, "{of_each:?}");
        }
        assert_eq!(schedule.of_sender(0, 1), 1);
    }
}
