//! Conformance suite for the `Storage` implementations.

use super::*;

/// A location whose storage can be closed and opened again.
trait StorageLocation {
    type Storage: Storage;
    fn open(&self) -> Self::Storage;
}

struct Directory(tempfile::TempDir);

impl StorageLocation for Directory {
    type Storage = FileStorage;

    fn open(&self) -> FileStorage {
        FileStorage::open_with(self.0.path(), 64).unwrap()
    }
}

impl StorageLocation for MemoryStorage {
    type Storage = MemoryStorage;

    fn open(&self) -> MemoryStorage {
        self.clone()
    }
}

fn pairs(of: &[(&str, &str)]) -> Vec<(String, String)> {
    of.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

fn a_new_one_is_empty(place: &impl StorageLocation) {
    assert_eq!(place.open().load().unwrap(), []);
}

fn what_was_applied_is_there_after_reopening_sorted_by_key(place: &impl StorageLocation) {
    place.open().apply(&[Change::put("b", "2"), Change::put("a", "1"), Change::put("é", "three\n")]).unwrap();
    assert_eq!(place.open().load().unwrap(), pairs(&[("a", "1"), ("b", "2"), ("é", "three\n")]));
}

fn later_changes_win_over_earlier_ones_also_within_a_batch(place: &impl StorageLocation) {
    let mut storage = place.open();
    storage.apply(&[Change::put("a", "1"), Change::put("a", "2"), Change::put("b", "")]).unwrap();
    storage.apply(&[Change::remove("a"), Change::put("a", "3"), Change::remove("nobody")]).unwrap();
    assert_eq!(storage.load().unwrap(), pairs(&[("a", "3"), ("b", "")]));
    storage.apply(&[Change::remove("a"), Change::remove("b")]).unwrap();
    drop(storage);
    assert_eq!(place.open().load().unwrap(), []);
}

fn many_batches_come_back_as_they_were(place: &impl StorageLocation) {
    let mut storage = place.open();
    for number in 0..300 {
        let key = format!("{:03}", number % 50);
        storage.apply(&[Change::put(key, number.to_string())]).unwrap();
    }
    storage.apply(&[]).unwrap();
    drop(storage);
    let expected: Vec<_> = (0..50).map(|key| (format!("{key:03}"), (250 + key).to_string())).collect();
    assert_eq!(place.open().load().unwrap(), expected);
}

macro_rules! suite {
    ($($case:ident)*) => { $(
        mod $case {
            use super::*;

            #[test]
            fn memory_storage_passes_the_storage_suite() {
                super::$case(&MemoryStorage::default());
            }

            #[test]
            fn file_storage_passes_the_storage_suite() {
                super::$case(&Directory(tempfile::tempdir().unwrap()));
            }
        }
    )* };
}

suite! {
    a_new_one_is_empty
    what_was_applied_is_there_after_reopening_sorted_by_key
    later_changes_win_over_earlier_ones_also_within_a_batch
    many_batches_come_back_as_they_were
}

#[test]
fn storage_directory_is_locked_by_one_client() {
    let directory = tempfile::tempdir().unwrap();
    let first = FileStorage::open(directory.path()).unwrap();
    assert!(matches!(FileStorage::open(directory.path()), Err(StorageError::InUse(_))));
    drop(first);
    assert!(FileStorage::open(directory.path()).is_ok());
}
