//! `bluetick migrate` from a real data directory to DynamoDB Local.

#![expect(clippy::unwrap_used, reason = "a test may stop where its own set-up fails")]

mod migrate_kit;
mod support;

use std::time::{Duration, Instant};

use bluetick_core::Seq;
use bluetick_core::ports::Store;
use bluetick_store_cloud::rows::{Item, Key, Only, Rows, Table};
use migrate_kit::comparison::assert_same;
use migrate_kit::{CommandSetup, PEOPLE, StoreWriter, THEN, direct, fill, message, open};

#[tokio::test(flavor = "multi_thread")]
async fn migrated_fleet_answers_every_request_like_the_original_server() {
    let setup = CommandSetup::new("whole_").await;
    let filled = fill(&setup.old()).await;
    setup.shell.file("old/token.key", "0123456789abcdef\n");
    let printed = setup.migrate(&[]).await.printed();
    assert!(printed.contains("Lost       41 messages"), "{printed}");
    assert!(printed.contains("Erased     15 messages"), "{printed}");
    assert!(printed.contains("all correct"), "{printed}");

    let (old, new) = (open(&setup.old()), setup.cloud().await);
    assert_same(&old, &new, &PEOPLE).await;
    // Messages that no user can read are copied too.
    let rows = setup.rows().await;
    let cell = rows.get(Table::Messages, &Key::number(filled.empty, 2)).await.unwrap().unwrap();
    assert_eq!(cell.get_text("content").unwrap().as_ref(), "bye");
    let lost = rows.get(Table::Messages, &Key::number(filled.lost, 2)).await.unwrap().unwrap();
    assert_eq!(lost.get_text("content_type").unwrap().as_ref(), "lost");
    let shared = &*new.in_common("token.key", "another").await.unwrap();
    assert_eq!(shared, "0123456789abcdef", "tokens stay valid");

    // The tables continue the history: a resent id is a duplicate, and the next message has the
    // next seq.
    let id = direct("ann", "bob");
    let (old_hand, new_hand) = (StoreWriter(&old), StoreWriter(&new));
    let (first, again) =
        (new_hand.send(id, "bob", "x", THEN).await, new_hand.send(id, "bob", "x", THEN).await);
    assert_eq!((first, again), (Seq::new(252), Seq::new(252)));
    old_hand.send(id, "bob", "x", THEN).await;
    for (hand, sender) in [(&old_hand, "ann"), (&new_hand, "ann")] {
        hand.send(id, sender, "on we go", THEN + 1).await;
        hand.add(filled.tea, "dan", "cät", THEN + 2).await;
    }
    assert_same(&old, &new, &PEOPLE).await;
    old.close().await;
    new.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn second_migration_run_only_compares_and_reports_changed_rows() {
    let setup = CommandSetup::new("again_").await;
    let filled = fill(&setup.old()).await;
    setup.migrate(&[]).await.printed();
    unfinish(&setup).await;
    let printed = setup.migrate(&[]).await.printed();
    assert!(printed.contains("0 rows written, 0 rows already present"), "nothing is copied twice: {printed}");
    let printed = setup.migrate(&[]).await.printed();
    assert!(printed.contains("finished on") && printed.contains("all correct"), "{printed}");

    let rows = setup.rows().await;
    let key = Key::number(filled.tea, 3);
    let cell = rows.get(Table::Messages, &key).await.unwrap().unwrap();
    rows.put(Table::Messages, &key, &cell.clone().text("content", "forged"), Only::Always).await.unwrap();
    let pending = Key::text("bob", filled.tea);
    rows.delete(Table::PendingDeliveries, &pending, Only::Always).await.unwrap();
    let stranger = Item::new().text("role", "admin").versioned(1);
    rows.put(Table::Members, &Key::text(filled.tea, "mallory"), &stranger, Only::Always).await.unwrap();
    let outcome = setup.migrate(&[]).await;
    assert_eq!(outcome.code, 1, "{}{}", outcome.stdout, outcome.stderr);
    let tea = filled.tea;
    for sentence in [
        format!("message 3 of conversation {tea} is not what was copied"),
        format!("the row of table pending_deliveries for bob and {tea} is missing"),
        format!("mallory is no member of conversation {tea} and is one in the tables"),
    ] {
        assert!(outcome.stdout.contains(&sentence), "{sentence}\n{}", outcome.stdout);
    }
    assert!(outcome.stderr.contains("3 differences"), "{}", outcome.stderr);
    assert!(!outcome.stdout.contains("forged"), "a report contains message content");
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_migration_run_resumes_from_its_progress() {
    let setup = CommandSetup::new("kill_").await;
    let ids = talk(&setup, 60, 60).await;
    let rows = setup.rows().await;
    // Kill the migration several times, each time after further progress.
    for milestone in [ids[2], ids[25], ids[45]] {
        let mut command = setup.command(&[]);
        command.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null());
        let mut child = command.spawn().unwrap();
        let deadline = Instant::now() + Duration::from_secs(60);
        while rows.get(Table::Messages, &Key::number(milestone, 1)).await.unwrap().is_none() {
            assert!(child.try_wait().unwrap().is_none(), "the migration ended before the kill");
            assert!(Instant::now() < deadline, "the migration did not reach the milestone");
        }
        child.kill().unwrap();
        assert_eq!(child.wait().unwrap().code(), None, "the migration ended by itself");
    }
    let printed = setup.migrate(&[]).await.printed();
    assert!(printed.contains("Copied     0 people, 60 conversations, 3,600 messages\n"), "{printed}");
    assert!(
        !printed.contains(" 0 rows already present"),
        "the second run found no copied conversation: {printed}"
    );
    assert!(printed.contains("all correct"), "{printed}");
    let (old, new) = (open(&setup.old()), setup.cloud().await);
    assert_same(&old, &new, &["writer", "reader-3", "reader-59"]).await;
    old.close().await;
    new.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_written_between_two_runs_are_copied_by_the_second() {
    let setup = CommandSetup::new("between_").await;
    let filled = fill(&setup.old()).await;
    // Copy everything, then simulate a run that was stopped before it had compared.
    setup.migrate(&[]).await.printed();
    unfinish(&setup).await;
    let store = open(&setup.old());
    let hand = StoreWriter(&store);
    hand.send(direct("ann", "bob"), "ann", "later", THEN + 7).await;
    hand.remove(filled.tea, "ann", "bob", THEN + 8).await;
    hand.apply_receipt(direct("eve", "bob"), "eve", bluetick_core::ReceiptKind::Read, 31).await;
    store.close().await;
    drop(store);
    let printed = setup.migrate(&[]).await.printed();
    assert!(printed.contains("all correct"), "{printed}");
    let (old, new) = (open(&setup.old()), setup.cloud().await);
    assert_same(&old, &new, &PEOPLE).await;
    old.close().await;
    new.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn seq_with_another_message_in_the_fleet_stops_the_copy_and_is_reported() {
    let setup = CommandSetup::new("taken_").await;
    let filled = fill(&setup.old()).await;
    setup.migrate(&[]).await.printed();
    unfinish(&setup).await;
    let rows = setup.rows().await;
    let key = Key::number(filled.tea, 5);
    let cell = rows.get(Table::Messages, &key).await.unwrap().unwrap();
    rows.put(Table::Messages, &key, &cell.text("message_id", "another"), Only::Always).await.unwrap();
    let outcome = setup.migrate(&["--from-start"]).await;
    assert_eq!(outcome.code, 1);
    let sentence = format!("message 5 of conversation {} is in the tables already", filled.tea);
    assert!(outcome.stderr.contains(&sentence), "{}", outcome.stderr);
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_migration_source_or_destination_is_refused_with_a_reason() {
    let setup = CommandSetup::new("refuse_").await;
    let absent = setup.migrate(&[]).await.refused();
    assert!(absent.contains("old is not a data directory"), "{absent}");
    assert!(!setup.old().exists());

    talk(&setup, 1, 1).await;
    let store = open(&setup.old());
    let in_use = setup.migrate(&[]).await;
    assert_eq!(in_use.code, 1);
    assert!(in_use.stderr.contains("in use by process"), "{}", in_use.stderr);
    store.close().await;
    drop(store);

    let rows = setup.rows().await;
    rows.put(Table::Users, &Key::new("somebody"), &Item::new().versioned(1), Only::Always).await.unwrap();
    let used = setup.migrate(&[]).await;
    assert_eq!(used.code, 1);
    assert!(used.stderr.contains("table refuse_users is not empty"), "{}", used.stderr);
    setup.migrate(&["--into-existing"]).await.printed();

    setup.shell.file("bluetick.toml", "");
    let embedded = setup.migrate(&[]).await.refused();
    assert!(embedded.contains("store.engine") && embedded.contains("\"dynamodb\""), "{embedded}");
}

#[tokio::test(flavor = "multi_thread")]
async fn migration_without_the_archive_copies_nothing() {
    let setup = CommandSetup::new("cold_").await;
    fill(&setup.old()).await;
    let settings = std::fs::read_to_string(setup.shell.path("bluetick.toml")).unwrap();
    setup.shell.file("other.toml", &settings.replace("\"directory\"", "\"off\""));
    let off = setup.migrate(&["--config", "other.toml"]).await.refused();
    assert!(off.contains("are in an archive") && off.contains("--from-config"), "{off}");
    setup.shell.file("other.toml", &(settings + "directory = \"elsewhere\"\n"));
    let elsewhere = setup.migrate(&["--config", "other.toml"]).await;
    assert_eq!(elsewhere.code, 1, "{}", elsewhere.stdout);
    setup.migrate(&["--config", "other.toml", "--from-config", "bluetick.toml"]).await.printed();
}

/// Measures the speed: `cargo test --release -p bluetick --test migrate -- --ignored --nocapture`.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "measures"]
async fn migration_of_a_hundred_thousand_messages_succeeds() {
    let setup = CommandSetup::new("many_").await;
    talk(&setup, 1_000, 100).await;
    let began = Instant::now();
    let outcome = setup.migrate(&[]).await;
    println!("{}{}{:?}", outcome.stderr, outcome.stdout, began.elapsed());
    assert_eq!(outcome.code, 0);
}

/// Creates direct conversations of one writer with each reader. Returns them in the order of the
/// copy.
async fn talk(setup: &CommandSetup, readers: u32, messages: i64) -> Vec<bluetick_core::ConversationId> {
    let store = open(&setup.old());
    let hand = StoreWriter(&store);
    let mut ids = Vec::new();
    for reader in 0..readers {
        let id = hand.open_direct("writer", &format!("reader-{reader}"), THEN).await;
        let mut accepted = Vec::new();
        for number in 1..=messages {
            let text = format!("{number} {}", "lorem ipsum ".repeat(8));
            let at = THEN + 1_000 * i64::from(reader) + number;
            accepted.push(store.append(message(id, "writer", &text, at)).await.unwrap());
        }
        for stored in accepted {
            stored.await.unwrap();
        }
        ids.push(id);
    }
    store.close().await;
    ids.sort();
    ids
}

/// Resets the marker, as if the migration had been stopped before it finished.
async fn unfinish(setup: &CommandSetup) {
    let rows = setup.rows().await;
    let key = Key::new("\u{1}migration");
    let marker = rows.get(Table::Users, &key).await.unwrap().unwrap();
    let unfinished: Item = marker
        .iter()
        .filter(|(name, _)| *name != "finished_at")
        .map(|(name, value)| (name.to_owned(), value.clone()))
        .collect();
    rows.put(Table::Users, &key, &unfinished, Only::Always).await.unwrap();
}
