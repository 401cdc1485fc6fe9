//! Shared set-up of the tests of `bluetick migrate`: a data directory with all kinds of data.

pub mod comparison;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use bluetick_archive::{ArchiveEngine, ArchiveSettings, ObjectArchive};
use bluetick_core::ports::{
    AddMembers, Append, Archive, ArchiveRun, Creation, Erase, EraseScope, NewConversation, NoListener,
    NoProgress, Receipt, RemoveMember, SetPreferences, Store,
};
use bluetick_core::time::SystemClock;
use bluetick_core::{
    ContentType, ConversationId, PreferenceChange, ProfileUpdate, ReceiptKind, Seq, Timestamp, User, UserId,
};
use bluetick_store_cloud::hints::memory::MemoryHints;
use bluetick_store_cloud::neighbours::memory::Street;
use bluetick_store_cloud::rows::dynamo::{Connection, DynamoRows, DynamoSettings, tables};
use bluetick_store_cloud::{CloudParts, CloudStore, EngineSettings, NodeId};
use bluetick_store_embedded::{EmbeddedStore, StoreParts, StoreSettings};
use bluetick_testkit::dynamo::DynamoServer;

use crate::support::{Outcome, Shell};

/// A time in milliseconds that is old enough for the archive.
pub const THEN: i64 = 1_600_000_000_000;
/// A time in milliseconds in the future, so that its messages are too new for the archive.
pub const YOUNG: i64 = 4_000_000_000_000;

/// A working directory with settings for its own tables, and the data directory `old` in it.
pub struct CommandSetup {
    pub shell: Shell,
    server: &'static DynamoServer,
    settings: DynamoSettings,
}

impl CommandSetup {
    pub async fn new(prefix: &str) -> CommandSetup {
        let server = DynamoServer::shared().await;
        let settings = DynamoSettings {
            endpoint: Some(server.endpoint()),
            region: Some("us-east-1".to_owned()),
            table_prefix: prefix.to_owned(),
            attempt_timeout_ms: 10_000,
            deadline_ms: 60_000,
            ..DynamoSettings::default()
        };
        let shell = Shell::new();
        shell.file(
            "bluetick.toml",
            &format!(
                "[store]\nengine = \"dynamodb\"\n[store.dynamodb]\nendpoint = \"{}\"\nregion = \"us-east-1\"\n\
                 table_prefix = \"{prefix}\"\n[archive]\nengine = \"directory\"\n",
                server.endpoint()
            ),
        );
        let setup = CommandSetup { shell, server, settings };
        tables::create(&setup.connection().await).await.unwrap();
        setup
    }

    async fn connection(&self) -> Connection {
        let [(_, access_key_id), (_, secret_access_key)] = self.server.credentials();
        Connection::with_keys(&self.settings, access_key_id, secret_access_key).await.unwrap()
    }

    pub async fn rows(&self) -> DynamoRows {
        DynamoRows::open_on(self.connection().await).await.unwrap()
    }

    pub fn old(&self) -> PathBuf {
        self.shell.path("old")
    }

    pub fn command(&self, more: &[&str]) -> std::process::Command {
        let mut command = self.shell.command(&["migrate", "--from", "old"]);
        command.args(more).envs(self.server.credentials());
        command
    }

    pub async fn migrate(&self, more: &[&str]) -> Outcome {
        let mut command = self.command(more);
        Outcome::of(tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap())
    }

    /// A node on the tables, with an empty coordination cache.
    pub async fn cloud(&self) -> CloudStore {
        let node = NodeId::new("node");
        CloudStore::open(CloudParts {
            epoch: bluetick_core::Epoch::FIRST,
            rows: Arc::new(self.rows().await),
            hints: Arc::new(MemoryHints::default()),
            neighbours: Arc::new(Street::default().move_in(node.clone())),
            node,
            listener: Arc::new(NoListener),
            clock: Arc::new(SystemClock),
            settings: EngineSettings::default(),
            object_archive: None,
            archive: ArchiveSettings::default(),
        })
    }
}

pub fn open(directory: &Path) -> EmbeddedStore {
    let archive = ArchiveSettings {
        engine: ArchiveEngine::Directory,
        segment_messages: 100,
        messages_per_second: 0,
        ..ArchiveSettings::default()
    };
    let object_archive = ObjectArchive::open(&archive, directory).unwrap().map(Arc::new);
    let settings = StoreSettings { data_dir: directory.to_owned(), ..StoreSettings::default() };
    EmbeddedStore::open(StoreParts { object_archive, archive, ..StoreParts::new(settings) }).unwrap()
}

pub fn user(name: &str) -> UserId {
    name.parse().unwrap()
}

pub fn direct(one: &str, other: &str) -> ConversationId {
    ConversationId::direct(&user(one), &user(other))
}

pub fn group(number: u8) -> ConversationId {
    ConversationId::group([number; 15])
}

pub fn message(id: ConversationId, sender: &str, text: &str, at: i64) -> Append {
    Append {
        conversation: id,
        sender: user(sender),
        message_id: format!("m-{at}-{}", text.len()).parse().unwrap(),
        content_type: ContentType::Text,
        content: text.into(),
        // The sender's clock differs from the server's.
        timestamp: Timestamp::from_millis(at - 77),
        received_at: Timestamp::from_millis(at),
        retry_after: None,
        origin: None,
    }
}

/// Helper functions to write to a store.
pub struct StoreWriter<'a>(pub &'a dyn Store);

impl StoreWriter<'_> {
    pub async fn account(&self, name: &str, display_name: Option<&str>, password_hash: Option<&str>) {
        let new = User {
            id: user(name),
            display_name: display_name.map(Into::into),
            password_hash: password_hash.map(Into::into),
            created_at: Timestamp::from_millis(THEN),
        };
        self.0.create_user(new).await.unwrap();
    }

    pub async fn open_direct(&self, one: &str, other: &str, at: i64) -> ConversationId {
        let id = direct(one, other);
        let creation = Creation::Direct { peer: user(other) };
        let created_at = Timestamp::from_millis(at);
        let new = NewConversation { id, creation, created_by: user(one), created_at };
        self.0.open_conversation(new).await.unwrap();
        id
    }

    pub async fn open_group(&self, number: u8, title: &str, people: &[&str], at: i64) -> ConversationId {
        let id = group(number);
        let members = people[1..].iter().map(|name| user(name)).collect();
        let creation = Creation::Group { title: title.parse().unwrap(), members };
        let created_at = Timestamp::from_millis(at);
        let new = NewConversation { id, creation, created_by: user(people[0]), created_at };
        self.0.open_conversation(new).await.unwrap();
        id
    }

    pub async fn send(&self, id: ConversationId, sender: &str, text: &str, at: i64) -> Seq {
        self.send_as(id, sender, text, at, ContentType::Text).await
    }

    pub async fn send_as(
        &self,
        id: ConversationId,
        sender: &str,
        text: &str,
        at: i64,
        content_type: ContentType,
    ) -> Seq {
        let append = Append { content_type, ..message(id, sender, text, at) };
        self.0.append(append).await.unwrap().await.unwrap().seq
    }

    pub async fn apply_receipt(&self, id: ConversationId, name: &str, kind: ReceiptKind, seq: u64) {
        let mark = Receipt { conversation: id, user: user(name), kind, seq: Seq::new(seq), origin: None };
        self.0.apply_receipt(mark).await.unwrap();
    }

    pub async fn set_preferences(&self, id: ConversationId, name: &str, change: PreferenceChange) {
        self.0.set_preferences(SetPreferences { conversation: id, user: user(name), change }).await.unwrap();
    }

    pub async fn add(&self, id: ConversationId, actor: &str, name: &str, at: i64) {
        let users = vec![user(name)];
        let (actor, at) = (user(actor), Timestamp::from_millis(at));
        self.0
            .add_members(AddMembers { conversation: id, actor, users, member_limit: 1_000, at })
            .await
            .unwrap();
    }

    pub async fn remove(&self, id: ConversationId, actor: &str, name: &str, at: i64) {
        let at = Timestamp::from_millis(at);
        let remove = RemoveMember { conversation: id, actor: user(actor), user: user(name), at };
        self.0.remove_member(remove).await.unwrap();
    }
}

/// Users who appear in [`fill`].
pub const PEOPLE: [&str; 8] = ["ann", "bob", "cät", "dan", "eve", "reader-007", "member-0", "member-129"];

/// The members of the large group.
fn crowd() -> Vec<String> {
    (0..130).map(|number| format!("member-{number}")).collect()
}

/// Fills a store with all kinds of data and closes it. Deletes some of its segments.
pub async fn fill(directory: &Path) -> Filled {
    let store = open(directory);
    let hand = StoreWriter(&store);
    hand.account("ann", Some("Änn Ørsted"), Some("$argon2id$v=19$ann")).await;
    hand.account("bob", Some("Bob"), Some("$argon2id$v=19$bob")).await;
    hand.account("cät", None, None).await;
    for (name, seen, hides) in
        [("ann", Some(THEN + 5), None), ("dan", Some(THEN + 9), None), ("eve", None, Some(true))]
    {
        let last_seen_at = seen.map(Timestamp::from_millis);
        let update = ProfileUpdate { last_seen_at, hides_presence: hides, ..ProfileUpdate::of(user(name)) };
        store.update_profile(update).await.unwrap();
    }
    fill_directs(&hand).await;
    let (tea, empty, lost) = fill_groups(&hand).await;
    let progress = Arc::new(NoProgress);
    let moved = store.run(ArchiveRun { only: None, partial: true }, progress.clone()).await.unwrap();
    assert!(moved.moved.messages > 300, "{moved:?}");
    let scope = EraseScope::User { user: user("cät"), conversation: Some(tea) };
    let erased = store.erase(Erase { scope, through: None }, progress).await.unwrap();
    assert!(erased.messages > 0);
    // Write more after the archive run.
    let hand = StoreWriter(&store);
    hand.send(direct("ann", "bob"), "bob", "the newest one ✨", YOUNG + 50).await;
    hand.send(tea, "ann", "and here", YOUNG + 60).await;
    hand.send(lost, "eve", "still readable", YOUNG + 70).await;
    hand.account("zoë", Some("Zoë, the last"), None).await;
    store.close().await;
    drop(store);
    lose(directory, lost);
    Filled { tea, empty, lost }
}

pub struct Filled {
    pub tea: ConversationId,
    /// All members have left it.
    pub empty: ConversationId,
    /// The archive has lost some of its messages.
    pub lost: ConversationId,
}

async fn fill_directs(hand: &StoreWriter<'_>) {
    let id = hand.open_direct("ann", "bob", THEN).await;
    for number in 0..250 {
        let sender = if number % 3 == 0 { "bob" } else { "ann" };
        // The server's clock was set back once.
        let at = THEN + 1_000 * (number + 1) - if number == 100 { 90_000 } else { 0 };
        hand.send(id, sender, &format!("Nachricht {number} 🫖 {}", "ß".repeat(number as usize % 90)), at)
            .await;
    }
    hand.apply_receipt(id, "bob", ReceiptKind::Read, 180).await;
    hand.apply_receipt(id, "bob", ReceiptKind::Delivered, 250).await;
    hand.apply_receipt(id, "ann", ReceiptKind::Delivered, 240).await;
    hand.open_direct("ann", "cät", THEN + 3).await;
    let id = hand.open_direct("dan", "ann", THEN + 4).await;
    hand.send_as(id, "dan", "{\"x\":1}", THEN + 4_000, "application/json".parse().unwrap()).await;
    hand.send(id, "dan", "", THEN + 5_000).await;
    hand.set_preferences(id, "ann", PreferenceChange { pinned: Some(true), ..Default::default() }).await;
    let id = hand.open_direct("eve", "bob", THEN + 6).await;
    hand.set_preferences(id, "eve", PreferenceChange { hides_reads: Some(true), ..Default::default() }).await;
    for number in 0..30 {
        hand.send(id, "bob", &format!("hm {number}"), THEN + 9_000 + number).await;
    }
    hand.apply_receipt(id, "eve", ReceiptKind::Read, 20).await;
    hand.send(id, "eve", "I did not read that", THEN + 9_100).await;
    hand.set_preferences(
        id,
        "eve",
        PreferenceChange { hides_reads: Some(false), archived: Some(true), ..Default::default() },
    )
    .await;
}

async fn fill_groups(hand: &StoreWriter<'_>) -> (ConversationId, ConversationId, ConversationId) {
    let tea = hand.open_group(1, "Tea ☕", &["ann", "bob", "cät", "dan"], THEN + 20_000).await;
    for number in 0..60 {
        let sender = ["ann", "bob", "cät", "dan"][number as usize % 4];
        hand.send(tea, sender, &format!("{sender} says {number}"), THEN + 21_000 + number).await;
    }
    hand.apply_receipt(tea, "bob", ReceiptKind::Read, 50).await;
    hand.remove(tea, "bob", "bob", THEN + 22_000).await;
    hand.send(tea, "ann", "without bob", THEN + 22_001).await;
    hand.add(tea, "ann", "bob", THEN + 22_002).await;
    hand.send(tea, "dan", "with bob again", THEN + 22_003).await;
    hand.remove(tea, "ann", "cät", THEN + 22_004).await;
    hand.add(tea, "dan", "reader-007", THEN + 22_005).await;
    // Dan's unread messages begin before the new messages and include notices.
    hand.apply_receipt(tea, "dan", ReceiptKind::Read, 30).await;
    hand.set_preferences(
        tea,
        "dan",
        PreferenceChange { muted: Some(true), pinned: Some(true), ..Default::default() },
    )
    .await;

    let empty = hand.open_group(2, "Gone", &["eve", "dan"], THEN + 30_000).await;
    hand.send(empty, "eve", "bye", THEN + 30_001).await;
    hand.remove(empty, "dan", "dan", THEN + 30_002).await;
    hand.remove(empty, "eve", "eve", THEN + 30_003).await;

    let lost = hand.open_group(3, "Flood", &["eve", "bob"], THEN + 40_000).await;
    for number in 0..40 {
        hand.send(lost, "eve", &format!("water {number}"), THEN + 40_001 + number).await;
    }
    let crowd = crowd();
    let crowd: Vec<&str> = std::iter::once("ann").chain(crowd.iter().map(String::as_str)).collect();
    let large = hand.open_group(4, "All hands", &crowd, THEN + 50_000).await;
    for number in 0..5 {
        hand.send(large, "member-0", &format!("to all {number}"), THEN + 50_001 + number).await;
    }
    hand.apply_receipt(large, "member-129", ReceiptKind::Read, 6).await;
    (tea, empty, lost)
}

/// Deletes the segments of a conversation from the archive.
fn lose(directory: &Path, id: ConversationId) {
    let stores = std::fs::read_dir(directory.join("archive")).unwrap().flatten();
    let taken = stores.map(|store| store.path().join(id.to_string())).find(|folder| folder.is_dir());
    std::fs::remove_dir_all(taken.expect("the conversation has segments")).unwrap();
}
