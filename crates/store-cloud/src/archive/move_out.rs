//! Moving what is old enough: plan a segment, seal it, put it, flip its rows.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use bluetick_archive::SegmentName;
use bluetick_core::inbox::preview_of;
use bluetick_core::ports::{ArchiveError, ArchiveRun, ColdCount, Progress, RunReport, Stage};
use bluetick_core::{ContentType, ConversationId, Message, Seq, StoreError, Timestamp};

use super::erase::MOST_HOLES;
use super::job::{Job, Stored, in_vault};
use super::record::{Laid, Record, content_hash, lay_out};
use super::shared::add;
use super::way::Look;
use crate::cells::{Cell, Cold};
use crate::memberships::RoomRow;

/// A segment is closed early when its messages are large.
const SEGMENT_RAW_BYTES: usize = 8 << 20;
const LONGEST_PAUSE: Duration = Duration::from_millis(100);
/// How long a conversation that does not fill a segment is left alone at most.
const DAY_MILLIS: i64 = 24 * 3_600 * 1_000;

/// What counts as old.
#[derive(Clone, Copy)]
struct Rules {
    now: Timestamp,
    age_seconds: u64,
    /// Whatever was received before.
    before: Timestamp,
    segment_messages: usize,
    /// What does not fill a segment goes when its first message is older than this; `None`: at once.
    partial_before: Option<Timestamp>,
}

/// What is known of how old a message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Age {
    Old,
    Young,
    /// A void, which says when somebody came by; or a clock that was ahead received it. As old as the next one that is
    /// not `Unknown`.
    Unknown,
}

enum Plan {
    Segment(Vec<Stored>),
    /// Places that nobody wrote to, below messages that are old: closed first, so that the run has no gap.
    Holes(Seq, Seq),
    /// Nothing until then. Everything up to the seq is in the archive.
    Nothing(Timestamp, Seq),
}

impl Rules {
    fn age_of(&self, cell: &Cell) -> Age {
        match cell.message.received_at {
            _ if cell.is_void() => Age::Unknown,
            at if at > self.now => Age::Unknown,
            at if at < self.before => Age::Old,
            _ => Age::Young,
        }
    }

    fn after_age(&self, at: Timestamp) -> Timestamp {
        at.plus_millis(millis(self.age_seconds))
    }
}

fn millis(seconds: u64) -> i64 {
    // A thousand centuries: nothing is added to it that would not fit.
    i64::try_from(seconds.saturating_mul(1_000)).unwrap_or(i64::MAX).min(3_155_760_000_000_000)
}

impl Job<'_> {
    pub(super) async fn move_out(
        &mut self,
        request: &ArchiveRun,
        progress: &dyn Progress,
        report: &mut RunReport,
    ) -> Result<(), ArchiveError> {
        let rules = self.rules(request.partial);
        let mut pace = Pace::new(self.engine.archive.settings.messages_per_second);
        if let Some(id) = request.only {
            let before = self.must_exist(id).await?;
            let row = self.release(before).await?;
            report.conversations += u64::from(self.move_conversation(&row, rules, &mut pace, report).await?);
            progress.advanced(Stage::Moving, 1, 1);
            return Ok(());
        }
        // First what an interrupted run did not come to, so that those at the end have their turn too.
        let mut done = 0;
        let interrupted = self.shared.cursor.clone();
        for begin in interrupted.map(Some).into_iter().chain([None]) {
            let mut after = begin;
            done = 0;
            loop {
                let (rooms, next) = self.rooms(after.as_deref()).await?;
                for row in rooms {
                    self.go_on().await?;
                    done += 1;
                    let is_due = request.partial && !row.way.kept_hot
                        || row.way.is_worth_a_look(rules.now, rules.age_seconds);
                    if is_due && self.move_conversation(&row, rules, &mut pace, report).await? {
                        report.conversations += 1;
                    }
                    progress.advanced(Stage::Moving, done, done.max(self.shared.conversations));
                }
                self.shared.cursor = next.clone();
                match next {
                    Some(_) => after = next,
                    None => break,
                }
            }
        }
        self.shared.conversations = done;
        Ok(())
    }

    fn rules(&self, partial: bool) -> Rules {
        let (now, settings) = (self.engine.clock.now(), &self.engine.archive.settings);
        let ago = |seconds: u64| Timestamp::from_millis(now.millis().saturating_sub(millis(seconds)));
        let patience = settings.age_seconds.saturating_add(settings.patience_seconds);
        Rules {
            now,
            age_seconds: settings.age_seconds,
            before: ago(settings.age_seconds),
            segment_messages: usize::try_from(settings.segment_messages.max(1)).unwrap_or(usize::MAX),
            partial_before: (!partial).then(|| ago(patience)),
        }
    }

    /// A conversation that was brought back may go again.
    async fn release(&mut self, mut row: RoomRow) -> Result<RoomRow, ArchiveError> {
        if row.way.kept_hot {
            let way = self.engine.change_way(row.facts.id, |way| way.kept_hot = false).await?;
            row.way = way.ok_or(ArchiveError::NoSuchConversation)?;
            self.shared.kept_hot = self.shared.kept_hot.saturating_sub(1);
        }
        Ok(row)
    }

    /// Returns whether anything of it moved. A conversation with a damaged row is left alone, and told of.
    async fn move_conversation(
        &mut self,
        row: &RoomRow,
        rules: Rules,
        pace: &mut Pace,
        report: &mut RunReport,
    ) -> Result<bool, ArchiveError> {
        let id = row.facts.id;
        let (mut revision, mut moved) = (None, false);
        let mut next = row.way.moved_through.next();
        loop {
            let run = match self.plan(id, next, rules).await {
                Ok(Plan::Segment(run)) => run,
                Ok(Plan::Holes(first, last)) => {
                    self.engine.dense(id, first, last).await?;
                    continue;
                }
                Ok(Plan::Nothing(look_at, through)) => {
                    let look = Look { at: look_at, age_seconds: rules.age_seconds };
                    self.engine
                        .change_way(id, |way| {
                            way.moved_through = way.moved_through.max(through);
                            // One that still holds is as good.
                            if way.is_worth_a_look(rules.now, rules.age_seconds) {
                                way.look = Some(look);
                            }
                        })
                        .await?;
                    return Ok(moved);
                }
                Err(ArchiveError::Store(StoreError::Damaged(why))) => {
                    tracing::error!(conversation = %id, %why, "a conversation cannot be moved to the archive");
                    return Ok(moved);
                }
                Err(error) => return Err(error),
            };
            let named = match revision {
                Some(named) => named,
                None => self.raise_names(id).await?,
            };
            revision = Some(named);
            let count = self.move_run(id, named, &run).await?;
            next = run[run.len() - 1].seq().next();
            moved = moved || count.messages > 0;
            self.shared.add(&count);
            add(&mut report.moved, &count);
            let archive = &self.engine.archive;
            archive.moved_messages.fetch_add(count.messages, Ordering::Relaxed);
            archive.moved_segments.fetch_add(count.segments, Ordering::Relaxed);
            if count.messages < run.len() as u64 {
                // Somebody has changed rows meanwhile. A later run meets those that are left.
                return Ok(moved);
            }
            pace.count(count.messages);
            while let Some(pause) = pace.pause() {
                tokio::time::sleep(pause).await;
                self.go_on().await?;
            }
        }
    }

    /// The next messages that are old enough, if they make a segment.
    async fn plan(&self, id: ConversationId, first: Seq, rules: Rules) -> Result<Plan, ArchiveError> {
        let (mut run, mut bytes): (Vec<Stored>, usize) = (Vec::new(), 0);
        // How many of them are surely old, whether nothing can join them any more, and what was skipped before them.
        let (mut old, mut closed, mut through) = (0, false, first.previous());
        let mut expected = first;
        let head = self.engine.head(id).await?;
        // The first that is not old, where there is one.
        let mut young: Option<Timestamp> = None;
        'rows: loop {
            let (cells, more) = self.stored(id, expected, head, rules.segment_messages.min(1_000)).await?;
            for stored in cells {
                let (seq, age) = (stored.seq(), rules.age_of(&stored.cell));
                if seq > expected {
                    if age == Age::Old {
                        let last = expected.plus(MOST_HOLES - 1).min(seq.previous());
                        return Ok(Plan::Holes(expected, last));
                    }
                    young = Some(stored.cell.message.received_at);
                    break 'rows;
                }
                expected = seq.next();
                // What was erased has no content that would be worth an object; within a run it goes along.
                let is_erased = stored.cell.message.content_type == ContentType::Erased;
                if run.is_empty() && (stored.cell.cold.is_some() || is_erased) {
                    through = seq;
                    continue;
                }
                if stored.cell.cold.is_some() {
                    // What lies between two runs is not skipped: a segment is one run.
                    closed = true;
                    break 'rows;
                }
                if age == Age::Young {
                    young = Some(stored.cell.message.received_at);
                    break 'rows;
                }
                if !closed {
                    bytes += stored.cell.message.content.len();
                    run.push(stored);
                    closed = run.len() >= rules.segment_messages || bytes >= SEGMENT_RAW_BYTES;
                }
                if age == Age::Old {
                    old = run.len();
                }
                if closed && old == run.len() {
                    break 'rows;
                }
            }
            if !more {
                break;
            }
        }
        let is_full = closed && old == run.len();
        run.truncate(old);
        let received = run.iter().map(|stored| &stored.cell).filter(|cell| !cell.is_void());
        let oldest = received.map(|cell| cell.message.received_at).filter(|at| *at <= rules.now).min();
        let Some(oldest) = oldest else {
            // Whatever comes is not older than now.
            return Ok(Plan::Nothing(rules.after_age(young.unwrap_or(rules.now).min(rules.now)), through));
        };
        match rules.partial_before {
            Some(partial_before) if !is_full && oldest >= partial_before => {
                let settings = &self.engine.archive.settings;
                let patience = rules.after_age(oldest).plus_millis(millis(settings.patience_seconds));
                Ok(Plan::Nothing(patience.min(rules.now.plus_millis(DAY_MILLIS)), through))
            }
            _ => Ok(Plan::Segment(run)),
        }
    }

    /// The object first, then the rows, one by one.
    async fn move_run(
        &mut self,
        id: ConversationId,
        revision: u32,
        run: &[Stored],
    ) -> Result<ColdCount, ArchiveError> {
        let (first, last) = (run[0].seq(), run[run.len() - 1].seq());
        let name = SegmentName { store: self.store, conversation: id, first, last, revision };
        let head = self.engine.head(id).await?;
        let newest = self.engine.newest_message(id, head).await?.map(|cell| cell.seq());
        let records = run.iter().map(|stored| Record::of(&stored.cell).encode()).collect();
        let Laid { sealed, places } = laid_out(name, records).await?;
        self.go_on().await?;
        self.vault()?.put(&name, sealed.bytes.clone()).await.map_err(in_vault)?;
        let flipped = run.iter().zip(places).map(|(Stored { version, cell }, place)| {
            let Message { content_type, content, .. } = &*cell.message;
            let preview = (newest == Some(cell.seq())).then(|| preview_of(content_type, content).into());
            let content_hash = content_hash(&cell.message, content);
            let cell = Cell { cold: Some(Cold { place, preview, content_hash }), ..cell.clone() };
            Stored { version: *version, cell }
        });
        let flipped: Vec<Stored> = flipped.collect();
        let done = self.change(&flipped).await?;
        let messages = done.iter().filter(|done| **done).count() as u64;
        Ok(ColdCount {
            segments: u64::from(messages > 0),
            messages,
            bytes: sealed.bytes.len() as u64,
            raw_bytes: sealed.raw_bytes,
        })
    }
}

/// Compressing takes a while.
pub(super) async fn laid_out(name: SegmentName, records: Vec<Vec<u8>>) -> Result<Laid, ArchiveError> {
    let laid = tokio::task::spawn_blocking(move || lay_out(&name, &records)).await;
    laid.map_err(|_| ArchiveError::Stopped)
}

/// Holds a job back, so that live traffic does not feel it.
struct Pace {
    messages_per_second: u64,
    started: Instant,
    moved: u64,
}

impl Pace {
    fn new(messages_per_second: u64) -> Pace {
        Pace { messages_per_second, started: Instant::now(), moved: 0 }
    }

    /// What was not used for a while is not made up for later, but for a second's worth.
    fn count(&mut self, messages: u64) {
        let used = Duration::from_secs_f64(self.moved as f64 / self.messages_per_second.max(1) as f64);
        let unused = self.started.elapsed().saturating_sub(used);
        self.started += unused.saturating_sub(Duration::from_secs(1));
        self.moved += messages;
    }

    /// How long to wait before looking again; a store that closes is not held up by a slow pace.
    fn pause(&self) -> Option<Duration> {
        if self.messages_per_second == 0 {
            return None;
        }
        let due = Duration::from_secs_f64(self.moved as f64 / self.messages_per_second as f64);
        let left = due.saturating_sub(self.started.elapsed());
        (!left.is_zero()).then_some(left.min(LONGEST_PAUSE))
    }
}
