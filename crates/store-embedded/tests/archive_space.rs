//! Archiving shrinks the table file, also during reads.

#![expect(clippy::unwrap_used, reason = "a test may stop where its own set-up fails")]

mod archive_kit;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use archive_kit::common::{NOW, direct, small, texts, user};
use archive_kit::{Kit, LATER, eager, history, numbered, page, send_many};
use bluetick_archive::{ArchiveSettings, ObjectArchive};
use bluetick_core::time::ManualClock;
use bluetick_core::{ConversationId, PageFrom, Seq};
use bluetick_store_embedded::StoreSettings;
use bluetick_testkit::dice::Dice;
use object_store::memory::InMemory;
use tempfile::TempDir;
use tokio::task::JoinSet;

const CONVERSATIONS: u64 = 40;
const EACH: u64 = 5_000;

fn words(dice: &mut Dice, number: u64) -> String {
    let words: Vec<_> = (0..12).map(|_| format!("{:x}", dice.below(u64::MAX))).collect();
    format!("{number} {}", words.join(" "))
}

fn conversation(number: u64) -> ConversationId {
    ConversationId::direct(&user("alice"), &user(&format!("bob{number}")))
}

async fn large() -> Kit {
    let directory = TempDir::new().unwrap();
    let store = StoreSettings { checkpoint_bytes: 4 << 20, ..small(directory.path()) };
    let settings = ArchiveSettings { segment_messages: 1_000, ..eager() };
    let object_archive = Arc::new(ObjectArchive::over(Arc::new(InMemory::new()), "test", 1 << 20));
    let clock = Arc::new(ManualClock::at(LATER));
    let kit = Kit::open_as(directory, clock, Some(object_archive), settings, store);
    let mut senders = JoinSet::new();
    for number in 0..CONVERSATIONS {
        let store = Arc::clone(&kit.store);
        senders.spawn(async move {
            let id = direct(&*store, "alice", &format!("bob{number}")).await;
            let mut dice = Dice::new(number + 1);
            for part in 0..5 {
                let range = part * EACH / 5 + 1..=(part + 1) * EACH / 5;
                let texts: Vec<_> = range.map(|number| words(&mut dice, number)).collect();
                send_many(&*store, id, "alice", NOW, texts).await;
            }
        });
    }
    senders.join_all().await;
    kit
}

#[tokio::test(flavor = "multi_thread")]
async fn archiving_200_000_messages_shrinks_the_tables_during_reads() {
    let kit = large().await;
    let over = Arc::new(AtomicBool::new(false));
    let mut readers = JoinSet::new();
    for seed in 0..3 {
        let (store, over) = (Arc::clone(&kit.store), Arc::clone(&over));
        readers.spawn(async move {
            let (mut dice, mut pages) = (Dice::new(seed), 0u64);
            while !over.load(Ordering::SeqCst) {
                let number = dice.below(CONVERSATIONS);
                let at = dice.below(EACH - 60);
                let found =
                    page(&*store, conversation(number), "alice", PageFrom::After(Seq::new(at)), 50).await;
                for (message, seq) in found.unwrap().messages.iter().zip(at + 1..) {
                    assert!(message.content.starts_with(&format!("{seq} ")));
                }
                pages += 1;
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            pages
        });
    }
    let report = kit.run().await.unwrap();
    over.store(true, Ordering::SeqCst);
    let pages: u64 = readers.join_all().await.iter().sum();
    let (before, after) = (report.hot_file_bytes_before, report.hot_file_bytes_after);
    println!(
        "{before} bytes before, {after} after; {} in the archive; {pages} pages meanwhile; {:?}",
        report.moved.bytes, report.took
    );
    assert_eq!(report.moved.messages, CONVERSATIONS * EACH);
    assert!(after < before * 2 / 3, "{before} {after}");
    let on_disk = std::fs::metadata(kit.directory.path().join("tables/data.mdb")).unwrap().len();
    assert_eq!(on_disk, after);
    assert!(pages > 0);
    let kit = kit.crash();
    assert_eq!(history(&*kit.store, conversation(7), "alice").await.len() as u64, EACH);
    assert_eq!(kit.problems().await, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn leftover_of_a_crashed_compaction_is_removed_at_start() {
    let (kit, _) = Kit::in_memory(eager());
    let id = direct(&*kit.store, "alice", "bob").await;
    kit.send_many(id, "alice", numbered("old", 1..=200)).await;
    kit.run().await.unwrap();
    let data = std::fs::read(kit.directory.path().join("tables/data.mdb")).unwrap();
    let leftover = kit.directory.path().join("tables/compacted");
    std::fs::create_dir(&leftover).unwrap();
    std::fs::write(leftover.join("data.mdb"), &data[..data.len() / 2]).unwrap();
    let kit = kit.crash();
    assert!(!kit.directory.path().join("tables/compacted").exists());
    assert_eq!(texts(&*kit.store, id, "bob").await.len(), 200);
    kit.run().await.unwrap();
    assert_eq!(kit.problems().await, Vec::<String>::new());
}
