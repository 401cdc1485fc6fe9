//! The side that opens a connection: queue, waiting calls and reconnection for one other node.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use parking_lot::{Mutex, MutexGuard};
use tokio::io::BufReader;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

use super::TransportContext;
use super::frame::{
    BATCH_BYTES, BusFrame, ConnectionError, FrameCipher, FrameKind, FrameSource, write_and_read, write_frames,
};
use super::handshake::AuthenticatedPeer;
use super::inbound::decode_refusal;
use super::tls::{self, ByteStream};
use super::waiting::{CallAnswer, WaitingCalls};
use crate::NodeId;
use crate::cluster::bus::BusError;
use crate::cluster::membership::ClusterMember;
use crate::cluster::queue::BoundedQueue;

/// Another node, as this one calls it.
pub(super) struct Peer {
    node: NodeId,
    pub member: ClusterMember,
    context: Arc<TransportContext>,
    /// The peer has been removed, or the node shuts down.
    closing: CancellationToken,
    state: Mutex<PeerState>,
    /// Wakes the task of the peer: there is something to write.
    wake: Notify,
}

struct PeerState {
    queue: BoundedQueue<BusFrame>,
    waiting: WaitingCalls,
    /// A notification was discarded, and the receiver has not been informed.
    has_missed: bool,
    /// The last connection failed and the next attempt has not begun: nothing is queued.
    is_unreachable: bool,
    next_ping: Instant,
}

impl Peer {
    /// `has_missed` says that an earlier notification to this node was discarded.
    pub fn new(
        node: NodeId,
        member: ClusterMember,
        context: Arc<TransportContext>,
        has_missed: bool,
    ) -> Peer {
        let state = PeerState {
            queue: BoundedQueue::new(context.settings.queue),
            waiting: WaitingCalls::default(),
            has_missed,
            is_unreachable: false,
            next_ping: Instant::now(),
        };
        let closing = context.closing.child_token();
        Peer { node, member, context, closing, state: Mutex::new(state), wake: Notify::new() }
    }

    fn lock(&self) -> MutexGuard<'_, PeerState> {
        self.state.lock()
    }

    /// Ends the task after it has written what is queued.
    pub fn close(&self) {
        self.closing.cancel();
    }

    pub async fn call(&self, body: Bytes) -> Result<Bytes, BusError> {
        let (id, answer) = self.queue_call(body)?;
        let withdrawal = Withdrawal { peer: self, id };
        match timeout(self.context.settings.call_timeout, answer).await {
            Ok(answer) => answer.unwrap_or(Err(BusError::NoAnswer)),
            Err(_) => Err(withdrawal.withdraw().unwrap_or(BusError::NoAnswer)),
        }
    }

    fn queue_call(&self, body: Bytes) -> Result<(u64, CallAnswer), BusError> {
        if body.len() > self.context.settings.max_body_bytes {
            return Err(BusError::TooLarge);
        }
        let mut state = self.lock();
        if state.is_unreachable || self.closing.is_cancelled() || self.context.draining.is_cancelled() {
            return Err(BusError::NotSent);
        }
        if state.waiting.len() >= self.context.settings.max_waiting_calls {
            return Err(BusError::Overloaded);
        }
        let id = state.waiting.next_id();
        state.queue.push(BusFrame { kind: FrameKind::Call, id, body }).map_err(|_| BusError::Overloaded)?;
        let answer = state.waiting.add();
        self.wake.notify_one();
        Ok((id, answer))
    }

    pub fn notify(&self, body: Bytes) -> Result<(), BusError> {
        let mut state = self.lock();
        let queued = if body.len() > self.context.settings.max_body_bytes {
            Err(BusError::TooLarge)
        } else if state.is_unreachable || self.closing.is_cancelled() {
            Err(BusError::NotSent)
        } else {
            let frame = BusFrame { kind: FrameKind::Notify, id: 0, body };
            state.queue.push(frame).map_err(|_| BusError::Overloaded)
        };
        state.has_missed |= queued.is_err();
        self.wake.notify_one();
        queued
    }

    /// Connects when there is something to write, until the peer is removed.
    pub async fn run(self: Arc<Self>) {
        let mut failures = 0;
        loop {
            tokio::select! {
                () = self.closing.cancelled() => break,
                () = self.has_work() => {}
            }
            let connected = tokio::select! {
                () = self.closing.cancelled() => break,
                connected = self.connect() => connected,
            };
            let ended = match connected {
                Ok((io, peer)) => {
                    failures = 0;
                    tracing::debug!(node = %self.node, boot = %peer.identity.boot, "cluster connection opened");
                    self.exchange(io, peer).await
                }
                Err(error) => Err(error),
            };
            self.fail_all();
            if self.closing.is_cancelled() {
                break;
            }
            failures += 1;
            if let Err(error) = ended {
                if failures == 1 {
                    tracing::warn!(node = %self.node, %error, "cluster connection failed; will retry");
                } else {
                    tracing::debug!(node = %self.node, %error, failures, "cluster connection failed again");
                }
            }
            tokio::select! {
                () = self.closing.cancelled() => break,
                () = sleep(self.pause(failures)) => self.lock().is_unreachable = false,
            }
        }
        self.fail_all();
    }

    async fn has_work(&self) {
        loop {
            {
                let state = self.lock();
                if state.has_missed || !state.queue.is_empty() {
                    return;
                }
            }
            self.wake.notified().await;
        }
    }

    async fn connect(&self) -> Result<(Box<dyn ByteStream>, AuthenticatedPeer), ConnectionError> {
        let TransportContext { settings, credentials, tls, random, .. } = &*self.context;
        let connect = async {
            let mut io = tls::connect(tls.as_ref(), &self.member.address).await?;
            let peer = credentials.connect(&mut io, &self.node, &**random).await?;
            Ok((io, peer))
        };
        timeout(settings.connect_timeout, connect).await.unwrap_or(Err(ConnectionError::Silent))
    }

    async fn exchange(
        &self,
        io: Box<dyn ByteStream>,
        peer: AuthenticatedPeer,
    ) -> Result<(), ConnectionError> {
        let AuthenticatedPeer { mut sender, receiver, .. } = peer;
        let (reader, mut writer) = tokio::io::split(io);
        let reader = BufReader::with_capacity(BATCH_BYTES, reader);
        self.lock().next_ping = Instant::now() + self.context.settings.keepalive_interval;
        let idle_timeout = self.context.settings.idle_timeout;
        let exchange = write_and_read(
            write_frames(&mut writer, &mut sender, self, idle_timeout),
            self.read_answers(reader, receiver),
            self.context.settings.drain_timeout,
        );
        tokio::select! {
            ended = exchange => ended,
            () = self.context.aborted.cancelled() => Ok(()),
        }
    }

    async fn read_answers(
        &self,
        mut reader: BufReader<tokio::io::ReadHalf<Box<dyn ByteStream>>>,
        mut cipher: FrameCipher,
    ) -> Result<Infallible, ConnectionError> {
        let settings = &self.context.settings;
        loop {
            let read = cipher.read(&mut reader, settings.max_body_bytes);
            let frame = timeout(settings.idle_timeout, read).await.map_err(|_| ConnectionError::Silent)??;
            let answer = match frame.kind {
                FrameKind::Pong => continue,
                FrameKind::Answer => Ok(frame.body),
                FrameKind::Refused => Err(decode_refusal(&frame.body)),
                _ => return Err(ConnectionError::Frame("unexpected kind")),
            };
            self.lock().waiting.answer(frame.id, answer);
        }
    }

    /// Fails everything that waits or is queued, and refuses more until the next attempt.
    fn fail_all(&self) {
        let mut state = self.lock();
        state.is_unreachable = true;
        state.waiting.fail_all();
        let has_discarded = state.queue.drain().any(|frame| frame.kind == FrameKind::Notify);
        state.has_missed |= has_discarded;
    }

    /// Exponential backoff with jitter, so that nodes do not reconnect in step.
    fn pause(&self, failures: u32) -> Duration {
        let (first, longest) = self.context.settings.reconnect_backoff;
        let pause = first.saturating_mul(1 << (failures - 1).min(16)).min(longest);
        pause.mul_f64(0.5 + 0.5 * fastrand::f64())
    }
}

/// Removes a call from the waiting ones when its caller stops waiting.
struct Withdrawal<'a> {
    peer: &'a Peer,
    id: u64,
}

impl Withdrawal<'_> {
    fn withdraw(&self) -> Option<BusError> {
        self.peer.lock().waiting.withdraw(self.id)
    }
}

impl Drop for Withdrawal<'_> {
    fn drop(&mut self) {
        self.withdraw();
    }
}

impl FrameSource for Peer {
    async fn next_batch(&self) -> Vec<BusFrame> {
        loop {
            let (batch, next_ping) = self.take_batch();
            if !batch.is_empty() || self.closing.is_cancelled() {
                return batch;
            }
            tokio::select! {
                () = self.wake.notified() => {}
                () = self.closing.cancelled() => {}
                () = sleep_until(next_ping) => {}
            }
        }
    }
}

impl Peer {
    /// Takes what can be written now. Calls whose callers have gone are dropped unsent.
    fn take_batch(&self) -> (Vec<BusFrame>, Instant) {
        let mut state = self.lock();
        let (mut batch, mut bytes) = (Vec::new(), 0);
        if std::mem::take(&mut state.has_missed) {
            batch.push(BusFrame::empty(FrameKind::Missed));
        }
        let now = Instant::now();
        if state.next_ping <= now {
            state.next_ping = now + self.context.settings.keepalive_interval;
            batch.push(BusFrame::empty(FrameKind::Ping));
        }
        while bytes < BATCH_BYTES
            && let Some(frame) = state.queue.pop()
        {
            if frame.kind == FrameKind::Call && !state.waiting.mark_written(frame.id) {
                continue;
            }
            bytes += frame.body.len();
            batch.push(frame);
        }
        (batch, state.next_ping)
    }
}
