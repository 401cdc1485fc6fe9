//! Plans a segment from consecutive rows, and makes the rows refer to it one by one.

use bluetick_archive::SegmentName;
use bluetick_archive::jobs::layout::SegmentLayout;
use bluetick_archive::jobs::selection::{Age, Rules, Selection, millis};
use bluetick_archive::jobs::{Flip, SegmentPlan};
use bluetick_core::inbox::preview_of;
use bluetick_core::ports::{ArchiveError, ColdCount};
use bluetick_core::{ContentType, ConversationId, Message, Seq, Timestamp};

use super::erase::MOST_HOLES;
use super::job::{Job, Stored};
use super::record::{Record, content_hash};
use super::way::Look;
use crate::cells::{Cell, Cold};
use crate::memberships::RoomRow;

/// Upper bound on how long a run skips a conversation that does not fill a segment.
const DAY_MILLIS: i64 = 24 * 3_600 * 1_000;

enum Outlook {
    Segment(Vec<Stored>),
    /// Seqs without a row, below messages that are old. They are closed first, because a segment has
    /// no gap.
    Gap(Seq, Seq),
    /// Nothing is due until then. Everything up to the seq is archived.
    Nothing(Timestamp, Seq),
}

fn age_of(rules: &Rules, cell: &Cell) -> Age {
    if cell.is_void() { Age::Unknown } else { rules.age_of(cell.message.received_at) }
}

fn after_age(rules: &Rules, at: Timestamp) -> Timestamp {
    at.plus_millis(millis(rules.age_seconds))
}

impl Job<'_> {
    /// Allows a restored conversation to be archived again.
    pub(super) async fn release_room(&mut self, mut row: RoomRow) -> Result<RoomRow, ArchiveError> {
        if row.way.kept_hot {
            let way = self.engine.change_way(row.facts.id, |way| way.kept_hot = false).await?;
            row.way = way.ok_or(ArchiveError::NoSuchConversation)?;
            self.shared.kept_hot = self.shared.kept_hot.saturating_sub(1);
        }
        Ok(row)
    }

    /// Returns the next segment above `after`. Closes gaps, and records when to plan again if nothing
    /// is due.
    pub(super) async fn plan_run(
        &mut self,
        row: &RoomRow,
        after: Seq,
        rules: &Rules,
    ) -> Result<Option<SegmentPlan<Vec<Stored>>>, ArchiveError> {
        let (id, next) = (row.facts.id, row.way.moved_through.max(after).next());
        loop {
            match self.outlook(id, next, *rules).await? {
                Outlook::Segment(run) => {
                    let (first, last) = (run[0].seq(), run[run.len() - 1].seq());
                    let records = run.iter().map(|stored| vec![Record::of(&stored.cell).encode()]).collect();
                    return Ok(Some(SegmentPlan { first, last, records, rows: run }));
                }
                Outlook::Gap(first, last) => drop(self.engine.dense(id, first, last).await?),
                Outlook::Nothing(look_at, through) => {
                    let look = Look { at: look_at, age_seconds: rules.age_seconds };
                    self.engine
                        .change_way(id, |way| {
                            way.moved_through = way.moved_through.max(through);
                            // Keep an earlier time that still holds.
                            if way.is_worth_a_look(rules.now, rules.age_seconds) {
                                way.look = Some(look);
                            }
                        })
                        .await?;
                    return Ok(None);
                }
            }
        }
    }

    /// Returns the next messages that are old enough, if they make a segment.
    async fn outlook(&self, id: ConversationId, first: Seq, rules: Rules) -> Result<Outlook, ArchiveError> {
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
                        return Ok(Outlook::Gap(expected, last));
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
            return Ok(Outlook::Nothing(
                after_age(&rules, young.unwrap_or(rules.now).min(rules.now)),
                through,
            ));
        };
        match rules.partial_before {
            Some(partial_before) if !is_full && oldest >= partial_before => {
                let settings = &self.engine.archive.settings;
                let patience = after_age(&rules, oldest).plus_millis(millis(settings.patience_seconds));
                Ok(Outlook::Nothing(patience.min(rules.now.plus_millis(DAY_MILLIS)), through))
            }
            _ => Ok(Outlook::Segment(run)),
        }
    }

    /// Makes the rows refer to the object. Returns how many were unchanged and refer to it now.
    pub(super) async fn flip_run(
        &mut self,
        run: &[Stored],
        name: &SegmentName,
        layout: &SegmentLayout,
    ) -> Result<Flip, ArchiveError> {
        let id = name.conversation;
        let head = self.engine.head(id).await?;
        let newest = self.engine.newest_message(id, head).await?.map(|cell| cell.seq());
        let flipped = run.iter().zip(&layout.refs).map(|(Stored { version, cell }, place)| {
            let Message { content_type, content, .. } = &*cell.message;
            let preview = (newest == Some(cell.seq())).then(|| preview_of(content_type, content).into());
            let content_hash = content_hash(&cell.message, content);
            let cell = Cell { cold: Some(Cold { place: *place, preview, content_hash }), ..cell.clone() };
            Stored { version: *version, cell }
        });
        let flipped: Vec<Stored> = flipped.collect();
        let done = self.change(&flipped).await?;
        let messages = done.iter().filter(|done| **done).count() as u64;
        self.shared.add(&ColdCount {
            segments: u64::from(messages > 0),
            messages,
            bytes: layout.sealed.bytes.len() as u64,
            raw_bytes: layout.sealed.raw_bytes,
        });
        Ok(Flip::Changed(messages))
    }
}
