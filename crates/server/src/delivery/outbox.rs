//! The frames that wait to be written to one connection. The queue is bounded in bytes, and pushing
//! never blocks.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use futures_util::task::AtomicWaker;
use parking_lot::{Mutex, MutexGuard};
use prometheus_client::metrics::gauge::Gauge;
use tokio::sync::Notify;

use super::EncodedFrame;

/// Bytes that a frame costs besides its encoded bytes: its queue slot and bookkeeping. If this is
/// too low, many small frames use more memory than the limit allows.
const FRAME_OVERHEAD_BYTES: usize = 64;
/// Maximum number of queued bytes at which a backlog continues; a quarter of the outbox if that is
/// less. The rest is for live frames. A larger value lets many returning devices that do not read
/// hold more memory.
const BACKLOG_BYTES: usize = 128 * 1024;

/// The outgoing queue of one connection. Any thread may push; only the connection takes frames.
pub(crate) struct ConnectionOutbox {
    queue: Mutex<OutboxQueue>,
    /// Something happened since the connection last polled.
    has_event: AtomicBool,
    connection: AtomicWaker,
    /// Notified when a backlog may continue.
    backlog_room: Notify,
    limit_bytes: usize,
    waiting_bytes: Gauge,
}

#[derive(Default)]
struct OutboxQueue {
    frames: VecDeque<EncodedFrame>,
    /// Cost of the queued frames, and of those taken and not yet written.
    bytes: usize,
    /// The limit was exceeded: all frames were dropped, and later ones are ignored.
    overflowed: bool,
}

/// The outbox exceeded its limit. The connection cannot continue.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct OutboxOverflow;

/// Capacity in frames that an emptied queue keeps. Most connections are idle most of the time, so a
/// larger value wastes memory on each.
const KEPT_FRAME_SLOTS: usize = 64;

impl ConnectionOutbox {
    pub fn new(limit_bytes: usize, waiting_bytes: Gauge) -> ConnectionOutbox {
        let (has_event, connection) = (AtomicBool::new(false), AtomicWaker::new());
        ConnectionOutbox {
            queue: Mutex::default(),
            has_event,
            connection,
            backlog_room: Notify::new(),
            limit_bytes,
            waiting_bytes,
        }
    }

    fn queue(&self) -> MutexGuard<'_, OutboxQueue> {
        self.queue.lock()
    }

    /// Queues a frame and wakes the connection. Overflows the outbox if the frame exceeds the
    /// limit.
    pub fn push(&self, frame: EncodedFrame) {
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
        self.wake();
    }

    /// Wakes the connection so that it checks its state.
    pub fn wake(&self) {
        // If `has_event` was already set, another call has woken the connection or is about to.
        if !self.has_event.swap(true, Ordering::AcqRel) {
            self.connection.wake();
        }
    }

    /// Pushes a frame that may be lost, unless more than an eighth of the outbox is in use. Returns
    /// whether there was room.
    pub fn push_ephemeral(&self, frame: EncodedFrame) -> bool {
        let accepts = self.queue().bytes <= self.limit_bytes / 8;
        if accepts {
            self.push(frame);
        }
        accepts
    }

    /// Whether more of a backlog may be pushed.
    pub fn has_room_now(&self) -> bool {
        self.queue().bytes <= self.backlog_bytes()
    }

    /// Returns when [`ConnectionOutbox::has_room_now`]. Several tasks may wait.
    pub async fn has_room(&self) {
        loop {
            let backlog_room = self.backlog_room.notified();
            if self.has_room_now() {
                return;
            }
            backlog_room.await;
        }
    }

    fn backlog_bytes(&self) -> usize {
        (self.limit_bytes / 4).min(BACKLOG_BYTES)
    }

    /// Ready when a frame was pushed, or [`ConnectionOutbox::wake`] was called, since the last
    /// ready result. One task at a time may wait.
    pub fn poll_event(&self, cx: &mut Context<'_>) -> Poll<()> {
        // Register also when `has_event` is set, so that a later push wakes the task again.
        self.connection.register(cx.waker());
        if self.has_event.swap(false, Ordering::AcqRel) { Poll::Ready(()) } else { Poll::Pending }
    }

    /// Moves all queued frames to the end of `into`. They count towards the limit until
    /// [`ConnectionOutbox::written`].
    pub fn take(&self, into: &mut VecDeque<EncodedFrame>) -> Result<(), OutboxOverflow> {
        let mut queue = self.queue();
        if queue.overflowed {
            return Err(OutboxOverflow);
        }
        if into.is_empty() {
            // Swap the two buffers, so that neither has to grow again.
            into.shrink_to(KEPT_FRAME_SLOTS);
            std::mem::swap(&mut queue.frames, into);
        } else {
            into.append(&mut queue.frames);
        }
        Ok(())
    }

    pub fn overflowed(&self) -> bool {
        self.queue().overflowed
    }

    /// Releases this [`cost`] of frames that the socket has accepted.
    pub fn written(&self, cost: usize) {
        let mut queue = self.queue();
        let bytes = queue.bytes.saturating_sub(cost);
        let (before, backlog_bytes) = (queue.bytes, self.backlog_bytes());
        self.count(&mut queue, bytes);
        drop(queue);
        if before > backlog_bytes && bytes <= backlog_bytes {
            self.backlog_room.notify_waiters();
        }
    }

    fn count(&self, queue: &mut OutboxQueue, bytes: usize) {
        self.waiting_bytes.inc_by(signed(bytes) - signed(queue.bytes));
        queue.bytes = bytes;
    }
}

#[cfg(test)]
impl ConnectionOutbox {
    pub async fn pushed(&self) {
        std::future::poll_fn(|cx| self.poll_event(cx)).await;
    }

    pub fn taken(&self) -> Vec<EncodedFrame> {
        let mut frames = VecDeque::new();
        self.take(&mut frames).expect("the test does not overflow the outbox");
        frames.into()
    }
}

/// Returns the bytes of the limit that a frame takes.
pub(crate) fn cost(frame: &EncodedFrame) -> usize {
    frame.bytes().len() + FRAME_OVERHEAD_BYTES
}

fn signed(bytes: usize) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}

impl Drop for ConnectionOutbox {
    fn drop(&mut self) {
        let bytes = self.queue.get_mut().bytes;
        self.waiting_bytes.dec_by(signed(bytes));
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    fn frame(bytes: usize) -> EncodedFrame {
        EncodedFrame::from("x".repeat(bytes))
    }

    #[test]
    fn frames_are_taken_in_push_order() {
        let outbox = ConnectionOutbox::new(10_000, Gauge::default());
        for bytes in [1, 2, 3] {
            outbox.push(frame(bytes));
        }
        let lengths: Vec<usize> = outbox.taken().iter().map(|frame| frame.text().len()).collect();
        assert_eq!(lengths, [1, 2, 3]);
    }

    #[test]
    fn taken_but_unwritten_frames_count_toward_the_limit() {
        let waiting = Gauge::default();
        let outbox = ConnectionOutbox::new(1_000, waiting.clone());
        outbox.push(frame(600));
        let held = outbox.taken();
        outbox.push(frame(600));
        assert!(outbox.overflowed());
        assert_eq!(outbox.take(&mut VecDeque::new()), Err(OutboxOverflow));
        drop(held);
        drop(outbox);
        assert_eq!(waiting.get(), 0);
    }

    #[test]
    fn written_frames_free_outbox_space() {
        let waiting = Gauge::default();
        let outbox = ConnectionOutbox::new(1_000, waiting.clone());
        for _ in 0..10 {
            outbox.push(frame(600));
            for frame in outbox.taken() {
                outbox.written(cost(&frame));
            }
        }
        assert!(!outbox.overflowed());
        assert_eq!(waiting.get(), 0);
    }

    #[test]
    fn ephemeral_frame_is_refused_above_an_eighth_of_the_outbox() {
        let outbox = ConnectionOutbox::new(10_000, Gauge::default());
        assert!(outbox.push_ephemeral(frame(1_200)));
        assert!(!outbox.push_ephemeral(frame(1)));
        outbox.push(frame(1));
        assert_eq!(outbox.taken().len(), 2);
    }

    #[tokio::test]
    async fn backlog_waits_above_a_quarter_of_the_outbox_and_resumes_after_a_write() {
        let outbox = ConnectionOutbox::new(10_000, Gauge::default());
        for _ in 0..2 {
            outbox.push(frame(2_000));
        }
        let (backlog_room, again) = (outbox.has_room(), outbox.has_room());
        tokio::pin!(backlog_room, again);
        assert!(backlog_room.as_mut().now_or_never().is_none() && again.as_mut().now_or_never().is_none());
        let frames = outbox.taken();
        assert!(
            backlog_room.as_mut().now_or_never().is_none(),
            "a taken frame still counts until it is written"
        );
        outbox.written(cost(&frames[0]));
        assert!(backlog_room.now_or_never().is_some() && again.now_or_never().is_some());
    }

    #[test]
    fn wake_without_a_frame_is_reported_once() {
        let outbox = ConnectionOutbox::new(1_000, Gauge::default());
        outbox.wake();
        outbox.wake();
        assert!(outbox.pushed().now_or_never().is_some());
        assert!(outbox.pushed().now_or_never().is_none());
        assert_eq!(outbox.taken(), []);
    }

    #[tokio::test]
    async fn waiting_connection_resumes_at_the_first_push() {
        let outbox = std::sync::Arc::new(ConnectionOutbox::new(1_000, Gauge::default()));
        let pushing = std::sync::Arc::clone(&outbox);
        let (pushed, ()) = tokio::join!(
            async {
                outbox.pushed().await;
                outbox.taken().len()
            },
            async {
                tokio::task::yield_now().await;
                pushing.push(frame(1));
            }
        );
        assert_eq!(pushed, 1);
    }
}
