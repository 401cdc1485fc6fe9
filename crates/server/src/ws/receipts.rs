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

use super::flights::Flights;
use super::session::Connection;
use crate::app::App;
use crate::drain::Work;
use crate::hub::Session;
use crate::metrics::Metrics;
use crate::problem::Problem;

/// Maximum number of conversations of one connection with a receipt in flight. At the maximum, the
/// connection is not read from. It bounds the memory and store load of one client.
const MOST_CONVERSATIONS: usize = 1_024;

type InFlight = Pin<Box<dyn Future<Output = ReceiptDone> + Send>>;

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
    in_flight: Flights<InFlight>,
    /// For each conversation with a receipt in flight, the merged receipts to store next.
    next: HashMap<ConversationId, Next>,
}

/// Receipts are cumulative, so the highest seq of each kind replaces the others.
#[derive(Default)]
struct Next {
    delivered: Option<Said>,
    read: Option<Said>,
}

/// A receipt to store.
struct Said {
    seq: Seq,
    /// Held until the receipt is stored, so that a drain waits for it.
    work: Work,
}

impl PendingReceipts {
    pub fn new(app: &App, session: &Session) -> PendingReceipts {
        PendingReceipts {
            chat: app.chat.clone(),
            user: session.user.clone(),
            origin: Origin::from(session.id),
            metrics: Arc::clone(&app.metrics),
            in_flight: Flights::none(),
            next: HashMap::new(),
        }
    }

    pub fn are_too_many(&self) -> bool {
        self.next.len() >= MOST_CONVERSATIONS
    }

    /// Stores a receipt, or merges it with the next one if the conversation has one in flight.
    fn say(&mut self, conversation: ConversationId, kind: ReceiptKind, seq: Seq, work: Work) {
        match self.next.get_mut(&conversation) {
            Some(next) => {
                if next.merge(kind, seq, work) {
                    self.metrics.marks_merged.inc();
                }
            }
            None => {
                self.next.insert(conversation, Next::default());
                self.start(conversation, kind, Said { seq, work });
            }
        }
    }

    fn start(&mut self, conversation: ConversationId, kind: ReceiptKind, said: Said) {
        let Said { seq, work } = said;
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
    pub fn rest(&mut self) {
        self.in_flight.rest();
    }

    /// Counts the result, and starts the receipts that were merged meanwhile.
    fn settle(&mut self, done: &ReceiptDone) {
        let counter = if done.result.is_ok() { &self.metrics.marks } else { &self.metrics.marks_refused };
        counter.inc();
        let next = self.next.get_mut(&done.conversation).and_then(Next::take);
        match next {
            Some((kind, said)) => self.start(done.conversation, kind, said),
            None => {
                self.next.remove(&done.conversation);
            }
        }
    }

    /// Stores the remaining receipts after the connection has ended.
    pub async fn finish(mut self) {
        while let Some(done) = self.in_flight.next().await {
            self.settle(&done);
        }
    }
}

impl Next {
    /// Merges a receipt. Returns whether one of its kind was already waiting.
    fn merge(&mut self, kind: ReceiptKind, seq: Seq, work: Work) -> bool {
        let slot = match kind {
            ReceiptKind::Delivered => &mut self.delivered,
            ReceiptKind::Read => &mut self.read,
        };
        match slot {
            Some(said) => {
                said.seq = said.seq.max(seq);
                true
            }
            None => {
                *slot = Some(Said { seq, work });
                false
            }
        }
    }

    fn take(&mut self) -> Option<(ReceiptKind, Said)> {
        if let Some(read) = self.read.take() {
            // Read implies delivered.
            self.delivered.take_if(|delivered| delivered.seq <= read.seq);
            return Some((ReceiptKind::Read, read));
        }
        self.delivered.take().map(|delivered| (ReceiptKind::Delivered, delivered))
    }
}

impl Connection {
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
            Ok((conversation, work)) => self.pending_receipts.say(conversation, kind, frame.seq(), work),
            Err(problem) => {
                self.app.metrics.marks_refused.inc();
                self.answer_in(frame.conversation(), problem);
            }
        }
        Ok(())
    }

    pub fn mark_done(&mut self, done: ReceiptDone) {
        self.pending_receipts.settle(&done);
        if let Err(error) = done.result {
            self.answer_in(Some(done.conversation), error.into());
        }
    }
}
