//! Stores the current certificate of the server in its data directory. Tools that send the admin
//! key verify the server by it, because the file in the settings may already be newer.

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// File in the data directory with the current certificate, in DER.
const NAME: &str = "certificate.der";

fn file_in(data_dir: &Path) -> PathBuf {
    data_dir.join(NAME)
}

/// Stores the certificate that the server uses from now on. `None` removes it: no TLS.
pub fn note(data_dir: &Path, certificate: Option<&[u8]>) -> io::Result<()> {
    let file = file_in(data_dir);
    let Some(certificate) = certificate else {
        return match fs::remove_file(file) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        };
    };
    // Write to a temporary file and rename it, so that no reader sees a partial certificate.
    let draft = data_dir.join("certificate.new");
    let mut options = fs::OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o600).open(&draft)?.write_all(certificate)?;
    fs::rename(draft, file)
}

/// Returns `None` if no certificate is stored: the server uses no TLS, or an older version runs.
pub fn read(data_dir: &Path) -> io::Result<Option<Vec<u8>>> {
    match fs::read(file_in(data_dir)) {
        Ok(certificate) => Ok(Some(certificate)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}
