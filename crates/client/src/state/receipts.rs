//! Receipts: the seqs that the client reports as delivered and read.

use bluetick_types::{ConversationId, ReceiptKind, Seq};

use super::State;
use super::inbox::RowUpdate;
use crate::wire::frames::ClientFrame;

impl State {
    /// Queues a receipt. `Read` replaces `Delivered`.
    pub(super) fn ack(&mut self, id: ConversationId, kind: ReceiptKind) {
        let noted = self.todo.acks.entry(id).or_insert(kind);
        if kind == ReceiptKind::Read {
            *noted = ReceiptKind::Read;
        }
    }

    /// Queues the receipts of a conversation again after the server refused one. It does not matter
    /// which one, because receipts are cumulative.
    pub fn tell_again(&mut self, id: ConversationId) {
        self.ack(id, ReceiptKind::Read);
    }

    /// Takes the queued receipts as frames. Receipts are cumulative and cover only contiguous
    /// messages.
    pub fn take_acks(&mut self) -> Vec<ClientFrame<'static>> {
        let mut frames = Vec::new();
        for (conversation_id, kind) in std::mem::take(&mut self.todo.acks) {
            let (have, read) = match self.inbox.get(conversation_id) {
                Some(row) => (row.have_seq, row.entry.my_status.last_read_seq),
                None => (self.strangers.get(&conversation_id).copied().unwrap_or_default(), Seq::ZERO),
            };
            let read = if kind == ReceiptKind::Read { read } else { Seq::ZERO };
            if read > Seq::ZERO {
                frames.push(ClientFrame::Read { conversation_id, seq: read });
            }
            if have > read {
                frames.push(ClientFrame::Delivered { conversation_id, seq: have });
            }
        }
        frames
    }

    /// Marks everything up to `seq` as read, or everything on this device if `seq` is `None`.
    pub fn mark_read(&mut self, id: ConversationId, seq: Option<Seq>) {
        let Some(row) = self.inbox.get(id) else { return };
        let seq = seq.unwrap_or(row.have_seq);
        match self.inbox.read_here(id, seq, self.timelines.get(&id)) {
            Some(RowUpdate::Yes) => {}
            Some(RowUpdate::Ask) => {
                self.todo.refresh.insert(id);
            }
            None => return,
        }
        self.ack(id, ReceiptKind::Read);
        self.changed(id);
    }
}
