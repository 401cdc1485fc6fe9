//! Shares the two keys that a server generates (token key, admin key) among the nodes of a fleet.

use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;

use bluetick_core::ports::{Random, SystemRandom};
use bluetick_store_cloud::CloudStore;

use crate::commands::token::TOKEN_KEY;
use crate::failure::Failure;

/// Files in the data directory with the keys that all nodes of a fleet share.
pub const NAMES: [&str; 2] = [TOKEN_KEY, "admin.key"];

/// Writes the keys of the fleet to the data directory, where a node reads them like a single server
/// does. The first node to start contributes its own keys, or generates them.
pub async fn share(store: &CloudStore, data_dir: &Path) -> Result<(), Failure> {
    for name in NAMES {
        let path = data_dir.join(name);
        let ours = match fs::read_to_string(&path) {
            Ok(text) => Some(text.trim().to_owned()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(Failure::failed(format!("cannot read {}: {error}", path.display()))),
        };
        let candidate = ours.clone().unwrap_or_else(new_key);
        let common = store
            .in_common(name, &candidate)
            .await
            .map_err(|error| Failure::failed(format!("cannot share {name} with the other nodes: {error}")))?;
        if ours.as_deref() != Some(&*common) {
            write(data_dir, &path, &common)
                .map_err(|error| Failure::failed(format!("cannot write {}: {error}", path.display())))?;
        }
    }
    Ok(())
}

fn new_key() -> String {
    let mut bytes = [0; 32];
    SystemRandom.fill(&mut bytes);
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Writes the key to a temporary file and renames it, so that no reader sees a partial key.
fn write(data_dir: &Path, path: &Path, key: &str) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(data_dir)?;
    let draft = path.with_extension(format!("key-{}", std::process::id()));
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&draft)?;
    file.write_all(format!("{key}\n").as_bytes())?;
    file.sync_all()?;
    fs::rename(&draft, path)
}
