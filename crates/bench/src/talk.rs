//! One connection that sends and one that receives, and what they count: the parts of every conversation that is
//! measured over WebSockets.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bluetick_client::link::{ClientFrame, FrameKind, Link, SendFrame};
use bluetick_core::{ConversationId, MessageId, Seq};

use crate::BenchError;
use crate::measure::Latencies;
use crate::under_test::client_failed;

/// A receiver says `delivered` after so many messages, and when nothing more is waiting.
const ACK_EVERY: u64 = 16;
/// A UUIDv7 but for its last digits, which count.
const MESSAGE_IDS: u128 = 0x0199_c0de_0000_7000_8000_0000_0000_0000;

/// What all of them count together.
#[derive(Default)]
pub struct Tally {
    pub acknowledged: AtomicU64,
    pub delivered: AtomicU64,
    pub stop: AtomicBool,
    pub acks: Latencies,
}

impl Tally {
    /// Shows what is counted, once a second, until the time is over.
    pub async fn watch(&self, seconds: u64) {
        for second in 1..=seconds {
            tokio::time::sleep(Duration::from_secs(1)).await;
            let (acknowledged, delivered) = (&self.acknowledged, &self.delivered);
            eprint!(
                "{second:>3} s  {} acknowledged, {} delivered   \r",
                acknowledged.load(Ordering::Relaxed),
                delivered.load(Ordering::Relaxed)
            );
        }
        eprintln!();
    }
}

/// Keeps `window` sends on their way.
pub async fn send(
    link: Link,
    conversation_id: ConversationId,
    body: Arc<str>,
    window: usize,
    tally: Arc<Tally>,
) -> Result<(), BenchError> {
    let (mut sender, mut receiver) = link.split();
    let mut waiting = VecDeque::with_capacity(window);
    let mut number = 0u128;
    loop {
        while waiting.len() < window && !tally.stop.load(Ordering::Relaxed) {
            number += 1;
            let message_id = MessageId::Uuid((MESSAGE_IDS | number).to_be_bytes());
            let frame = ClientFrame::Send(SendFrame::text(conversation_id, message_id, &body));
            sender.feed(&frame).await.map_err(client_failed)?;
            waiting.push_back(Instant::now());
        }
        sender.flush().await.map_err(client_failed)?;
        let frame = receiver.next().await.map_err(client_failed)?;
        match frame.kind() {
            FrameKind::Ack => {
                // Acks come in the order of the sends.
                if let Some(sent) = waiting.pop_front() {
                    tally.acks.record(sent.elapsed());
                }
                tally.acknowledged.fetch_add(1, Ordering::Relaxed);
            }
            // In a group, others write too.
            FrameKind::Message => {
                tally.delivered.fetch_add(1, Ordering::Relaxed);
            }
            FrameKind::Error => return Err(client_failed(frame.text())),
            _ => {}
        }
    }
}

pub async fn receive(
    mut link: Link,
    conversation_id: ConversationId,
    tally: Arc<Tally>,
) -> Result<(), BenchError> {
    let mut count = 0;
    loop {
        let frame = link.next().await.map_err(client_failed)?;
        if frame.kind() != FrameKind::Message {
            continue;
        }
        count += 1;
        tally.delivered.fetch_add(1, Ordering::Relaxed);
        if count % ACK_EVERY == 0 {
            let ack = ClientFrame::Delivered { conversation_id, seq: Seq::new(count) };
            link.send(&ack).await.map_err(client_failed)?;
        }
    }
}
