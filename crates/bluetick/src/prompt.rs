//! Prompts on the terminal. A password is read without echo. The terminal modes are restored after
//! an answer, after Ctrl-C, and after an error.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::time::Duration;

use rustix::process::{Signal, getpid, kill_process};
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};

use crate::failure::Failure;

/// How long to wait for an own signal to end the process. Afterwards the signal counts as ignored.
const SIGNALS_TAKE: Duration = Duration::from_secs(1);

// Bytes that a terminal in raw mode sends for keys.
const CTRL_C: u8 = 0x03;
const CTRL_D: u8 = 0x04;
const BACKSPACE: u8 = 0x08;
const CTRL_U: u8 = 0x15;
const DELETE: u8 = 0x7f;

pub fn ask(question: &str) -> Result<String, Failure> {
    let mut out = io::stderr();
    write!(out, "{question}").and_then(|()| out.flush()).map_err(Failure::failed)?;
    let mut line = String::new();
    io::stdin().read_line(&mut line).map_err(Failure::failed)?;
    Ok(line.trim().to_owned())
}

/// Reads a password without echo, from `/dev/tty` even if the standard streams are redirected.
pub fn ask_password(question: &str) -> Result<String, Failure> {
    let unreadable = |error: io::Error| Failure::failed(format!("cannot read the password: {error}"));
    let mut terminal = OpenOptions::new().read(true).write(true).open("/dev/tty").map_err(unreadable)?;
    let quiet = Quiet::make(&terminal).map_err(unreadable)?;
    terminal.write_all(question.as_bytes()).map_err(unreadable)?;
    #[expect(
        clippy::unbuffered_bytes,
        reason = "buffering would consume input that belongs to the next reader"
    )]
    let typed = typed(&mut Read::by_ref(&mut terminal).bytes());
    // Print the line break that was typed, because Enter is not echoed either.
    let moved_on = terminal.write_all(b"\n");
    drop(quiet);
    match typed.map_err(unreadable)? {
        Typed::Line(password) => moved_on.map(|()| password).map_err(unreadable),
        Typed::GivenUp => {
            // End by SIGINT as any program does, so that a calling script ends as well.
            let _interrupted = kill_process(getpid(), Signal::INT);
            // Another thread may handle the signal a moment later. An ignored signal has no effect.
            std::thread::sleep(SIGNALS_TAKE);
            Err(Failure::failed("no password was given"))
        }
    }
}

/// A terminal in raw mode without echo. Dropping it restores the previous modes.
struct Quiet {
    terminal: File,
    before: Termios,
}

impl Quiet {
    fn make(terminal: &File) -> io::Result<Quiet> {
        let terminal = terminal.try_clone()?;
        let before = tcgetattr(&terminal)?;
        let mut modes = before.clone();
        // Read Ctrl-C and Ctrl-Z as bytes, so that the process does not end or stop without echo.
        modes
            .local_modes
            .remove(LocalModes::ECHO | LocalModes::ICANON | LocalModes::ISIG | LocalModes::IEXTEN);
        tcsetattr(&terminal, OptionalActions::Now, &modes)?;
        Ok(Quiet { terminal, before })
    }
}

impl Drop for Quiet {
    fn drop(&mut self) {
        // Best effort: this fails if the terminal is gone.
        let _restored = tcsetattr(&self.terminal, OptionalActions::Now, &self.before);
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Typed {
    Line(String),
    /// The user typed Ctrl-C, or Ctrl-D on an empty line.
    GivenUp,
}

fn typed(keys: &mut impl Iterator<Item = io::Result<u8>>) -> io::Result<Typed> {
    let mut line: Vec<u8> = Vec::new();
    loop {
        match keys.next().transpose()? {
            Some(b'\r' | b'\n') => break,
            Some(CTRL_C) => return Ok(Typed::GivenUp),
            Some(CTRL_D) if line.is_empty() => return Ok(Typed::GivenUp),
            Some(BACKSPACE | DELETE) => {
                // Remove a whole UTF-8 character: its continuation bytes and its first byte.
                while line.pop().is_some_and(|byte| byte & 0xc0 == 0x80) {}
            }
            Some(CTRL_U) => line.clear(),
            // Ignore other control characters.
            Some(byte) if byte.is_ascii_control() => {}
            Some(byte) => line.push(byte),
            None if line.is_empty() => return Err(io::ErrorKind::UnexpectedEof.into()),
            None => break,
        }
    }
    String::from_utf8(line).map(Typed::Line).map_err(|_| io::Error::other("it is not UTF-8"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(keys: &str) -> io::Result<Typed> {
        typed(&mut keys.bytes().map(Ok))
    }

    #[test]
    fn backspace_corrects_a_typed_password() {
        for (keys, password) in [
            ("horse\r", "horse"),
            ("horse\nmore", "horse"),
            ("hü\u{7f}orsee\u{8}\r", "horse"),
            ("\u{7f}wrong\u{15}horse\r", "horse"),
            ("two words\r", "two words"),
            ("\r", ""),
        ] {
            assert_eq!(after(keys).unwrap(), Typed::Line(password.into()), "{keys:?}");
        }
    }

    #[test]
    fn cancelled_prompt_returns_no_password() {
        assert_eq!(after("hor\u{3}se\r").unwrap(), Typed::GivenUp);
        assert_eq!(after("\u{4}").unwrap(), Typed::GivenUp);
        assert!(after("").is_err());
    }
}
