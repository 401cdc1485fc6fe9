//! Progress output on standard error.

use std::io::IsTerminal;

/// Progress output: one line that is overwritten on a terminal, or a new line every ten seconds
/// elsewhere.
pub struct ProgressLine {
    terminal: bool,
    ticks: u64,
}

/// Calls of [`ProgressLine::show`] per printed line when stderr is not a terminal.
const TICKS_BETWEEN_LINES: u64 = 10;

impl ProgressLine {
    pub fn new() -> ProgressLine {
        ProgressLine { terminal: std::io::stderr().is_terminal(), ticks: 0 }
    }

    /// Shows `line`. Call it once per second.
    pub fn show(&mut self, line: &str) {
        self.ticks += 1;
        if self.terminal {
            eprint!("\r{line}\x1b[K");
        } else if self.ticks.is_multiple_of(TICKS_BETWEEN_LINES) {
            eprintln!("{line}");
        }
    }
}

impl Drop for ProgressLine {
    fn drop(&mut self) {
        if self.terminal && self.ticks > 0 {
            eprintln!();
        }
    }
}

/// Announces the next step of the run.
pub fn step(text: &str) {
    eprintln!("{text}");
}
