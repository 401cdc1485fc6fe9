//! Reads of a log: rows by seq, the newest row, and the current partition map.

use std::collections::BTreeMap;
use std::sync::Arc;

use bluetick_core::{ConversationId, Seq, StoreError};
use futures_util::future::try_join_all;

use super::partitions::Span;
use super::{LogRow, PartitionMap, RowKind};
use crate::hot::SIGNPOST;
use crate::rows::{Item, Key, Query, Rows, Sort, SortRange, Table};

/// The attributes that a query returns; empty for all.
pub type Fields = &'static [&'static str];

/// Reads the rows of one conversation.
#[derive(Clone)]
pub struct LogReader {
    rows: Arc<dyn Rows>,
    conversation: ConversationId,
}

/// Upper bound on the rows that one query returns. A larger page only costs more memory.
const QUERY_ROWS: usize = 1_000;

impl LogReader {
    pub fn new(rows: Arc<dyn Rows>, conversation: ConversationId) -> LogReader {
        LogReader { rows, conversation }
    }

    pub async fn row(&self, map: &PartitionMap, seq: Seq) -> Result<Option<LogRow>, StoreError> {
        let key = map.key(self.conversation, seq);
        self.rows.get(Table::Messages, &key).await?.map(LogRow::decode).transpose()
    }

    /// Returns the rows between `first` and `last` that exist. Complete only below the next epoch
    /// row that `map` does not know.
    pub async fn range(
        &self,
        map: &PartitionMap,
        (first, last): (Seq, Seq),
        fields: Fields,
    ) -> Result<BTreeMap<Seq, Item>, StoreError> {
        let spans = map.spans(self.conversation, first, last);
        let found = try_join_all(spans.iter().map(|span| self.span(span, fields))).await?;
        Ok(found.into_iter().flatten().collect())
    }

    /// Returns all rows between `first` and `last`, which is not above the head. A gap means that
    /// `map` is old: it is brought up to date, and the rows are read again.
    pub async fn page(
        &self,
        map: &mut PartitionMap,
        (first, last): (Seq, Seq),
    ) -> Result<BTreeMap<Seq, Item>, StoreError> {
        let wanted = last.next().distance_from(first);
        let found = self.range(map, (first, last), &[]).await?;
        if found.len() as u64 >= wanted {
            return Ok(found);
        }
        self.newest(map).await?;
        self.range(map, (first, last), &[]).await
    }

    async fn span(&self, span: &Span, fields: Fields) -> Result<Vec<(Seq, Item)>, StoreError> {
        let mut found = Vec::new();
        let mut first = span.first;
        loop {
            let slice = self.query(&Span { first, ..span.clone() }, false, QUERY_ROWS, fields).await?;
            found.extend(slice.0);
            match (slice.1, found.last()) {
                (true, Some((seq, _))) => first = seq.next(),
                _ => return Ok(found),
            }
        }
    }

    async fn query(
        &self,
        span: &Span,
        descending: bool,
        limit: usize,
        fields: Fields,
    ) -> Result<(Vec<(Seq, Item)>, bool), StoreError> {
        let query = Query {
            table: Table::Messages,
            partition: span.partition.clone(),
            range: SortRange::Numbers(span.first.get(), span.last.get()),
            descending,
            limit,
            fields,
        };
        let slice = self.rows.query(query).await?;
        let seq = |sort| match sort {
            Sort::Number(number) => Ok(Seq::new(number)),
            other => Err(StoreError::Damaged(format!("a message row with the sort key {other:?}").into())),
        };
        let rows = slice.rows.into_iter().map(|(sort, item)| Ok((seq(sort)?, item)));
        Ok((rows.collect::<Result<_, StoreError>>()?, slice.more))
    }

    /// Returns the newest row, and adds each epoch that this node did not know to `map`. Costs one
    /// query in a conversation that was never hot.
    pub async fn newest(&self, map: &mut PartitionMap) -> Result<Option<(Seq, LogRow)>, StoreError> {
        loop {
            let Some((seq, row)) = self.newest_in(map).await? else { return Ok(None) };
            let is_signpost = seq.get() == SIGNPOST;
            let epoch = match row.as_ref().map(|row| row.kind) {
                Some(RowKind::Epoch { partitions, block }) => Some((partitions, block)),
                _ => None,
            };
            if !is_signpost && epoch.is_none() {
                return Ok(row.map(|row| (seq, row)));
            }
            if let Some((partitions, block)) = epoch
                && map.epochs().iter().any(|epoch| epoch.has_row && epoch.from == seq.next())
            {
                // The rows above this epoch row do not exist yet.
                let kind = RowKind::Epoch { partitions, block };
                return Ok(row.map(|row| (seq, LogRow { kind, ..row })));
            }
            let known = self.registry().await?;
            if known.includes(map) && known != *map {
                *map = known;
            } else if let Some((partitions, block)) = epoch {
                map.begin(seq, partitions, block);
            } else {
                return Err(StoreError::Damaged("a conversation that was spread has no registry".into()));
            }
        }
    }

    /// Returns the newest row of the newest epoch that has rows. A signpost decodes to no row.
    async fn newest_in(&self, map: &PartitionMap) -> Result<Option<(Seq, Option<LogRow>)>, StoreError> {
        for mut step in map.downward(self.conversation) {
            if !map.was_ever_hot() {
                step[0].last = Seq::new(SIGNPOST);
            }
            let newest = try_join_all(step.iter().map(|span| self.query(span, true, 1, &[]))).await?;
            let newest = newest.into_iter().flat_map(|(rows, _)| rows).max_by_key(|(seq, _)| *seq);
            if let Some((seq, item)) = newest {
                let row = if seq.get() == SIGNPOST { None } else { Some(LogRow::decode(item)?) };
                return Ok(Some((seq, row)));
            }
        }
        Ok(None)
    }

    /// Returns the registry's index of epochs, which may lack the newest ones.
    pub async fn registry(&self) -> Result<PartitionMap, StoreError> {
        let row = self.rows.get(Table::HotRegistry, &Key::new(self.conversation)).await?;
        row.map_or(Ok(PartitionMap::default()), |row| PartitionMap::decode(&row))
    }
}
