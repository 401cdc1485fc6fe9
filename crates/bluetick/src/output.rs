//! Writes results to standard output.

use std::io::{ErrorKind, Write};

use crate::failure::Failure;

/// Prints a result. A closed pipe is not an error; any other failed write is.
pub fn print(text: &str) -> Result<(), Failure> {
    let mut stdout = std::io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(Failure::failed(format_args!("standard output cannot be written: {error}")))
        }
        _ => Ok(()),
    }
}
