//! The certificate that a server shows right now, written down in its data directory: the file in its settings may be a
//! newer one already, and tools that send the admin key must not take anybody else for the server.

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

const NAME: &str = "certificate.der";

fn file_in(data_dir: &Path) -> PathBuf {
    data_dir.join(NAME)
}

/// Notes what the server of this directory shows from now on; `None` for one that speaks without TLS.
pub fn note(data_dir: &Path, certificate: Option<&[u8]>) -> io::Result<()> {
    let file = file_in(data_dir);
    let Some(certificate) = certificate else {
        return match fs::remove_file(file) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        };
    };
    // Under another name first, so that nobody reads half of it.
    let draft = data_dir.join("certificate.new");
    let mut options = fs::OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o600).open(&draft)?.write_all(certificate)?;
    fs::rename(draft, file)
}

/// `None` where nothing is noted: the server speaks without TLS, or is of a version that did not say.
pub fn read(data_dir: &Path) -> io::Result<Option<Vec<u8>>> {
    match fs::read(file_in(data_dir)) {
        Ok(certificate) => Ok(Some(certificate)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}
