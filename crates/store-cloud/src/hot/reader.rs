//! Reading what lies in several partitions as one: side by side, merged by seq, and never less than there is, however old
//! the registry at hand.
//!
//! Waiting for a hole and closing it belongs to whoever asks; a void is written like any message, by
//! [`Keeper::key`](super::Keeper::key).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bluetick_core::{ConversationId, Seq, StoreError};
use futures_util::future::try_join_all;

use super::epochs::Registry;
use super::keeper::Keeper;
use super::place::SIGNPOST;
use super::plan::{self, Ask, Verdict};
use super::shared::{Join, SharedReads};
use crate::rows::{Item, Query, Rows, Sort, SortRange, Table};

#[derive(Clone)]
pub struct Reader {
    rows: Arc<dyn Rows>,
    keeper: Arc<Keeper>,
    shared: Arc<SharedReads<Wanted, Found>>,
    counts: Arc<Counts>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Wanted {
    Range(ConversationId, Seq, Seq),
    Newest(ConversationId, usize),
}

#[derive(Default)]
struct Counts {
    scatter_reads: AtomicU64,
    scatter_queries: AtomicU64,
}

/// Since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReaderCounts {
    /// Reads of conversations that were ever spread, and the partitions that they asked: the second by the first is how
    /// wide they are.
    pub scatter_reads: u64,
    pub scatter_queries: u64,
    /// Reads that were answered by somebody else's.
    pub coalesced: u64,
}

/// What a partition gives at a time.
const MOST_AT_ONCE: usize = 1_000;

type Fields = &'static [&'static str];

/// Rows by place.
pub type Found = BTreeMap<Seq, Item>;

impl Reader {
    pub fn new(rows: Arc<dyn Rows>, keeper: Arc<Keeper>) -> Reader {
        Reader { rows, keeper, shared: Arc::default(), counts: Arc::default() }
    }

    pub fn counts(&self) -> ReaderCounts {
        ReaderCounts {
            scatter_reads: self.counts.scatter_reads.load(Ordering::Relaxed),
            scatter_queries: self.counts.scatter_queries.load(Ordering::Relaxed),
            coalesced: self.shared.coalesced(),
        }
    }

    /// As [`Reader::range`], whole rows, read once for all who ask at the same time. A place that was written a moment ago
    /// may be left out, so it is for whoever looks again at what is missing.
    pub async fn shared_range(
        &self,
        id: ConversationId,
        (first, last): (Seq, Seq),
    ) -> Result<Arc<Found>, StoreError> {
        let (reader, wanted) = (self.clone(), Wanted::Range(id, first, last));
        let read = move || {
            let reader = reader.clone();
            async move { reader.range(id, (first, last), &[]).await }
        };
        self.shared.read(wanted, Join::Running, read).await
    }

    /// As [`Reader::newest`] of all, whole rows, read once for all who ask at the same time.
    pub async fn shared_newest(&self, id: ConversationId, limit: usize) -> Result<Arc<Found>, StoreError> {
        let (reader, wanted) = (self.clone(), Wanted::Newest(id, limit));
        let read = move || {
            let reader = reader.clone();
            async move { reader.newest(id, Seq::FIRST, limit, &[]).await }
        };
        self.shared.read(wanted, Join::Next, read).await
    }

    /// What is written in these places, all of which lie at or below the head; places that are not written are left out,
    /// and are nowhere.
    pub async fn range(
        &self,
        id: ConversationId,
        (first, last): (Seq, Seq),
        fields: Fields,
    ) -> Result<Found, StoreError> {
        if first > last {
            return Ok(Found::new());
        }
        let at_hand = self.keeper.at_hand(id);
        let asks = plan::asks(&at_hand, first, last);
        let mut found = self.gather(id, &asks, false, usize::MAX, fields).await?;
        if plan::judge(&at_hand, false, (first, last), &found) != Verdict::Refresh {
            return Ok(found);
        }
        let fresh = self.keeper.fresh(id).await?;
        // Below, the version at hand knew where to look.
        let first = first.max(at_hand.horizon().next());
        found.retain(|seq, _| *seq < first);
        let asks = plan::asks(&fresh, first, last);
        plan::merge(
            &mut found,
            self.gather(id, &asks, false, usize::MAX, fields).await?.into_iter().collect(),
        )?;
        Ok(found)
    }

    /// What is written in each of these places, of any conversations, in their order. `None`: nothing, as far as anybody was
    /// told before this was called.
    pub async fn points(&self, wanted: &[(ConversationId, Seq)]) -> Result<Vec<Option<Item>>, StoreError> {
        let at_hand: Vec<_> = wanted.iter().map(|(id, _)| self.keeper.at_hand(*id)).collect();
        let keys =
            wanted.iter().zip(&at_hand).map(|((id, seq), at_hand)| at_hand.partition(*seq).key(*id, *seq));
        let keys: Vec<_> = keys.map(|key| (Table::Messages, key)).collect();
        let mut found = match &keys[..] {
            [] => Vec::new(),
            [(table, key)] => vec![self.rows.get(*table, key).await?],
            _ => self.rows.get_many(keys).await?,
        };
        let mut again = Vec::new();
        for (index, (id, seq)) in wanted.iter().enumerate() {
            if found[index].is_some() || at_hand[index].covers(*seq) {
                continue;
            }
            let partition = self.keeper.fresh(*id).await?.partition(*seq);
            if partition != at_hand[index].partition(*seq) {
                again.push((index, partition.key(*id, *seq)));
            }
        }
        if !again.is_empty() {
            let keys = again.iter().map(|(_, key)| (Table::Messages, key.clone())).collect();
            for ((index, _), item) in again.iter().zip(self.rows.get_many(keys).await?) {
                found[*index] = item;
            }
        }
        Ok(found)
    }

    /// The newest that are written, at least `limit` of them where there are so many, holes between them left out. All that
    /// was acknowledged before this was called is taken into account. `from`: nothing below is wanted.
    pub async fn newest(
        &self,
        id: ConversationId,
        from: Seq,
        limit: usize,
        fields: Fields,
    ) -> Result<Found, StoreError> {
        let mut registry = self.keeper.at_hand(id);
        if !registry.was_ever_salted() {
            let ask = plan::up_to_the_signpost(from);
            let mut found = self.gather(id, &[ask], true, limit, fields).await?;
            if found.remove(&Seq::new(SIGNPOST)).is_none() {
                return Ok(found);
            }
            // The signpost stands before the epoch is decided, so there may be none yet.
            registry = self.keeper.fresh(id).await?;
            return self.downward(id, &registry, from, limit, fields).await;
        }
        // Most of the time the one at hand is the newest, and then both have cost the time of one.
        let (found, fresh) =
            tokio::join!(self.downward(id, &registry, from, limit, fields), self.keeper.fresh(id));
        let fresh = fresh?;
        if fresh.version() == registry.version() {
            return found;
        }
        self.downward(id, &fresh, from, limit, fields).await
    }

    async fn downward(
        &self,
        id: ConversationId,
        registry: &Registry,
        from: Seq,
        limit: usize,
        fields: Fields,
    ) -> Result<Found, StoreError> {
        let mut found = Found::new();
        for asks in plan::downward(registry, from) {
            let below = self.gather(id, &asks, true, limit - found.len(), fields).await?;
            plan::merge(&mut found, below.into_iter().collect())?;
            if found.len() >= limit {
                break;
            }
        }
        while found.len() > limit {
            found.pop_first();
        }
        Ok(found)
    }

    /// All of them side by side: it takes as long as the slowest.
    async fn gather(
        &self,
        id: ConversationId,
        asks: &[Ask],
        descending: bool,
        limit: usize,
        fields: Fields,
    ) -> Result<Found, StoreError> {
        if self.keeper.at_hand(id).was_ever_salted() {
            self.counts.scatter_reads.fetch_add(1, Ordering::Relaxed);
            self.counts.scatter_queries.fetch_add(asks.len() as u64, Ordering::Relaxed);
        }
        let asking = asks.iter().map(|ask| self.ask(id, *ask, descending, limit, fields));
        let mut found = Found::new();
        for rows in try_join_all(asking).await? {
            plan::merge(&mut found, rows)?;
        }
        Ok(found)
    }

    async fn ask(
        &self,
        id: ConversationId,
        ask: Ask,
        descending: bool,
        limit: usize,
        fields: Fields,
    ) -> Result<Vec<(Seq, Item)>, StoreError> {
        let (mut first, mut last) = (ask.first, ask.last);
        let mut found = Vec::new();
        while first <= last && found.len() < limit {
            let query = Query {
                table: Table::Messages,
                partition: ask.partition.name(id),
                range: SortRange::Numbers(first.get(), last.get()),
                descending,
                limit: (limit - found.len()).min(MOST_AT_ONCE),
                fields,
            };
            let slice = self.rows.query(query).await?;
            for (sort, item) in slice.rows {
                let Sort::Number(seq) = sort else {
                    return Err(StoreError::Damaged("a message whose seq is no number".into()));
                };
                let seq = Seq::new(seq);
                match descending {
                    true => last = seq.previous(),
                    false => first = seq.next(),
                }
                found.push((seq, item));
            }
            if !slice.more {
                break;
            }
        }
        Ok(found)
    }
}
