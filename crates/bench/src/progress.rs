//! What is shown while a run goes on, on standard error.

use std::io::IsTerminal;

/// One line that counts up on a terminal; a line every ten seconds elsewhere.
pub struct Progress {
    terminal: bool,
    ticks: u64,
}

const TICKS_BETWEEN_LINES: u64 = 10;

impl Progress {
    pub fn new() -> Progress {
        Progress { terminal: std::io::stderr().is_terminal(), ticks: 0 }
    }

    /// To be called once a second.
    pub fn show(&mut self, line: &str) {
        self.ticks += 1;
        if self.terminal {
            eprint!("\r{line}\x1b[K");
        } else if self.ticks.is_multiple_of(TICKS_BETWEEN_LINES) {
            eprintln!("{line}");
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.terminal && self.ticks > 0 {
            eprintln!();
        }
    }
}

/// What happens next.
pub fn step(text: &str) {
    eprintln!("{text}");
}
