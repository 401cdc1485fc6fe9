//! For the fuzz targets alone.

use std::collections::BTreeMap;

use super::journal;

/// What a journal with these bytes holds, and how many of them are whole batches.
pub fn replayed(bytes: &[u8]) -> (BTreeMap<String, String>, usize) {
    let mut table = BTreeMap::new();
    let whole = journal::replay(bytes, &mut table);
    (table, whole)
}

/// A journal that holds this and nothing else.
pub fn written(table: &BTreeMap<String, String>) -> Vec<u8> {
    let mut bytes = journal::MAGIC.to_vec();
    let changes = table.iter().map(|(key, value)| (key.as_str(), Some(value.as_str())));
    if !table.is_empty() {
        bytes.extend(journal::encode(changes));
    }
    bytes
}
