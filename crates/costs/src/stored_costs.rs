//! The stored costs: `instructions.toml` next to this crate's manifest.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::callgrind::Performance;
use crate::workload::Path;

/// Comment at the start of the file.
const HEADER: &str = "\
# The server's costs of a send, a delivery and a page, counted under callgrind by crates/costs.
# `./test` compares the instructions. Update this file in the commit that changes the costs:
#   BLUETICK_BLESS=1 ./test costs

";

#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RecordedCosts {
    /// The compiler version. Another version generates different instructions from the same code.
    pub rustc: String,
    pub paths: BTreeMap<String, Cost>,
}

/// The costs of one message, delivery or page.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Cost {
    pub instructions: u64,
    pub allocations: f64,
    pub socket_writes: f64,
}

impl Cost {
    pub fn of(performance: &Performance) -> Cost {
        let Performance { counts, units, .. } = performance;
        // Round to three decimals; further digits are noise.
        let each = |count: u64| (count as f64 * 1000.0 / *units as f64).round() / 1000.0;
        Cost {
            instructions: each(counts.instructions).round() as u64,
            allocations: each(counts.allocations),
            socket_writes: each(counts.writes),
        }
    }
}

impl RecordedCosts {
    fn file() -> PathBuf {
        PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("instructions.toml")
    }

    fn read() -> Result<RecordedCosts, String> {
        let file = RecordedCosts::file();
        let text = fs::read_to_string(&file).map_err(|error| format!("{}: {error}", file.display()))?;
        toml::from_str(&text).map_err(|error| format!("{}: {error}", file.display()))
    }

    /// Reads the stored costs. Returns an error if a path is missing, because the check would never
    /// report it.
    pub fn of_every_path() -> Result<RecordedCosts, String> {
        let kept = RecordedCosts::read()?;
        match Path::ALL.into_iter().find(|path| !kept.paths.contains_key(path.name())) {
            Some(path) => Err(format!("{} lacks the path {}", RecordedCosts::file().display(), path.name())),
            None => Ok(kept),
        }
    }

    pub fn write(&self) -> Result<(), String> {
        let file = RecordedCosts::file();
        let text = toml::to_string(self).map_err(|error| error.to_string())?;
        fs::write(&file, format!("{HEADER}{text}")).map_err(|error| format!("{}: {error}", file.display()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn committed_costs_cover_every_path() {
        let kept = RecordedCosts::of_every_path().unwrap();
        assert_eq!(kept.paths.len(), Path::ALL.len());
        for path in Path::ALL {
            assert!(kept.paths[path.name()].instructions > 0, "{}", path.name());
        }
    }
}
