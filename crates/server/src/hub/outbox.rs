//! What waits to be written to one connection: bounded by bytes, and never waited for by whoever puts things in.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard};

use axum::extract::ws::Utf8Bytes;
use prometheus_client::metrics::gauge::Gauge;
use tokio::sync::Notify;

/// An encoded frame; clones share the bytes.
pub(crate) type Frame = Utf8Bytes;

/// What a frame costs besides its text: its place in the queue and its share of bookkeeping.
const FRAME_OVERHEAD_BYTES: usize = 64;
/// An empty queue keeps no more places than this, since most connections are quiet most of the time.
const KEPT_PLACES: usize = 32;
/// A backlog fills a quarter of the outbox, and no more than this: the rest is for what is live, and a crowd of devices
/// that come back and do not read should not take much.
const BACKLOG_BYTES: usize = 128 * 1024;

pub(crate) struct Outbox {
    queue: Mutex<Queue>,
    wake: Notify,
    /// Told when there is room for more of a backlog.
    room: Notify,
    limit_bytes: usize,
    waiting_bytes: Gauge,
}

#[derive(Default)]
struct Queue {
    frames: VecDeque<Frame>,
    /// Of the frames here and of those taken and not yet written.
    bytes: usize,
    /// Too much was waiting: all of it was dropped and nothing more is taken in.
    overflowed: bool,
}

pub(crate) enum Batch {
    Frames(Vec<Frame>),
    Empty,
    Overflowed,
}

impl Outbox {
    pub fn new(limit_bytes: usize, waiting_bytes: Gauge) -> Outbox {
        let (wake, room) = (Notify::new(), Notify::new());
        Outbox { queue: Mutex::default(), wake, room, limit_bytes, waiting_bytes }
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().expect("nothing panics while it holds the lock")
    }

    pub fn push(&self, frame: Frame) {
        let cost = cost(&frame);
        {
            let mut queue = self.queue();
            if queue.overflowed {
                return;
            }
            if queue.bytes + cost > self.limit_bytes {
                queue.overflowed = true;
                queue.frames = VecDeque::new();
                self.count(&mut queue, 0);
            } else {
                queue.frames.push_back(frame);
                let bytes = queue.bytes + cost;
                self.count(&mut queue, bytes);
            }
        }
        self.wake.notify_one();
    }

    /// Pushes what can be done without, unless an eighth of the outbox is taken. Returns whether it was pushed.
    pub fn push_ephemeral(&self, frame: Frame) -> bool {
        let takes_it = self.queue().bytes <= self.limit_bytes / 8;
        if takes_it {
            self.push(frame);
        }
        takes_it
    }

    /// Whether more of a backlog may be pushed.
    pub fn has_room_now(&self) -> bool {
        self.queue().bytes <= self.backlog_bytes()
    }

    /// Returns when [`Outbox::has_room_now`]; several may wait.
    pub async fn has_room(&self) {
        loop {
            let room = self.room.notified();
            if self.has_room_now() {
                return;
            }
            room.await;
        }
    }

    fn backlog_bytes(&self) -> usize {
        (self.limit_bytes / 4).min(BACKLOG_BYTES)
    }

    /// Returns when something was pushed since the last call; one at a time may wait.
    pub async fn pushed(&self) {
        self.wake.notified().await;
    }

    /// Whole frames, about `max_bytes` of them and at least one. They go on counting until [`Outbox::written`].
    pub fn take(&self, max_bytes: usize) -> Batch {
        let mut queue = self.queue();
        if queue.overflowed {
            return Batch::Overflowed;
        }
        let mut frames = Vec::new();
        let mut bytes = 0usize;
        while bytes < max_bytes {
            let Some(frame) = queue.frames.pop_front() else { break };
            bytes += cost(&frame);
            frames.push(frame);
        }
        if queue.frames.is_empty() && queue.frames.capacity() > KEPT_PLACES {
            queue.frames.shrink_to(KEPT_PLACES);
        }
        if frames.is_empty() { Batch::Empty } else { Batch::Frames(frames) }
    }

    pub fn overflowed(&self) -> bool {
        self.queue().overflowed
    }

    pub fn written(&self, frame: &Frame) {
        let mut queue = self.queue();
        let bytes = queue.bytes.saturating_sub(cost(frame));
        let (before, enough) = (queue.bytes, self.backlog_bytes());
        self.count(&mut queue, bytes);
        drop(queue);
        if before > enough && bytes <= enough {
            self.room.notify_waiters();
        }
    }

    fn count(&self, queue: &mut Queue, bytes: usize) {
        self.waiting_bytes.inc_by(signed(bytes) - signed(queue.bytes));
        queue.bytes = bytes;
    }
}

fn cost(frame: &Frame) -> usize {
    frame.as_str().len() + FRAME_OVERHEAD_BYTES
}

fn signed(bytes: usize) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}

impl Drop for Outbox {
    fn drop(&mut self) {
        let bytes = self.queue.get_mut().map_or(0, |queue| queue.bytes);
        self.waiting_bytes.dec_by(signed(bytes));
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    fn frame(bytes: usize) -> Frame {
        Frame::from("x".repeat(bytes))
    }

    fn taken(outbox: &Outbox, max_bytes: usize) -> Vec<Frame> {
        match outbox.take(max_bytes) {
            Batch::Frames(frames) => frames,
            Batch::Empty => Vec::new(),
            Batch::Overflowed => panic!("it overflowed"),
        }
    }

    #[test]
    fn frames_come_out_in_the_order_they_went_in() {
        let outbox = Outbox::new(10_000, Gauge::default());
        for bytes in [1, 2, 3] {
            outbox.push(frame(bytes));
        }
        let lengths: Vec<usize> = taken(&outbox, 10_000).iter().map(|frame| frame.len()).collect();
        assert_eq!(lengths, [1, 2, 3]);
    }

    #[test]
    fn what_was_taken_and_not_written_still_counts_so_a_stuck_socket_overflows() {
        let waiting = Gauge::default();
        let outbox = Outbox::new(1_000, waiting.clone());
        outbox.push(frame(600));
        let held = taken(&outbox, 10_000);
        outbox.push(frame(600));
        assert!(outbox.overflowed());
        assert!(matches!(outbox.take(10_000), Batch::Overflowed));
        drop(held);
        drop(outbox);
        assert_eq!(waiting.get(), 0);
    }

    #[test]
    fn written_frames_make_room() {
        let waiting = Gauge::default();
        let outbox = Outbox::new(1_000, waiting.clone());
        for _ in 0..10 {
            outbox.push(frame(600));
            for frame in taken(&outbox, 10_000) {
                outbox.written(&frame);
            }
        }
        assert!(!outbox.overflowed());
        assert_eq!(waiting.get(), 0);
    }

    #[test]
    fn what_can_be_done_without_is_dropped_when_an_eighth_is_taken() {
        let outbox = Outbox::new(10_000, Gauge::default());
        assert!(outbox.push_ephemeral(frame(1_200)));
        assert!(!outbox.push_ephemeral(frame(1)));
        outbox.push(frame(1));
        assert_eq!(taken(&outbox, 10_000).len(), 2);
    }

    #[tokio::test]
    async fn a_backlog_waits_while_a_quarter_is_taken_and_goes_on_when_it_was_written() {
        let outbox = Outbox::new(10_000, Gauge::default());
        for _ in 0..2 {
            outbox.push(frame(2_000));
        }
        let (room, again) = (outbox.has_room(), outbox.has_room());
        tokio::pin!(room, again);
        assert!(room.as_mut().now_or_never().is_none() && again.as_mut().now_or_never().is_none());
        let frames = taken(&outbox, 10_000);
        assert!(room.as_mut().now_or_never().is_none(), "taken is not written");
        outbox.written(&frames[0]);
        assert!(room.now_or_never().is_some() && again.now_or_never().is_some());
    }

    #[test]
    fn a_batch_is_cut_by_bytes_and_never_empty_while_something_waits() {
        let outbox = Outbox::new(100_000, Gauge::default());
        for _ in 0..3 {
            outbox.push(frame(5_000));
        }
        assert_eq!(taken(&outbox, 1).len(), 1);
        assert_eq!(taken(&outbox, 6_000).len(), 2);
    }
}
