//! The `inbox` workload on the embedded store: pages of a short and a long inbox, acks, receipts
//! and disk use.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bluetick_core::ports::{Creation, NewConversation, Receipt, Store};
use bluetick_core::time::{Clock, SystemClock};
use bluetick_core::{
    ConversationId, InboxFilter, InboxRequest, PageLimit, ReceiptKind, Seq, StoreError, UserId,
};
use bluetick_store_embedded::EmbeddedStore;
use tokio::task::JoinSet;

use crate::data_directory::Ground;
use crate::error::settle;
use crate::latencies::Latencies;
use crate::measure::{Usage, peak_bytes};
use crate::progress::step;
use crate::seed::{SeededChat, always, fill, open, person};
use crate::{BenchError, BenchReport};

#[derive(Clone, Debug)]
pub struct InboxBench {
    pub directory: PathBuf,
    /// Number of conversations in the long inbox. The short inbox has `SHORT`.
    pub conversations: usize,
    pub seconds: u64,
    pub in_flight: usize,
}

/// Number of conversations in the short inbox. It must fill one page of 20.
const SHORT: usize = 20;
/// Number of messages in each conversation that the ack measurement uses. Readers acknowledge each.
const MARKED_MESSAGES: usize = 500;
/// Number of conversations that the ack measurement uses. It bounds the concurrent readers.
const MARKED_CONVERSATIONS: usize = 1_000;
/// Number of members of the group that the receipts measurement uses.
const GROUP_MEMBERS: usize = 10_000;

pub fn run(bench: InboxBench) -> Result<BenchReport, BenchError> {
    Ground::bare(bench.directory.clone()).run(2, measure(&bench))
}

async fn measure(bench: &InboxBench) -> Result<BenchReport, BenchError> {
    let mut report = BenchReport::new("inbox")
        .parameter("conversations", bench.conversations as u64)
        .parameter("short_inbox_conversations", SHORT as u64)
        .parameter("in_flight", bench.in_flight as u64)
        .parameter("seconds", bench.seconds);
    step("storing conversations");
    let store = open(&bench.directory)?;
    let text = always("see you tomorrow at the station");
    let long = (0..bench.conversations).map(|number| (person("long", 0), person("peer", number)));
    let short = (0..SHORT).map(|number| (person("short", 0), person("peer", number)));
    let chats = long.chain(short).map(|(to, from)| SeededChat { from, to, messages: 1 });
    fill(&store, chats, &text).await?;

    // No checkpoint has run since the conversations changed, so the first page sorts all of them.
    let started = Instant::now();
    page(&store, &person("long", 0)).await?;
    let first = started.elapsed().as_secs_f64() * 1e3;
    report.figure("first_look_ms", "first page after all conversations changed", first, "ms");
    step("reading pages");
    compare(&store, bench, &mut report, ("memory", "in memory")).await?;
    store.close().await;
    drop(store);
    footprint(bench, &mut report)?;
    let store = open(&bench.directory)?;
    compare(&store, bench, &mut report, ("tables", "from the tables")).await?;

    let marked: Vec<SeededChat> = (0..MARKED_CONVERSATIONS)
        .map(|number| SeededChat {
            from: person("writer", number),
            to: person("reader", number),
            messages: MARKED_MESSAGES,
        })
        .collect();
    fill(&store, marked.iter().cloned(), &text).await?;
    step("marking");
    marks(&store, bench, &mut report, &marked).await?;
    step("requesting receipts");
    receipt_counts(&store, bench, &mut report).await?;
    store.close().await;
    report.figure("peak_resident_bytes", "resident memory, peak", peak_bytes() as f64, "bytes");
    Ok(report)
}

/// Reads the short and the long inbox alternately, so that other load on the machine affects both.
async fn compare(
    store: &Arc<EmbeddedStore>,
    bench: &InboxBench,
    report: &mut BenchReport,
    (key, from): (&str, &str),
) -> Result<(), BenchError> {
    let people = [person("short", 0), person("long", 0)];
    for _ in 0..200 {
        for user in &people {
            page(store, user).await?;
        }
    }
    let latencies = [Latencies::default(), Latencies::default()];
    let until = Instant::now() + Duration::from_secs(bench.seconds.max(1));
    let started = Instant::now();
    while Instant::now() < until {
        for (user, latencies) in people.iter().zip(&latencies) {
            let started = Instant::now();
            page(store, user).await?;
            latencies.record(started.elapsed());
        }
    }
    let elapsed = started.elapsed().as_secs_f64();
    let [short, long] = &latencies;
    report.latencies(format!("short_inbox_page_from_{key}"), format!("top 20 of {SHORT} {from}"), short);
    let label = format!("top 20 of {} {from}", bench.conversations);
    report.latencies(format!("long_inbox_page_from_{key}"), label, long);
    let rate = (short.count() + long.count()) as f64 / elapsed;
    let label = format!("pages {from}, one reader");
    report.figure(format!("pages_from_{key}_per_second"), label, rate, "/s");
    let ratio = long.quantile_ms(0.5) / short.quantile_ms(0.5);
    let label = format!("long inbox relative to the short one {from}, at p50");
    report.figure(format!("long_per_short_from_{key}_times"), label, ratio, "times the short one");
    Ok(())
}

async fn page(store: &Arc<EmbeddedStore>, user: &UserId) -> Result<(), BenchError> {
    let request =
        InboxRequest { user: user.clone(), after: None, limit: PageLimit::DEFAULT, filter: InboxFilter::All };
    let page = store.inbox(request).await?;
    assert_eq!(page.entries.len(), 20, "a whole page");
    Ok(())
}

fn footprint(bench: &InboxBench, report: &mut BenchReport) -> Result<(), BenchError> {
    let mut total = 0.0;
    for table in bluetick_store_embedded::footprint(&bench.directory)? {
        if ["inbox", "order", "pending"].contains(&table.table) && table.rows > 0 {
            let bytes = table.bytes as f64 / table.rows as f64;
            let label = format!("on disk, {}, {} rows", table.table, table.rows);
            report.figure(format!("{}_bytes_per_row", table.table), label, bytes, "bytes a row");
            total += if table.table == "pending" { 0.0 } else { bytes };
        }
    }
    report.figure("inbox_entry_bytes", "on disk, an inbox entry (row and order)", total, "bytes");
    Ok(())
}

/// Each reader acknowledges one message after the other. Each ack advances the read state and is
/// synced.
async fn marks(
    store: &Arc<EmbeddedStore>,
    bench: &InboxBench,
    report: &mut BenchReport,
    chats: &[SeededChat],
) -> Result<(), BenchError> {
    let done = Arc::new(AtomicU64::new(0));
    let latencies = Arc::new(Latencies::default());
    let usage = Usage::now(&bench.directory);
    let mut readers = JoinSet::new();
    for chat in chats.iter().take(bench.in_flight) {
        let (store, latencies, done) = (Arc::clone(store), Arc::clone(&latencies), Arc::clone(&done));
        let (user, id) = (chat.to.clone(), ConversationId::direct(&chat.from, &chat.to));
        readers.spawn(async move {
            for seq in 1..=MARKED_MESSAGES as u64 {
                let mark = Receipt {
                    conversation: id,
                    user: user.clone(),
                    kind: if seq % 2 == 0 { ReceiptKind::Read } else { ReceiptKind::Delivered },
                    seq: Seq::new(seq),
                    origin: None,
                };
                let started = Instant::now();
                store.apply_receipt(mark).await?;
                latencies.record(started.elapsed());
                done.fetch_add(1, Ordering::Relaxed);
            }
            Ok::<_, StoreError>(())
        });
    }
    while let Some(joined) = readers.join_next().await {
        settle(Some(joined))?;
    }
    let spent = usage.spent();
    let count = done.load(Ordering::Relaxed) as f64;
    report.figure("marks_per_second", "marks, each synced", count / spent.wall.as_secs_f64(), "/s");
    report.latencies("mark", "a mark", &latencies);
    let cpu = spent.cpu.as_secs_f64() * 1e6 / count;
    report.figure("cpu_seconds_per_million_marks", "CPU of store and bench", cpu, "s a million marks");
    let written = spent.written_bytes as f64;
    report.figure("marks_device_written_bytes", "written to the device by marks", written, "bytes");
    Ok(())
}

/// Measures receipt counts ("read by k of n") of a large group while its members continue to read.
async fn receipt_counts(
    store: &Arc<EmbeddedStore>,
    bench: &InboxBench,
    report: &mut BenchReport,
) -> Result<(), BenchError> {
    let id = ConversationId::group([9; 15]);
    let members: Vec<UserId> = (0..GROUP_MEMBERS).map(|number| person("member", number)).collect();
    let creation = Creation::Group { title: "All".parse().expect("a title"), members: members.clone() };
    let (created_by, created_at) = (members[0].clone(), SystemClock.now());
    store.open_conversation(NewConversation { id, creation, created_by, created_at }).await?;
    let latencies = Latencies::default();
    let until = Instant::now() + Duration::from_secs(bench.seconds.max(1));
    let mut asked = 0usize;
    while Instant::now() < until {
        let user = members[asked % members.len()].clone();
        let mark = Receipt { conversation: id, user, kind: ReceiptKind::Read, seq: Seq::FIRST, origin: None };
        if asked < members.len() && asked.is_multiple_of(16) {
            store.apply_receipt(mark).await?;
        }
        let started = Instant::now();
        let found = store.receipt_counts(id, &members[0], Seq::FIRST).await?;
        assert_eq!(found.recipients, GROUP_MEMBERS - 1);
        latencies.record(started.elapsed());
        asked += 1;
    }
    let rate = asked as f64 / bench.seconds.max(1) as f64;
    report.figure("receipts_per_second", format!("receipts, {GROUP_MEMBERS} members"), rate, "/s");
    report.latencies("receipts", "receipts of a message", &latencies);
    Ok(())
}
