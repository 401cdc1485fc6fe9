//! The manifest of a backup: its parts and their checksums.

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use thiserror::Error;

/// File name of the manifest, next to the parts. A restore finds no backup under another name.
pub const MANIFEST: &str = "MANIFEST.json";
/// Identifies the file as a manifest. After a change, existing backups cannot be restored.
const FORMAT: &str = "bluetick backup";
/// Format version of the manifest. Raise it when older programs cannot restore the backup.
const VERSION: u32 = 1;

/// The content of a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PartKind {
    Log,
    Rows,
    /// A secret key file.
    Key,
}

/// One file of a backup besides the manifest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Part {
    pub name: String,
    pub kind: PartKind,
    pub bytes: u64,
    pub sha256: String,
}

impl Part {
    pub fn of(name: String, kind: PartKind, bytes: &[u8]) -> Part {
        Part { name, kind, bytes: bytes.len() as u64, sha256: sha256(bytes) }
    }

    /// Returns why these bytes differ from the written part, or `None` if they match.
    pub fn problem_with(&self, bytes: &[u8]) -> Option<String> {
        if bytes.len() as u64 != self.bytes {
            return Some(format!("it has {} bytes instead of {}", bytes.len(), self.bytes));
        }
        (sha256(bytes) != self.sha256).then(|| "its checksum does not match".to_owned())
    }
}

/// The content of `MANIFEST.json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    pub format: String,
    pub version: u32,
    /// The version of bluetick that wrote the backup.
    pub program: String,
    /// Milliseconds since the Unix epoch.
    pub made_at: i64,
    pub store: String,
    pub epoch: u64,
    /// The batch number of the tables. `through` is the last batch of the log.
    pub checkpoint: u64,
    pub through: u64,
    pub accounts: u64,
    pub conversations: u64,
    pub messages: u64,
    pub archived_messages: u64,
    /// Human-readable location of the object archive. The backup does not include archived content.
    pub archive: String,
    pub damaged_rows: u64,
    pub parts: Vec<Part>,
    /// Checksum of all other fields, in hex.
    pub sha256: String,
}

#[derive(Debug, Error)]
pub enum ManifestError {
    #[error("{MANIFEST} is damaged: {0}")]
    Damaged(String),
    #[error("{MANIFEST} has version {0}, this program knows {VERSION}; use a newer bluetick")]
    TooNew(u32),
}

/// The fields that every version has.
#[derive(Deserialize)]
struct ManifestVersion {
    format: String,
    version: u32,
}

impl Manifest {
    /// The value of `format` in every manifest.
    pub const FORMAT: &str = FORMAT;
    /// The value of `version` in a manifest that this program writes.
    pub const VERSION: u32 = VERSION;

    pub fn encode(mut self) -> Vec<u8> {
        self.sha256 = self.own_sum();
        self.text().into_bytes()
    }

    fn text(&self) -> String {
        serde_json::to_string_pretty(self).expect("a manifest holds only text and numbers, which serialize")
            + "\n"
    }

    fn own_sum(&self) -> String {
        sha256(Manifest { sha256: String::new(), ..self.clone() }.text().as_bytes())
    }

    pub fn read(bytes: &[u8]) -> Result<Manifest, ManifestError> {
        let damaged = |error: serde_json::Error| ManifestError::Damaged(error.to_string());
        let ManifestVersion { format, version } = serde_json::from_slice(bytes).map_err(damaged)?;
        if format != FORMAT {
            return Err(ManifestError::Damaged("it is not a manifest".to_owned()));
        }
        if version > VERSION {
            return Err(ManifestError::TooNew(version));
        }
        let manifest: Manifest = serde_json::from_slice(bytes).map_err(damaged)?;
        match manifest.sha256 == manifest.own_sum() {
            true => Ok(manifest),
            false => Err(ManifestError::Damaged("it does not match its checksum".to_owned())),
        }
    }

    pub fn bytes(&self) -> u64 {
        self.parts.iter().map(|part| part.bytes).sum()
    }

    pub fn of_kind(&self, kind: PartKind) -> impl Iterator<Item = &Part> {
        self.parts.iter().filter(move |part| part.kind == kind)
    }
}

fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn manifest() -> Manifest {
        Manifest {
            format: FORMAT.to_owned(),
            version: VERSION,
            program: "0.1.0".to_owned(),
            made_at: 1_767_225_600_000,
            store: "0001020304050607".to_owned(),
            epoch: 1,
            checkpoint: 7,
            through: 9,
            accounts: 1,
            conversations: 2,
            messages: 3,
            archived_messages: 0,
            archive: String::new(),
            damaged_rows: 0,
            parts: vec![Part::of("rows-000001.part".to_owned(), PartKind::Rows, b"abc")],
            sha256: String::new(),
        }
    }

    #[test]
    fn manifest_round_trips_with_checksums_of_sha256sum() {
        let read = Manifest::read(&manifest().encode()).unwrap();
        assert_eq!(read.parts[0].sha256, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
        assert_eq!(Manifest { sha256: String::new(), ..read }, manifest());
    }

    #[test]
    fn changed_byte_in_manifest_is_refused() {
        let bytes = manifest().encode();
        for at in 0..bytes.len() - 1 {
            let mut changed = bytes.clone();
            changed[at] = if changed[at] == b'7' { b'8' } else { b'7' };
            let same = Manifest::read(&changed)
                .is_ok_and(|read| Manifest { sha256: String::new(), ..read } != manifest());
            assert!(!same, "byte {at} of {}", String::from_utf8_lossy(&changed));
        }
    }

    #[test]
    fn newer_manifest_version_is_refused_as_newer() {
        let newer = Manifest { version: VERSION + 1, ..manifest() }.encode();
        assert!(matches!(Manifest::read(&newer), Err(ManifestError::TooNew(2))));
    }
}
