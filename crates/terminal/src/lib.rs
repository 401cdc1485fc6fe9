//! The terminal client behind `bluetick chat`: rendering and key handling. `bluetick-client`
//! implements the chat itself. Passwords, flags and directories belong to the binary.
//!
//! The screen is a pure function of [`model::ScreenModel`], and keys change only the model, so both
//! are tested without a terminal.

mod app;
pub mod calendar;
pub mod composer;
pub mod draw;
pub mod keys;
pub mod model;
pub mod present;
mod screen;
mod scroll;
pub mod text;

use std::io;

use bluetick_client::{Client, Phase};

use self::app::TerminalApp;
use self::calendar::Calendar;
use self::model::TerminalCapabilities;
use self::screen::Screen;

/// Why [`run`] returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExitReason {
    /// The user quit, or the terminal was closed.
    Left,
    /// The server refused the token and no other one was available.
    LoggedOut,
    /// The token belongs to another user.
    OtherUser,
}

/// Runs the terminal client until the user quits, then stops the client. Unsent messages stay in
/// the client's storage.
///
/// # Errors
///
/// Fails if the terminal cannot be set up, read or drawn to.
pub async fn run(client: Client, server: &str, look: TerminalCapabilities) -> io::Result<ExitReason> {
    let size = crossterm::terminal::size()?;
    let mut screen = Screen::take()?;
    let ended = TerminalApp::new(client, server, look, Calendar::local(), size).run(&mut screen).await;
    drop(screen);
    let client = ended?;
    let ended = match client.connection().phase {
        Phase::LoggedOut => ExitReason::LoggedOut,
        Phase::OtherUser => ExitReason::OtherUser,
        Phase::Offline | Phase::Connecting | Phase::Online => ExitReason::Left,
    };
    client.stop().await;
    Ok(ended)
}

/// Detects the terminal's capabilities from `NO_COLOR`, `TERM` and the locale variables.
pub fn look_of(variable: impl Fn(&str) -> Option<String>) -> TerminalCapabilities {
    let is_set = |name: &str| variable(name).is_some_and(|value| !value.is_empty());
    let terminal = variable("TERM").unwrap_or_default();
    let locale = ["LC_ALL", "LC_CTYPE", "LANG"]
        .into_iter()
        .find_map(|name| variable(name).filter(|value| !value.is_empty()));
    let locale = locale.unwrap_or_default().to_lowercase();
    TerminalCapabilities {
        colour: !is_set("NO_COLOR") && terminal != "dumb",
        // Assume Unicode if no locale is set.
        unicode: terminal != "linux" && (locale.is_empty() || locale.contains("utf")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn look(variables: &[(&str, &str)]) -> TerminalCapabilities {
        look_of(|name| {
            variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn environment_decides_colours_and_symbols() {
        assert_eq!(look(&[("LANG", "de_DE.UTF-8"), ("TERM", "xterm-256color")]), TerminalCapabilities::FULL);
        assert!(!look(&[("NO_COLOR", "1")]).colour);
        assert!(look(&[("NO_COLOR", "")]).colour);
        assert!(!look(&[("LC_ALL", "C"), ("LANG", "de_DE.UTF-8")]).unicode);
        assert!(!look(&[("TERM", "dumb")]).colour);
    }
}
