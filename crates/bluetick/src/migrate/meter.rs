//! Shows the progress of a migration on standard error: a redrawn line on a terminal, otherwise a
//! line every few seconds.

use std::io::{self, IsTerminal, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bluetick_store_cloud::import::{Copied, Marker};
use bluetick_store_embedded::export::Inventory;
use parking_lot::Mutex;

use crate::figures::{count, time};

/// Minimum time between two lines when standard error is not a terminal. A shorter one floods logs.
const LINE_EVERY: Duration = Duration::from_secs(5);
/// Minimum elapsed time before a rate is shown. Rates over a shorter time are misleading.
const RATE_AFTER: Duration = Duration::from_secs(1);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MigrationStage {
    Copying,
    Comparing,
}

/// Counters of a migration, updated while it runs.
#[derive(Default)]
pub struct MigrationTally {
    stage: Mutex<Option<StageStart>>,
    conversations: AtomicU64,
    messages: AtomicU64,
    written: AtomicU64,
    were_there: AtomicU64,
}

#[derive(Clone, Copy)]
struct StageStart {
    stage: MigrationStage,
    at: Instant,
    /// Messages that an earlier run copied. The rate leaves them out.
    messages_before: u64,
    conversations_total: u64,
    messages_total: u64,
}

impl MigrationTally {
    /// Starts a stage. The counters continue from the progress in `marker`.
    pub fn begin(&self, stage: MigrationStage, inventory: &Inventory, marker: &Marker) {
        self.conversations.store(marker.conversations, Ordering::Relaxed);
        self.messages.store(marker.messages, Ordering::Relaxed);
        let begun = StageStart {
            stage,
            at: Instant::now(),
            messages_before: marker.messages,
            conversations_total: inventory.conversations,
            messages_total: inventory.messages,
        };
        *self.stage.lock() = Some(begun);
    }

    pub fn passed_conversation(&self) {
        self.conversations.fetch_add(1, Ordering::Relaxed);
    }

    pub fn passed_messages(&self, number: u64) {
        self.messages.fetch_add(number, Ordering::Relaxed);
    }

    pub fn copied(&self, copied: Copied) {
        self.written.fetch_add(copied.written, Ordering::Relaxed);
        self.were_there.fetch_add(copied.were_there, Ordering::Relaxed);
    }

    pub fn written(&self) -> u64 {
        self.written.load(Ordering::Relaxed)
    }

    pub fn were_there(&self) -> u64 {
        self.were_there.load(Ordering::Relaxed)
    }

    /// The progress line. `None` before the first stage.
    fn line(&self, now: Instant) -> Option<String> {
        let begun = (*self.stage.lock())?;
        let (conversations, messages) =
            (self.conversations.load(Ordering::Relaxed), self.messages.load(Ordering::Relaxed));
        Some(line(&begun, conversations, messages, now - begun.at))
    }
}

fn line(begun: &StageStart, conversations: u64, messages: u64, elapsed: Duration) -> String {
    let doing = match begun.stage {
        MigrationStage::Copying => "copying",
        MigrationStage::Comparing => "comparing",
    };
    let mut text = format!(
        "{doing} {}/{} conversations, {}/{} messages",
        count(conversations),
        count(begun.conversations_total.max(conversations)),
        count(messages),
        count(begun.messages_total.max(messages)),
    );
    let done = messages.saturating_sub(begun.messages_before);
    if elapsed >= RATE_AFTER && done > 0 {
        let per_second = done as f64 / elapsed.as_secs_f64();
        text += &format!("  {}/s", count(per_second.round() as u64));
        if messages < begun.messages_total {
            let left = (begun.messages_total - messages) as f64 / per_second;
            text += &format!("  {} left", time(Duration::from_secs_f64(left.min(1e9))));
        }
    }
    text
}

pub struct MigrationMeter {
    is_terminal: bool,
    drawn: Mutex<MigrationMeterState>,
}

#[derive(Default)]
struct MigrationMeterState {
    at: Option<Instant>,
    is_on_screen: bool,
}

impl MigrationMeter {
    pub fn new() -> MigrationMeter {
        MigrationMeter { is_terminal: io::stderr().is_terminal(), drawn: Mutex::default() }
    }

    pub fn show(&self, tally: &MigrationTally) {
        let now = Instant::now();
        let Some(text) = tally.line(now) else { return };
        let mut drawn = self.drawn.lock();
        if !self.is_terminal && drawn.at.is_some_and(|at| now - at < LINE_EVERY) {
            return;
        }
        drawn.at = Some(now);
        // The migration continues if standard error is closed.
        let _unread = match self.is_terminal {
            true => {
                drawn.is_on_screen = true;
                write!(io::stderr(), "\r\x1b[K{text}")
            }
            false => writeln!(io::stderr(), "bluetick: {text}"),
        };
    }

    /// Erases the line from the screen, so that other output can be printed.
    pub fn clear(&self) {
        let mut drawn = self.drawn.lock();
        drawn.at = None;
        if std::mem::take(&mut drawn.is_on_screen) {
            let _unread = write!(io::stderr(), "\r\x1b[K");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn migration_line_shows_progress_rate_and_remaining_time() {
        let begun = StageStart {
            stage: MigrationStage::Copying,
            at: Instant::now(),
            messages_before: 1_000,
            conversations_total: 40,
            messages_total: 5_000,
        };
        assert_eq!(
            line(&begun, 3, 1_000, Duration::ZERO),
            "copying 3/40 conversations, 1,000/5,000 messages"
        );
        // The rate counts only the messages of this run.
        assert_eq!(
            line(&begun, 10, 2_000, Duration::from_secs(10)),
            "copying 10/40 conversations, 2,000/5,000 messages  100/s  30 s left"
        );
        assert_eq!(
            line(
                &StageStart { stage: MigrationStage::Comparing, ..begun },
                40,
                5_000,
                Duration::from_secs(40)
            ),
            "comparing 40/40 conversations, 5,000/5,000 messages  100/s"
        );
    }
}
