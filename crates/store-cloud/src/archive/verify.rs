//! Reading every segment that rows refer to, and comparing it with them.

use std::collections::BTreeMap;
use std::time::Instant;

use bluetick_archive::jobs::state::add;
use bluetick_archive::segment::{self, Opened};
use bluetick_archive::{ObjectArchiveError, SegmentName};
use bluetick_core::ports::{ArchiveError, ColdCount, Progress, Stage, VerifyReport};
use bluetick_core::{ConversationId, Seq, StoreError};

use super::job::Job;
use super::record::Record;
use crate::cells::Cell;

/// A segment while its rows are gone through.
struct Open {
    name: SegmentName,
    /// What is wrong with it as a whole.
    opened: Result<Opened, String>,
}

/// What was found about one conversation.
#[derive(Default)]
struct Found {
    counts: BTreeMap<String, ColdCount>,
    problems: BTreeMap<String, String>,
}

impl Job<'_> {
    /// Counts anew what lies in the archive.
    pub(super) async fn verify(&mut self, progress: &dyn Progress) -> Result<VerifyReport, ArchiveError> {
        let started = Instant::now();
        self.object_archive()?;
        self.must_be_in_place().await?;
        let mut report = VerifyReport::default();
        let (mut after, mut done, mut kept_hot) = (None, 0, 0);
        loop {
            let (rooms, next) = self.rooms(after.as_deref()).await?;
            for room in rooms {
                kept_hot += u64::from(room.way.kept_hot);
                if !room.way.has_cold {
                    continue;
                }
                let found = self.verify_conversation(room.facts.id).await?;
                for count in found.counts.values() {
                    add(&mut report.checked, count);
                    done += 1;
                }
                report.problems.extend(found.problems.into_values());
                progress.advanced(Stage::Verifying, done, done.max(self.shared.cold.segments));
            }
            match next {
                Some(_) => after = next,
                None => break,
            }
        }
        (self.shared.cold, self.shared.kept_hot) = (report.checked, kept_hot);
        report.took = started.elapsed();
        Ok(report)
    }

    /// An object store that does not answer ends the job.
    async fn verify_conversation(&mut self, id: ConversationId) -> Result<Found, ArchiveError> {
        let mut found = Found::default();
        let (mut open, mut next): (Option<Open>, _) = (None, Seq::FIRST);
        let head = self.engine.head(id).await?;
        loop {
            self.go_on().await?;
            let (cells, more) = match self.stored(id, next, head, 1_000).await {
                Err(ArchiveError::Store(StoreError::Damaged(why))) => {
                    found.problems.insert(String::new(), format!("{id}: {why}"));
                    return Ok(found);
                }
                cells => cells?,
            };
            let Some(last) = cells.last() else { return Ok(found) };
            next = last.seq().next();
            for stored in &cells {
                let Some(cold) = &stored.cell.cold else { continue };
                let name = cold.place.segment(self.store, id);
                if open.as_ref().is_none_or(|open| open.name != name) {
                    open = Some(self.open_segment(name, &mut found).await?);
                }
                let Some(open) = &open else { continue };
                found.counts.entry(name.to_string()).or_default().messages += 1;
                let problem = match &open.opened {
                    Ok(opened) => compare(&stored.cell, opened).err(),
                    Err(why) => Some(why.clone()),
                };
                if let Some(why) = problem {
                    found.problems.entry(name.to_string()).or_insert_with(|| format!("{name}: {why}"));
                }
            }
            if !more {
                return Ok(found);
            }
        }
    }

    async fn open_segment(&mut self, name: SegmentName, found: &mut Found) -> Result<Open, ArchiveError> {
        self.go_on().await?;
        let count = found.counts.entry(name.to_string()).or_default();
        count.segments = 1;
        let bytes = match self.object_archive()?.segment(&name).await {
            Ok(bytes) => bytes,
            Err(ObjectArchiveError::Missing { .. }) => {
                return Ok(Open { name, opened: Err("it is not there".into()) });
            }
            Err(ObjectArchiveError::Damaged { why, .. }) => return Ok(Open { name, opened: Err(why) }),
            Err(error) => return Err(error.into()),
        };
        let opened = match segment::open(&bytes) {
            Ok(opened) if opened.name == name => Ok(opened),
            Ok(opened) => Err(format!("it says that it is {}", opened.name)),
            Err(damage) => Err(damage.to_string()),
        };
        if let Ok(opened) = &opened {
            *count = ColdCount { messages: count.messages, ..size_of(&bytes, opened) };
        }
        Ok(Open { name, opened })
    }
}

pub(super) fn size_of(object: &[u8], opened: &Opened) -> ColdCount {
    let raw_bytes = opened.blocks.iter().map(|(block, _)| u64::from(block.raw_length)).sum();
    ColdCount { segments: 1, messages: 0, bytes: object.len() as u64, raw_bytes }
}

/// The record of a row's message, or what does not agree.
pub(super) fn record_of<'o>(cell: &Cell, opened: &'o Opened) -> Result<Record<'o>, String> {
    let seq = cell.seq();
    let place = cell.cold.as_ref().map(|cold| &cold.place);
    let place = place.ok_or_else(|| format!("seq {seq} does not refer to it"))?;
    let block = opened.blocks.iter().find(|(block, _)| *block == place.block);
    let (_, block) = block.ok_or_else(|| format!("it has no block for seq {seq}"))?;
    let record =
        block.record(place.index as usize).ok_or_else(|| format!("it has no record for seq {seq}"))?;
    let record = Record::decode(record).filter(|record| record.is_of(&cell.message));
    record.ok_or_else(|| format!("it holds something else for seq {seq}"))
}

fn compare(cell: &Cell, opened: &Opened) -> Result<(), String> {
    match record_of(cell, opened)?.is_lost() {
        true => Err(format!("the content of seq {} was lost before", cell.seq())),
        false => Ok(()),
    }
}
