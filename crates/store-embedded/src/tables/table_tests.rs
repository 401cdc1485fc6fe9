//! Rows found under a wrong key, and rows from before key checksums existed.

use bluetick_core::{Epoch, Seq, UserId};
use heed::PutFlags;
use tempfile::TempDir;

use super::*;
use crate::codec::chunk::Fingerprinter;

const ID: fn(u8) -> ConversationId = |number| ConversationId::group([number; 15]);

fn tables() -> (TempDir, Engine) {
    let directory = TempDir::new().unwrap();
    let tables = Engine::open(directory.path()).unwrap();
    (directory, tables)
}

fn user(name: &str) -> UserId {
    name.parse().unwrap()
}

/// Stores bytes without a key checksum.
fn put_raw(tables: &Engine, table: Table, key: &[u8], row: &[u8]) {
    let mut txn = tables.env.write_txn().unwrap();
    table.put_with_flags(&mut txn, PutFlags::empty(), key, row).unwrap();
    txn.commit().unwrap();
}

fn is_damaged<T: std::fmt::Debug>(answer: Result<T, TablesError>, table: &str) -> bool {
    matches!(answer, Err(TablesError::Damaged { table: of, .. }) if of == table)
}

#[test]
fn rows_of_older_program_are_readable_beside_new_rows() {
    let (_directory, tables) = tables();
    let alice = user("alice");
    let old = [2, 9];
    let old = [&old[..], &crc32fast::hash(&old).to_le_bytes()].concat();
    put_raw(&tables, tables.pending, &rows::inbox_key(&alice, ID(1)), &old);
    let mut txn = tables.env.write_txn().unwrap();
    let new = rows::pending_row(Seq::new(7));
    tables.pending.put(&mut txn, &rows::inbox_key(&alice, ID(2)), &new).unwrap();
    txn.commit().unwrap();
    put_raw(&tables, tables.order, b"\x05alice", &[]);
    let snapshot = tables.snapshot().unwrap();
    let pending = vec![(ID(1), Seq::new(9)), (ID(2), Seq::new(7))];
    assert_eq!(snapshot.pending(&alice).unwrap(), pending);
    assert_eq!(snapshot.pending(&user("bob")).unwrap(), []);
    assert!(snapshot.has_order(b"\x05alice").unwrap());
}

#[test]
fn opening_older_store_upgrades_format_and_keeps_identity() {
    let (_directory, tables) = tables();
    let identity =
        StoreIdentity { tag: StoreTag([1; 8]), fingerprinter: Fingerprinter([2; 16]), epoch: Epoch::new(3) };
    tables.set_identity(&identity).unwrap();
    let mut txn = tables.env.write_txn().unwrap();
    let row = tables.meta.get(&txn, IDENTITY_KEY).unwrap().unwrap();
    let old = [&2u32.to_le_bytes(), &row[4..IDENTITY_BYTES]].concat();
    tables.meta.put(&mut txn, IDENTITY_KEY, &with_checksum(&old)).unwrap();
    txn.commit().unwrap();
    tables.upgrade_format().unwrap();
    let txn = tables.env.read_txn().unwrap();
    let row = tables.meta.get(&txn, IDENTITY_KEY).unwrap().unwrap();
    assert!(row.starts_with(&FORMAT_VERSION.to_le_bytes()));
    let read = tables.identity().unwrap().unwrap();
    assert_eq!((read.tag, read.epoch), (identity.tag, identity.epoch));
}

/// LMDB only compares keys, so a flipped bit in a key looks like this.
#[test]
fn row_under_wrong_key_is_damage_for_lookups_of_either_key_and_for_scans() {
    let (_directory, tables) = tables();
    let row = stored(b"carol", &rows::seal(|out| out.push(1))).into_owned();
    put_raw(&tables, tables.users, b"caron", &row);
    let txn = tables.env.read_txn().unwrap();
    let users = tables.users;
    assert!(is_damaged(users.get(&txn, b"caron"), "users"), "a row was found under another key");
    assert!(is_damaged(users.get(&txn, b"carol"), "users"), "the row was not found under its own key");
    assert!(is_damaged(users.get(&txn, b"bob"), "users"), "the entry above the gap");
    assert!(is_damaged(users.get(&txn, b"dave"), "users"), "the entry below the gap");
    for prefix in [&b"b"[..], b"carol", b"caron", b"car", b"d"] {
        let scanned: Result<Vec<_>, _> = users.scan_prefix(&txn, prefix).and_then(Iterator::collect);
        assert!(is_damaged(scanned, "users"), "{prefix:?}");
        let scanned: Result<Vec<_>, _> = users.scan_back(&txn, prefix, prefix).and_then(Iterator::collect);
        assert!(is_damaged(scanned, "users"), "{prefix:?} from above");
    }
    assert_eq!(users.peek(&txn, b"caron").unwrap(), None);
}

#[test]
fn unknown_meta_key_is_damage_for_lookups_of_missing_keys() {
    let (_directory, tables) = tables();
    tables.set_log_started().unwrap();
    assert!(tables.log_started().unwrap() && tables.identity().unwrap().is_none());
    put_raw(&tables, tables.meta, b"identitx", b"row");
    assert!(tables.log_started().unwrap(), "an existing row is found");
    assert!(is_damaged(tables.identity().map(|_| ()), "meta"));
}

#[test]
fn table_with_unknown_name_is_refused() {
    let (directory, tables) = tables();
    let mut txn = tables.env.write_txn().unwrap();
    let _: heed::Database<heed::types::Bytes, heed::types::Bytes> =
        tables.env.create_database(&mut txn, Some("ordes")).unwrap();
    txn.commit().unwrap();
    let Engine { env, .. } = tables;
    env.prepare_for_closing().wait();
    let refused = Engine::open(directory.path()).err().unwrap();
    assert!(matches!(&refused, TablesError::DamagedList { name } if name == "ordes"), "{refused}");
}

/// Damage to the length of a key moves the start of the row. The row then starts with a byte of the
/// key, or too late.
#[test]
fn row_that_starts_at_another_byte_is_damage_also_beside_a_lookup() {
    let (_directory, tables) = tables();
    let row = stored(b"carol", &rows::seal(|out| out.push(1))).into_owned();
    for shifted in [[b"l", &row[..]].concat(), row[1..].to_vec(), [&[2][..], &row[1..]].concat()] {
        put_raw(&tables, tables.users, b"caro", &shifted);
        let txn = tables.env.read_txn().unwrap();
        assert!(is_damaged(tables.users.get(&txn, b"caro"), "users"), "{shifted:?}");
        assert!(is_damaged(tables.users.get(&txn, b"carol"), "users"), "{shifted:?}");
    }
}
