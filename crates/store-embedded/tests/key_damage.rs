//! Flips one bit in a key of the tables, or in the length of a key. Every read returns the right
//! answer or an error, and a check reports the damage. Reads find rows by key, so a damaged key can
//! hide its row.

#![expect(clippy::unwrap_used, reason = "a test may stop where its own set-up fails")]

mod common;

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use bluetick_core::ports::{
    Creation, NewConversation, NoProgress, Receipt, RemoveMember, SetPreferences, Store,
};
use bluetick_core::{
    ConversationId, InboxFilter, InboxRequest, NamePrefix, PageFrom, PageLimit, PageRequest,
    PreferenceChange, ProfileUpdate, ReceiptKind, Seq, StoreError, User, UserId,
};
use bluetick_store_embedded::check::{CheckParts, check};
use bluetick_store_embedded::tables::Tables;
use bluetick_store_embedded::{EmbeddedStore, OpenError, StoreParts, StoreSettings};
use bluetick_testkit::dice::Dice;
use common::{NOW, copy_into, direct, send, small, user};
use tempfile::TempDir;

/// Small segments, because the test opens a store for each flipped bit.
fn open(directory: &Path) -> Result<EmbeddedStore, OpenError> {
    let settings = StoreSettings { segment_bytes: 64 << 10, ..small(directory) };
    EmbeddedStore::open(StoreParts::new(settings))
}

/// A directory in memory if possible: the test opens thousands of stores, and none has to survive a
/// reboot.
fn in_memory() -> TempDir {
    let memory = Path::new("/dev/shm");
    if memory.is_dir() { TempDir::new_in(memory) } else { TempDir::new() }.unwrap()
}

/// A store with users and conversations.
struct DamagedStore {
    directory: TempDir,
    people: Vec<UserId>,
    conversations: Vec<ConversationId>,
}

impl DamagedStore {
    async fn new(people: &[String]) -> DamagedStore {
        let directory = in_memory();
        let store = open(directory.path()).unwrap();
        for name in people {
            let display_name = Some(format!("The {name}").into());
            let user = User { id: user(name), display_name, password_hash: None, created_at: NOW };
            store.create_user(user).await.unwrap();
            let seen = ProfileUpdate { last_seen_at: Some(NOW), ..ProfileUpdate::of(self::user(name)) };
            store.update_profile(seen).await.unwrap();
        }
        let (first, others) = people.split_first().unwrap();
        let mut conversations = Vec::new();
        for other in others {
            let id = direct(&store, first, other).await;
            for text in ["one", "two", "three"] {
                send(&store, id, first, &format!("{text} to {other}")).await.unwrap();
            }
            conversations.push(id);
        }
        let crowd = ConversationId::group([7; 15]);
        let creation = Creation::Group {
            title: "Everybody".parse().unwrap(),
            members: people.iter().take(4).map(|name| user(name)).collect(),
        };
        let new = NewConversation { id: crowd, creation, created_by: user(first), created_at: NOW };
        store.open_conversation(new).await.unwrap();
        for number in 0..100 {
            send(&store, crowd, first, &format!("to everybody {number}")).await.unwrap();
        }
        conversations.push(crowd);
        let mark = |kind| Receipt {
            conversation: crowd,
            user: user(&others[0]),
            kind,
            seq: Seq::new(40),
            origin: None,
        };
        store.apply_receipt(mark(ReceiptKind::Delivered)).await.unwrap();
        store.apply_receipt(mark(ReceiptKind::Read)).await.unwrap();
        let change = PreferenceChange { pinned: Some(true), ..PreferenceChange::default() };
        store
            .set_preferences(SetPreferences { conversation: crowd, user: user(first), change })
            .await
            .unwrap();
        store.close().await;
        drop(store);
        // Compact the tables, so that few pages are free.
        Tables::open(&directory.path().join("tables")).unwrap().compact(&|| false).unwrap();
        DamagedStore { directory, people: people.iter().map(|name| user(name)).collect(), conversations }
    }

    /// Reads everything as every user and as one unknown user.
    async fn answers(&self, store: &EmbeddedStore) -> Vec<(String, Result<String, StoreError>)> {
        let mut answers = Vec::new();
        let mut tell = |question: String, answer| answers.push((question, answer));
        let stranger = user("nobody-at-all");
        for reader in self.people.iter().take(4).chain([self.people.last().unwrap(), &stranger]) {
            tell(format!("account of {reader}"), text(store.user(reader).await));
            tell(format!("profile of {reader}"), text(store.profile(reader).await));
            let mut missed = store.behind(reader, Vec::new()).await;
            if let Ok(missed) = &mut missed {
                // All conversations are equally far behind, so their order is undefined.
                missed.behind.sort_by_key(|behind| *behind.conversation.as_bytes());
            }
            tell(format!("what {reader} missed"), text(missed));
            for filter in [InboxFilter::All, InboxFilter::Archived] {
                let (after, limit) = (None, PageLimit::MAX);
                let request = InboxRequest { user: reader.clone(), after, limit, filter };
                tell(format!("inbox of {reader}, {filter:?}"), text(store.inbox(request).await));
            }
            let some = self.conversations.iter().take(3).chain(self.conversations.last());
            for &id in some {
                let from = PageFrom::After(Seq::ZERO);
                let request =
                    PageRequest { conversation: id, reader: reader.clone(), from, limit: PageLimit::MAX };
                tell(format!("messages of {id} for {reader}"), text(store.page(request).await));
                let from = PageFrom::Before(Seq::new(90));
                let limit = PageLimit::DEFAULT;
                let request = PageRequest { conversation: id, reader: reader.clone(), from, limit };
                tell(format!("earlier messages of {id} for {reader}"), text(store.page(request).await));
                tell(format!("{id} for {reader}"), text(store.conversation(id, reader).await));
                tell(format!("ticks of {id} for {reader}"), text(store.statuses(id, reader).await));
            }
        }
        for prefix in ["the", "a", "b", "zz"] {
            let found = store.find_people(&NamePrefix::new(prefix).unwrap(), 1000).await;
            tell(format!("people by {prefix}"), text(found));
        }
        tell("people by id".to_owned(), text(store.people(self.people.clone()).await));
        answers
    }

    /// Flips one bit and counts the outcome. Panics if an answer is wrong.
    async fn suffer(
        &self,
        place: KeyBit,
        known: &[(String, Result<String, StoreError>)],
        count: &mut OutcomeCounts,
    ) {
        let directory = in_memory();
        copy_into(self.directory.path(), directory.path());
        let path = directory.path().join("tables/data.mdb");
        let file = std::fs::OpenOptions::new().read(true).write(true).open(path).unwrap();
        let mut byte = [0];
        file.read_exact_at(&mut byte, place.offset).unwrap();
        file.write_all_at(&[byte[0] ^ 1 << place.bit], place.offset).unwrap();
        drop(file);
        let parts = CheckParts { data_dir: directory.path().to_owned(), progress: Arc::new(NoProgress) };
        let found = check(parts).unwrap().finding_count > 0;
        let outcome = match open(directory.path()) {
            Err(_) => "refused to start",
            Ok(store) => {
                let mut outcome = "right";
                let answers = self.answers(&store).await;
                assert_eq!(answers.len(), known.len());
                for ((question, answer), (_, right)) in answers.iter().zip(known) {
                    count.answers += 1;
                    match answer {
                        Err(StoreError::Damaged(_)) => outcome = "an error",
                        answer => {
                            let is_right = format!("{answer:?}") == format!("{right:?}");
                            assert!(is_right, "{place:?}: a wrong answer to: {question:.60}");
                        }
                    }
                }
                store.close().await;
                outcome
            }
        };
        assert!(found || outcome == "right", "{place:?}: {outcome}, and the check found no damage");
        *count.outcomes.entry((place.page, outcome, found)).or_default() += 1;
    }
}

fn text<T: Debug, E>(answer: Result<T, E>) -> Result<String, E> {
    answer.map(|answer| format!("{answer:?}"))
}

#[derive(Debug, Default)]
struct OutcomeCounts {
    answers: u64,
    /// Outcomes of the flips by kind of page, and whether a check found them.
    outcomes: BTreeMap<(&'static str, &'static str, bool), u64>,
}

impl OutcomeCounts {
    fn of(&self, page: &str, outcome: &str) -> u64 {
        let these = self.outcomes.iter().filter(|((of, came, _), _)| *of == page && *came == outcome);
        these.map(|(_, count)| *count).sum()
    }
}

#[derive(Clone, Copy, Debug)]
struct KeyBit {
    page: &'static str,
    offset: u64,
    bit: u64,
}

/// Selects one random bit in every byte of every key and of every key length.
fn keys_of(file: &Path, dice: &mut Dice) -> Vec<KeyBit> {
    let bytes = std::fs::read(file).unwrap();
    let u16_at = |at: usize| usize::from(u16::from_le_bytes([bytes[at], bytes[at + 1]]));
    let (mut places, page_bytes) = (Vec::new(), 4096);
    // The first two pages are the roots, which have no keys.
    for page in (2 * page_bytes..bytes.len()).step_by(page_bytes) {
        let kind = match u16_at(page + 10) {
            1 => "branch",
            2 => "leaf",
            _ => continue,
        };
        let lower = u16_at(page + 12);
        for pointer in (page + 16..page + lower).step_by(2) {
            let node = page + u16_at(pointer);
            for offset in node + 6..node + 8 + u16_at(node + 6) {
                places.push(KeyBit { page: kind, offset: offset as u64, bit: dice.below(8) });
            }
        }
    }
    places
}

fn seed() -> u64 {
    std::env::var("BLUETICK_SEED").ok().map_or(20_261_118, |seed| seed.parse().unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn flipped_bit_in_any_key_of_small_store_gives_right_answer_or_error() {
    println!("BLUETICK_SEED={}", seed());
    let mut dice = Dice::new(seed());
    let world = DamagedStore::new(&["alice", "bob", "carol", "dave"].map(str::to_owned)).await;
    let store = open(world.directory.path()).unwrap();
    let known = world.answers(&store).await;
    store.close().await;
    drop(store);
    let mut count = OutcomeCounts::default();
    for place in keys_of(&world.directory.path().join("tables/data.mdb"), &mut dice) {
        world.suffer(place, &known, &mut count).await;
    }
    println!("{count:#?}");
    assert!(count.answers > 30_000, "{count:?}");
    assert!(count.of("leaf", "an error") > 300, "{count:?}");
    assert!(count.of("leaf", "refused to start") > 100, "{count:?}");
}

/// A membership change reaches the checkpoint also when no message can be sent.
#[tokio::test(flavor = "multi_thread")]
async fn checkpoint_with_damaged_chunk_key_writes_everything_else() {
    let world = DamagedStore::new(&["alice", "bob", "carol", "dave"].map(str::to_owned)).await;
    let (crowd, tables) = (world.conversations[3], world.directory.path().join("tables"));
    let file = tables.join("data.mdb");
    let bytes = std::fs::read(&file).unwrap();
    // Chunk keys are the id of the conversation and the first seq: the last chunk begins above 1.
    let is_chunk_key = |at: &usize| {
        let seq = bytes.get(at + 16..at + 24).map(|seq| u64::from_be_bytes(seq.try_into().unwrap()));
        bytes[*at..].starts_with(crowd.as_bytes()) && seq.is_some_and(|seq| (1..=100).contains(&seq))
    };
    let keys: Vec<usize> = (2 * 4096..bytes.len() - 24).filter(is_chunk_key).collect();
    let last = keys.iter().max_by_key(|at| bytes[**at + 23]).unwrap();
    let flipped = std::fs::OpenOptions::new().write(true).open(&file).unwrap();
    flipped.write_all_at(&[bytes[last + 23] ^ 0x80], *last as u64 + 23).unwrap();
    drop(flipped);

    let store = open(world.directory.path()).unwrap();
    let remove = RemoveMember { conversation: crowd, actor: user("dave"), user: user("dave"), at: NOW };
    store.remove_member(remove).await.unwrap();
    let created = User { id: user("erin"), display_name: None, password_hash: None, created_at: NOW };
    store.create_user(created.clone()).await.unwrap();
    store.close().await;
    drop(store);
    // Without its log, the store has only what the checkpoint wrote.
    let snapshot = Tables::open(&tables).unwrap();
    let erin = snapshot.current().unwrap().snapshot().unwrap().user(&user("erin")).unwrap();
    assert_eq!(erin, Some(created));
}

#[tokio::test(flavor = "multi_thread")]
async fn flipped_bit_in_branch_key_gives_right_answer_or_error() {
    let mut dice = Dice::new(seed());
    // Long names, so that a few rows fill a page.
    let people: Vec<String> = (0..40).map(|number| format!("{number:02}-{}", "x".repeat(60))).collect();
    let world = DamagedStore::new(&people).await;
    let store = open(world.directory.path()).unwrap();
    let known = world.answers(&store).await;
    store.close().await;
    drop(store);
    let mut count = OutcomeCounts::default();
    for place in keys_of(&world.directory.path().join("tables/data.mdb"), &mut dice) {
        // Test all branch pages and a sample of the leaf pages.
        if place.page == "branch" || dice.one_in(100) {
            world.suffer(place, &known, &mut count).await;
        }
    }
    println!("{count:#?}");
    assert!(count.answers > 5_000, "{count:?}");
    assert!(count.of("branch", "right") + count.of("branch", "refused to start") > 200, "{count:?}");
}
