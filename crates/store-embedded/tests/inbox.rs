//! Inboxes and pending deliveries whose rows are partly in the tables and partly in memory.

#![expect(clippy::unwrap_used, reason = "a test may stop where its own set-up fails")]

mod common;

use std::sync::Arc;

use bluetick_core::ports::{AddMembers, Creation, NewConversation, Receipt, Store};
use bluetick_core::{
    ConversationId, InboxEntry, InboxFilter, InboxRequest, PageLimit, ReceiptKind, Seq, UserId,
};
use bluetick_store_embedded::tables::Tables;
use bluetick_store_embedded::{EmbeddedStore, StoreParts, StoreSettings};
use common::{direct, send, small, user};
use tempfile::TempDir;
use tokio::task::JoinSet;

fn open(settings: StoreSettings) -> EmbeddedStore {
    EmbeddedStore::open(StoreParts::new(settings)).unwrap()
}

async fn close(store: EmbeddedStore) {
    store.close().await;
}

async fn inbox(store: &EmbeddedStore, name: &str, limit: i64) -> Vec<InboxEntry> {
    let limit = PageLimit::try_from(limit).unwrap();
    let request = InboxRequest { user: user(name), after: None, limit, filter: InboxFilter::All };
    store.inbox(request).await.unwrap().entries
}

async fn apply_receipt(store: &EmbeddedStore, id: ConversationId, user: UserId, kind: ReceiptKind, seq: u64) {
    let mark = Receipt { conversation: id, user, kind, seq: Seq::new(seq), origin: None };
    store.apply_receipt(mark).await.unwrap();
}

fn pending_row(directory: &TempDir, name: &str) -> Vec<(ConversationId, Seq)> {
    let tables = Tables::open(&directory.path().join("tables")).unwrap();
    tables.current().unwrap().snapshot().unwrap().pending(&user(name)).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn pending_row_is_written_once_and_removed_by_the_ack() {
    let directory = TempDir::new().unwrap();
    let store = open(small(directory.path()));
    let id = direct(&store, "alice", "bob").await;
    send(&store, id, "alice", "first").await.unwrap();
    close(store).await;
    assert_eq!(pending_row(&directory, "bob"), [(id, Seq::ZERO)]);
    assert_eq!(pending_row(&directory, "alice"), [], "a sender has no pending messages");

    let store = open(small(directory.path()));
    for number in 0..1_000 {
        send(&store, id, "alice", &number.to_string()).await.unwrap();
    }
    close(store).await;
    assert_eq!(pending_row(&directory, "bob"), [(id, Seq::ZERO)]);

    let store = open(small(directory.path()));
    apply_receipt(&store, id, user("bob"), ReceiptKind::Delivered, 400).await;
    close(store).await;
    assert_eq!(pending_row(&directory, "bob"), [(id, Seq::new(400))]);

    let store = open(small(directory.path()));
    apply_receipt(&store, id, user("bob"), ReceiptKind::Read, 1_001).await;
    close(store).await;
    assert_eq!(pending_row(&directory, "bob"), []);
}

#[tokio::test(flavor = "multi_thread")]
async fn inbox_is_one_list_wherever_its_entries_are_stored() {
    let directory = TempDir::new().unwrap();
    let store = open(small(directory.path()));
    for number in 0..60 {
        let id = direct(&store, "alice", &format!("bob{number}")).await;
        send(&store, id, "alice", "hello").await.unwrap();
    }
    close(store).await;
    // Only the close makes a checkpoint, so new messages are in memory.
    let settings = StoreSettings { checkpoint_bytes: 1 << 30, ..small(directory.path()) };
    let store = open(settings);
    let mut expected = Vec::new();
    for number in [7, 59, 0] {
        let peer = format!("bob{number}");
        let id = direct(&store, "alice", &peer).await;
        let mut append = common::message(id, &peer, "again");
        append.received_at = common::NOW.plus_millis(1_000 + expected.len() as i64);
        store.append(append).await.unwrap().await.unwrap();
        expected.insert(0, (peer, 1));
    }
    let top = inbox(&store, "alice", 3).await;
    let top: Vec<_> =
        top.iter().map(|entry| (entry.peer.as_ref().unwrap().to_string(), entry.unread)).collect();
    assert_eq!(top, expected);
    let all = inbox(&store, "alice", 100).await;
    let mut peers: Vec<_> = all.iter().map(|entry| entry.peer.clone().unwrap()).collect();
    peers.sort();
    peers.dedup();
    assert_eq!((all.len(), peers.len()), (60, 60));
    close(store).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn inbox_reads_between_messages_and_checkpoints_match_a_model() {
    let directory = TempDir::new().unwrap();
    let store = open(small(directory.path()));
    let mut last_at: Vec<(i64, ConversationId)> = Vec::new();
    for number in 0..30 {
        last_at.push((0, direct(&store, "alice", &format!("bob{number}")).await));
    }
    let large = ConversationId::group([8; 15]);
    let members = (0..100).map(|number| user(&format!("member{number}"))).chain([user("alice")]).collect();
    let creation = Creation::Group { title: "All".parse().unwrap(), members };
    let new = NewConversation { id: large, creation, created_by: user("member0"), created_at: common::NOW };
    store.open_conversation(new).await.unwrap();
    last_at.push((0, large));
    let mut dice = 7u64;
    for round in 1..=1_500i64 {
        dice ^= dice << 13;
        dice ^= dice >> 7;
        dice ^= dice << 17;
        let at = (dice % last_at.len() as u64) as usize;
        let (moment, id) = &mut last_at[at];
        *moment = round;
        let sender = if *id == large { "member7".to_owned() } else { format!("bob{at}") };
        // Long texts cause many checkpoints.
        let mut append = common::message(*id, &sender, &format!("{round}-{}", "x".repeat(100)));
        append.received_at = common::NOW.plus_millis(round);
        store.append(append).await.unwrap().await.unwrap();
        if dice.is_multiple_of(3) {
            let mut expected = last_at.clone();
            expected.sort_by_key(|(moment, id)| (std::cmp::Reverse(*moment), *id));
            let expected: Vec<_> = expected.into_iter().take(10).map(|(_, id)| id).collect();
            let found: Vec<_> =
                inbox(&store, "alice", 10).await.iter().map(|entry| entry.conversation.id).collect();
            assert_eq!(found, expected, "round {round}");
        }
    }
    close(store).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn receipt_counts_of_ten_thousand_members_are_right_and_survive_restart() {
    let directory = TempDir::new().unwrap();
    let settings = || StoreSettings { data_dir: directory.path().to_owned(), ..StoreSettings::default() };
    let store = Arc::new(open(settings()));
    let name = |number: usize| -> UserId { format!("member{number}").parse().unwrap() };
    let id = ConversationId::group([7; 15]);
    let creation =
        Creation::Group { title: "All".parse().unwrap(), members: (1..10_000).map(name).collect() };
    let new = NewConversation { id, creation, created_by: name(0), created_at: common::NOW };
    store.open_conversation(new).await.unwrap();
    send(&*store, id, "member0", "hello everybody").await.unwrap();
    let mut marks = JoinSet::new();
    for number in 1..=3_000 {
        let kind = if number <= 1_000 { ReceiptKind::Read } else { ReceiptKind::Delivered };
        let store = Arc::clone(&store);
        marks.spawn(async move { apply_receipt(&store, id, name(number), kind, 2).await });
    }
    marks.join_all().await;
    let receipts = store.receipt_counts(id, &name(0), Seq::new(2)).await.unwrap();
    assert_eq!((receipts.recipients, receipts.delivered, receipts.read), (9_999, 3_000, 1_000));
    apply_receipt(&store, id, name(3_001), ReceiptKind::Read, 2).await;
    let receipts = store.receipt_counts(id, &name(0), Seq::new(2)).await.unwrap();
    assert_eq!((receipts.delivered, receipts.read), (3_001, 1_001));
    store.close().await;
    drop(store);
    let store = open(settings());
    assert_eq!(store.receipt_counts(id, &name(0), Seq::new(2)).await.unwrap(), receipts);
    close(store).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_inbox_reads_return_the_same_page() {
    let directory = TempDir::new().unwrap();
    let settings = StoreSettings { checkpoint_bytes: 1 << 30, ..small(directory.path()) };
    let store = Arc::new(open(settings));
    for round in 0..30i64 {
        let mut newest = Vec::new();
        for number in 0..200i64 {
            let peer = format!("bob{number}");
            let id = direct(&*store, "alice", &peer).await;
            let mut append = common::message(id, &peer, &format!("{round}"));
            append.received_at = common::NOW.plus_millis(round * 1_000 + number);
            store.append(append).await.unwrap().await.unwrap();
            newest.insert(0, id);
        }
        newest.truncate(20);
        let mut looks = JoinSet::new();
        for _ in 0..6 {
            let store = Arc::clone(&store);
            looks.spawn(async move { inbox(&store, "alice", 20).await });
        }
        while let Some(entries) = looks.join_next().await {
            let found: Vec<_> = entries.unwrap().iter().map(|entry| entry.conversation.id).collect();
            assert_eq!(found, newest, "round {round}");
        }
    }
    store.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn groups_that_grow_large_hide_no_inbox_entry() {
    let directory = TempDir::new().unwrap();
    let settings = StoreSettings { checkpoint_bytes: 1 << 30, ..small(directory.path()) };
    let store = open(settings);
    let mut expected = Vec::new();
    for number in 0..30u8 {
        let id = ConversationId::group([number; 15]);
        let creation = Creation::Group { title: "Tea".parse().unwrap(), members: vec![user("bob")] };
        let created_at = common::NOW.plus_millis(number.into());
        let new = NewConversation { id, creation, created_by: user("alice"), created_at };
        store.open_conversation(new).await.unwrap();
        expected.insert(0, id);
    }
    assert_eq!(inbox(&store, "alice", 30).await.len(), 30);
    // Adding 80 members to each of the ten newest changes how their order is stored, at a
    // time that moves none of them.
    for (number, id) in expected.iter().take(10).enumerate() {
        let users = (0..80).map(|member| user(&format!("member{member}"))).collect();
        let at = common::NOW.plus_millis(29 - number as i64);
        let add = AddMembers { conversation: *id, actor: user("alice"), users, member_limit: 100, at };
        store.add_members(add).await.unwrap();
    }
    let mut found = Vec::new();
    let (mut after, limit) = (None, PageLimit::try_from(5).unwrap());
    loop {
        let request = InboxRequest { user: user("alice"), after, limit, filter: InboxFilter::All };
        let page = store.inbox(request).await.unwrap();
        found.extend(page.entries.iter().map(|entry| entry.conversation.id));
        match page.next {
            Some(next) => after = Some(next),
            None => break,
        }
    }
    assert_eq!(found, expected);
    close(store).await;
}
