//! What the server is told of what is here and what was read.

use bluetick_core::{ConversationId, MarkKind, Seq};

use super::State;
use super::inbox::Enough;
use crate::wire::frames::ClientFrame;

impl State {
    pub(super) fn ack(&mut self, id: ConversationId, kind: MarkKind) {
        let noted = self.todo.acks.entry(id).or_insert(kind);
        if kind == MarkKind::Read {
            *noted = MarkKind::Read;
        }
    }

    /// The server has not taken a mark of this conversation. Which one it was does not matter, since they are cumulative.
    pub fn tell_again(&mut self, id: ConversationId) {
        self.ack(id, MarkKind::Read);
    }

    /// Takes what there is to tell, as frames. Marks are cumulative and cover only what is here without a gap.
    pub fn take_acks(&mut self) -> Vec<ClientFrame<'static>> {
        let mut frames = Vec::new();
        for (conversation_id, kind) in std::mem::take(&mut self.todo.acks) {
            let (have, read) = match self.inbox.get(conversation_id) {
                Some(row) => (row.have_seq, row.entry.my_status.last_read_seq),
                None => (self.strangers.get(&conversation_id).copied().unwrap_or_default(), Seq::ZERO),
            };
            let read = if kind == MarkKind::Read { read } else { Seq::ZERO };
            if read > Seq::ZERO {
                frames.push(ClientFrame::Read { conversation_id, seq: read });
            }
            if have > read {
                frames.push(ClientFrame::Delivered { conversation_id, seq: have });
            }
        }
        frames
    }

    /// The person has read everything up to `seq`, or all that is here.
    pub fn mark_read(&mut self, id: ConversationId, seq: Option<Seq>) {
        let Some(row) = self.inbox.get(id) else { return };
        let seq = seq.unwrap_or(row.have_seq);
        match self.inbox.read_here(id, seq, self.timelines.get(&id)) {
            Some(Enough::Yes) => {}
            Some(Enough::Ask) => {
                self.todo.refresh.insert(id);
            }
            None => return,
        }
        self.ack(id, MarkKind::Read);
        self.changed(id);
    }
}
