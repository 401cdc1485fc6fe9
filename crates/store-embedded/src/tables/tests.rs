//! Tests of the tables: formats, upgrades and derived tables.

use bluetick_core::{Member, MemberState, Members, NamePrefix, Role, Seq, Skeleton, Timestamp, User, UserId};
use tempfile::TempDir;

use std::ops::RangeInclusive;

use super::*;
use crate::codec::chunk::{ChunkEntry, ChunkPacker, Fingerprint};

const ID: fn(u8) -> ConversationId = |number| ConversationId::group([number; 15]);

fn tables() -> (TempDir, Engine) {
    let directory = TempDir::new().unwrap();
    let tables = Engine::open(directory.path()).unwrap();
    (directory, tables)
}

/// Writes chunks of the given sizes, whose records are their seqs as text.
fn fill(tables: &Engine, id: ConversationId, sizes: &[u64]) {
    let mut update = tables.update().unwrap();
    let mut first = 1;
    for size in sizes {
        let records: Vec<String> = (first..first + size).map(|seq| seq.to_string()).collect();
        let entries: Vec<_> = records
            .iter()
            .map(|record| ChunkEntry { record: record.as_bytes(), fingerprint: Fingerprint(7) })
            .collect();
        let mut packed = Vec::new();
        ChunkPacker::default().pack(&entries, Timestamp::from_millis(first as i64), 0, &mut packed);
        update.put_chunk(id, Seq::new(first), &packed).unwrap();
        first += size;
    }
    update.commit().unwrap();
}

fn read(tables: &Engine, id: ConversationId, range: RangeInclusive<u64>) -> Vec<u64> {
    let mut seen = Vec::new();
    let range = Seq::new(*range.start())..=Seq::new(*range.end());
    let snapshot = tables.snapshot().unwrap();
    snapshot
        .records(id, range, |seq, cell| {
            assert_eq!(cell.record, seq.to_string().as_bytes());
            seen.push(seq.get());
            Ok(())
        })
        .unwrap();
    seen
}

#[test]
fn range_is_read_from_every_chunk_it_touches_and_no_other_conversation() {
    let (_directory, tables) = tables();
    fill(&tables, ID(1), &[5]);
    fill(&tables, ID(2), &[64, 64, 3]);
    fill(&tables, ID(3), &[9]);
    assert_eq!(read(&tables, ID(2), 60..=70), (60..=70).collect::<Vec<_>>());
    assert_eq!(read(&tables, ID(2), 1..=131), (1..=131).collect::<Vec<_>>());
    assert_eq!(read(&tables, ID(2), 131..=200), [131]);
    assert_eq!(read(&tables, ID(2), 132..=200), [0; 0]);
    assert_eq!(read(&tables, ID(4), 1..=9), [0; 0]);
}

#[test]
fn headers_are_read_newest_first_until_the_caller_stops() {
    let (_directory, tables) = tables();
    fill(&tables, ID(2), &[64, 64, 3]);
    fill(&tables, ID(3), &[1]);
    let mut seen = Vec::new();
    let snapshot = tables.snapshot().unwrap();
    snapshot
        .headers_backwards(ID(2), |first, header| {
            seen.push((first.get(), header.count));
            seen.len() < 2
        })
        .unwrap();
    assert_eq!(seen, [(129, 3), (65, 64)]);
}

#[test]
fn members_of_adjacent_conversations_are_not_mixed() {
    let (_directory, tables) = tables();
    let member =
        |name: &str| Member { user: name.parse().unwrap(), role: Role::Member, joined_seq: Seq::FIRST };
    let mut update = tables.update().unwrap();
    update.put_member(ID(1), &member("alice"), &MemberState::default()).unwrap();
    update.put_member(ID(1), &member("bob"), &MemberState::default()).unwrap();
    update.put_member(ID(2), &member("carol"), &MemberState::default()).unwrap();
    update.delete_member(ID(1), &"bob".parse().unwrap()).unwrap();
    update.commit().unwrap();
    let (members, _) = tables.snapshot().unwrap().members(ID(1)).unwrap();
    assert_eq!(members, Members::from_unsorted(vec![member("alice")]));
}

#[test]
fn uncommitted_update_has_no_effect() {
    let (_directory, tables) = tables();
    let mut update = tables.update().unwrap();
    update.set_checkpoint(BatchNumber(9)).unwrap();
    drop(update);
    assert_eq!(tables.checkpoint().unwrap(), BatchNumber::NONE);
}

#[test]
fn tables_of_newer_format_are_refused() {
    let (_directory, tables) = tables();
    let mut txn = tables.env.write_txn().unwrap();
    tables.meta.put(&mut txn, IDENTITY_KEY, &(FORMAT_VERSION + 1).to_le_bytes()).unwrap();
    txn.commit().unwrap();
    assert!(matches!(tables.identity(), Err(TablesError::TooNew { found: 5 })));
}

#[test]
fn tables_can_be_reopened_during_reads() {
    let directory = TempDir::new().unwrap();
    let tables = Arc::new(Tables::open(directory.path()).unwrap());
    fill(&tables.current().unwrap(), ID(1), &[64, 64, 3]);
    let readers: Vec<_> = (0..4)
        .map(|_| {
            let tables = Arc::clone(&tables);
            std::thread::spawn(move || {
                for _ in 0..500 {
                    assert_eq!(read(&tables.current().unwrap(), ID(1), 60..=70).len(), 11);
                }
            })
        })
        .collect();
    for _ in 0..5 {
        tables.reopen().unwrap();
    }
    for reader in readers {
        reader.join().unwrap();
    }
    fill(&tables.current().unwrap(), ID(2), &[1]);
    assert_eq!(read(&tables.current().unwrap(), ID(2), 1..=9), [1]);
}

#[test]
fn missing_order_is_rebuilt_from_inbox_rows() {
    use std::rc::Rc;

    use bluetick_core::inbox::InboxSection;

    let (_directory, tables) = tables();
    let alice = "alice".parse().unwrap();
    let mut update = tables.update().unwrap();
    for number in 0..50 {
        let shelf = InboxSection::ALL[usize::from(number % 3)];
        let change = InboxChange {
            key: rows::inbox_key(&alice, ID(number)),
            head: Seq::FIRST,
            last_at: Timestamp::from_millis(i64::from(number) * 7 % 50),
            shelf,
            record: Some(Rc::from([])),
            pending_after: None,
            is_listed: true,
        };
        update.put_inbox(&change).unwrap();
        // Change the position again: the old `order` row must not stay.
        update
            .put_inbox(&InboxChange { last_at: Timestamp::from_millis(i64::from(number)), ..change })
            .unwrap();
    }
    update.commit().unwrap();
    let positions = || {
        let mut positions = Vec::new();
        let keep = |position| {
            positions.push(position);
            true
        };
        tables.snapshot().unwrap().order(&alice, None, keep).unwrap();
        positions
    };
    let before = positions();
    assert_eq!((before.len(), before.is_sorted()), (50, true));
    assert!(!tables.rebuild_order().unwrap());
    let mut txn = tables.env.write_txn().unwrap();
    tables.order.clear(&mut txn).unwrap();
    txn.commit().unwrap();
    assert!(tables.rebuild_order().unwrap());
    assert_eq!(positions(), before);
}

#[test]
fn damaged_inbox_row_is_rewritten_and_blocks_nothing() {
    use std::rc::Rc;

    use bluetick_core::inbox::InboxSection;

    let (_directory, tables) = tables();
    let alice: UserId = "alice".parse().unwrap();
    let change = |last_at| InboxChange {
        key: rows::inbox_key(&alice, ID(1)),
        head: Seq::FIRST,
        last_at: Timestamp::from_millis(last_at),
        shelf: InboxSection::Ordinary,
        record: Some(Rc::from([])),
        pending_after: None,
        is_listed: true,
    };
    let put = |change: &InboxChange| {
        let mut update = tables.update().unwrap();
        update.put_inbox(change).unwrap();
        update.commit().unwrap();
    };
    put(&change(1));
    let mut txn = tables.env.write_txn().unwrap();
    tables.inbox.put(&mut txn, &change(1).key, b"rubbish").unwrap();
    txn.commit().unwrap();
    put(&change(2));
    let row = tables.snapshot().unwrap().inbox_row(&alice, ID(1)).unwrap().unwrap();
    assert_eq!(rows::read_inbox(&row).unwrap().last_at, Timestamp::from_millis(2));
    assert!(tables.rebuild_order().unwrap(), "the position of the damaged row is removed from the order");
    assert_eq!(
        (tables.order.len(&tables.env.read_txn().unwrap()).unwrap(), tables.rebuild_order().unwrap()),
        (1, false)
    );
    let mut update = tables.update().unwrap();
    update.delete_member(ID(1), &alice).unwrap();
    update.commit().unwrap();
    assert!(tables.snapshot().unwrap().inbox_row(&alice, ID(1)).unwrap().is_none());
}

#[test]
fn missing_name_index_is_rebuilt_from_users() {
    let (_directory, tables) = tables();
    let found = || {
        let (mut found, prefix) = (Vec::new(), NamePrefix::new("al").unwrap());
        let keep = |term: &str, user: UserId| {
            found.push(format!("{term} {user}"));
            Ok(true)
        };
        tables.snapshot().unwrap().names(&prefix, keep).unwrap();
        found
    };
    let user = |display_name: &str| User {
        id: "u1".parse().unwrap(),
        display_name: Some(display_name.into()),
        password_hash: None,
        created_at: Timestamp::from_millis(0),
    };
    for name in ["Alan Alda", "Alice"] {
        let mut update = tables.update().unwrap();
        update.put_user(&user(name)).unwrap();
        update.commit().unwrap();
    }
    assert_eq!(found(), ["alice u1"], "the old name is gone");
    let mut txn = tables.env.write_txn().unwrap();
    tables.names.clear(&mut txn).unwrap();
    txn.commit().unwrap();
    tables.rebuild_names().unwrap();
    assert_eq!(found(), ["alice u1"]);
}

/// Sets the format version in the identity row.
pub(crate) fn pretend_version(directory: &Path, version: u32) {
    let engine = Engine::open(directory).unwrap();
    let mut txn = engine.env.write_txn().unwrap();
    engine.meta.put(&mut txn, IDENTITY_KEY, &version.to_le_bytes()).unwrap();
    txn.commit().unwrap();
}

#[test]
fn opening_an_older_store_builds_the_name_index() {
    let (_directory, tables) = tables();
    // Earlier versions accepted this id.
    let id = UserId::from_stored("al\u{200b}ice").unwrap();
    let mut update = tables.update().unwrap();
    update.put_user(&User::named(id.clone(), Timestamp::from_millis(0))).unwrap();
    update.commit().unwrap();
    let holds = |name: &str| tables.snapshot().unwrap().holds(&Skeleton::of(name)).unwrap();
    assert!(holds("Alice"));
    let mut txn = tables.env.write_txn().unwrap();
    tables.names.clear(&mut txn).unwrap();
    tables.meta.put(&mut txn, NAMES_MADE_KEY, &[1]).unwrap();
    txn.commit().unwrap();
    assert!(!holds("alice") && !tables.names_are_current().unwrap());
    tables.rebuild_names().unwrap();
    assert!(holds("alice") && holds("Alice") && !holds("alicia"));
    assert!(tables.names_are_current().unwrap());
    assert_eq!(tables.snapshot().unwrap().user(&id).unwrap().unwrap().id, id, "the row is unchanged");
}

#[test]
fn read_only_tables_of_an_earlier_version_ask_for_an_upgrade() {
    let (directory, tables) = tables();
    drop(tables);
    assert!(Engine::open_read_only(directory.path()).is_ok());
    let older = TempDir::new().unwrap();
    let env = Engine::env(older.path(), heed::EnvFlags::empty()).unwrap();
    let mut txn = env.write_txn().unwrap();
    env.create_database::<heed::types::Bytes, heed::types::Bytes>(&mut txn, Some("meta")).unwrap();
    txn.commit().unwrap();
    env.prepare_for_closing().wait();
    assert!(matches!(Engine::open_read_only(older.path()), Err(TablesError::NeedsUpgrade)));
}

#[test]
fn upgraded_tables_are_marked_for_a_rewrite_at_the_next_erasure() {
    let (directory, tables) = tables();
    let (tag, fingerprinter) = (StoreTag(*b"storetag"), Fingerprinter([7; 16]));
    tables.set_identity(&StoreIdentity { tag, fingerprinter, epoch: Epoch::FIRST }).unwrap();
    tables.upgrade_format().unwrap();
    assert!(!tables.update().unwrap().has_expired_pages().unwrap(), "no row was upgraded");
    let mut txn = tables.env.write_txn().unwrap();
    let row = tables.meta.get(&txn, IDENTITY_KEY).unwrap().unwrap()[4..IDENTITY_BYTES].to_vec();
    let older = [&3_u32.to_le_bytes()[..], &row].concat();
    tables.meta.put(&mut txn, IDENTITY_KEY, &older).unwrap();
    txn.commit().unwrap();
    tables.upgrade_format().unwrap();
    assert!(tables.update().unwrap().has_expired_pages().unwrap());
    drop(directory);
}

#[test]
fn erasure_request_for_an_id_of_an_earlier_version_is_read_back() {
    let (_directory, tables) = tables();
    let sender = Some(UserId::from_stored("al\u{200c}ice").unwrap());
    let request = StoredErasureRequest { conversation: None, sender, through: None };
    let mut update = tables.update().unwrap();
    update.put_erasure_request(&request).unwrap();
    update.commit().unwrap();
    let requests = tables.snapshot().unwrap().erasure_requests().unwrap();
    assert_eq!(requests.into_iter().map(|(_, read)| read).collect::<Vec<_>>(), [request]);
}

#[test]
fn damaged_erasure_request_stays_pending_and_does_not_hide_the_others() {
    let (_directory, tables) = tables();
    let request =
        StoredErasureRequest { conversation: Some(ID(1)), sender: None, through: Some(Seq::new(9)) };
    let mut update = tables.update().unwrap();
    update.put_erasure_request(&request).unwrap();
    update.put_erasure_request(&request).unwrap();
    update.commit().unwrap();
    let mut txn = tables.env.write_txn().unwrap();
    let (key, mut row) = {
        let mut found = tables.meta.scan_prefix(&txn, ERASURE_REQUEST_PREFIX).unwrap();
        let (key, row) = found.next().unwrap().unwrap();
        (key.to_vec(), row.to_vec())
    };
    row[2] ^= 1;
    tables.meta.put(&mut txn, &key, &row).unwrap();
    txn.commit().unwrap();
    let snapshot = tables.snapshot().unwrap();
    assert_eq!(snapshot.erasure_requests().unwrap().len(), 1);
    assert_eq!(snapshot.unfinished_erasures().unwrap(), 2);
    assert!(crate::check::row_problem("meta", &key, &row).is_some(), "`bluetick check` names it");
}
