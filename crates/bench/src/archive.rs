//! The `archive` workload. It measures what moving messages to the archive costs and saves. It also
//! compares HTTP reads of old pages before and after the move.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bluetick_archive::{ArchiveEngine, ArchiveSettings, ObjectArchive};
use bluetick_client::link::{ClientFrame, SendFrame};
use bluetick_client::{Api, FixedToken, PageFrom};
use bluetick_core::ports::{Archive, ArchiveRun, NoProgress, Store};
use bluetick_core::{ConversationId, Seq};
use bluetick_store_embedded::{EmbeddedStore, StoreParts, StoreSettings};
use tokio::task::JoinSet;

use crate::chat_texts;
use crate::data_directory::Ground;
use crate::latencies::Latencies;
use crate::measure::{Usage, disk_bytes};
use crate::progress::step;
use crate::seed::{SeededChat, Texts, fill, open, person};
use crate::under_test::{ServerUnderTest, client_failed};
use crate::websocket::ServerFrameKind;
use crate::{BenchError, BenchReport};

#[derive(Clone, Debug)]
pub struct ArchiveBench {
    pub directory: PathBuf,
    /// Path of the server binary under test.
    pub binary: PathBuf,
    pub conversations: usize,
    /// Number of messages in each conversation.
    pub messages: usize,
    pub readers: usize,
    pub seconds: u64,
}

/// Number of distinct pages that readers request repeatedly when the workload measures cached
/// reads. They must fit into the server's caches.
const FAVOURITES: u64 = 64;

pub fn run(bench: ArchiveBench) -> Result<BenchReport, BenchError> {
    Ground::bare(bench.directory.clone()).run(2, measure(&bench))
}

async fn measure(bench: &ArchiveBench) -> Result<BenchReport, BenchError> {
    let total = bench.conversations * bench.messages;
    let mut report = BenchReport::new("archive")
        .parameter("conversations", bench.conversations as u64)
        .parameter("messages_each", bench.messages as u64)
        .parameter("readers", bench.readers as u64)
        .parameter("seconds", bench.seconds);
    step("storing the messages to archive");
    let store = open(&bench.directory)?;
    let texts: Texts = Arc::new(chat_texts::text);
    let chats = (0..bench.conversations).map(|number| SeededChat {
        from: person("writer", number),
        to: person("reader", 0),
        messages: bench.messages,
    });
    fill(&store, chats, &texts).await?;
    store.close().await;
    drop(store);
    let tables = bench.directory.join("tables");
    let each = |bytes: u64| bytes as f64 / total as f64;
    let before = disk_bytes(&tables);
    report.figure("tables_before_bytes", "tables before", before as f64, "bytes");
    report.figure("tables_before_bytes_per_message", "tables before", each(before), "bytes a message");

    step("reading and sending before the archive run");
    let server = ServerUnderTest::start(&bench.binary, &bench.directory).await?;
    pages(bench, &server, &mut report, ("hot", "hot"), Choice::Any).await?;
    pages(bench, &server, &mut report, ("hot_favourite", "hot, favourites"), Choice::Favourites).await?;
    acks(bench, &server, &mut report, ("quiet", "without other load")).await?;
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
    step("sending during the archive run");
    acks(bench, &server, &mut report, ("moving", "during the archive run")).await?;
    server.stop().await?;

    step("archiving the remaining messages");
    move_the_rest(bench, &directory, &mut report).await?;
    let after = disk_bytes(&tables);
    report.figure("tables_after_bytes", "tables after", after as f64, "bytes");
    report.figure("tables_after_bytes_per_message", "tables after", each(after), "bytes a message");
    let objects = disk_bytes(&directory);
    report.figure("objects_bytes", "objects, on the disk", objects as f64, "bytes");
    report.figure("objects_bytes_per_message", "objects, on the disk", each(objects), "bytes a message");
    step("reading after the archive run");
    let still = [&settings[..], &[("BLUETICK_ARCHIVE__EVERY_SECONDS", "0")]].concat();
    let server = ServerUnderTest::start_with(&bench.binary, &bench.directory, &still).await?;
    pages(bench, &server, &mut report, ("archived", "archived"), Choice::Any).await?;
    pages(bench, &server, &mut report, ("archived_favourite", "archived, favourites"), Choice::Favourites)
        .await?;
    server.stop().await?;
    Ok(report)
}

/// Archives the remaining messages without a rate limit.
async fn move_the_rest(
    bench: &ArchiveBench,
    directory: &std::path::Path,
    report: &mut BenchReport,
) -> Result<(), BenchError> {
    let settings = ArchiveSettings {
        engine: ArchiveEngine::Directory,
        directory: Some(directory.to_owned()),
        age_seconds: 0,
        messages_per_second: 0,
        ..ArchiveSettings::default()
    };
    let failed = |error: &dyn std::fmt::Display| BenchError::Server(error.to_string());
    let object_archive = ObjectArchive::open(&settings, &bench.directory).map_err(|error| failed(&error))?;
    let store_settings = StoreSettings { data_dir: bench.directory.clone(), ..StoreSettings::default() };
    let parts = StoreParts {
        object_archive: object_archive.map(Arc::new),
        archive: settings,
        ..StoreParts::new(store_settings)
    };
    let store = EmbeddedStore::open(parts)?;
    let usage = Usage::now(&bench.directory);
    let run = ArchiveRun { only: None, partial: true };
    let ran = store.run(run, Arc::new(NoProgress)).await.map_err(|error| failed(&error))?;
    let (spent, moved) = (usage.spent(), ran.moved);
    let status = Archive::status(&store).await.map_err(|error| failed(&error))?;
    report.figure("moved_messages", "moved in this run", moved.messages as f64, "messages");
    let pace = moved.messages as f64 / spent.wall.as_secs_f64();
    report.figure("moved_per_second", "moved in this run", pace, "/s");
    let cpu = spent.cpu.as_secs_f64() / moved.messages.max(1) as f64 * 1e6;
    report.figure("cpu_seconds_per_million_messages", "CPU of archiving", cpu, "s a million messages");
    let cold = status.cold;
    report.figure("archived_messages", "in the archive", cold.messages as f64, "messages");
    report.figure("archived_segments", "in the archive", cold.segments as f64, "segments");
    let ratio = cold.raw_bytes as f64 / cold.bytes.max(1) as f64;
    report.figure("compression_times", "compressed", ratio, "times");
    let messages = cold.messages.max(1) as f64;
    let (packed, raw) = (cold.bytes as f64 / messages, cold.raw_bytes as f64 / messages);
    report.figure("archived_bytes_per_message", "compressed to", packed, "bytes a message");
    report.figure("raw_bytes_per_message", "compressed from", raw, "bytes a message");
    store.close().await;
    Ok(())
}

#[derive(Clone, Copy)]
enum Choice {
    Any,
    Favourites,
}

/// Reads pages of 20 from the middle of conversations. Each reader uses its own connection.
async fn pages(
    bench: &ArchiveBench,
    server: &ServerUnderTest,
    report: &mut BenchReport,
    (key, what): (&str, &str),
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
                    return Err(BenchError::Client("a page has fewer messages than expected".to_owned()));
                }
            }
            Ok(())
        });
    }
    while let Some(joined) = readers.join_next().await {
        joined.map_err(client_failed)??;
    }
    let rate = latencies.count() as f64 / started.elapsed().as_secs_f64();
    report.figure(format!("{key}_pages_per_second"), format!("pages, {what}"), rate, "/s");
    report.latencies(format!("{key}_page"), format!("a page, {what}"), &latencies);
    Ok(())
}

/// One sender sends messages and waits for each ack before the next send.
async fn acks(
    bench: &ArchiveBench,
    server: &ServerUnderTest,
    report: &mut BenchReport,
    (key, what): (&str, &str),
) -> Result<(), BenchError> {
    let (from, to) = (person("writer", 0), person("reader", 0));
    let id = ConversationId::direct(&from, &to);
    let mut line = server.connect(&from).await?;
    let latencies = Latencies::default();
    let until = Instant::now() + Duration::from_secs(bench.seconds);
    let mut number = 0u64;
    while Instant::now() < until {
        number += 1;
        let message_id = format!("{key}-{number}").parse().map_err(client_failed)?;
        let frame = ClientFrame::Send(SendFrame::text(id, message_id, "see you at the station"));
        let sent = Instant::now();
        line.put(&frame);
        line.flush().await?;
        let mut is_answered = false;
        while !is_answered {
            line.frames(|kind, _| is_answered |= kind == ServerFrameKind::Ack).await?;
        }
        latencies.record(sent.elapsed());
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    report.latencies(format!("{key}_send_to_ack"), format!("send to ack, {what}"), &latencies);
    Ok(())
}
