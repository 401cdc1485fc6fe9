//! The terminal as a resource: [`Screen::take`] sets it up, and dropping the `Screen` or a panic
//! restores it.

use std::io::{self, Stdout, stdout};
use std::sync::Once;

use crossterm::event::{DisableBracketedPaste, DisableFocusChange, EnableBracketedPaste, EnableFocusChange};
use crossterm::execute;
use crossterm::terminal::{
    Clear, ClearType, EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};
use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;

/// Ensures that the panic hook is installed once per process.
static PANIC_HOOK: Once = Once::new();

/// The terminal in raw mode on the alternate screen. Dropping it restores the terminal.
pub struct Screen {
    pub terminal: Terminal<CrosstermBackend<Stdout>>,
}

impl Screen {
    /// Sets up the terminal and installs a panic hook that restores it. Restores it too if the
    /// setup fails after raw mode is on.
    pub fn take() -> io::Result<Screen> {
        // Restore the terminal before a panic message is printed. Printed in raw mode on the
        // alternate screen, it would be unreadable and lost.
        PANIC_HOOK.call_once(|| {
            let usual = std::panic::take_hook();
            std::panic::set_hook(Box::new(move |panic| {
                give_back();
                usual(panic);
            }));
        });
        enable_raw_mode()?;
        // Do not capture the mouse, so that text can be selected. On the alternate screen,
        // terminals turn the wheel into arrow keys, and these scroll.
        let entered = execute!(
            stdout(),
            EnterAlternateScreen,
            // Some terminals have no alternate screen, so clear the shell's output.
            Clear(ClearType::All),
            EnableBracketedPaste,
            EnableFocusChange
        );
        let opened = entered.and_then(|()| Terminal::new(CrosstermBackend::new(stdout())));
        match opened {
            Ok(terminal) => Ok(Screen { terminal }),
            Err(error) => {
                give_back();
                Err(error)
            }
        }
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        give_back();
    }
}

/// Restores the terminal. Idempotent.
fn give_back() {
    // Ignore errors: the program is ending and the terminal may be gone.
    let _left = execute!(
        stdout(),
        DisableFocusChange,
        DisableBracketedPaste,
        LeaveAlternateScreen,
        crossterm::cursor::Show
    );
    let _cooked = disable_raw_mode();
}
