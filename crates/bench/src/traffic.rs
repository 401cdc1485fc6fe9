//! A sending and a receiving connection with their counters. All WebSocket workloads use them.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bluetick_client::link::{ClientFrame, SendFrame};
use bluetick_core::{ConversationId, MessageId, Seq};
use tokio::task::JoinSet;

use crate::BenchError;
use crate::latencies::Latencies;
use crate::progress::ProgressLine;
use crate::schedule::Pacer;
use crate::under_test::client_failed;
use crate::websocket::{LoadConnection, ServerFrameKind};

/// A receiver sends `delivered` after this many messages. A smaller number adds receipts to the
/// load.
const ACK_EVERY: u64 = 16;
/// A UUIDv7 whose last digits are replaced by a counter.
const FIRST_MESSAGE_ID: u128 = 0x0199_c0de_0000_7000_8000_0000_0000_0000;
/// Number of hexadecimal digits of the counter in a message id.
const COUNTING_DIGITS: usize = 12;

/// Counters that all connections of a run share.
#[derive(Default)]
pub struct LoadTally {
    pub acknowledged: AtomicU64,
    pub delivered: AtomicU64,
    /// Time until the ack, measured from the write (closed loop) or from the due time (open loop).
    pub acks: Latencies,
    /// In an open loop: time from a message's due time to its write.
    pub lateness: Latencies,
    stop: AtomicBool,
}

impl LoadTally {
    /// Shows the counters of senders and receivers once per second until the time is over. Returns
    /// early if a sender fails.
    pub async fn watch<T: 'static>(
        &self,
        seconds: u64,
        received: &LoadTally,
        talking: &mut JoinSet<Result<T, BenchError>>,
    ) -> Result<(), BenchError> {
        let mut progress = ProgressLine::new();
        let started = Instant::now();
        for second in 1..=seconds {
            let until = tokio::time::Instant::from_std(started + Duration::from_secs(second));
            tokio::select! {
                () = tokio::time::sleep_until(until) => {}
                Some(ended) = talking.join_next() => {
                    ended.map_err(client_failed)??;
                    return Err(client_failed("a sender ended before the end of the run"));
                }
            }
            let (acknowledged, delivered) = (self.counts().0, self.counts().1 + received.counts().1);
            progress.show(&format!("{second:>3} s  {acknowledged} acknowledged, {delivered} delivered"));
        }
        Ok(())
    }

    /// Returns the number of acknowledged and of delivered messages so far.
    pub fn counts(&self) -> (u64, u64) {
        (self.acknowledged.load(Ordering::Relaxed), self.delivered.load(Ordering::Relaxed))
    }

    /// Stops the senders of a closed loop. They wait for their outstanding acks.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    fn acknowledge(&self, count: u64) {
        self.acknowledged.fetch_add(count, Ordering::Relaxed);
    }
}

/// An encoded send frame in which only the message id changes.
struct Template {
    json: Vec<u8>,
    digits_at: usize,
}

impl Template {
    fn new(conversation_id: ConversationId, body: &str) -> Template {
        let message_id = MessageId::Uuid(FIRST_MESSAGE_ID.to_be_bytes());
        let spelled = message_id.to_string();
        let json = ClientFrame::Send(SendFrame::text(conversation_id, message_id, body)).encode();
        let id_at = json.find(&spelled).expect("a send frame holds its message_id");
        Template { digits_at: id_at + spelled.len() - COUNTING_DIGITS, json: json.into_bytes() }
    }

    fn numbered(&mut self, number: u64) -> &[u8] {
        let digits = &mut self.json[self.digits_at..self.digits_at + COUNTING_DIGITS];
        for (place, digit) in digits.iter_mut().rev().enumerate() {
            *digit = b"0123456789abcdef"[(number >> (4 * place)) as usize & 15];
        }
        &self.json
    }
}

pub struct LoadSender {
    line: LoadConnection,
    template: Template,
    number: u64,
}

/// The frames that one read returned.
#[derive(Default)]
struct ReceivedFrames {
    messages: u64,
    acks: u64,
    error: Option<String>,
}

impl ReceivedFrames {
    fn see(&mut self, kind: ServerFrameKind, json: &[u8]) {
        match kind {
            ServerFrameKind::Message => self.messages += 1,
            ServerFrameKind::Ack => self.acks += 1,
            ServerFrameKind::Error => self.error = Some(String::from_utf8_lossy(json).into_owned()),
            ServerFrameKind::CaughtUp | ServerFrameKind::Other => {}
        }
    }

    /// Records the frames in the tally. Acks arrive in the order of the sends.
    fn count(self, waiting: &mut VecDeque<Instant>, tally: &LoadTally) -> Result<(), BenchError> {
        if let Some(error) = self.error {
            return Err(client_failed(error));
        }
        if self.acks > 0 {
            let now = Instant::now();
            for since in waiting.drain(..waiting.len().min(self.acks as usize)) {
                tally.acks.record(now.saturating_duration_since(since));
            }
            tally.acknowledge(self.acks);
        }
        // Senders in a group also receive the messages of other senders.
        if self.messages > 0 {
            tally.delivered.fetch_add(self.messages, Ordering::Relaxed);
        }
        Ok(())
    }
}

impl LoadSender {
    pub fn new(line: LoadConnection, conversation_id: ConversationId, body: &str) -> LoadSender {
        LoadSender { line, template: Template::new(conversation_id, body), number: 0 }
    }

    fn put_next(&mut self) {
        self.number += 1;
        self.line.put_text(self.template.numbered(self.number));
    }

    /// A closed loop: keeps `window` messages unacknowledged until it is stopped, then waits for
    /// the last acks.
    pub async fn keep_window(
        mut self,
        window: usize,
        tally: Arc<LoadTally>,
    ) -> Result<LoadSender, BenchError> {
        let mut waiting = VecDeque::with_capacity(window);
        loop {
            if !tally.stop.load(Ordering::Relaxed) {
                let now = Instant::now();
                while waiting.len() < window {
                    self.put_next();
                    waiting.push_back(now);
                }
                self.line.flush().await?;
            } else if waiting.is_empty() {
                return Ok(self);
            }
            let mut came = ReceivedFrames::default();
            self.line.frames(|kind, json| came.see(kind, json)).await?;
            came.count(&mut waiting, &tally)?;
        }
    }

    /// An open loop: sends due messages until it is stopped, with at most `bound` unacknowledged.
    pub async fn keep_pace(
        mut self,
        place: usize,
        bound: usize,
        pacer: Arc<Pacer>,
        tally: Arc<LoadTally>,
    ) -> Result<LoadSender, BenchError> {
        let mut waiting = VecDeque::with_capacity(bound);
        let mut sent = 0;
        loop {
            if pacer.is_stopped() {
                if waiting.is_empty() {
                    return Ok(self);
                }
            } else if sent < pacer.due_count(place) && waiting.len() < bound {
                let now = Instant::now();
                while sent < pacer.due_count(place) && waiting.len() < bound {
                    let due = pacer.due(place, sent);
                    tally.lateness.record(now.saturating_duration_since(due));
                    self.put_next();
                    waiting.push_back(due);
                    sent += 1;
                }
                self.line.flush().await?;
            }
            let mut came = ReceivedFrames::default();
            tokio::select! {
                biased;
                read = self.line.frames(|kind, json| came.see(kind, json)) => read?,
                () = pacer.more(place) => {}
            }
            came.count(&mut waiting, &tally)?;
        }
    }
}

/// Receives and acknowledges messages until the future is dropped.
pub async fn receive(
    mut line: LoadConnection,
    conversation_id: ConversationId,
    tally: Arc<LoadTally>,
) -> Result<(), BenchError> {
    let (mut count, mut acknowledged) = (0, 0);
    loop {
        let mut came = ReceivedFrames::default();
        line.frames(|kind, json| came.see(kind, json)).await?;
        count += came.messages;
        came.count(&mut VecDeque::new(), &tally)?;
        if count >= acknowledged + ACK_EVERY {
            while count >= acknowledged + ACK_EVERY {
                acknowledged += ACK_EVERY;
                line.put(&ClientFrame::Delivered { conversation_id, seq: Seq::new(acknowledged) });
            }
            line.flush().await?;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbered_template_equals_the_clients_frame() {
        let conversation_id = ConversationId::group([7; 15]);
        let mut template = Template::new(conversation_id, "see you");
        for number in [1, 0xabc, 0xffff_ffff_ffff] {
            let message_id = MessageId::Uuid((FIRST_MESSAGE_ID | u128::from(number)).to_be_bytes());
            let frame = ClientFrame::Send(SendFrame::text(conversation_id, message_id, "see you"));
            assert_eq!(String::from_utf8_lossy(template.numbered(number)), frame.encode());
        }
    }
}
