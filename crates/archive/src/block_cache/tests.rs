//! Tests of the block cache: shared fetches, failures, eviction during a fetch.

use std::future::{pending, ready};

use bluetick_core::{ConversationId, Seq};
use tokio::sync::oneshot;
use tokio::time::{Duration, timeout};

use super::*;
use crate::segment::{decode_block, seal};

fn name(revision: u32) -> SegmentName {
    SegmentName {
        store: [1; 8],
        conversation: ConversationId::group([7; 15]),
        first: Seq::new(1),
        last: Seq::new(1),
        revision,
    }
}

/// Returns a block with one record of this many bytes.
fn block_of(bytes: usize) -> (BlockRef, Arc<Block>) {
    let record = vec![b'x'; bytes];
    let sealed = seal(&name(0), &[vec![record.as_slice()]]);
    let block = sealed.blocks[0];
    let start = usize::try_from(block.offset).unwrap();
    let stored = &sealed.bytes[start..start + block.length as usize];
    (block, Arc::new(decode_block(stored, &block).unwrap()))
}

/// Waits for a result that must arrive without delay.
async fn soon<T>(answer: impl Future<Output = T>) -> T {
    timeout(Duration::from_secs(20), answer).await.expect("a waiting request never ended")
}

fn down() -> ObjectArchiveError {
    ObjectArchiveError::Unavailable("down".to_owned())
}

#[tokio::test]
async fn cached_bytes_stay_below_the_capacity() {
    const CAPACITY: u64 = 100_000;
    let blocks = BlockCache::new(CAPACITY);
    let (at, block) = block_of(9_000);
    for revision in 0..100 {
        let (answer, _) = blocks.get(name(revision), at, ready(Ok(Arc::clone(&block)))).await;
        answer.unwrap();
        assert!(blocks.weight() <= CAPACITY, "{}", blocks.weight());
    }
    assert!(
        blocks.weight() > CAPACITY / 2,
        "the cache keeps much less than its capacity: {}",
        blocks.weight()
    );
}

#[tokio::test]
async fn block_larger_than_the_cache_is_returned_and_not_cached() {
    for capacity in [0, 1_000] {
        let blocks = BlockCache::new(capacity);
        let (at, block) = block_of(5_000);
        for _ in 0..2 {
            let (answer, from_memory) = blocks.get(name(0), at, ready(Ok(Arc::clone(&block)))).await;
            assert_eq!((answer.unwrap().len(), from_memory), (1, false));
        }
        assert_eq!(blocks.weight(), 0);
    }
}

#[tokio::test]
async fn failed_fetch_fails_all_waiting_readers_and_next_reader_fetches_again() {
    let blocks = BlockCache::new(1 << 20);
    let (at, block) = block_of(10);
    let (arrive, arrived) = oneshot::channel();
    let mut first = Box::pin(blocks.get(name(0), at, async { arrived.await.unwrap() }));
    assert!(futures_util::poll!(&mut first).is_pending());
    let mut others: Vec<_> = (0..99).map(|_| Box::pin(blocks.get(name(0), at, pending()))).collect();
    for other in &mut others {
        assert!(futures_util::poll!(other).is_pending());
    }
    arrive.send(Err(down())).unwrap();
    for other in others {
        assert_eq!(soon(other).await.0.err(), Some(down()));
    }
    assert_eq!(soon(first).await.0.err(), Some(down()));
    let (answer, from_memory) = blocks.get(name(0), at, ready(Ok(block))).await;
    assert_eq!((answer.is_ok(), from_memory), (true, false));
}

#[tokio::test]
async fn dropped_reader_does_not_cancel_the_shared_fetch() {
    let blocks = BlockCache::new(1 << 20);
    let (at, block) = block_of(10);
    let (arrive, arrived) = oneshot::channel();
    let mut first = Box::pin(blocks.get(name(0), at, async { arrived.await.unwrap() }));
    assert!(futures_util::poll!(&mut first).is_pending());
    let mut second = Box::pin(blocks.get(name(0), at, pending()));
    assert!(futures_util::poll!(&mut second).is_pending());
    drop(first);
    arrive.send(Ok(block)).unwrap();
    assert!(matches!(soon(second).await, (Ok(_), true)));
}

#[tokio::test]
async fn fetch_without_readers_is_dropped_with_its_entry() {
    let blocks = BlockCache::new(1 << 20);
    let (at, block) = block_of(10);
    let mut first = Box::pin(blocks.get(name(0), at, pending()));
    assert!(futures_util::poll!(&mut first).is_pending());
    drop(first);
    assert!(blocks.shared.flights().under_way.is_empty());
    assert!(matches!(blocks.get(name(0), at, ready(Ok(block))).await, (Ok(_), false)));
    assert!(blocks.shared.flights().under_way.is_empty());
}

#[tokio::test]
async fn segment_forgotten_during_a_fetch_is_not_cached() {
    let blocks = BlockCache::new(1 << 20);
    let (at, block) = block_of(10);
    let (arrive, arrived) = oneshot::channel();
    let mut reader = Box::pin(blocks.get(name(0), at, async { arrived.await.unwrap() }));
    assert!(futures_util::poll!(&mut reader).is_pending());
    blocks.forget(&name(0));
    arrive.send(Ok(block)).unwrap();
    assert!(soon(reader).await.0.is_ok());
    assert_eq!(blocks.weight(), 0);
}

#[tokio::test]
async fn forgetting_one_segment_leaves_the_others() {
    let blocks = BlockCache::new(1 << 20);
    let (at, block) = block_of(10);
    for revision in [0, 1] {
        blocks.get(name(revision), at, ready(Ok(Arc::clone(&block)))).await.0.unwrap();
    }
    blocks.forget(&name(0));
    assert!(!blocks.get(name(0), at, ready(Err(down()))).await.1);
    assert!(blocks.get(name(1), at, ready(Err(down()))).await.1);
}
