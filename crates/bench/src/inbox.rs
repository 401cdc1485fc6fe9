//! Inboxes and ticks in the store: pages of a short and of a long inbox side by side, marks, receipts, bytes.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bluetick_core::ports::{Creation, Mark, NewConversation, Store};
use bluetick_core::time::{Clock, SystemClock};
use bluetick_core::{
    ConversationId, InboxFilter, InboxRequest, MarkKind, PageLimit, Seq, StoreError, UserId,
};
use bluetick_store_embedded::EmbeddedStore;
use bluetick_store_embedded::tables::Tables;
use tokio::task::JoinSet;

use crate::BenchError;
use crate::measure::{Latencies, Usage};
use crate::scratch::{in_scratch, settle};
use crate::seed::{Chat, always, fill, open, person};

#[derive(Clone, Debug)]
pub struct InboxBench {
    pub directory: PathBuf,
    /// In the long inbox. The short one has 20.
    pub conversations: usize,
    pub seconds: u64,
    pub in_flight: usize,
}

const SHORT: usize = 20;
/// Messages in each conversation of the run of marks.
const MARKED_MESSAGES: usize = 500;
const MARKED_CONVERSATIONS: usize = 1_000;
const GROUP_MEMBERS: usize = 10_000;

pub fn run(bench: InboxBench) -> Result<(), BenchError> {
    in_scratch(&bench.directory, 2, measure(&bench))
}

async fn measure(bench: &InboxBench) -> Result<(), BenchError> {
    println!("inbox: {} conversations, in {}", bench.conversations, bench.directory.display());
    let store = open(&bench.directory)?;
    let text = always("see you tomorrow at the station");
    let long = (0..bench.conversations).map(|number| (person("long", 0), person("peer", number)));
    let short = (0..SHORT).map(|number| (person("short", 0), person("peer", number)));
    let chats = long.chain(short).map(|(to, from)| Chat { from, to, messages: 1 });
    fill(&store, chats, &text).await?;

    println!();
    // Everything has just changed and nothing is in the tables: the first look sorts it all.
    let started = Instant::now();
    page(&store, &person("long", 0)).await?;
    println!("first look at all that changed {:>10.1} ms", started.elapsed().as_secs_f64() * 1e3);
    compare(&store, bench, "in memory").await?;
    store.close().await;
    drop(store);
    footprint(bench)?;
    let store = open(&bench.directory)?;
    compare(&store, bench, "from the tables").await?;

    let marked: Vec<Chat> = (0..MARKED_CONVERSATIONS)
        .map(|number| Chat {
            from: person("writer", number),
            to: person("reader", number),
            messages: MARKED_MESSAGES,
        })
        .collect();
    fill(&store, marked.iter().cloned(), &text).await?;
    marks(&store, bench, &marked).await?;
    receipts(&store, bench).await?;
    store.close().await;
    Ok(())
}

/// The short inbox and the long one in turn, so that whatever else the machine does happens to both.
async fn compare(store: &Arc<EmbeddedStore>, bench: &InboxBench, from: &str) -> Result<(), BenchError> {
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
    for (latencies, size) in latencies.iter().zip([SHORT, bench.conversations]) {
        println!("top 20 of {size:>6} {from:<16}              {}", latencies.summary());
    }
    let [short, long] = &latencies;
    println!(
        "pages {from:<16}       {:>12.0} /s, one reader",
        (short.count() + long.count()) as f64 / elapsed
    );
    let ratio = long.quantile_ms(0.5) / short.quantile_ms(0.5);
    println!("cost of the long one         {ratio:>12.2} times the short one, at p50");
    Ok(())
}

async fn page(store: &Arc<EmbeddedStore>, user: &UserId) -> Result<(), BenchError> {
    let request =
        InboxRequest { user: user.clone(), after: None, limit: PageLimit::DEFAULT, filter: InboxFilter::All };
    let page = store.inbox(request).await?;
    assert_eq!(page.entries.len(), 20, "a whole page");
    Ok(())
}

fn footprint(bench: &InboxBench) -> Result<(), BenchError> {
    let tables = Tables::open(&bench.directory.join("tables"))?;
    let mut total = 0.0;
    for table in tables.current()?.footprint()? {
        if ["inbox", "order", "pending"].contains(&table.table) && table.rows > 0 {
            let bytes = table.bytes as f64 / table.rows as f64;
            println!("on disk, {:<8}            {bytes:>12.0} bytes a row, {} rows", table.table, table.rows);
            total += if table.table == "pending" { 0.0 } else { bytes };
        }
    }
    println!("on disk, an inbox entry      {total:>12.0} bytes (row and order)");
    Ok(())
}

/// Every reader acknowledges one message after the other: each mark moves a boundary and is synced.
async fn marks(store: &Arc<EmbeddedStore>, bench: &InboxBench, chats: &[Chat]) -> Result<(), BenchError> {
    let done = Arc::new(AtomicU64::new(0));
    let latencies = Arc::new(Latencies::default());
    let usage = Usage::now(&bench.directory);
    let mut readers = JoinSet::new();
    for chat in chats.iter().take(bench.in_flight) {
        let (store, latencies, done) = (Arc::clone(store), Arc::clone(&latencies), Arc::clone(&done));
        let (user, id) = (chat.to.clone(), ConversationId::direct(&chat.from, &chat.to));
        readers.spawn(async move {
            for seq in 1..=MARKED_MESSAGES as u64 {
                let mark = Mark {
                    conversation: id,
                    user: user.clone(),
                    kind: if seq % 2 == 0 { MarkKind::Read } else { MarkKind::Delivered },
                    seq: Seq::new(seq),
                    origin: None,
                };
                let started = Instant::now();
                store.mark(mark).await?;
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
    println!(
        "marks, {:>4} in flight        {:>12.0} /s    {}    {:.2} µs CPU each",
        chats.len().min(bench.in_flight),
        count / spent.wall.as_secs_f64(),
        latencies.summary(),
        spent.cpu.as_secs_f64() * 1e6 / count
    );
    Ok(())
}

/// "Read by k of n" in a large group while its members read on.
async fn receipts(store: &Arc<EmbeddedStore>, bench: &InboxBench) -> Result<(), BenchError> {
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
        let mark = Mark { conversation: id, user, kind: MarkKind::Read, seq: Seq::FIRST, origin: None };
        if asked < members.len() && asked.is_multiple_of(16) {
            store.mark(mark).await?;
        }
        let started = Instant::now();
        let found = store.receipts(id, &members[0], Seq::FIRST).await?;
        assert_eq!(found.recipients, GROUP_MEMBERS - 1);
        latencies.record(started.elapsed());
        asked += 1;
    }
    println!(
        "receipts, {GROUP_MEMBERS} members     {:>12.0} /s    {}",
        asked as f64 / bench.seconds.max(1) as f64,
        latencies.summary()
    );
    Ok(())
}
