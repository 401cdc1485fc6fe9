//! Restores one conversation or all of them from the archive to the hot store.

use std::sync::Arc;
use std::time::Instant;

use bluetick_archive::is_damage;
use bluetick_archive::segment;
use bluetick_core::ConversationId;
use bluetick_core::ports::{ArchiveError, Progress, RestoreReport, Stage};

use super::job::{Stub, damaged, moved_meanwhile, records_of, stubs_of};
use super::{ArchiveStep, Archiver};
use crate::codec::archive::{Progress as Way, SegmentRow};
use crate::codec::chunk::{Entry, Packer};
use crate::tables::{ChunkKey, Tables, TablesError, Update};

/// Segments that are read from the tables at a time.
const BATCH: usize = 256;

impl Archiver {
    /// Restores all segments of `only`, or of every conversation. Restored conversations stay hot
    /// until a run names them. Continues past a damaged segment and reports it at the end.
    pub async fn restore(
        &self,
        only: Option<ConversationId>,
        progress: Arc<dyn Progress>,
    ) -> Result<RestoreReport, ArchiveError> {
        let _job = self.begin()?;
        let started = Instant::now();
        self.object_archive()?;
        if let Some(id) = only {
            self.must_exist(id).await?;
        }
        self.must_be_in_place().await?;
        let total = self.segments_of(only).await?;
        let mut report = RestoreReport::default();
        // One damaged segment must not block the others.
        let (mut after, mut done, mut damaged, mut first_damage) = (None, 0, 0_u64, None);
        loop {
            let tables = Arc::clone(&self.tables);
            let batch = self
                .blocking(move || Ok(tables.current()?.snapshot()?.segments(only, after, BATCH)?))
                .await?;
            let Some((last, _)) = batch.last() else { break };
            after = Some(*last);
            for (key, row) in batch {
                match self.restore_segment(key, row).await {
                    Ok(()) => {
                        report.segments += 1;
                        report.messages += row.messages;
                    }
                    Err(error) if is_damage(&error) => {
                        tracing::error!(%error, "a segment cannot be brought back");
                        damaged += 1;
                        first_damage.get_or_insert(error);
                    }
                    Err(error) => return Err(error),
                }
                done += 1;
                progress.advanced(Stage::Restoring, done, total.max(done));
            }
        }
        if let (Some(id), 0) = (only, total) {
            self.keep_hot(id).await?;
        }
        report.took = started.elapsed();
        match first_damage {
            None => Ok(report),
            Some(first) => Err(partly(&report, damaged, first)),
        }
    }

    /// Returns the number of segments to restore.
    async fn segments_of(&self, only: Option<ConversationId>) -> Result<u64, ArchiveError> {
        let tables = Arc::clone(&self.tables);
        self.blocking(move || {
            let engine = tables.current()?;
            Ok(match only {
                Some(id) => engine.snapshot()?.segments(Some(id), None, usize::MAX)?.len() as u64,
                None => engine.cold_count()?.segments,
            })
        })
        .await
    }

    /// Marks a conversation without archived segments as kept hot.
    async fn keep_hot(&self, id: ConversationId) -> Result<(), ArchiveError> {
        let tables = Arc::clone(&self.tables);
        self.blocking(move || {
            let engine = tables.writing()?;
            let mut update = engine.update()?;
            mark_kept_hot(&mut update, id)?;
            Ok(update.commit()?)
        })
        .await
    }

    async fn restore_segment(&self, key: ChunkKey, row: SegmentRow) -> Result<(), ArchiveError> {
        let name = self.name(key, &row);
        let object_archive = self.object_archive()?;
        let bytes = object_archive.segment(&name).await.map_err(ArchiveError::from)?;
        let (tables, hasher) = (Arc::clone(&self.tables), self.identity.fingerprinter);
        self.go_on(ArchiveStep::BeforeFlip)?;
        self.blocking(move || {
            let opened = segment::open(&bytes).map_err(|damage| damaged(&name, damage))?;
            let stubs = stubs_of(&*tables.current()?, key, &row)?;
            let records = stubs.iter().map(|stub| records_of(stub, &opened, &hasher));
            let records: Vec<_> = records.collect::<Result<_, _>>().map_err(|why| damaged(&name, why))?;
            put_back(&tables, key, &stubs, &records, mark_kept_hot)
        })
        .await?;
        self.go_on(ArchiveStep::AfterFlip)?;
        self.go_on(ArchiveStep::BeforeDelete)?;
        self.delete(name).await?;
        self.go_on(ArchiveStep::AfterDelete)
    }
}

/// Error: some segments were restored and some were not.
fn partly(report: &RestoreReport, damaged: u64, first: ArchiveError) -> ArchiveError {
    let first = match first {
        ArchiveError::Damaged(why) => why,
        other => other.to_string(),
    };
    ArchiveError::Damaged(format!(
        "{} segments with {} messages came back, {damaged} could not and stay in the archive; the first of them: {first}",
        report.segments, report.messages
    ))
}

/// Marks the conversation so that no run archives it again until a run names it.
fn mark_kept_hot(update: &mut Update<'_>, id: ConversationId) -> Result<(), TablesError> {
    let way = update.progress(id)?;
    update.put_progress(id, &Way { kept_hot: true, moved_through: Default::default(), ..way })
}

/// Stores these records in the chunks of a segment and deletes the segment row.
pub fn drop_segment<R: AsRef<[u8]>>(
    tables: &Tables,
    key: ChunkKey,
    stubs: &[Stub],
    records: &[Vec<R>],
) -> Result<(), ArchiveError> {
    put_back(tables, key, stubs, records, |_, _| Ok(()))
}

/// Replaces archived chunks by hot ones and deletes the segment row, in one transaction. `also`
/// adds writes to it. Errors if a chunk has changed since it was read.
fn put_back<R: AsRef<[u8]>>(
    tables: &Tables,
    key: ChunkKey,
    stubs: &[Stub],
    records: &[Vec<R>],
    also: impl FnOnce(&mut Update<'_>, ConversationId) -> Result<(), TablesError>,
) -> Result<(), ArchiveError> {
    let engine = tables.writing()?;
    let mut update = engine.update()?;
    let mut packer = Packer::default();
    for (stub, records) in stubs.iter().zip(records) {
        if update.chunk(ChunkKey { first: stub.first, ..key })? != Some(&stub.bytes[..]) {
            return Err(moved_meanwhile(key));
        }
        let hot = hot_chunk(&mut packer, stub, records)?;
        update.put_chunk(key.conversation, stub.first, &hot)?;
    }
    update.set_segment(key, None)?;
    also(&mut update, key.conversation)?;
    Ok(update.commit()?)
}

fn hot_chunk<R: AsRef<[u8]>>(
    packer: &mut Packer,
    stub: &Stub,
    records: &[R],
) -> Result<Vec<u8>, TablesError> {
    let header = stub.header()?;
    let entries: Vec<Entry<'_>> = records
        .iter()
        .zip(&stub.prints)
        .map(|(record, fingerprint)| Entry { record: record.as_ref(), fingerprint: *fingerprint })
        .collect();
    let mut packed = Vec::new();
    packer.pack(&entries, header.newest_received_at, header.notices_before, &mut packed);
    Ok(packed)
}
