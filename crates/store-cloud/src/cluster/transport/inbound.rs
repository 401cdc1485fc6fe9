//! One accepted connection: it reads calls and notifications, and writes answers.

use std::convert::Infallible;
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::io::BufReader;
use tokio::sync::Notify;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::frame::{
    BATCH_BYTES, BusFrame, ConnectionError, FrameCipher, FrameKind, FrameSource, write_and_read, write_frames,
};
use super::handshake::AuthenticatedPeer;
use super::server::Server;
use super::tls::ByteStream;
use crate::NodeId;
use crate::cluster::bus::{BusError, CallRefusal};
use crate::cluster::queue::BoundedQueue;

/// What an executing call costs apart from its body. It bounds the number of calls.
const CALL_COST: usize = 1_024;

pub(super) struct Inbound {
    server: Arc<Server>,
    from: NodeId,
    answers: Mutex<BoundedQueue<BusFrame>>,
    /// Wakes the writer.
    wake: Notify,
    /// An answer found no room: the other node does not read. The connection ends.
    overflowed: CancellationToken,
}

impl Inbound {
    pub fn new(server: Arc<Server>, from: NodeId) -> Inbound {
        let answers = Mutex::new(BoundedQueue::new(server.context.settings.queue));
        Inbound { server, from, answers, wake: Notify::new(), overflowed: CancellationToken::new() }
    }

    pub async fn exchange(
        self: &Arc<Self>,
        io: Box<dyn ByteStream>,
        peer: AuthenticatedPeer,
    ) -> Result<(), ConnectionError> {
        let AuthenticatedPeer { mut sender, receiver, .. } = peer;
        let (reader, mut writer) = tokio::io::split(io);
        let reader = BufReader::with_capacity(BATCH_BYTES, reader);
        let settings = &self.server.context.settings;
        let exchange = write_and_read(
            write_frames(&mut writer, &mut sender, &**self, settings.idle_timeout),
            self.read_frames(reader, receiver),
            settings.drain_timeout,
        );
        tokio::select! {
            ended = exchange => ended,
            () = self.overflowed.cancelled() => Err(ConnectionError::NotReading),
        }
    }

    async fn read_frames(
        self: &Arc<Self>,
        mut reader: BufReader<tokio::io::ReadHalf<Box<dyn ByteStream>>>,
        mut cipher: FrameCipher,
    ) -> Result<Infallible, ConnectionError> {
        let settings = &self.server.context.settings;
        loop {
            let read = cipher.read(&mut reader, settings.max_body_bytes);
            let frame = timeout(settings.idle_timeout, read).await.map_err(|_| ConnectionError::Silent)??;
            match frame.kind {
                FrameKind::Call => self.execute(frame.id, frame.body),
                FrameKind::Notify => self.server.handler.notified(&self.from, frame.body),
                FrameKind::Missed => self.server.handler.connection_lost(&self.from),
                FrameKind::Ping => self.answer(BusFrame::empty(FrameKind::Pong)),
                _ => return Err(ConnectionError::Frame("unexpected kind")),
            }
        }
    }

    /// Starts a call, or refuses it. Never waits: two nodes that wait for each other would stop.
    fn execute(self: &Arc<Self>, id: u64, body: Bytes) {
        let server = &self.server;
        let cost = u32::try_from(body.len() + CALL_COST).unwrap_or(u32::MAX);
        let permit = Arc::clone(&server.executing).try_acquire_many_owned(cost);
        let refusal = match &permit {
            _ if server.context.draining.is_cancelled() => Some(CallRefusal::Draining),
            Ok(_) => None,
            Err(_) => Some(CallRefusal::Overloaded),
        };
        if let Some(refusal) = refusal {
            return self.refuse(id, refusal_code(refusal));
        }
        let inbound = Arc::clone(self);
        server.calls.spawn(async move {
            let server = &inbound.server;
            let answer = tokio::select! {
                () = server.context.aborted.cancelled() => return,
                answer = server.handler.call(&inbound.from, body) => answer,
            };
            match answer {
                Ok(body) if body.len() <= server.context.settings.max_body_bytes => {
                    inbound.answer(BusFrame { kind: FrameKind::Answer, id, body });
                }
                Ok(body) => {
                    tracing::error!(bytes = body.len(), "answer to a cluster call is too large");
                    inbound.refuse(id, ANSWER_TOO_LARGE);
                }
                Err(refusal) => inbound.refuse(id, refusal_code(refusal)),
            }
            drop(permit);
        });
    }

    fn refuse(&self, id: u64, code: &'static [u8; 1]) {
        self.answer(BusFrame { kind: FrameKind::Refused, id, body: Bytes::from_static(code) });
    }

    fn answer(&self, frame: BusFrame) {
        let mut answers = self.answers.lock();
        match answers.push(frame) {
            Ok(()) => self.wake.notify_one(),
            Err(_) => self.overflowed.cancel(),
        }
    }
}

impl FrameSource for Inbound {
    async fn next_batch(&self) -> Vec<BusFrame> {
        let closing = &self.server.context.closing;
        loop {
            let batch = self.take_batch();
            if !batch.is_empty() || closing.is_cancelled() {
                return batch;
            }
            tokio::select! {
                () = self.wake.notified() => {}
                () = closing.cancelled() => {}
            }
        }
    }
}

impl Inbound {
    fn take_batch(&self) -> Vec<BusFrame> {
        let mut answers = self.answers.lock();
        let (mut batch, mut bytes) = (Vec::new(), 0);
        while bytes < BATCH_BYTES
            && let Some(frame) = answers.pop()
        {
            bytes += frame.body.len();
            batch.push(frame);
        }
        batch
    }
}

const ANSWER_TOO_LARGE: &[u8; 1] = &[4];

/// The body of a refusal.
fn refusal_code(refusal: CallRefusal) -> &'static [u8; 1] {
    match refusal {
        CallRefusal::Overloaded => &[1],
        CallRefusal::Draining => &[2],
        CallRefusal::Unsupported => &[3],
    }
}

/// A code that this version does not know says nothing about the call.
pub(super) fn decode_refusal(code: &[u8]) -> BusError {
    let refusals = [CallRefusal::Overloaded, CallRefusal::Draining, CallRefusal::Unsupported];
    let refusal = refusals.into_iter().find(|refusal| refusal_code(*refusal) == code);
    refusal.map_or(BusError::NoAnswer, BusError::from)
}
