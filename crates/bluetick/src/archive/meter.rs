//! Shows the progress of a job on standard error: a redrawn bar on a terminal, otherwise a line
//! every few seconds.

use std::io::{self, IsTerminal, Write};
use std::time::{Duration, Instant};

use bluetick_core::ports::{Progress, Stage};
use bluetick_wire::http::StageBody;
use parking_lot::Mutex;

use crate::figures::{count, size, time};

/// Minimum time between two redraws of the bar. A shorter one makes a terminal flicker.
const REDRAW_EVERY: Duration = Duration::from_millis(100);
/// Minimum time between two lines when standard error is not a terminal. A shorter one floods logs.
const LINE_EVERY: Duration = Duration::from_secs(5);
/// Bounds the width of the bar, in columns. The bar takes the columns that the text leaves free.
const BAR_COLUMNS: std::ops::RangeInclusive<usize> = 4..=24;
/// Assumed width of a terminal that does not report one, in columns.
const USUAL_COLUMNS: usize = 80;
/// Minimum elapsed time before a rate is shown. Rates over a shorter time are misleading.
const RATE_AFTER: Duration = Duration::from_secs(1);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ProgressStyle {
    Bar,
    Lines,
    Silent,
}

pub struct JobMeter {
    style: ProgressStyle,
    drawn: Mutex<JobMeterState>,
}

#[derive(Default)]
struct JobMeterState {
    /// The current stage and its start time.
    stage: Option<(StageBody, Instant)>,
    at: Option<Instant>,
    /// Whether the current stage was drawn at 100 %.
    is_complete: bool,
    is_on_screen: bool,
    has_said_why: bool,
}

impl JobMeter {
    /// Draws a bar on a terminal. Elsewhere it prints lines, or nothing if `is_quiet` is set.
    pub fn new(is_quiet: bool) -> JobMeter {
        let style = match (io::stderr().is_terminal(), is_quiet) {
            (true, _) => ProgressStyle::Bar,
            (false, false) => ProgressStyle::Lines,
            (false, true) => ProgressStyle::Silent,
        };
        JobMeter { style, drawn: Mutex::default() }
    }

    pub fn advanced_to(&self, stage: StageBody, done: u64, total: u64) {
        let now = Instant::now();
        let mut drawn = self.drawn.lock();
        let began = match drawn.stage {
            Some((known, began)) if known == stage => began,
            _ => {
                drawn.stage = Some((stage, now));
                // Draw a new stage immediately.
                drawn.at = None;
                drawn.is_complete = false;
                now
            }
        };
        let pause = if self.style == ProgressStyle::Bar { REDRAW_EVERY } else { LINE_EVERY };
        // Draw the end of a stage immediately too, once: some stages learn their total as they go.
        let completes = total > 0 && done >= total && !drawn.is_complete;
        if drawn.at.is_some_and(|at| now - at < pause) && !completes {
            return;
        }
        drawn.at = Some(now);
        drawn.is_complete |= completes;
        let columns = (self.style == ProgressStyle::Bar).then(columns);
        let text = line(stage, done, total, now - began, columns);
        // The job continues if standard error is closed.
        let _unread = match self.style {
            ProgressStyle::Bar => {
                drawn.is_on_screen = true;
                let room = columns.unwrap_or(USUAL_COLUMNS).saturating_sub(1);
                let text: String = text.chars().take(room).collect();
                write!(io::stderr(), "\r\x1b[K{text}")
            }
            ProgressStyle::Lines => writeln!(io::stderr(), "bluetick: {text}"),
            ProgressStyle::Silent => Ok(()),
        };
    }

    /// Erases the bar from the screen, so that other output can be printed.
    pub fn clear(&self) {
        let mut drawn = self.drawn.lock();
        if std::mem::take(&mut drawn.is_on_screen) {
            let _unread = write!(io::stderr(), "\r\x1b[K");
        }
    }

    pub fn say(&self, words: &str) {
        self.clear();
        eprintln!("bluetick: {words}");
    }

    /// Prints the reason for waiting, on the first call only.
    pub fn say_why_it_waits(&self, words: &str) {
        let mut drawn = self.drawn.lock();
        if !std::mem::replace(&mut drawn.has_said_why, true) {
            drop(drawn);
            self.say(words);
        }
    }
}

impl Progress for JobMeter {
    fn advanced(&self, stage: Stage, done: u64, total: u64) {
        self.advanced_to(stage.into(), done, total);
    }
}

fn columns() -> usize {
    rustix::termios::tcgetwinsize(io::stderr())
        .ok()
        .map(|size| usize::from(size.ws_col))
        .filter(|columns| *columns > 0)
        .unwrap_or(USUAL_COLUMNS)
}

/// Returns the description of a stage and its unit. An empty unit means bytes.
fn words(stage: StageBody) -> (&'static str, &'static str) {
    match stage {
        StageBody::Moving => ("moving old messages", "conversations"),
        StageBody::Sweeping => ("sweeping up", "objects"),
        StageBody::Compacting => ("returning space", ""),
        StageBody::Verifying => ("reading segments", "segments"),
        StageBody::Restoring => ("bringing back", "segments"),
        StageBody::Erasing => ("erasing", "conversations"),
        StageBody::Copying => ("copying", ""),
        StageBody::ReadingBack => ("reading back", "parts"),
        StageBody::Checking => ("checking", "rows"),
    }
}

/// Formats a progress line. It contains a bar if `columns` is set.
fn line(stage: StageBody, done: u64, total: u64, elapsed: Duration, columns: Option<usize>) -> String {
    let (doing, unit) = words(stage);
    let amount = |number| if unit.is_empty() { size(number) } else { count(number) };
    let unit = if unit.is_empty() { String::new() } else { format!(" {unit}") };
    let total = total.max(done);
    // The total is not known yet.
    if total == 0 {
        return doing.to_owned();
    }
    let mut text = format!("{}/{}{unit}", amount(done), amount(total));
    if elapsed >= RATE_AFTER && done > 0 {
        let per_second = done as f64 / elapsed.as_secs_f64();
        text += &format!("  {}/s", amount(per_second.round() as u64));
        if done < total {
            let left = Duration::from_secs_f64(((total - done) as f64 / per_second).min(1e9));
            text += &format!("  {} left", time(left));
        }
    }
    let Some(columns) = columns else {
        let percent = u128::from(done) * 100 / u128::from(total);
        return format!("{doing}: {percent}%, {}", text.replace("  ", ", "));
    };
    // Reserve two brackets, two spaces, and the last column, which stays empty.
    let room = columns.saturating_sub(doing.len() + text.len() + 5);
    let bar_columns = room.clamp(*BAR_COLUMNS.start(), *BAR_COLUMNS.end());
    let filled = (done as f64 / total as f64 * bar_columns as f64) as usize;
    let bar: String = (0..bar_columns).map(|at| if at < filled { '#' } else { '-' }).collect();
    format!("{doing} [{bar}] {text}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_line_shows_task_progress_rate_and_remaining_time() {
        let after =
            |stage, done, total, seconds| line(stage, done, total, Duration::from_secs(seconds), Some(100));
        for (said, expected) in [
            (after(StageBody::Checking, 0, 0, 0), "checking"),
            (
                after(StageBody::Moving, 250, 1_000, 10),
                "moving old messages [######------------------] 250/1,000 conversations  25/s  30 s left",
            ),
            (
                after(StageBody::Compacting, 5_000_000, 5_000_000, 2),
                "returning space [########################] 5.0 MB/5.0 MB  2.5 MB/s",
            ),
            (
                after(StageBody::Verifying, 7, 5, 0),
                "reading segments [########################] 7/7 segments",
            ),
        ] {
            assert_eq!(said, expected);
        }
    }

    #[test]
    fn progress_line_without_a_terminal_has_no_bar() {
        let ten = Duration::from_secs(10);
        let plain = |done, total| line(StageBody::Moving, done, total, ten, None);
        assert_eq!(plain(250, 1_000), "moving old messages: 25%, 250/1,000 conversations, 25/s, 30 s left");
        assert_eq!(plain(0, 0), "moving old messages");
    }

    #[test]
    fn narrow_terminal_gets_a_shorter_progress_bar() {
        let narrow = |columns| line(StageBody::Moving, 250, 1_000, Duration::from_secs(10), Some(columns));
        assert_eq!(
            narrow(80),
            "moving old messages [####------------] 250/1,000 conversations  25/s  30 s left"
        );
        assert_eq!(narrow(80).len(), 79);
        assert!(narrow(20).starts_with("moving old messages [#---] 250"));
    }
}
