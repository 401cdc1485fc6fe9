//! The terminal as a resource: taken at the start, and given back as it was, however the program ends.

use std::io::{self, Stdout, stdout};
use std::sync::Once;

use crossterm::event::{DisableBracketedPaste, DisableFocusChange, EnableBracketedPaste, EnableFocusChange};
use crossterm::execute;
use crossterm::terminal::{
    Clear, ClearType, EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};
use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;

static PANIC_HOOK: Once = Once::new();

/// Holds the terminal; dropping it gives the terminal back.
pub struct Screen {
    pub terminal: Terminal<CrosstermBackend<Stdout>>,
}

impl Screen {
    pub fn take() -> io::Result<Screen> {
        // A panic message on the other screen, in raw mode, would be neither read nor kept.
        PANIC_HOOK.call_once(|| {
            let usual = std::panic::take_hook();
            std::panic::set_hook(Box::new(move |panic| {
                give_back();
                usual(panic);
            }));
        });
        enable_raw_mode()?;
        // The mouse stays with the terminal, so that text can be selected. On the alternate screen terminals make arrow
        // keys of the wheel, and those scroll.
        let entered = execute!(
            stdout(),
            EnterAlternateScreen,
            // Some terminals have one screen only, with the prompts on it.
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

/// May be done twice.
fn give_back() {
    // On the way out, and there is nothing left to tell it to.
    let _left = execute!(
        stdout(),
        DisableFocusChange,
        DisableBracketedPaste,
        LeaveAlternateScreen,
        crossterm::cursor::Show
    );
    let _cooked = disable_raw_mode();
}
