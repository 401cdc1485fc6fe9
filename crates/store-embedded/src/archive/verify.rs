//! Reads every segment and compares it with the rows that refer to it.

use std::sync::Arc;
use std::time::Instant;

use bluetick_archive::segment;
use bluetick_core::ports::{ArchiveError, Progress, Stage, VerifyReport};
use bluetick_core::{ConversationId, Seq};

use super::job::{records_of, stubs_of};
use super::{ArchiveStep, Archiver};
use crate::codec::archive::SegmentRow;
use crate::codec::chunk::Header;
use crate::codec::cold::ColdChunk;
use crate::tables::{ChunkKey, Engine, TablesError};

/// Segments that are read from the tables at a time.
const BATCH: usize = 256;

impl Archiver {
    pub async fn verify(&self, progress: Arc<dyn Progress>) -> Result<VerifyReport, ArchiveError> {
        let _job = self.begin()?;
        let started = Instant::now();
        self.object_archive()?;
        self.must_be_in_place().await?;
        let mut report = VerifyReport::default();
        let total = self.status().await?.cold.segments;
        let (mut after, mut done) = (None, 0);
        loop {
            let tables = Arc::clone(&self.tables);
            let batch = self
                .blocking(move || Ok(tables.current()?.snapshot()?.segments(None, after, BATCH)?))
                .await?;
            let Some((last, _)) = batch.last() else { break };
            after = Some(*last);
            for (key, row) in batch {
                self.go_on(ArchiveStep::AfterFlip)?;
                if let Some(problem) = self.verify_segment(key, row).await? {
                    report.problems.push(problem);
                }
                let (count, checked) = (row.count(), &mut report.checked);
                checked.segments += 1;
                checked.messages += count.messages;
                checked.bytes += count.bytes;
                checked.raw_bytes += count.raw_bytes;
                done += 1;
                progress.advanced(Stage::Verifying, done, total.max(done));
            }
        }
        report.problems.extend(self.verify_references().await?);
        report.took = started.elapsed();
        Ok(report)
    }

    /// Returns a description of the problem, if any. Errors if the object archive is unavailable.
    async fn verify_segment(&self, key: ChunkKey, row: SegmentRow) -> Result<Option<String>, ArchiveError> {
        let name = self.name(key, &row);
        let bytes = match self.object_archive()?.segment(&name).await.map_err(ArchiveError::from) {
            Ok(bytes) => bytes,
            Err(ArchiveError::Damaged(why)) => return Ok(Some(why)),
            Err(error) => return Err(error),
        };
        let (tables, hasher) = (Arc::clone(&self.tables), self.identity.fingerprinter);
        self.blocking(move || {
            let opened = match segment::open(&bytes) {
                Ok(opened) if opened.name == name => opened,
                Ok(opened) => return Ok(Some(format!("{name}: it says that it is {}", opened.name))),
                Err(damage) => return Ok(Some(format!("{name}: {damage}"))),
            };
            if bytes.len() as u64 != row.bytes {
                return Ok(Some(format!("{name}: it has {} bytes instead of {}", bytes.len(), row.bytes)));
            }
            let held = opened.records().count() as u64;
            let stubs = match stubs_of(&*tables.current()?, key, &row) {
                Err(damage @ TablesError::Damaged { .. }) => return Ok(Some(format!("{name}: {damage}"))),
                stubs => stubs?,
            };
            let referring: u64 = stubs.iter().map(|stub| stub.prints.len() as u64).sum();
            if held != row.messages || referring != row.messages {
                return Ok(Some(format!(
                    "{name}: it holds {held} messages and {referring} rows refer to it, instead of {}",
                    row.messages
                )));
            }
            let wrong = stubs.iter().find_map(|stub| records_of(stub, &opened, &hasher).err());
            Ok(wrong.map(|why| format!("{name}: {why}")))
        })
        .await
    }

    /// Describes the chunks that refer to an unknown segment.
    async fn verify_references(&self) -> Result<Vec<String>, ArchiveError> {
        let mut problems = Vec::new();
        let mut walk = self.walk(None).await?;
        while let Some(id) = self.next(&mut walk).await? {
            let tables = Arc::clone(&self.tables);
            let strays = self.blocking(move || match strays(&*tables.current()?, id) {
                Err(damage @ TablesError::Damaged { .. }) => Ok(Err(damage.to_string())),
                strays => Ok(Ok(strays?)),
            });
            let strays = match strays.await? {
                Ok(strays) => strays,
                Err(damage) => {
                    problems.push(format!("{id}: {damage}"));
                    continue;
                }
            };
            problems.extend(
                strays.into_iter().map(|seq| {
                    format!("{id}: the rows from seq {seq} on refer to a segment that is not known")
                }),
            );
        }
        Ok(problems)
    }
}

fn strays(engine: &Engine, id: ConversationId) -> Result<Vec<Seq>, TablesError> {
    let snapshot = engine.snapshot()?;
    let (mut places, mut strays) = (Vec::new(), Vec::new());
    snapshot.chunks(id, Seq::FIRST, |first, bytes| {
        let header = Header::read(bytes)?;
        if header.is_cold() {
            places.push((first, ColdChunk::read(&header)?.place));
        }
        Ok(true)
    })?;
    for (first, place) in places {
        let row = snapshot.segment(ChunkKey { conversation: id, first: place.first })?;
        if row.is_none_or(|row| row.last != place.last || row.revision != place.revision) {
            strays.push(first);
        }
    }
    Ok(strays)
}
