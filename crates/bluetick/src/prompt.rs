//! Questions at the terminal. A password is read without an echo, and the terminal is as it was before whether the
//! answer comes, the person gives up with Ctrl-C, or something fails.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::time::Duration;

use rustix::process::{Signal, getpid, kill_process};
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};

use crate::failure::Failure;

const SIGNALS_TAKE: Duration = Duration::from_secs(1);

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

/// Without an echo. At the terminal itself, wherever the streams of the process go.
pub fn ask_password(question: &str) -> Result<String, Failure> {
    let unreadable = |error: io::Error| Failure::failed(format!("cannot read the password: {error}"));
    let mut terminal = OpenOptions::new().read(true).write(true).open("/dev/tty").map_err(unreadable)?;
    let quiet = Quiet::make(&terminal).map_err(unreadable)?;
    terminal.write_all(question.as_bytes()).map_err(unreadable)?;
    #[expect(clippy::unbuffered_bytes, reason = "what is typed ahead belongs to who reads next")]
    let typed = typed(&mut Read::by_ref(&mut terminal).bytes());
    // Enter is not echoed either.
    let moved_on = terminal.write_all(b"\n");
    drop(quiet);
    match typed.map_err(unreadable)? {
        Typed::Line(password) => moved_on.map(|()| password).map_err(unreadable),
        Typed::GivenUp => {
            // Ended as Ctrl-C ends any program, so that a script around it ends as well.
            let _interrupted = kill_process(getpid(), Signal::INT);
            // It may be another thread that the signal meets, a moment later. Where it is ignored, nothing comes.
            std::thread::sleep(SIGNALS_TAKE);
            Err(Failure::failed("no password was given"))
        }
    }
}

/// A terminal without an echo, key by key. Dropping it makes the terminal as it was.
struct Quiet {
    terminal: File,
    before: Termios,
}

impl Quiet {
    fn make(terminal: &File) -> io::Result<Quiet> {
        let terminal = terminal.try_clone()?;
        let before = tcgetattr(&terminal)?;
        let mut modes = before.clone();
        // Keys that would end or stop the program come as bytes: it must not die or sleep without its echo.
        modes
            .local_modes
            .remove(LocalModes::ECHO | LocalModes::ICANON | LocalModes::ISIG | LocalModes::IEXTEN);
        tcsetattr(&terminal, OptionalActions::Now, &modes)?;
        Ok(Quiet { terminal, before })
    }
}

impl Drop for Quiet {
    fn drop(&mut self) {
        // A terminal that is gone needs no echo.
        let _restored = tcsetattr(&self.terminal, OptionalActions::Now, &self.before);
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Typed {
    Line(String),
    /// With Ctrl-C, or Ctrl-D before anything else.
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
                // The whole character: its first byte is the one that does not continue another.
                while line.pop().is_some_and(|byte| byte & 0xc0 == 0x80) {}
            }
            Some(CTRL_U) => line.clear(),
            // Other keys that steer are no part of a password.
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
    fn a_password_can_be_corrected_while_it_is_typed() {
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
    fn whoever_gives_up_has_given_no_password() {
        assert_eq!(after("hor\u{3}se\r").unwrap(), Typed::GivenUp);
        assert_eq!(after("\u{4}").unwrap(), Typed::GivenUp);
        assert!(after("").is_err());
    }
}
