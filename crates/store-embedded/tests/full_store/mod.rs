//! A store that contains every kind of stored data at least once, and reads of all its content.

#![allow(dead_code, reason = "each test binary uses a part of it")]

#[path = "../common/mod.rs"]
pub mod common;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use bluetick_archive::{ArchiveSettings, ObjectArchive};
use bluetick_core::ports::{
    AddMembers, Archive, ArchiveRun, Creation, Erase, EraseScope, NewConversation, NoProgress, Receipt,
    RemoveMember, SetPreferences, Store,
};
use bluetick_core::time::ManualClock;
use bluetick_core::{
    ConversationId, PageFrom, PageLimit, PageRequest, PreferenceChange, ReceiptKind, Seq, StoreError,
    Timestamp, User,
};
use bluetick_store_embedded::check::{CheckParts, CheckReport, check};
use bluetick_store_embedded::{EmbeddedStore, OpenError, StoreParts};
use common::{NOW, direct, send, small, user};

/// The messages of each conversation as one member reads them: (seq, sender, type, content).
pub type Contents = BTreeMap<String, Vec<(u64, String, String, String)>>;

pub const PEOPLE: [&str; 6] = ["alice", "bob", "carol", "dave", "erin", "frank"];
const LATER: Timestamp = NOW.plus_millis(24 * 3600 * 1000);

/// Store parts with an archive directory next to the data.
pub fn parts(directory: &Path) -> StoreParts {
    let archive = ArchiveSettings {
        engine: bluetick_archive::ArchiveEngine::Directory,
        age_seconds: 3600,
        patience_seconds: 0,
        segment_messages: 30,
        messages_per_second: 0,
        every_seconds: 0,
        ..ArchiveSettings::default()
    };
    let object_archive = ObjectArchive::open(&archive, directory).unwrap().map(Arc::new);
    let clock = Arc::new(ManualClock::at(LATER));
    StoreParts { object_archive, archive, clock, ..StoreParts::new(small(directory)) }
}

pub fn open(directory: &Path) -> Result<EmbeddedStore, OpenError> {
    EmbeddedStore::open(parts(directory))
}

async fn group(store: &dyn Store, number: u8, members: &[&str]) -> ConversationId {
    let id = ConversationId::group([number; 15]);
    let creation = Creation::Group {
        title: format!("group {number}").parse().unwrap(),
        members: members.iter().map(|name| user(name)).collect(),
    };
    let new = NewConversation { id, creation, created_by: user("alice"), created_at: NOW };
    store.open_conversation(new).await.unwrap();
    id
}

pub async fn apply_receipt(
    store: &dyn Store,
    conversation: ConversationId,
    name: &str,
    kind: ReceiptKind,
    seq: u64,
) {
    let mark = Receipt { conversation, user: user(name), kind, seq: Seq::new(seq), origin: None };
    store.apply_receipt(mark).await.unwrap();
}

/// Adds users, conversations, read states, preferences, former members, archived messages and
/// erased messages.
pub async fn fill(store: &EmbeddedStore) -> Vec<(ConversationId, &'static str)> {
    for name in PEOPLE {
        let display_name = Some(format!("{} of the town", name.to_uppercase()).into());
        let user = User { id: user(name), display_name, password_hash: Some("hash".into()), created_at: NOW };
        store.create_user(user).await.unwrap();
    }
    let mut all = Vec::new();
    for (one, other) in [("alice", "bob"), ("carol", "dave"), ("erin", "frank"), ("alice", "alice")] {
        let id = direct(store, one, other).await;
        for number in 0..70 {
            send(store, id, if number % 3 == 0 { other } else { one }, &format!("{one} to {other} {number}"))
                .await
                .unwrap();
        }
        all.push((id, one));
    }
    let crowd = group(store, 1, &PEOPLE).await;
    let few = group(store, 2, &["bob", "carol"]).await;
    for number in 0..100 {
        let name = PEOPLE[number % PEOPLE.len()];
        send(store, crowd, name, &format!("{name} in the crowd {number}")).await.unwrap();
    }
    let long = "x".repeat(6_000);
    common::send_as(store, few, "bob", "a-long-one", &long).await.unwrap();
    let remove = RemoveMember { conversation: crowd, actor: user("alice"), user: user("frank"), at: NOW };
    store.remove_member(remove).await.unwrap();
    let users = vec![user("dave"), user("erin")];
    let add = AddMembers { conversation: few, actor: user("alice"), users, member_limit: 100, at: NOW };
    store.add_members(add).await.unwrap();
    send(store, few, "erin", "thank you").await.unwrap();
    all.extend([(crowd, "alice"), (few, "alice")]);
    apply_receipt(store, crowd, "bob", ReceiptKind::Delivered, 80).await;
    apply_receipt(store, crowd, "bob", ReceiptKind::Read, 60).await;
    apply_receipt(store, crowd, "carol", ReceiptKind::Read, 101).await;
    let change = PreferenceChange { pinned: Some(true), ..PreferenceChange::default() };
    store.set_preferences(SetPreferences { conversation: crowd, user: user("bob"), change }).await.unwrap();
    let run = ArchiveRun { only: Some(all[1].0), partial: true };
    Archive::run(store, run, Arc::new(NoProgress)).await.unwrap();
    let scope = EraseScope::User { user: user("frank"), conversation: Some(all[2].0) };
    Archive::erase(store, Erase { scope, through: None }, Arc::new(NoProgress)).await.unwrap();
    // This message stays in memory and in the log.
    send(store, all[0].0, "bob", "the last word").await.unwrap();
    all
}

/// Fills a store and closes it cleanly.
pub async fn closed(directory: &Path) -> (Vec<(ConversationId, &'static str)>, Contents) {
    let store = open(directory).unwrap();
    let all = fill(&store).await;
    let contents = contents(&store, &all).await.unwrap();
    store.close().await;
    (all, contents)
}

pub async fn contents(store: &dyn Store, all: &[(ConversationId, &str)]) -> Result<Contents, StoreError> {
    let mut contents = Contents::new();
    for (id, reader) in all {
        contents.insert(id.to_string(), contents_of(store, *id, reader).await?);
    }
    Ok(contents)
}

pub async fn contents_of(
    store: &dyn Store,
    id: ConversationId,
    reader: &str,
) -> Result<Vec<(u64, String, String, String)>, StoreError> {
    let (mut said, mut after) = (Vec::new(), Seq::ZERO);
    loop {
        let from = PageFrom::After(after);
        let page = store
            .page(PageRequest { conversation: id, reader: user(reader), from, limit: PageLimit::MAX })
            .await?;
        said.extend(page.messages.iter().map(|message| {
            let kind = message.content_type.as_str().to_owned();
            (message.seq.get(), message.sender.to_string(), kind, message.content.to_string())
        }));
        match page.next_after {
            Some(next) => after = next,
            None => return Ok(said),
        }
    }
}

pub fn check_report(directory: &Path) -> CheckReport {
    check(CheckParts { data_dir: directory.to_owned(), progress: Arc::new(NoProgress) }).unwrap()
}

pub fn findings(directory: &Path) -> Vec<String> {
    check_report(directory).findings.iter().map(ToString::to_string).collect()
}
