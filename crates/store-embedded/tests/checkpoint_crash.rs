//! A crash at any step of a checkpoint. The files of that moment open to the same conversations.

#![expect(clippy::unwrap_used, reason = "a test may stop where its own set-up fails")]

mod common;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bluetick_core::ports::Store;
use bluetick_core::time::ManualClock;
use bluetick_store_embedded::checkpoint::CheckpointStep;
use bluetick_store_embedded::tables::Tables;
use bluetick_store_embedded::{EmbeddedStore, StoreParts};
use common::{copy_into, direct, send, small, texts, user};
use tempfile::TempDir;

type Expected = BTreeMap<String, Vec<String>>;

/// Copies the files at each step of the checkpoints, with the messages that were acknowledged
/// before the copy.
struct CheckpointImages {
    images: Mutex<Vec<(CheckpointStep, TempDir, Expected, Read)>>,
    acknowledged: Mutex<Expected>,
    read: Mutex<Read>,
}

/// The acknowledged read seq of each peer.
type Read = BTreeMap<String, u64>;

#[tokio::test(flavor = "multi_thread")]
async fn crash_at_any_checkpoint_step_loses_and_duplicates_nothing() {
    let directory = TempDir::new().unwrap();
    let scene = Arc::new(CheckpointImages {
        images: Mutex::default(),
        acknowledged: Mutex::default(),
        read: Mutex::default(),
    });
    let mut parts = StoreParts::new(small(directory.path()));
    let (watcher, path) = (Arc::clone(&scene), directory.path().to_owned());
    parts.on_checkpoint_step = Arc::new(move |step| {
        let seen = watcher.images.lock().unwrap().iter().filter(|(kept, ..)| *kept == step).count();
        if seen < 4 {
            let acknowledged = watcher.acknowledged.lock().unwrap().clone();
            let read = watcher.read.lock().unwrap().clone();
            let image = TempDir::new().unwrap();
            copy_into(&path, image.path());
            watcher.images.lock().unwrap().push((step, image, acknowledged, read));
        }
    });
    let store = EmbeddedStore::open(parts).unwrap();
    store
        .create_user(bluetick_core::User {
            id: user("alice"),
            display_name: None,
            password_hash: None,
            created_at: common::NOW,
        })
        .await
        .unwrap();
    for round in 0..40 {
        for pair in 0..20 {
            let peer = format!("bob{pair}");
            let id = direct(&store, "alice", &peer).await;
            for number in 0..=(pair % 5) {
                let text = format!("{round}-{pair}-{number}");
                send(&store, id, "alice", &text).await.unwrap();
                scene.acknowledged.lock().unwrap().entry(peer.clone()).or_default().push(text);
            }
            let count = scene.acknowledged.lock().unwrap()[&peer].len() as u64;
            if (round + pair) % 3 == 0 {
                let seq = count - (round % 4).min(count - 1);
                let read = read_up_to(&store, id, &peer, seq).await;
                scene.read.lock().unwrap().insert(peer.clone(), read);
            }
        }
    }
    store.close().await;
    drop(store);

    let images = std::mem::take(&mut *scene.images.lock().unwrap());
    let steps = [
        CheckpointStep::BeforeFirstTransaction,
        CheckpointStep::RoomsWritten,
        CheckpointStep::InboxWritten,
        CheckpointStep::UsersWritten,
        CheckpointStep::PositionMoved,
    ];
    for step in steps {
        assert!(images.iter().any(|(kept, ..)| *kept == step), "{step:?} was never reached");
    }
    for (step, image, acknowledged, read) in images {
        let clock = Arc::new(ManualClock::at(common::NOW));
        let parts = StoreParts { clock, ..StoreParts::new(small(image.path())) };
        let store = EmbeddedStore::open(parts).unwrap();
        for (peer, expected) in &acknowledged {
            let id = direct(&store, "alice", peer).await;
            let found = texts(&store, id, "alice").await;
            assert!(found.starts_with(expected), "{step:?}: {peer} lost messages");
            let again = send(&store, id, "alice", &expected[0]).await.unwrap();
            assert_eq!(again.get(), 1, "{step:?}: the resend is recognized by its id");
            let entry = store.inbox_entry(id, &user(peer)).await.unwrap();
            let told = read.get(peer).copied().unwrap_or_default();
            assert!(
                entry.own.read.get() >= told,
                "{step:?}: the read state of {peer} is below the acknowledged {told}"
            );
            assert_eq!(
                entry.unread,
                entry.conversation.head.distance_from(entry.own.read),
                "{step:?}: {peer}"
            );
            let behind = store.behind(&user(peer), Vec::new()).await.unwrap().behind;
            let missing = behind.first().map_or(0, |behind| behind.head.distance_from(behind.after));
            assert_eq!(
                missing, entry.unread,
                "{step:?}: the pending messages of {peer} are not the unread ones"
            );
        }
        let request = bluetick_core::InboxRequest {
            user: user("alice"),
            after: None,
            limit: bluetick_core::PageLimit::MAX,
            filter: bluetick_core::InboxFilter::All,
        };
        let inbox = store.inbox(request).await.unwrap().entries;
        assert!(inbox.len() >= acknowledged.len(), "{step:?}");
        assert!(inbox.is_sorted_by_key(bluetick_core::InboxEntry::place), "{step:?}");
        assert!(store.user(&user("alice")).await.unwrap().is_some(), "{step:?}");
        store.close().await;
        drop(store);
        inbox_rows_agree_with_the_conversations(image.path(), &acknowledged, step);
    }
}

async fn read_up_to(store: &dyn Store, id: bluetick_core::ConversationId, peer: &str, seq: u64) -> u64 {
    let mark = bluetick_core::ports::Receipt {
        conversation: id,
        user: user(peer),
        kind: bluetick_core::ReceiptKind::Read,
        seq: bluetick_core::Seq::new(seq),
        origin: None,
    };
    store.apply_receipt(mark).await.unwrap().read.get()
}

fn inbox_rows_agree_with_the_conversations(
    directory: &std::path::Path,
    known: &Expected,
    step: CheckpointStep,
) {
    let tables = Tables::open(&directory.join("tables")).unwrap();
    let tables = tables.current().unwrap();
    let snapshot = tables.snapshot().unwrap();
    for peer in known.keys() {
        let id = bluetick_core::ConversationId::direct(&user("alice"), &user(peer));
        let head = snapshot.conversation(id).unwrap().unwrap().conversation.head;
        for owner in ["alice", peer] {
            let row = snapshot.inbox_row(&user(owner), id).unwrap().unwrap();
            let row = bluetick_store_embedded::codec::rows::read_inbox(&row).unwrap();
            assert_eq!(row.last_seq, head, "{step:?}: the inbox row of {owner} about {peer}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn replay_of_fully_checkpointed_log_changes_nothing() {
    let directory = TempDir::new().unwrap();
    let before = TempDir::new().unwrap();
    let store = EmbeddedStore::open(StoreParts::new(small(directory.path()))).unwrap();
    let id = direct(&store, "alice", "bob").await;
    for number in 0..300 {
        send(&store, id, "bob", &format!("m{number}")).await.unwrap();
    }
    copy_into(&directory.path().join("log"), before.path());
    store.close().await;
    drop(store);
    // Combine the log from before the last checkpoint with the tables from after it.
    std::fs::remove_dir_all(directory.path().join("log")).unwrap();
    std::fs::create_dir(directory.path().join("log")).unwrap();
    copy_into(before.path(), &directory.path().join("log"));
    let store = EmbeddedStore::open(StoreParts::new(small(directory.path()))).unwrap();
    assert_eq!(texts(&store, id, "alice").await.len(), 300);
    assert_eq!(send(&store, id, "alice", "next").await.unwrap().get(), 301);
}

#[tokio::test(flavor = "multi_thread")]
async fn failed_checkpoint_is_retried_and_loses_nothing() {
    let directory = TempDir::new().unwrap();
    let failures = Arc::new(Mutex::new(vec![CheckpointStep::RoomsWritten, CheckpointStep::InboxWritten]));
    let mut parts = StoreParts::new(small(directory.path()));
    let (left, completed) = (Arc::clone(&failures), Arc::new(AtomicUsize::new(0)));
    let completions = Arc::clone(&completed);
    parts.on_checkpoint_step = Arc::new(move |step| {
        completions.fetch_add(usize::from(step == CheckpointStep::PositionMoved), Ordering::SeqCst);
        let mut left = left.lock().unwrap();
        if let Some(at) = left.iter().position(|failing| *failing == step) {
            left.remove(at);
            // Count completions after the last failure only.
            completions.store(0, Ordering::SeqCst);
            drop(left);
            panic!("injected panic");
        }
    });
    let store = EmbeddedStore::open(parts).unwrap();
    let id = bluetick_core::ConversationId::group([3; 15]);
    let creation = bluetick_core::ports::Creation::Group {
        title: "Tea".parse().unwrap(),
        members: vec![user("bob"), user("carol")],
    };
    let new = bluetick_core::ports::NewConversation {
        id,
        creation,
        created_by: user("alice"),
        created_at: common::NOW,
    };
    store.open_conversation(new).await.unwrap();
    let remove = |name: &str| bluetick_core::ports::RemoveMember {
        conversation: id,
        actor: user("alice"),
        user: user(name),
        at: common::NOW,
    };
    let completed_after_failures = async || {
        while !failures.lock().unwrap().is_empty() || completed.load(Ordering::SeqCst) == 0 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    // The first round writes the rows of all members. The second round deletes the rows of a member
    // who left.
    for round in 0..2 {
        if round == 1 {
            failures.lock().unwrap().push(CheckpointStep::RoomsWritten);
            store.remove_member(remove("carol")).await.unwrap();
        }
        for number in 0..200 {
            send(&store, id, "bob", &format!("{round}-{number}-{}", "x".repeat(80))).await.unwrap();
        }
        completed_after_failures().await;
    }
    store.close().await;
    drop(store);
    let tables = Tables::open(&directory.path().join("tables")).unwrap();
    let tables = tables.current().unwrap();
    let snapshot = tables.snapshot().unwrap();
    assert!(snapshot.inbox_row(&user("carol"), id).unwrap().is_none());
    let row = snapshot.inbox_row(&user("bob"), id).unwrap().unwrap();
    assert_eq!(bluetick_store_embedded::codec::rows::read_inbox(&row).unwrap().last_seq.get(), 402);
    assert_eq!(snapshot.members(id).unwrap().0.len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn settings_of_removed_member_do_not_return_after_rejoin_and_crash() {
    use bluetick_core::ports::{AddMembers, Creation, NewConversation, RemoveMember, SetPreferences};
    use bluetick_core::{ConversationId, PreferenceChange, Seq};

    let directory = TempDir::new().unwrap();
    let (images, rejoined) = (Arc::new(Mutex::new(Vec::new())), Arc::new(AtomicUsize::new(0)));
    let mut parts = StoreParts::new(small(directory.path()));
    let (kept, round, path) = (Arc::clone(&images), Arc::clone(&rejoined), directory.path().to_owned());
    parts.on_checkpoint_step = Arc::new(move |step| {
        let before = round.load(Ordering::SeqCst);
        if before == 0
            || matches!(step, CheckpointStep::BeforeFirstTransaction | CheckpointStep::PositionMoved)
        {
            return;
        }
        let image = TempDir::new().unwrap();
        copy_into(&path, image.path());
        if round.load(Ordering::SeqCst) == before {
            kept.lock().unwrap().push((step, image));
        }
    });
    let store = EmbeddedStore::open(parts).unwrap();
    let id = ConversationId::group([9; 15]);
    let creation = Creation::Group { title: "Tea".parse().unwrap(), members: vec![user("bob")] };
    let new = NewConversation { id, creation, created_by: user("alice"), created_at: common::NOW };
    store.open_conversation(new).await.unwrap();
    for number in 1..=12 {
        let change = PreferenceChange { archived: Some(true), hides_reads: Some(true), ..Default::default() };
        store.set_preferences(SetPreferences { conversation: id, user: user("bob"), change }).await.unwrap();
        read_up_to(&store, id, "bob", u64::MAX >> 12).await;
        let (actor, bob) = (user("alice"), user("bob"));
        let leave =
            RemoveMember { conversation: id, actor: actor.clone(), user: bob.clone(), at: common::NOW };
        store.remove_member(leave).await.unwrap();
        let users = vec![bob];
        store
            .add_members(AddMembers { conversation: id, actor, users, member_limit: 9, at: common::NOW })
            .await
            .unwrap();
        rejoined.store(number, Ordering::SeqCst);
        // Enough messages for one or two checkpoints.
        for text in 0..150 {
            send(&store, id, "alice", &format!("{number}-{text} {}", "x".repeat(100))).await.unwrap();
        }
        rejoined.store(0, Ordering::SeqCst);
    }
    store.close().await;
    drop(store);
    let images = std::mem::take(&mut *images.lock().unwrap());
    assert!(images.len() > 5, "too few images: {}", images.len());
    for (step, image) in images {
        let store = EmbeddedStore::open(StoreParts::new(small(image.path()))).unwrap();
        let entry = store.inbox_entry(id, &user("bob")).await.unwrap();
        assert_eq!(entry.preferences, Default::default(), "{step:?}");
        assert_eq!((entry.own.read, entry.own.delivered), (Seq::ZERO, Seq::ZERO), "{step:?}");
        store.close().await;
    }
}
