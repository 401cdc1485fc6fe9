//! For whoever looks after a fleet: which conversations were ever spread, and how busy they are.

use std::sync::Arc;

use bluetick_core::{ConversationId, Seq, StoreError, Timestamp};

use super::{Keeper, Layout, Reader, Registry};
use crate::rows::{Key, Rows, Table};

/// A conversation that was ever too busy for one partition.
#[derive(Clone, Debug)]
pub struct Busy {
    pub id: ConversationId,
    pub registry: Registry,
    pub head: Seq,
    /// When the newest of its messages was received; `None` where there is none.
    pub newest_at: Option<Timestamp>,
    /// Messages a second, from the newest ones and when they were received; 0 where the newest is older than a minute.
    pub rate: u64,
}

/// So many of the newest messages tell the rate.
const SAMPLE: usize = 500;

const RECENT_MS: i64 = 60_000;

/// Rows of the registry read at a time.
const ROWS: usize = 100;

/// The busiest first, then the newest.
pub async fn busy_conversations(rows: Arc<dyn Rows>, now: Timestamp) -> Result<Vec<Busy>, StoreError> {
    let keeper = Arc::new(Keeper::new(Arc::clone(&rows), Layout::CHOSEN));
    let reader = Reader::new(Arc::clone(&rows), Arc::clone(&keeper));
    let (mut found, mut after): (Vec<Busy>, Option<Key>) = (Vec::new(), None);
    loop {
        let scanned = rows.scan(Table::HotRegistry, after.as_ref(), ROWS).await?;
        for (key, item) in &scanned.rows {
            let registry = Registry::decode(item)?;
            if !registry.was_ever_salted() {
                continue;
            }
            let id = key.partition.parse().map_err(|_| {
                StoreError::Damaged("a row of the registry that is of no conversation".into())
            })?;
            keeper.heard(id, registry.clone());
            found.push(look(&reader, id, registry, now).await?);
        }
        match scanned.next {
            Some(next) => after = Some(next),
            None => break,
        }
    }
    found.sort_by_key(|busy| std::cmp::Reverse((busy.rate, busy.newest_at)));
    Ok(found)
}

async fn look(
    reader: &Reader,
    id: ConversationId,
    registry: Registry,
    now: Timestamp,
) -> Result<Busy, StoreError> {
    let newest = reader.newest(id, Seq::FIRST, SAMPLE, &["received_at"]).await?;
    let head = newest.last_key_value().map_or(Seq::ZERO, |(seq, _)| *seq);
    let times = newest.values().filter_map(|item| item.find_number("received_at"));
    // Clocks of several nodes: the order of the seqs is not the order of the moments.
    let (first, last) = times.fold((i64::MAX, i64::MIN), |(first, last), at| (first.min(at), last.max(at)));
    let newest_at = (first <= last).then(|| Timestamp::from_millis(last));
    let is_recent = newest_at.is_some_and(|at| now.millis().saturating_sub(at.millis()) < RECENT_MS);
    let millis = u64::try_from(last.saturating_sub(first)).unwrap_or(0).max(1);
    let rate = if is_recent { newest.len() as u64 * 1_000 / millis } else { 0 };
    Ok(Busy { id, registry, head, newest_at, rate })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows::memory::MemoryRows;
    use crate::rows::{Item, Only};

    async fn write(
        rows: &Arc<MemoryRows>,
        bits: u8,
        partitions: u16,
        seqs: u64,
        every_ms: i64,
    ) -> ConversationId {
        let id = ConversationId::group([bits; 15]);
        let keeper = Keeper::new(Arc::clone(rows) as Arc<dyn Rows>, Layout::CHOSEN);
        keeper.ask_for(id, Some(partitions));
        for seq in (1..=seqs).map(Seq::new) {
            let key = keeper.key(id, seq).await.unwrap();
            let item = Item::new().number("received_at", seq.get() as i64 * every_ms);
            rows.put(Table::Messages, &key, &item, Only::IfAbsent).await.unwrap();
        }
        id
    }

    #[tokio::test]
    async fn the_busiest_come_first_and_what_was_never_spread_is_left_out() {
        let rows = Arc::new(MemoryRows::default());
        let slow = write(&rows, 1, 2, 2_000, 10).await;
        let fast = write(&rows, 2, 5, 20_000, 1).await;
        write(&rows, 3, 1, 3_000, 1).await;
        let listed = busy_conversations(rows.clone(), Timestamp::from_millis(20_000)).await.unwrap();
        let told: Vec<_> =
            listed.iter().map(|busy| (busy.id, busy.registry.partitions(), busy.head.get())).collect();
        assert_eq!(told, [(fast, 5, 20_000), (slow, 2, 2_000)]);
        assert!((990..=1_010).contains(&listed[0].rate) && (99..=101).contains(&listed[1].rate));
        let later = busy_conversations(rows, Timestamp::from_millis(90_000)).await.unwrap();
        assert!(later.iter().all(|busy| busy.rate == 0), "nobody has written lately");
    }
}
