//! Pages that contain both hot and archived messages equal the pages of a store without an archive.

#![expect(clippy::unwrap_used, reason = "a test may stop where its own set-up fails")]

mod archive_kit;

use archive_kit::common::{NOW, direct, message, small, user};
use archive_kit::{Kit, LATER, eager, group, history, page};
use bluetick_archive::ArchiveSettings;
use bluetick_core::ports::{AddMembers, Append, RemoveMember, Store};
use bluetick_core::{ContentType, ConversationId, PageFrom, Seq};
use bluetick_store_embedded::{EmbeddedStore, StoreParts};
use bluetick_testkit::dice::Dice;
use tempfile::TempDir;

/// Two stores with the same operations; only one archives.
struct Twins {
    kit: Kit,
    plain: EmbeddedStore,
    _directory: TempDir,
}

impl Twins {
    fn new(settings: ArchiveSettings) -> Twins {
        let directory = TempDir::new().unwrap();
        let plain = EmbeddedStore::open(StoreParts::new(small(directory.path()))).unwrap();
        Twins { kit: Kit::in_memory(settings).0, plain, _directory: directory }
    }

    fn both(&self) -> [&dyn Store; 2] {
        [&*self.kit.store, &self.plain]
    }

    async fn append(&self, append: Append) {
        for store in self.both() {
            store.append(append.clone()).await.unwrap().await.unwrap();
        }
    }

    async fn assert_same(&self, id: ConversationId, reader: &str, from: PageFrom, limit: i64, seed: u64) {
        let [cold, plain] = self.both();
        let here = page(cold, id, reader, from, limit).await.unwrap();
        let there = page(plain, id, reader, from, limit).await.unwrap();
        assert!(here == there, "seed {seed}: {reader} {from:?} limit {limit}\n{here:?}\n{there:?}");
    }

    /// Compares pages with every limit, from the newest message and from random seqs.
    async fn assert_same_pages(&self, id: ConversationId, reader: &str, dice: &mut Dice, seed: u64) {
        let [_, plain] = self.both();
        let head = page(plain, id, reader, PageFrom::Newest, 1).await.unwrap().head.get();
        for limit in 1..=100 {
            self.assert_same(id, reader, PageFrom::Newest, limit, seed).await;
            for _ in 0..2 {
                let at = Seq::new(dice.below(head + 3));
                self.assert_same(id, reader, PageFrom::Before(at), limit, seed).await;
                self.assert_same(id, reader, PageFrom::After(at), limit, seed).await;
            }
        }
        let [cold, plain] = self.both();
        assert_eq!(history(cold, id, reader).await, history(plain, id, reader).await, "seed {seed}");
    }

    async fn assert_same_inbox_entries(&self, id: ConversationId, reader: &str, seed: u64) {
        let [cold, plain] = self.both();
        let (here, there) =
            (cold.inbox_entry(id, &user(reader)).await, plain.inbox_entry(id, &user(reader)).await);
        assert_eq!(here.unwrap(), there.unwrap(), "seed {seed}");
    }
}

fn content(dice: &mut Dice, number: u64) -> String {
    match dice.below(12) {
        0 => String::new(),
        1 => "🦀".repeat(1 + dice.below(40) as usize),
        2 if dice.one_in(6) => format!("{number} {}", "x".repeat((64 << 10) - 30)),
        3 => format!("{number} {}", "word ".repeat(dice.below(400) as usize)),
        4 => "\u{0}\u{7f}é\n".to_owned(),
        _ => format!("message {number}"),
    }
}

async fn burst(
    twins: &Twins,
    id: ConversationId,
    senders: &[&str],
    count: u64,
    dice: &mut Dice,
    number: &mut u64,
) {
    for _ in 0..count {
        *number += 1;
        let sender = dice.pick(senders).unwrap();
        let content_type = if dice.one_in(9) { "image/x-sketch".parse().unwrap() } else { ContentType::Text };
        let age_ms = dice.below(86_000_000) as i64;
        twins
            .append(Append {
                content: content(dice, *number).as_str().into(),
                content_type,
                timestamp: NOW.plus_millis(dice.below(1_000_000_000_000) as i64 - 500_000_000_000),
                // Times are not in order, as with the clocks of several servers.
                received_at: NOW.plus_millis(86_000_000 - age_ms),
                ..message(id, sender, &format!("m{number}"))
            })
            .await;
    }
}

async fn one_history(seed: u64) {
    let mut dice = Dice::new(seed);
    let settings = ArchiveSettings { segment_messages: dice.between(1, 300), age_seconds: 0, ..eager() };
    let twins = Twins::new(settings);
    let pair = {
        direct(&twins.plain, "alice", "bob").await;
        direct(&*twins.kit.store, "alice", "bob").await
    };
    for store in twins.both() {
        group(store, 7, "alice", &["bob", "carol"]).await;
    }
    let crowd = ConversationId::group([7; 15]);
    let (mut number, mut members) = (0, 0);
    for _ in 0..4 {
        for (id, senders) in [(pair, &["alice", "bob"][..]), (crowd, &["alice", "bob", "carol"][..])] {
            let count = if dice.one_in(3) { dice.below(20) } else { dice.below(150) };
            burst(&twins, id, senders, count, &mut dice, &mut number).await;
        }
        if dice.one_in(2) {
            members += 1;
            let dave = user(&format!("dave{members}"));
            for store in twins.both() {
                let (actor, users) = (user("alice"), vec![dave.clone()]);
                let add = AddMembers { conversation: crowd, actor, users, member_limit: 100, at: NOW };
                store.add_members(add).await.unwrap();
                if members % 2 == 0 {
                    let remove = RemoveMember {
                        conversation: crowd,
                        actor: user("alice"),
                        user: dave.clone(),
                        at: NOW,
                    };
                    store.remove_member(remove).await.unwrap();
                }
            }
        }
        if dice.one_in(4) {
            let _ = twins.kit.restore(crowd).await.unwrap();
        }
        if dice.one_in(2) { twins.kit.run().await } else { twins.kit.run_only(crowd).await }.unwrap();
    }
    burst(&twins, pair, &["bob"], dice.below(30), &mut dice, &mut number).await;
    twins.kit.run().await.unwrap();
    burst(&twins, pair, &["alice"], dice.below(10), &mut dice, &mut number).await;
    twins.assert_same_pages(pair, "bob", &mut dice, seed).await;
    twins.assert_same_pages(crowd, "carol", &mut dice, seed).await;
    for reader in ["alice", "bob", "carol"] {
        twins.assert_same_inbox_entries(crowd, reader, seed).await;
    }
    assert!(twins.kit.cold_messages().await > 0, "seed {seed}");
    assert_eq!(twins.kit.problems().await, Vec::<String>::new(), "seed {seed}");
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_equal_those_of_a_store_without_an_archive() {
    for seed in 1..=6 {
        one_history(seed).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_across_hot_and_cold_messages_are_complete_with_every_limit() {
    let twins = Twins::new(eager());
    for store in twins.both() {
        direct(store, "alice", "bob").await;
        archive_kit::send_many(
            store,
            ConversationId::direct(&user("alice"), &user("bob")),
            "alice",
            NOW,
            archive_kit::numbered("old", 1..=130),
        )
        .await;
    }
    let id = ConversationId::direct(&user("alice"), &user("bob"));
    twins.kit.run().await.unwrap();
    assert_eq!(twins.kit.cold_messages().await, 130);
    for store in twins.both() {
        archive_kit::send_many(store, id, "bob", LATER, archive_kit::numbered("new", 1..=70)).await;
    }
    twins.kit.run().await.unwrap();
    assert_eq!(twins.kit.cold_messages().await, 130, "young messages stay in the hot store");
    for limit in 1..=100 {
        for at in 125..=135 {
            for from in [PageFrom::Before(Seq::new(at)), PageFrom::After(Seq::new(at - limit as u64))] {
                twins.assert_same(id, "bob", from, limit, 0).await;
            }
            twins.assert_same(id, "alice", PageFrom::After(Seq::new(at)), limit, 0).await;
            twins.assert_same(id, "alice", PageFrom::Before(Seq::new(at + limit as u64)), limit, 0).await;
        }
    }
}
