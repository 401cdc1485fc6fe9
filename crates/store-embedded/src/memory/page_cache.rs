//! A cache of the newest messages of frequently read conversations, decoded from the tables. A hit
//! needs no disk access and no decompression.

use std::collections::HashMap;
use std::ops::RangeInclusive;
use std::sync::Arc;

use bluetick_core::{ConversationId, Message, Seq};
use parking_lot::{Mutex, MutexGuard};

use super::residents::IdHashing;
use crate::tables::Edition;

/// The number of shards, each with a lock and an equal part of the byte limit. With more, a large
/// page exceeds its shard and is not cached. At most 256, because one byte of the id selects the
/// shard.
const SHARDS: usize = 16;

/// The page cache, bounded by bytes. Each shard has two halves. Used entries go into the young
/// half. When it is full it replaces the old half, which drops the entries that were not read
/// since.
pub struct PageCache {
    shards: [Mutex<PageShard>; SHARDS],
    half_bytes: usize,
}

#[derive(Default)]
struct PageShard {
    young: HashMap<ConversationId, CachedMessages, IdHashing>,
    old: HashMap<ConversationId, CachedMessages, IdHashing>,
    young_bytes: usize,
}

/// Consecutive messages of one conversation, oldest first. A stored message does not change while
/// the edition of the tables stays the same.
#[derive(Clone)]
struct CachedMessages {
    edition: Edition,
    first: Seq,
    messages: Arc<[Message]>,
    bytes: usize,
}

impl CachedMessages {
    fn cut(&self, range: &RangeInclusive<Seq>) -> Option<&[Message]> {
        let index = |seq: Seq| usize::try_from(seq.get().checked_sub(self.first.get())?).ok();
        self.messages.get(index(*range.start())?..=index(*range.end())?)
    }
}

impl PageShard {
    fn keep(&mut self, id: ConversationId, cached: CachedMessages, half_bytes: usize) {
        if self.young_bytes + cached.bytes > half_bytes {
            self.old = std::mem::take(&mut self.young);
            self.young_bytes = 0;
        }
        self.young_bytes += cached.bytes;
        if let Some(before) = self.young.insert(id, cached) {
            self.young_bytes -= before.bytes;
        }
    }
}

/// Returns an estimate of the memory that these messages take, in bytes.
fn bytes_of(messages: &[Message]) -> usize {
    let each = |message: &Message| {
        size_of::<Message>() + 64 + message.content.len() + message.content_type.as_str().len()
    };
    size_of::<CachedMessages>() + messages.iter().map(each).sum::<usize>()
}

impl PageCache {
    pub fn new(max_bytes: usize) -> PageCache {
        PageCache { shards: std::array::from_fn(|_| Mutex::default()), half_bytes: max_bytes / SHARDS / 2 }
    }

    fn shard(&self, id: ConversationId) -> MutexGuard<'_, PageShard> {
        let shard = usize::from(id.as_bytes()[15]) % SHARDS;
        self.shards[shard].lock()
    }

    /// Returns the messages of `range`, if the cache has all of them from this edition.
    pub fn get(
        &self,
        id: ConversationId,
        range: &RangeInclusive<Seq>,
        edition: Edition,
    ) -> Option<Vec<Message>> {
        let cached = {
            let mut shard = self.shard(id);
            match shard.young.get(&id) {
                Some(found) => found.clone(),
                None => {
                    let found = shard.old.remove(&id)?;
                    shard.keep(id, found.clone(), self.half_bytes);
                    found
                }
            }
        };
        // Copy outside the lock: this is a page of messages.
        cached.cut(range).filter(|_| cached.edition == edition).map(<[Message]>::to_vec)
    }

    /// Drops all entries, so that erased messages do not stay in memory.
    pub fn clear(&self) {
        for shard in &self.shards {
            *shard.lock() = PageShard::default();
        }
    }

    /// Caches messages that were read in this edition. `edition` must be taken before the read: an
    /// entry may be labelled with an older edition, never with a newer one.
    pub fn put(&self, id: ConversationId, edition: Edition, messages: &[Message]) {
        let Some(first) = messages.first().map(|message| message.seq) else { return };
        let bytes = bytes_of(messages);
        if bytes <= self.half_bytes {
            let cached = CachedMessages { edition, first, messages: messages.into(), bytes };
            self.shard(id).keep(id, cached, self.half_bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use bluetick_core::Timestamp;

    use super::*;

    fn messages(id: ConversationId, seqs: RangeInclusive<u64>) -> Vec<Message> {
        seqs.map(|seq| Message::void(id, Seq::new(seq), Timestamp::default())).collect()
    }

    fn range(first: u64, last: u64) -> RangeInclusive<Seq> {
        Seq::new(first)..=Seq::new(last)
    }

    #[test]
    fn cache_returns_part_of_entry_but_nothing_beyond_it() {
        let (pages, id, edition) =
            (PageCache::new(1 << 20), ConversationId::group([1; 15]), Edition::default());
        pages.put(id, edition, &messages(id, 11..=20));
        let found = |first, last| Some(pages.get(id, &range(first, last), edition)?.len());
        assert_eq!([found(11, 20), found(15, 18), found(20, 20)], [Some(10), Some(4), Some(1)]);
        assert_eq!([found(10, 20), found(11, 21), found(1, 2)], [None; 3]);
    }

    #[test]
    fn entry_of_another_edition_is_not_returned() {
        let (pages, id, edition) =
            (PageCache::new(1 << 20), ConversationId::group([1; 15]), Edition::default());
        pages.put(id, edition, &messages(id, 1..=2));
        assert!(pages.get(id, &range(1, 2), edition).is_some());
        assert!(pages.get(id, &range(1, 2), edition.next()).is_none());
    }

    #[test]
    fn unread_entries_are_evicted_before_read_ones() {
        let id = |number: u8| ConversationId::group([number; 15]);
        let bytes = bytes_of(&messages(id(0), 1..=1));
        let mut last = [0; 15];
        let edition = Edition::default();
        // All ids map to one shard, whose halves hold four entries each.
        let pages = PageCache::new(bytes * 4 * 2 * SHARDS);
        let mut next = |number: u8| {
            last[0] = number;
            ConversationId::group(last)
        };
        let ids: Vec<_> = (0..100).map(&mut next).collect();
        for id in &ids {
            pages.put(*id, edition, &messages(*id, 1..=1));
            assert!(pages.get(ids[0], &range(1, 1), edition).is_some(), "requested again and again");
        }
        let kept = ids.iter().filter(|id| pages.get(**id, &range(1, 1), edition).is_some()).count();
        assert!((4..=8).contains(&kept), "{kept}");
    }

    #[test]
    fn cache_of_zero_bytes_keeps_nothing() {
        let (pages, id, edition) = (PageCache::new(0), ConversationId::group([1; 15]), Edition::default());
        pages.put(id, edition, &messages(id, 1..=1));
        assert!(pages.get(id, &range(1, 1), edition).is_none());
    }
}
