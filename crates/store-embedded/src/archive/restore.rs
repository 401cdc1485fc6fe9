//! Bringing a conversation back to the hot store.

use std::sync::Arc;
use std::time::Instant;

use bluetick_archive::segment;
use bluetick_core::ConversationId;
use bluetick_core::ports::{ArchiveError, Progress, RestoreReport, Stage};

use super::job::{Stub, damaged, moved_meanwhile, records_of, stubs_of};
use super::{ArchiveStep, Archivist, in_vault};
use crate::codec::archive::{Progress as Way, SegmentRow};
use crate::codec::chunk::{Entry, Packer};
use crate::tables::{ChunkKey, Tables, TablesError};

impl Archivist {
    pub async fn restore(
        &self,
        id: ConversationId,
        progress: Arc<dyn Progress>,
    ) -> Result<RestoreReport, ArchiveError> {
        let _job = self.begin()?;
        let started = Instant::now();
        self.must_exist(id).await?;
        let tables = Arc::clone(&self.tables);
        let segments =
            self.blocking(move || Ok(tables.current()?.snapshot()?.segments(Some(id), None, usize::MAX)?));
        let segments = segments.await?;
        if !segments.is_empty() {
            self.vault()?;
        }
        // From now on no run takes it away again, also if this one does not come to its end.
        self.keep_hot(id).await?;
        let mut report = RestoreReport::default();
        let total = segments.len() as u64;
        // One damaged segment must not keep the others away.
        let mut first_damage = None;
        for (key, row) in segments {
            match self.restore_segment(key, row).await {
                Ok(()) => {
                    report.segments += 1;
                    report.messages += row.messages;
                }
                Err(error @ ArchiveError::Damaged(_)) => {
                    tracing::error!(%error, "a segment cannot be brought back");
                    first_damage.get_or_insert(error);
                }
                Err(error) => return Err(error),
            }
            progress.advanced(Stage::Restoring, report.segments, total);
        }
        report.took = started.elapsed();
        first_damage.map_or(Ok(report), Err)
    }

    async fn keep_hot(&self, id: ConversationId) -> Result<(), ArchiveError> {
        let tables = Arc::clone(&self.tables);
        self.blocking(move || {
            let engine = tables.writing()?;
            let mut update = engine.update()?;
            let way = update.progress(id)?;
            update.put_progress(id, &Way { kept_hot: true, moved_through: Default::default(), ..way })?;
            Ok(update.commit()?)
        })
        .await
    }

    async fn restore_segment(&self, key: ChunkKey, row: SegmentRow) -> Result<(), ArchiveError> {
        let name = self.name(key, &row);
        let vault = self.vault()?;
        let bytes = vault.segment(&name).await.map_err(in_vault)?;
        let (tables, hasher) = (Arc::clone(&self.tables), self.identity.fingerprinter);
        self.go_on(ArchiveStep::BeforeFlip)?;
        self.blocking(move || {
            let opened = segment::open(&bytes).map_err(|damage| damaged(&name, damage))?;
            let stubs = stubs_of(&*tables.current()?, key, &row)?;
            let records = stubs.iter().map(|stub| records_of(stub, &opened, &hasher));
            let records: Vec<_> = records.collect::<Result<_, _>>().map_err(|why| damaged(&name, why))?;
            drop_segment(&tables, key, &stubs, &records)
        })
        .await?;
        self.go_on(ArchiveStep::AfterFlip)?;
        self.go_on(ArchiveStep::BeforeDelete)?;
        self.delete(name).await?;
        self.go_on(ArchiveStep::AfterDelete)
    }
}

/// Puts the chunks back with these records, and forgets the segment.
pub fn drop_segment<R: AsRef<[u8]>>(
    tables: &Tables,
    key: ChunkKey,
    stubs: &[Stub],
    records: &[Vec<R>],
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
