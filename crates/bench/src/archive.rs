//! The cold tier: what moving costs and brings, and old pages over HTTP before and after it.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bluetick_archive::{ArchiveEngine, ArchiveSettings, Vault};
use bluetick_client::link::{ClientFrame, FrameKind, SendFrame};
use bluetick_client::{Api, FixedToken, PageFrom};
use bluetick_core::ports::{Archive, ArchiveRun, NoProgress, Store};
use bluetick_core::{ConversationId, Seq};
use bluetick_store_embedded::{EmbeddedStore, StoreParts, StoreSettings};
use tokio::task::JoinSet;

use crate::BenchError;
use crate::measure::{Latencies, Usage, disk_bytes};
use crate::scratch::in_scratch;
use crate::seed::{Chat, Texts, fill, open, person};
use crate::small_talk;
use crate::under_test::{ServerUnderTest, client_failed, connect};

#[derive(Clone, Debug)]
pub struct ArchiveBench {
    pub directory: PathBuf,
    /// The program to measure.
    pub binary: PathBuf,
    pub conversations: usize,
    /// In each.
    pub messages: usize,
    pub readers: usize,
    pub seconds: u64,
}

/// Pages that are asked for again and again when what is in memory is measured.
const FAVOURITES: u64 = 64;

pub fn run(bench: ArchiveBench) -> Result<(), BenchError> {
    in_scratch(&bench.directory, 2, measure(&bench))
}

async fn measure(bench: &ArchiveBench) -> Result<(), BenchError> {
    let total = bench.conversations * bench.messages;
    println!("archive: {} conversations of {} messages each", bench.conversations, bench.messages);
    let store = open(&bench.directory)?;
    let texts: Texts = Arc::new(small_talk::text);
    let chats = (0..bench.conversations).map(|number| Chat {
        from: person("writer", number),
        to: person("reader", 0),
        messages: bench.messages,
    });
    fill(&store, chats, &texts).await?;
    store.close().await;
    drop(store);
    let tables = bench.directory.join("tables");
    println!();
    println!(
        "tables before                {:>12} bytes, {} a message",
        disk_bytes(&tables),
        disk_bytes(&tables) / total as u64
    );

    let server = ServerUnderTest::start(&bench.binary, &bench.directory).await?;
    pages(bench, &server, "hot", Choice::Any).await?;
    pages(bench, &server, "hot, favourites", Choice::Favourites).await?;
    acks(bench, &server, "nothing else happens").await?;
    server.stop().await?;
    let directory = bench.directory.join("archive");
    let place = directory.display().to_string();
    let settings = [
        ("BLUETICK_ARCHIVE__ENGINE", "directory"),
        ("BLUETICK_ARCHIVE__DIRECTORY", place.as_str()),
        ("BLUETICK_ARCHIVE__AGE_SECONDS", "0"),
        ("BLUETICK_ARCHIVE__PATIENCE_SECONDS", "0"),
    ];
    let moving = [&settings[..], &[("BLUETICK_ARCHIVE__EVERY_SECONDS", "1")]].concat();
    let server = ServerUnderTest::start_with(&bench.binary, &bench.directory, &moving).await?;
    tokio::time::sleep(Duration::from_millis(1_500)).await;
    acks(bench, &server, "while messages move").await?;
    server.stop().await?;

    move_the_rest(bench, &directory, total).await?;
    println!(
        "tables after                 {:>12} bytes, {} a message",
        disk_bytes(&tables),
        disk_bytes(&tables) / total as u64
    );
    let objects = disk_bytes(&directory);
    println!(
        "objects                      {objects:>12} bytes on the disk, {} a message",
        objects / total as u64
    );
    let still = [&settings[..], &[("BLUETICK_ARCHIVE__EVERY_SECONDS", "0")]].concat();
    let server = ServerUnderTest::start_with(&bench.binary, &bench.directory, &still).await?;
    pages(bench, &server, "archived", Choice::Any).await?;
    pages(bench, &server, "archived, favourites", Choice::Favourites).await?;
    server.stop().await
}

/// As fast as it goes.
async fn move_the_rest(
    bench: &ArchiveBench,
    directory: &std::path::Path,
    total: usize,
) -> Result<(), BenchError> {
    let settings = ArchiveSettings {
        engine: ArchiveEngine::Directory,
        directory: Some(directory.to_owned()),
        age_seconds: 0,
        messages_per_second: 0,
        ..ArchiveSettings::default()
    };
    let failed = |error: &dyn std::fmt::Display| BenchError::Server(error.to_string());
    let vault = Vault::open(&settings, &bench.directory).map_err(|error| failed(&error))?;
    let store_settings = StoreSettings { data_dir: bench.directory.clone(), ..StoreSettings::default() };
    let parts =
        StoreParts { vault: vault.map(Arc::new), archive: settings, ..StoreParts::new(store_settings) };
    let store = EmbeddedStore::open(parts)?;
    let usage = Usage::now(&bench.directory);
    let run = ArchiveRun { only: None, partial: true };
    let report = store.run(run, Arc::new(NoProgress)).await.map_err(|error| failed(&error))?;
    let (spent, moved) = (usage.spent(), report.moved);
    let status = Archive::status(&store).await.map_err(|error| failed(&error))?;
    println!();
    println!(
        "moved in this run            {:>12} messages, {:.0} /s",
        moved.messages,
        moved.messages as f64 / spent.wall.as_secs_f64()
    );
    println!(
        "CPU per million messages     {:>12.1} s",
        spent.cpu.as_secs_f64() / moved.messages.max(1) as f64 * 1e6
    );
    let cold = status.cold;
    println!(
        "in the archive               {:>12} messages of {total} in {} segments",
        cold.messages, cold.segments
    );
    println!(
        "compressed                   {:>12.2} times: {} bytes a message instead of {}",
        cold.raw_bytes as f64 / cold.bytes.max(1) as f64,
        cold.bytes / cold.messages.max(1),
        cold.raw_bytes / cold.messages.max(1)
    );
    store.close().await;
    Ok(())
}

#[derive(Clone, Copy)]
enum Choice {
    Any,
    Favourites,
}

/// Pages of 20 from the middle of conversations, each reader over a connection of its own.
async fn pages(
    bench: &ArchiveBench,
    server: &ServerUnderTest,
    what: &str,
    choice: Choice,
) -> Result<(), BenchError> {
    let latencies = Arc::new(Latencies::default());
    let until = Instant::now() + Duration::from_secs(bench.seconds);
    let mut readers = JoinSet::new();
    let started = Instant::now();
    for reader in 0..bench.readers {
        let latencies = Arc::clone(&latencies);
        let token = server.token(&person("reader", 0))?;
        let api = Api::new(server.door.clone(), Arc::new(FixedToken(token)));
        let (conversations, messages) = (bench.conversations, bench.messages as u64);
        let mut dice = 0x9e37_79b9_u64 + reader as u64;
        readers.spawn(async move {
            while Instant::now() < until {
                dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                let roll = match choice {
                    Choice::Any => dice >> 33,
                    Choice::Favourites => (dice >> 33) % FAVOURITES,
                };
                let number = roll as usize % conversations;
                let before = Seq::new(
                    21 + (roll / conversations as u64 * 37 + roll * 13) % messages.saturating_sub(21).max(1),
                );
                let id = ConversationId::direct(&person("writer", number), &person("reader", 0));
                let asked = Instant::now();
                let page = api.page(id, PageFrom::Before(before), 20).await.map_err(client_failed)?;
                latencies.record(asked.elapsed());
                if page.messages.len() != 20 || page.messages.iter().any(|message| message.content.is_empty())
                {
                    return Err(BenchError::Client("a page is not whole".to_owned()));
                }
            }
            Ok(())
        });
    }
    while let Some(joined) = readers.join_next().await {
        joined.map_err(client_failed)??;
    }
    let rate = latencies.count() as f64 / started.elapsed().as_secs_f64();
    println!("pages, {what:<21} {rate:>12.0} /s  {}", latencies.summary());
    Ok(())
}

/// One person sends, and waits for each ack.
async fn acks(bench: &ArchiveBench, server: &ServerUnderTest, what: &str) -> Result<(), BenchError> {
    let (from, to) = (person("writer", 0), person("reader", 0));
    let id = ConversationId::direct(&from, &to);
    let mut link = connect(&server.door, &server.token(&from)?, drop).await?;
    let latencies = Latencies::default();
    let until = Instant::now() + Duration::from_secs(bench.seconds);
    let mut number = 0u64;
    while Instant::now() < until {
        number += 1;
        let message_id = format!("{}-{number}", what.replace(' ', "-")).parse().map_err(client_failed)?;
        let frame = ClientFrame::Send(SendFrame::text(id, message_id, "see you at the station"));
        let sent = Instant::now();
        link.send(&frame).await.map_err(client_failed)?;
        while link.next().await.map_err(client_failed)?.kind() != FrameKind::Ack {}
        latencies.record(sent.elapsed());
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    println!("send to ack, {what:<21}   {}", latencies.summary());
    Ok(())
}
