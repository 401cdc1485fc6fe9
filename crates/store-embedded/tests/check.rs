//! Checks stores: a sound store has no findings, and every planted inconsistency is found and
//! named.

#![expect(clippy::unwrap_used, reason = "a test may stop where its own set-up fails")]

mod full_store;

use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use bluetick_core::ports::{NoProgress, Store};
use bluetick_core::{ConversationId, Member, MemberState, Role, Seq, User};
use bluetick_store_embedded::check::{CheckError, CheckParts, check};
use bluetick_store_embedded::codec::chunk::{ChunkEntry, ChunkPacker, Fingerprint};
use bluetick_store_embedded::codec::record::encode_append;
use bluetick_store_embedded::tables::{ChunkKey, Tables, TablesError, Update, stored};
use full_store::common::{NOW, copy_of, message, send, user};
use full_store::{check_report, closed, findings, open};
use tempfile::TempDir;

#[tokio::test(flavor = "multi_thread")]
async fn check_of_closed_store_finds_nothing() {
    let directory = TempDir::new().unwrap();
    let (_, contents) = closed(directory.path()).await;
    let report = check_report(directory.path());
    assert_eq!(report.findings, []);
    let messages = contents.values().map(|said| said.len() as u64).sum::<u64>();
    assert_eq!(
        (report.conversations, report.messages, report.accounts),
        (contents.len() as u64, messages, 6)
    );
    assert!(report.archived_messages > 0 && report.segments > 0 && report.rows > 50, "{report:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn check_of_store_killed_at_any_moment_finds_nothing() {
    let directory = TempDir::new().unwrap();
    let store = Arc::new(open(directory.path()).unwrap());
    let all = full_store::fill(&store).await;
    for round in 0..20 {
        let writer = {
            let (store, id) = (Arc::clone(&store), all[round % all.len()].0);
            let reader = all[round % all.len()].1;
            tokio::spawn(async move {
                for number in 0..40 {
                    send(&*store, id, reader, &format!("round {round} {number}")).await.unwrap();
                }
            })
        };
        let image = copy_of(directory.path());
        assert_eq!(findings(image.path()), [""; 0], "round {round}");
        writer.await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn check_of_store_in_use_or_missing_store_is_refused() {
    let directory = TempDir::new().unwrap();
    let parts = || CheckParts { data_dir: directory.path().to_owned(), progress: Arc::new(NoProgress) };
    assert!(matches!(check(parts()), Err(CheckError::NoStore(_))));
    let store = open(directory.path()).unwrap();
    assert!(matches!(check(parts()), Err(CheckError::Lock { .. })));
    drop(store);
    assert!(check(parts()).is_ok());
}

type PlantedDamage = fn(&mut Update<'_>, &[(ConversationId, &str)]) -> Result<(), TablesError>;

fn packed(conversation: ConversationId, texts: &[&str], prints: Option<u32>) -> Vec<u8> {
    let records: Vec<Vec<u8>> = texts
        .iter()
        .map(|text| {
            let mut record = Vec::new();
            encode_append(&mut record, &message(conversation, "alice", text));
            record
        })
        .collect();
    let fingerprint = Fingerprint(prints.unwrap_or(1));
    let entries: Vec<ChunkEntry<'_>> =
        records.iter().map(|record| ChunkEntry { record, fingerprint }).collect();
    let mut chunk = Vec::new();
    ChunkPacker::default().pack(&entries, NOW, 0, &mut chunk);
    chunk
}

fn stood(update: &mut Update<'_>, id: ConversationId, member_state: MemberState) -> Result<(), TablesError> {
    let member = Member { user: user("bob"), role: Role::Member, joined_seq: Seq::new(1) };
    update.put_member(id, &member, &member_state)
}

/// Inconsistencies, each with the text of its finding.
const PLANTS: [(&str, PlantedDamage); 11] = [
    ("the messages before it are missing", |update, all| {
        update.put_chunk(all[0].0, Seq::new(90), &packed(all[0].0, &["later"], None))
    }),
    ("there are messages above the head", |update, all| {
        update.put_chunk(all[0].0, Seq::new(72), &packed(all[0].0, &["one more"], None))
    }),
    ("it overlaps the chunk before it", |update, all| {
        update.put_chunk(all[0].0, Seq::new(71), &packed(all[0].0, &["another", "and another"], None))
    }),
    ("its id does not match the fingerprint in the header", |update, all| {
        update.put_chunk(all[0].0, Seq::new(72), &packed(all[0].0, &["one more"], Some(77)))
    }),
    ("the read state is above the head", |update, all| {
        stood(update, all[0].0, MemberState { delivered: Seq::new(1000), ..MemberState::default() })
    }),
    ("read is above delivered", |update, all| {
        stood(update, all[0].0, MemberState { read: Seq::new(3), ..MemberState::default() })
    }),
    ("the row does not match the member's unacknowledged messages", |update, all| {
        stood(
            update,
            all[0].0,
            MemberState { delivered: Seq::new(9), acknowledged: Seq::new(9), ..MemberState::default() },
        )
    }),
    ("there is no such conversation", |update, _| {
        let stray = ConversationId::group([9; 15]);
        update.put_chunk(stray, Seq::new(1), &packed(stray, &["nowhere"], None))
    }),
    ("the member has no inbox row", |update, all| {
        let member = Member { user: user("zoe"), role: Role::Member, joined_seq: Seq::new(1) };
        update.put_member(all[4].0, &member, &MemberState::default())
    }),
    ("the user is not a member of the conversation", |update, all| {
        let key = bluetick_store_embedded::codec::rows::inbox_key(&user("zoe"), all[4].0);
        update.put_inbox(&bluetick_store_embedded::tables::InboxChange {
            key,
            head: Seq::new(101),
            last_at: NOW,
            shelf: bluetick_core::inbox::InboxSection::Ordinary,
            record: None,
            pending_after: None,
            is_listed: true,
        })
    }),
    ("refers to an unknown segment of the archive", |update, all| {
        update.set_segment(ChunkKey { conversation: all[1].0, first: Seq::new(1) }, None)
    }),
];

#[tokio::test(flavor = "multi_thread")]
async fn planted_inconsistencies_are_found_and_named() {
    let sound = TempDir::new().unwrap();
    let (all, _) = closed(sound.path()).await;
    for (contents, plant) in PLANTS {
        let directory = copy_of(sound.path());
        {
            let tables = Tables::open(&directory.path().join("tables")).unwrap();
            let engine = tables.writing().unwrap();
            let mut update = engine.update().unwrap();
            plant(&mut update, &all).unwrap();
            update.commit().unwrap();
        }
        let found = findings(directory.path());
        assert!(found.iter().any(|finding| finding.contains(contents)), "{contents}: {found:#?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn account_without_name_rows_is_found() {
    let directory = TempDir::new().unwrap();
    closed(directory.path()).await;
    let row = bluetick_store_embedded::codec::rows::user_row(&User {
        id: user("alice"),
        display_name: Some("Somebody else".into()),
        password_hash: None,
        created_at: NOW,
    });
    // Exchange the row and keep its search keys.
    let image = TempDir::new().unwrap();
    std::fs::create_dir(image.path().join("tables")).unwrap();
    {
        let tables = Tables::open(&directory.path().join("tables")).unwrap();
        let engine = tables.current().unwrap();
        bluetick_store_embedded::tables::fill::<TablesError>(
            &image.path().join("tables"),
            |filling| {
                engine.snapshot()?.rows(|table, key, old| {
                    let is_hers = table == "users" && key == b"alice";
                    let hers = stored(key, &row);
                    filling.put(table, key, if is_hers { &hers } else { old })
                })
            },
            |_| Ok(()),
        )
        .unwrap();
    }
    full_store::common::copy_into(&directory.path().join("log"), &{
        let log = image.path().join("log");
        std::fs::create_dir(&log).unwrap();
        log
    });
    let found = findings(image.path());
    assert!(
        found.iter().any(|finding| finding.contains("cannot be found by one of its names")),
        "{found:#?}"
    );
    assert!(found.iter().any(|finding| finding.contains("no account has this name")), "{found:#?}");
}

fn flip(path: &Path, offset: u64, bit: u64) {
    let file = std::fs::OpenOptions::new().read(true).write(true).open(path).unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, offset).unwrap();
    file.write_all_at(&[byte[0] ^ 1 << bit], offset).unwrap();
}

/// Flips bits in the log before and after the position of the tables.
#[tokio::test(flavor = "multi_thread")]
async fn damaged_batch_is_named_with_file_and_offset() {
    let directory = TempDir::new().unwrap();
    let store = open(directory.path()).unwrap();
    full_store::fill(&store).await;
    let image = copy_of(directory.path());
    store.close().await;
    drop(store);
    let log = image.path().join("log");
    let mut segments: Vec<_> = std::fs::read_dir(&log).unwrap().flatten().map(|entry| entry.path()).collect();
    segments.retain(|path| path.extension().is_some_and(|extension| extension == "log"));
    segments.sort();
    assert_eq!(findings(image.path()), [""; 0]);
    flip(segments.last().unwrap(), 4096 + 9, 3);
    let found = findings(image.path());
    assert!(found.iter().any(|finding| finding.contains(".log at byte 4096: batch")), "{found:#?}");
    flip(segments.last().unwrap(), 4096 + 9, 3);
    flip(segments.last().unwrap(), 9, 0);
    let found = findings(image.path());
    assert!(found.iter().any(|finding| finding.contains("header of the segment is damaged")), "{found:#?}");
}
