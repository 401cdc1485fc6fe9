//! Key files: secrets that the server generates and keeps in its data directory. The callers define
//! their use.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;

use bluetick_core::ports::Random;

use crate::AuthSetupError;

/// Length of a generated secret before hex encoding, in bytes. An attacker could guess a much
/// shorter one.
const SECRET_BYTES: usize = 32;
/// Minimum length of the secret in a key file, in bytes. A shorter file was truncated or emptied,
/// and an attacker could guess its content.
const LEAST_FILE_BYTES: usize = 16;

/// Reads the secret in `path`. Returns `None` if the file does not exist, and an error if its
/// content is too short or not visible ASCII.
pub fn read(path: &Path) -> Result<Option<String>, AuthSetupError> {
    let text = match fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(source) => return Err(AuthSetupError::Read { path: path.into(), source }),
    };
    let secret = text.trim();
    if secret.len() < LEAST_FILE_BYTES || !secret.bytes().all(|byte| byte.is_ascii_graphic()) {
        let reason =
            format!("a key of at least {LEAST_FILE_BYTES} visible characters in one line was expected");
        return Err(AuthSetupError::BadFile { path: path.into(), reason });
    }
    Ok(Some(secret.into()))
}

/// Reads the secret in `path`, and creates it if the file does not exist. Concurrent processes get
/// the same secret.
pub fn read_or_create(path: &Path, random: &dyn Random) -> Result<String, AuthSetupError> {
    if let Some(secret) = read(path)? {
        return Ok(secret);
    }
    create(path, random).map_err(|source| AuthSetupError::Write { path: path.into(), source })?;
    read(path)?
        .ok_or_else(|| AuthSetupError::Read { path: path.into(), source: io::ErrorKind::NotFound.into() })
}

/// Creates the key file with mode 0600. It writes and syncs a temporary file, then links it, so
/// that no reader sees a partial key, even after a crash. An existing key file stays unchanged.
fn create(path: &Path, random: &dyn Random) -> io::Result<()> {
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
    let mut secret = [0; SECRET_BYTES];
    random.fill(&mut secret);
    let mut suffix = [0; 8];
    random.fill(&mut suffix);
    let draft = path.with_extension(format!("key-{}", hex(&suffix)));
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&draft)?;
    let linked = file
        .write_all(format!("{}\n", hex(&secret)).as_bytes())
        .and_then(|()| file.sync_all())
        .and_then(|()| fs::hard_link(&draft, path));
    fs::remove_file(&draft)?;
    match linked {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        other => other?,
    }
    File::open(directory)?.sync_all()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use bluetick_core::ports::SystemRandom;

    use super::*;

    #[test]
    fn new_secret_file_has_mode_0600_and_leaves_no_temporary_file() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("new/some.key");
        read_or_create(&path, &SystemRandom).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::metadata(path.parent().unwrap()).unwrap().permissions().mode() & 0o777, 0o700);
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1);
    }

    #[test]
    fn secret_is_stable_per_directory_and_differs_between_directories() {
        let directory = tempfile::tempdir().unwrap();
        let first = read_or_create(&directory.path().join("a.key"), &SystemRandom).unwrap();
        assert_eq!(read_or_create(&directory.path().join("a.key"), &SystemRandom).unwrap(), first);
        assert_ne!(read_or_create(&directory.path().join("b.key"), &SystemRandom).unwrap(), first);
    }

    #[test]
    fn concurrent_creators_of_a_secret_get_the_same_secret() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("some.key");
        let secrets: Vec<String> = std::thread::scope(|scope| {
            let makers: Vec<_> =
                (0..8).map(|_| scope.spawn(|| read_or_create(&path, &SystemRandom).unwrap())).collect();
            makers.into_iter().map(|maker| maker.join().unwrap()).collect()
        });
        assert!(secrets.iter().all(|secret| *secret == secrets[0]));
    }

    #[test]
    fn empty_key_file_is_refused_by_name_and_not_replaced() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("some.key");
        fs::write(&path, "\n").unwrap();
        let error = read_or_create(&path, &SystemRandom).unwrap_err().to_string();
        assert!(error.contains("some.key"), "{error}");
        assert_eq!(fs::read(&path).unwrap(), b"\n");
    }
}
