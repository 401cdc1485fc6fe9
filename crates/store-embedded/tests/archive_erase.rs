//! An erasure removes the content everywhere, and no other content.

#![expect(clippy::unwrap_used, reason = "a test may stop where its own set-up fails")]

mod archive_kit;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use archive_kit::common::{direct, message, send, send_as, user};
use archive_kit::{Kit, bytes_of, eager, group, history, numbered, paths};
use bluetick_archive::{ArchiveEngine, ArchiveSettings, ObjectArchive, segment};
use bluetick_core::ports::{Append, ArchiveError, EraseScope, Receipt, RemoveMember, Store};
use bluetick_core::time::ManualClock;
use bluetick_core::{ContentType, ConversationId, Message, ReceiptKind, Seq};
use bluetick_store_embedded::archive::ArchiveStep;
use bluetick_store_embedded::codec::chunk::{self, Header};
use bluetick_store_embedded::tables::Tables;
use object_store::ObjectStore;
use tempfile::TempDir;

fn contains(bytes: &[u8], needle: &str) -> bool {
    bytes.windows(needle.len()).any(|window| window == needle.as_bytes())
}

async fn is_in_objects(objects: &dyn ObjectStore, needle: &str) -> bool {
    for path in paths(objects).await {
        let opened = segment::open(&bytes_of(objects, &path).await).unwrap();
        if opened.records().any(|record| contains(record, needle)) {
            return true;
        }
    }
    false
}

/// Returns whether the raw bytes of the table file contain the text.
fn is_in_file(directory: &TempDir, needle: &str) -> bool {
    contains(&std::fs::read(directory.path().join("tables/data.mdb")).unwrap(), needle)
}

/// Returns whether an unpacked row contains the text. The store must be closed.
fn is_in_rows(directory: &TempDir, ids: &[ConversationId], readers: &[&str], needle: &str) -> bool {
    let tables = Tables::open(&directory.path().join("tables")).unwrap();
    let engine = tables.current().unwrap();
    let (snapshot, mut found) = (engine.snapshot().unwrap(), false);
    for id in ids {
        snapshot
            .chunks(*id, Seq::FIRST, |_, bytes| {
                let header = Header::read(bytes)?;
                if !header.is_cold() {
                    found = found || chunk::unpack(&header)?.records().any(|record| contains(record, needle));
                }
                Ok(true)
            })
            .unwrap();
        for reader in readers {
            let line = snapshot.inbox_row(&user(reader), *id).unwrap();
            found = found || line.is_some_and(|line| contains(&line, needle));
        }
    }
    found
}

async fn assert_nowhere(kit: Kit, objects: &dyn ObjectStore, ids: &[ConversationId], needle: &str) {
    kit.assert_exact(objects).await;
    kit.store.close().await;
    let Kit { store, directory, .. } = kit;
    drop(store);
    assert!(!is_in_objects(objects, needle).await, "in an object");
    assert!(!is_in_rows(&directory, ids, &["alice", "bob", "carol"], needle), "in a row");
    assert!(!is_in_file(&directory, needle), "in a free page");
}

fn facts(message: &Message) -> (Seq, String, String, i64, i64) {
    let Message { seq, sender, message_id, received_at, timestamp, .. } = message;
    (*seq, sender.to_string(), format!("{message_id:?}"), received_at.millis(), timestamp.millis())
}

/// Asserts that exactly the messages selected by `goes` are erased, and that all others are
/// unchanged.
fn assert_erased(after: &[Message], before: &[Message], goes: impl Fn(&Message) -> bool) {
    assert_eq!(after.len(), before.len());
    for (after, before) in after.iter().zip(before) {
        assert_eq!(facts(after), facts(before));
        if goes(before) && before.content_type != ContentType::System {
            assert_eq!(
                (&after.content_type, &*after.content),
                (&ContentType::Erased, ""),
                "{:?}",
                before.seq
            );
        } else {
            assert_eq!(after, before);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn page_cached_before_an_erasure_is_not_returned_after_it() {
    let (kit, _objects) = Kit::in_memory(eager());
    let id = group(&*kit.store, 3, "alice", &["bob"]).await;
    let other = group(&*kit.store, 4, "alice", &["bob"]).await;
    kit.send_many(id, "alice", numbered("xyzzy", 1..=30)).await;
    // The erasure waits until all messages are in the tables. The next read caches a page of them.
    kit.erase(EraseScope::Conversation(other), None).await.unwrap();
    let before = history(&*kit.store, id, "bob").await;
    assert_eq!(history(&*kit.store, id, "bob").await, before);
    kit.erase(EraseScope::Conversation(id), None).await.unwrap();
    assert_erased(&history(&*kit.store, id, "bob").await, &before, |_| true);
    let receipts = kit.store.receipt_counts(id, &user("alice"), Seq::new(2)).await.unwrap();
    assert_eq!(receipts.recipients, 1, "an erased message still has receipts");
}

#[tokio::test(flavor = "multi_thread")]
async fn erased_conversation_leaves_no_content_in_hot_and_cold_rows() {
    let (kit, objects) = Kit::in_memory(eager());
    let id = group(&*kit.store, 3, "alice", &["bob", "carol"]).await;
    kit.send_many(id, "alice", numbered("xyzzy cold", 1..=150)).await;
    kit.run().await.unwrap();
    for number in 1..=20 {
        kit.send_now(id, "bob", &format!("xyzzy hot {number}")).await;
    }
    let mark =
        |kind, seq| Receipt { conversation: id, user: user("carol"), kind, seq: Seq::new(seq), origin: None };
    kit.store.apply_receipt(mark(ReceiptKind::Read, 100)).await.unwrap();
    let before = history(&*kit.store, id, "carol").await;
    let line_before = kit.store.inbox_entry(id, &user("carol")).await.unwrap();
    let ticks = async || format!("{:?}", kit.store.statuses(id, &user("alice")).await.unwrap());
    let ticks_before = ticks().await;
    let receipts_before = kit.store.receipt_counts(id, &user("alice"), Seq::new(50)).await.unwrap();
    assert_eq!(&*line_before.last_message.as_ref().unwrap().preview, "xyzzy hot 20");
    assert!(is_in_objects(&*objects, "xyzzy ").await);

    let report = kit.erase(EraseScope::Conversation(id), None).await.unwrap();
    assert_eq!((report.conversations, report.messages), (1, 170));
    assert_erased(&history(&*kit.store, id, "carol").await, &before, |_| true);
    let line = kit.store.inbox_entry(id, &user("carol")).await.unwrap();
    let last = line.last_message.unwrap();
    assert_eq!((&*last.preview, last.content_type), ("", ContentType::Erased));
    assert_eq!(
        (line.unread, line.own, line.others),
        (line_before.unread, line_before.own, line_before.others)
    );
    assert_eq!(ticks().await, ticks_before);
    assert_eq!(kit.store.receipt_counts(id, &user("alice"), Seq::new(50)).await.unwrap(), receipts_before);
    assert!(!is_in_objects(&*objects, "xyzzy ").await, "at once");

    // Resends with the same or other content are duplicates, and the messages stay erased.
    for (sender, number, seq, text) in
        [("bob", "xyzzy-hot-3", 154, "xyzzy hot 3"), ("alice", "alice-xyzzy-cold-7", 8, "others")]
    {
        assert_eq!(send_as(&*kit.store, id, sender, number, text).await.unwrap(), Seq::new(seq));
    }
    assert_erased(&history(&*kit.store, id, "carol").await, &before, |_| true);
    assert_eq!(
        kit.erase(EraseScope::Conversation(id), None).await.unwrap().messages,
        0,
        "a second erasure finds no message"
    );
    kit.run().await.unwrap();
    assert_nowhere(kit, &*objects, &[id], "xyzzy ").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn erasure_of_a_user_covers_current_and_former_conversations() {
    let (kit, objects) = Kit::in_memory(eager());
    let pair = direct(&*kit.store, "alice", "bob").await;
    let left = group(&*kit.store, 4, "bob", &["alice", "carol"]).await;
    let stayed = group(&*kit.store, 5, "bob", &["alice", "carol"]).await;
    let others = direct(&*kit.store, "bob", "carol").await;
    let ids = [pair, left, stayed, others];
    for id in [pair, left, stayed] {
        kit.send_many(id, "alice", numbered("plugh", 1..=70)).await;
        kit.send_many(id, "bob", numbered("bob's", 1..=70)).await;
    }
    kit.send_many(others, "bob", numbered("plain", 1..=10)).await;
    kit.run().await.unwrap();
    kit.send_many(stayed, "alice", numbered("plugh hot", 1..=7)).await;
    let remove = RemoveMember {
        conversation: left,
        actor: user("alice"),
        user: user("alice"),
        at: archive_kit::LATER,
    };
    kit.store.remove_member(remove).await.unwrap();
    let mut before = Vec::new();
    for id in ids {
        before.push(history(&*kit.store, id, "bob").await);
    }
    // Erase in one conversation first.
    let one = EraseScope::User { user: user("alice"), conversation: Some(pair) };
    assert_eq!(kit.erase(one, None).await.unwrap().messages, 70);
    assert_eq!(history(&*kit.store, left, "bob").await, before[1]);
    let all = EraseScope::User { user: user("alice"), conversation: None };
    let report = kit.erase(all, None).await.unwrap();
    assert_eq!((report.conversations, report.messages), (2, 70 + 77));
    for (id, before) in ids.iter().zip(&before) {
        let by_alice = |message: &Message| message.sender.as_str() == "alice";
        assert_erased(&history(&*kit.store, *id, "bob").await, before, by_alice);
    }
    kit.run().await.unwrap();
    assert_nowhere(kit, &*objects, &ids, "plugh ").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn erasure_through_a_seq_keeps_later_messages() {
    for through in [1, 63, 64, 65, 128, 129, 140, 150, 151, 1_000] {
        let (kit, objects) = Kit::in_memory(eager());
        let id = direct(&*kit.store, "alice", "bob").await;
        kit.send_many(id, "alice", numbered("cold", 1..=140)).await;
        kit.run().await.unwrap();
        kit.send_many(id, "bob", numbered("hot", 1..=10)).await;
        let before = history(&*kit.store, id, "bob").await;
        let report = kit.erase(EraseScope::Conversation(id), Some(through)).await.unwrap();
        assert_eq!(report.messages, through.min(150), "{through}");
        assert_erased(&history(&*kit.store, id, "bob").await, &before, |message| {
            message.seq.get() <= through
        });
        let preview = kit.store.inbox_entry(id, &user("alice")).await.unwrap().last_message.unwrap().preview;
        assert_eq!(&*preview, if through >= 150 { "" } else { "hot 10" });
        kit.assert_exact(&*objects).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn smaller_erasure_does_not_replace_an_unfinished_larger_one() {
    let (kit, objects) = Kit::in_memory(eager());
    let id = group(&*kit.store, 6, "alice", &["bob"]).await;
    kit.send_many(id, "alice", numbered("cold", 1..=140)).await;
    kit.run().await.unwrap();
    let before = history(&*kit.store, id, "bob").await;
    kit.brake.set(ArchiveStep::BeforePut, 1);
    assert!(matches!(kit.erase(EraseScope::Conversation(id), None).await, Err(ArchiveError::Stopped)));
    assert!(kit.brake.release());
    kit.erase(EraseScope::Conversation(id), Some(10)).await.unwrap();
    kit.run().await.unwrap();
    assert_erased(&history(&*kit.store, id, "bob").await, &before, |_| true);
    kit.assert_exact(&*objects).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn erased_text_leaves_free_pages_after_a_crash_and_a_run() {
    let (kit, objects) = Kit::in_memory(eager());
    let mut ids = Vec::new();
    for number in 0..40 {
        let id = direct(&*kit.store, "alice", &format!("bob{number}")).await;
        send(&*kit.store, id, "alice", &format!("plover {number}")).await.unwrap();
        ids.push(id);
    }
    let everywhere = EraseScope::User { user: user("alice"), conversation: None };
    kit.brake.set(ArchiveStep::ErasureDone, 1);
    assert!(matches!(kit.erase(everywhere, None).await, Err(ArchiveError::Stopped)));
    assert!(is_in_file(&kit.directory, "plover "), "the text is still in the tables");
    let kit = kit.crash();
    kit.run().await.unwrap();
    assert_nowhere(kit, &*objects, &ids, "plover ").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn erasure_during_sends_erases_earlier_messages_only() {
    let (kit, objects) = Kit::in_memory(eager());
    let id = direct(&*kit.store, "alice", "bob").await;
    let (over, acknowledged) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let sender = tokio::spawn({
        let (store, over, acknowledged) =
            (Arc::clone(&kit.store), Arc::clone(&over), Arc::clone(&acknowledged));
        async move {
            let mut number = 0;
            while !over.load(Ordering::SeqCst) {
                number += 1;
                let seq = send(&*store, id, "alice", &format!("live {number}")).await.unwrap();
                acknowledged.store(seq.get(), Ordering::SeqCst);
            }
        }
    });
    let mut there = 0;
    for round in 0..12 {
        if round % 3 == 0 {
            kit.run().await.unwrap();
        }
        there = acknowledged.load(Ordering::SeqCst);
        kit.erase(EraseScope::Conversation(id), None).await.unwrap();
        let all = history(&*kit.store, id, "bob").await;
        assert!(all[..there as usize].iter().all(|message| message.content_type == ContentType::Erased));
    }
    over.store(true, Ordering::SeqCst);
    sender.await.unwrap();
    kit.send_many(id, "bob", numbered("after", 1..=5)).await;
    let all = history(&*kit.store, id, "bob").await;
    let kept = all.iter().skip_while(|message| message.content_type == ContentType::Erased);
    let kept: Vec<_> = kept.map(|message| (message.seq.get(), &message.content_type)).collect();
    assert!(kept.iter().all(|(seq, of)| *seq > there && **of == ContentType::Text), "{kept:?}");
    assert!(kept.len() >= 5);
    kit.run().await.unwrap();
    kit.assert_exact(&*objects).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn staged_files_in_an_archive_directory_are_swept() {
    let (data, archive) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let settings = ArchiveSettings {
        engine: ArchiveEngine::Directory,
        directory: Some(archive.path().to_owned()),
        ..eager()
    };
    let object_archive = ObjectArchive::open(&settings, data.path()).unwrap().map(Arc::new);
    let kit = Kit::open(data, Arc::new(ManualClock::at(archive_kit::LATER)), object_archive, settings);
    let id = direct(&*kit.store, "alice", "bob").await;
    kit.send_many(id, "alice", numbered("old", 1..=140)).await;
    let before = history(&*kit.store, id, "bob").await;
    kit.run().await.unwrap();
    let files = || {
        let mut files: Vec<std::path::PathBuf> = Vec::new();
        let mut directories = vec![archive.path().to_owned()];
        while let Some(directory) = directories.pop() {
            for entry in std::fs::read_dir(directory).unwrap().flatten() {
                if entry.path().is_dir() { directories.push(entry.path()) } else { files.push(entry.path()) }
            }
        }
        files.retain(|file| !file.ends_with("ARCHIVE.txt"));
        files
    };
    let whole = files();
    let staged = format!("{}#1", whole[0].display());
    std::fs::write(&staged, "half of a segment").unwrap();
    let kit = kit.crash();
    kit.run().await.unwrap();
    assert!(!std::path::Path::new(&staged).exists());
    assert_eq!((files().len(), kit.problems().await.len()), (whole.len(), 0));
    assert_eq!(history(&*kit.store, id, "bob").await, before);
    kit.erase(EraseScope::Conversation(id), None).await.unwrap();
    assert_eq!(files(), Vec::<std::path::PathBuf>::new());
    let append = Append { retry_after: None, ..message(id, "bob", "hello") };
    kit.store.append(append).await.unwrap().await.unwrap();
}
