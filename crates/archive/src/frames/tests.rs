use std::future::{pending, ready};

use bluetick_core::{ConversationId, Seq};
use tokio::sync::oneshot;
use tokio::time::{Duration, timeout};

use super::*;
use crate::segment::{decode_frame, seal};

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
fn frame_of(bytes: usize) -> (FrameRef, Arc<Frame>) {
    let record = vec![b'x'; bytes];
    let sealed = seal(&name(0), &[vec![record.as_slice()]]);
    let frame = sealed.frames[0];
    let start = usize::try_from(frame.offset).unwrap();
    let stored = &sealed.bytes[start..start + frame.length as usize];
    (frame, Arc::new(decode_frame(stored, &frame).unwrap()))
}

/// Waits for a result that must arrive without delay.
async fn soon<T>(answer: impl Future<Output = T>) -> T {
    timeout(Duration::from_secs(20), answer).await.expect("somebody waits for ever")
}

fn down() -> VaultError {
    VaultError::Unavailable("down".to_owned())
}

#[tokio::test]
async fn memory_is_bounded_by_bytes() {
    const CAPACITY: u64 = 100_000;
    let frames = Frames::new(CAPACITY);
    let (at, frame) = frame_of(9_000);
    for revision in 0..100 {
        let (answer, _) = frames.get(name(revision), at, ready(Ok(Arc::clone(&frame)))).await;
        answer.unwrap();
        assert!(frames.weight() <= CAPACITY, "{}", frames.weight());
    }
    assert!(frames.weight() > CAPACITY / 2, "much less is kept than may be: {}", frames.weight());
}

#[tokio::test]
async fn a_frame_larger_than_the_memory_is_read_and_not_kept() {
    for capacity in [0, 1_000] {
        let frames = Frames::new(capacity);
        let (at, frame) = frame_of(5_000);
        for _ in 0..2 {
            let (answer, from_memory) = frames.get(name(0), at, ready(Ok(Arc::clone(&frame)))).await;
            assert_eq!((answer.unwrap().len(), from_memory), (1, false));
        }
        assert_eq!(frames.weight(), 0);
    }
}

#[tokio::test]
async fn all_who_waited_are_told_of_a_failure_and_the_next_one_tries_again() {
    let frames = Frames::new(1 << 20);
    let (at, frame) = frame_of(10);
    let (arrive, arrived) = oneshot::channel();
    let mut first = Box::pin(frames.get(name(0), at, async { arrived.await.unwrap() }));
    assert!(futures_util::poll!(&mut first).is_pending());
    let mut others: Vec<_> = (0..99).map(|_| Box::pin(frames.get(name(0), at, pending()))).collect();
    for other in &mut others {
        assert!(futures_util::poll!(other).is_pending());
    }
    arrive.send(Err(down())).unwrap();
    for other in others {
        assert_eq!(soon(other).await.0.err(), Some(down()));
    }
    assert_eq!(soon(first).await.0.err(), Some(down()));
    let (answer, from_memory) = frames.get(name(0), at, ready(Ok(frame))).await;
    assert_eq!((answer.is_ok(), from_memory), (true, false));
}

#[tokio::test]
async fn a_reader_who_goes_away_takes_nothing_from_the_others() {
    let frames = Frames::new(1 << 20);
    let (at, frame) = frame_of(10);
    let (arrive, arrived) = oneshot::channel();
    let mut first = Box::pin(frames.get(name(0), at, async { arrived.await.unwrap() }));
    assert!(futures_util::poll!(&mut first).is_pending());
    let mut second = Box::pin(frames.get(name(0), at, pending()));
    assert!(futures_util::poll!(&mut second).is_pending());
    drop(first);
    arrive.send(Ok(frame)).unwrap();
    assert!(matches!(soon(second).await, (Ok(_), true)));
}

#[tokio::test]
async fn a_fetch_nobody_waits_for_any_more_leaves_nothing_behind() {
    let frames = Frames::new(1 << 20);
    let (at, frame) = frame_of(10);
    let mut first = Box::pin(frames.get(name(0), at, pending()));
    assert!(futures_util::poll!(&mut first).is_pending());
    drop(first);
    assert!(frames.shared.flights().under_way.is_empty());
    assert!(matches!(frames.get(name(0), at, ready(Ok(frame))).await, (Ok(_), false)));
    assert!(frames.shared.flights().under_way.is_empty());
}

#[tokio::test]
async fn what_is_forgotten_while_it_is_fetched_is_not_kept() {
    let frames = Frames::new(1 << 20);
    let (at, frame) = frame_of(10);
    let (arrive, arrived) = oneshot::channel();
    let mut reader = Box::pin(frames.get(name(0), at, async { arrived.await.unwrap() }));
    assert!(futures_util::poll!(&mut reader).is_pending());
    frames.forget(&name(0));
    arrive.send(Ok(frame)).unwrap();
    assert!(soon(reader).await.0.is_ok());
    assert_eq!(frames.weight(), 0);
}

#[tokio::test]
async fn forgetting_one_segment_leaves_the_others() {
    let frames = Frames::new(1 << 20);
    let (at, frame) = frame_of(10);
    for revision in [0, 1] {
        frames.get(name(revision), at, ready(Ok(Arc::clone(&frame)))).await.0.unwrap();
    }
    frames.forget(&name(0));
    assert!(!frames.get(name(0), at, ready(Err(down()))).await.1);
    assert!(frames.get(name(1), at, ready(Err(down()))).await.1);
}
