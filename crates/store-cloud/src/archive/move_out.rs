//! Moving what is old enough: plan a segment, seal it, put it, flip its rows.

use bluetick_archive::SegmentName;
use bluetick_archive::jobs;
use bluetick_archive::jobs::layout::{Layout, lay_out_blocking};
use bluetick_archive::jobs::pace::Pace;
use bluetick_archive::jobs::selection::{Age, Rules, Selection, millis};
use bluetick_archive::jobs::state::add;
use bluetick_core::inbox::preview_of;
use bluetick_core::ports::{ArchiveError, ArchiveRun, ColdCount, Progress, RunReport, Stage};
use bluetick_core::{ContentType, ConversationId, Message, Seq, StoreError, Timestamp};

use super::erase::MOST_HOLES;
use super::job::{Job, Stored};
use super::record::{Record, content_hash};
use super::way::Look;
use crate::cells::{Cell, Cold};
use crate::memberships::RoomRow;

/// How long a conversation that does not fill a segment is left alone at most.
const DAY_MILLIS: i64 = 24 * 3_600 * 1_000;

enum Plan {
    Segment(Vec<Stored>),
    /// Places that nobody wrote to, below messages that are old: closed first, so that the run has no gap.
    Holes(Seq, Seq),
    /// Nothing until then. Everything up to the seq is in the archive.
    Nothing(Timestamp, Seq),
}

fn age_of(rules: &Rules, cell: &Cell) -> Age {
    if cell.is_void() { Age::Unknown } else { rules.age_of(cell.message.received_at) }
}

fn after_age(rules: &Rules, at: Timestamp) -> Timestamp {
    at.plus_millis(millis(rules.age_seconds))
}

impl Job<'_> {
    pub(super) async fn move_out(
        &mut self,
        request: &ArchiveRun,
        progress: &dyn Progress,
        report: &mut RunReport,
    ) -> Result<(), ArchiveError> {
        let rules = Rules::new(&self.engine.archive.settings, self.engine.clock.now(), request.partial);
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
            self.engine.archive.state.count_moved(&count);
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
        let mut selection = Selection::new(rules);
        // The seq through which rows were skipped before the first of the segment.
        let mut through = first.previous();
        let mut expected = first;
        let head = self.engine.head(id).await?;
        // The first that is not old, where there is one.
        let mut young: Option<Timestamp> = None;
        'rows: loop {
            let (cells, more) =
                self.stored(id, expected, head, rules.segment_messages.min(1_000) as usize).await?;
            for stored in cells {
                let (seq, age) = (stored.seq(), age_of(&rules, &stored.cell));
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
                if selection.is_empty() && (stored.cell.cold.is_some() || is_erased) {
                    through = seq;
                    continue;
                }
                if stored.cell.cold.is_some() {
                    // What lies between two runs is not skipped: a segment is one run.
                    selection.close();
                    break 'rows;
                }
                if age == Age::Young {
                    young = Some(stored.cell.message.received_at);
                    break 'rows;
                }
                if !selection.add(age, 1, stored.cell.message.content.len(), || stored) {
                    break 'rows;
                }
            }
            if !more {
                break;
            }
        }
        let (run, is_full) = selection.finish();
        let received = run.iter().map(|stored| &stored.cell).filter(|cell| !cell.is_void());
        let oldest = received.map(|cell| cell.message.received_at).filter(|at| *at <= rules.now).min();
        let Some(oldest) = oldest else {
            // Whatever comes is not older than now.
            return Ok(Plan::Nothing(after_age(&rules, young.unwrap_or(rules.now).min(rules.now)), through));
        };
        match rules.partial_before {
            Some(partial_before) if !is_full && oldest >= partial_before => {
                let settings = &self.engine.archive.settings;
                let patience = after_age(&rules, oldest).plus_millis(millis(settings.patience_seconds));
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
        let records = run.iter().map(|stored| vec![Record::of(&stored.cell).encode()]).collect();
        let Layout { sealed, refs: places } = lay_out_blocking(name, records).await?;
        self.go_on().await?;
        jobs::object_archive(self)?.put(&name, sealed.bytes.clone()).await.map_err(ArchiveError::from)?;
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
