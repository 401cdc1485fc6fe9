//! Entry points for the fuzz targets.

use std::collections::BTreeMap;

use super::journal;

/// Replays a journal. Returns its table and the length of its valid prefix in bytes.
pub fn replayed(bytes: &[u8]) -> (BTreeMap<String, String>, usize) {
    let mut table = BTreeMap::new();
    let whole = journal::replay(bytes, &mut table);
    (table, whole)
}

/// Encodes a journal that holds exactly this table.
pub fn written(table: &BTreeMap<String, String>) -> Vec<u8> {
    let mut bytes = journal::MAGIC.to_vec();
    let changes = table.iter().map(|(key, value)| (key.as_str(), Some(value.as_str())));
    if !table.is_empty() {
        bytes.extend(journal::encode(changes));
    }
    bytes
}
