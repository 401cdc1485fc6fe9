//! Standard output, which may be a pipe that somebody closes or a disk that is full.

use std::io::{ErrorKind, Write};

use crate::failure::Failure;

/// Prints a result. Whoever closes the pipe early has seen enough; any other trouble is a failure.
pub fn print(text: &str) -> Result<(), Failure> {
    let mut stdout = std::io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(Failure::failed(format_args!("standard output cannot be written: {error}")))
        }
        _ => Ok(()),
    }
}
