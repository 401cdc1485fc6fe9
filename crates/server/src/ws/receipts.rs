//! Handles `delivered` and `read` frames, the receipts of a device. A client may send one for every
//! message; those that arrive while the store is busy are merged into one write.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bluetick_core::chat::ChatError;
use bluetick_core::ports::{Origin, Receipt};
use bluetick_core::{Chat, ConversationId, ReadState, ReceiptKind, Seq, UserId};
use bluetick_wire::CloseCode;
use bluetick_wire::frame::ReceiptFrame;

use super::running_futures::RunningFutures;
use super::session_loop::SessionLoop;
use crate::app::App;
use crate::delivery::WebSocketSession;
use crate::drain::WorkGuard;
use crate::metrics::Metrics;
use crate::problem::Problem;

/// Maximum number of conversations of one connection with a receipt in flight. At the maximum, the
/// connection is not read from. It bounds the memory and store load of one client.
const MAX_CONVERSATIONS: usize = 1_024;

type InFlightReceipt = Pin<Box<dyn Future<Output = ReceiptDone> + Send>>;

pub(super) struct ReceiptDone {
    conversation: ConversationId,
    result: Result<ReadState, ChatError>,
}

/// The receipts of one connection. Each conversation has at most one in flight.
pub(super) struct PendingReceipts {
    chat: Chat,
    user: UserId,
    origin: Origin,
    metrics: Arc<Metrics>,
    in_flight: RunningFutures<InFlightReceipt>,
    /// For each conversation with a receipt in flight, the merged receipts to store next.
    next: HashMap<ConversationId, MergedReceipts>,
}

/// Receipts are cumulative, so the highest seq of each kind replaces the others.
#[derive(Default)]
struct MergedReceipts {
    delivered: Option<QueuedReceipt>,
    read: Option<QueuedReceipt>,
}

/// A receipt to store.
struct QueuedReceipt {
    seq: Seq,
    /// Held until the receipt is stored, so that a drain waits for it.
    work: WorkGuard,
}

impl PendingReceipts {
    pub fn new(app: &App, session: &WebSocketSession) -> PendingReceipts {
        PendingReceipts {
            chat: app.chat.clone(),
            user: session.user.clone(),
            origin: Origin::from(session.id),
            metrics: Arc::clone(&app.metrics),
            in_flight: RunningFutures::none(),
            next: HashMap::new(),
        }
    }

    pub fn are_too_many(&self) -> bool {
        self.next.len() >= MAX_CONVERSATIONS
    }

    /// Stores a receipt, or merges it with the next one if the conversation has one in flight.
    fn store_or_merge(&mut self, conversation: ConversationId, kind: ReceiptKind, seq: Seq, work: WorkGuard) {
        match self.next.get_mut(&conversation) {
            Some(next) => {
                if next.merge(kind, seq, work) {
                    self.metrics.marks_merged.inc();
                }
            }
            None => {
                self.next.insert(conversation, MergedReceipts::default());
                self.start(conversation, kind, QueuedReceipt { seq, work });
            }
        }
    }

    fn start(&mut self, conversation: ConversationId, kind: ReceiptKind, receipt: QueuedReceipt) {
        let QueuedReceipt { seq, work } = receipt;
        let receipt = Receipt { conversation, user: self.user.clone(), kind, seq, origin: Some(self.origin) };
        let chat = self.chat.clone();
        self.in_flight.push(Box::pin(async move {
            let result = chat.apply_receipt(receipt).await;
            drop(work);
            ReceiptDone { conversation, result }
        }));
    }

    /// Polls for the next finished receipt. Pending while there is none.
    pub fn poll(&mut self, cx: &mut Context<'_>) -> Poll<ReceiptDone> {
        self.in_flight.poll(cx)
    }

    /// Frees unused memory. Called on an idle connection.
    pub fn free_unused(&mut self) {
        self.in_flight.free_unused();
    }

    /// Counts the result, and starts the receipts that were merged meanwhile.
    fn complete(&mut self, done: &ReceiptDone) {
        let counter = if done.result.is_ok() { &self.metrics.marks } else { &self.metrics.marks_refused };
        counter.inc();
        let next = self.next.get_mut(&done.conversation).and_then(MergedReceipts::take);
        match next {
            Some((kind, receipt)) => self.start(done.conversation, kind, receipt),
            None => {
                self.next.remove(&done.conversation);
            }
        }
    }

    /// Stores the remaining receipts after the connection has ended.
    pub async fn finish(mut self) {
        while let Some(done) = self.in_flight.next().await {
            self.complete(&done);
        }
    }
}

impl MergedReceipts {
    /// Merges a receipt. Returns whether one of its kind was already waiting.
    fn merge(&mut self, kind: ReceiptKind, seq: Seq, work: WorkGuard) -> bool {
        let slot = match kind {
            ReceiptKind::Delivered => &mut self.delivered,
            ReceiptKind::Read => &mut self.read,
        };
        match slot {
            Some(receipt) => {
                receipt.seq = receipt.seq.max(seq);
                true
            }
            None => {
                *slot = Some(QueuedReceipt { seq, work });
                false
            }
        }
    }

    fn take(&mut self) -> Option<(ReceiptKind, QueuedReceipt)> {
        if let Some(read) = self.read.take() {
            // Read implies delivered.
            self.delivered.take_if(|delivered| delivered.seq <= read.seq);
            return Some((ReceiptKind::Read, read));
        }
        self.delivered.take().map(|delivered| (ReceiptKind::Delivered, delivered))
    }
}

impl SessionLoop {
    pub fn apply_receipt(&mut self, kind: ReceiptKind, frame: &ReceiptFrame<'_>) -> Result<(), CloseCode> {
        if let Err(problem) = self.budget.ack() {
            self.app.metrics.marks_refused.inc();
            self.answer_in(frame.conversation(), problem);
            return self.flood.refused();
        }
        let accepted = frame
            .conversation()
            .ok_or_else(Problem::no_such_conversation)
            .and_then(|conversation| Ok((conversation, self.app.lifecycle.begin_work()?)));
        match accepted {
            Ok((conversation, work)) => {
                self.pending_receipts.store_or_merge(conversation, kind, frame.seq(), work)
            }
            Err(problem) => {
                self.app.metrics.marks_refused.inc();
                self.answer_in(frame.conversation(), problem);
            }
        }
        Ok(())
    }

    pub fn receipt_done(&mut self, done: ReceiptDone) {
        self.pending_receipts.complete(&done);
        if let Err(error) = done.result {
            self.answer_in(Some(done.conversation), error.into());
        }
    }
}
