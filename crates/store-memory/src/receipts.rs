//! Ticks, computed by scanning all members and messages.

use std::sync::Arc;

use bluetick_core::ports::{CommittedChange, MemberStatus, Origin, ReadStateMoved, Receipt, Statuses};
use bluetick_core::{Member, MemberState, ReadState, ReceiptCounts, Refusal, Seq, UserId};

use crate::MemoryConversation;

impl MemoryConversation {
    pub fn member_state(&self, user: &UserId) -> MemberState {
        self.member_states.get(user).copied().unwrap_or_default()
    }

    pub fn apply_receipt(&mut self, mark: &Receipt) -> (ReadState, Option<CommittedChange>) {
        let (before, head) = (self.member_state(&mark.user), self.head());
        let mut after = before;
        after.apply_receipt(mark.kind, mark.seq, head);
        if after == before {
            return (before.own(), None);
        }
        self.member_states.insert(mark.user.clone(), after);
        // A member's first ack of its own messages changes what is pending, but publishes nothing.
        // If a member stops hiding its reads, others may see earlier reads, so compare `shown` too.
        let changed = after.own() != before.own() || after.shown() != before.shown();
        (after.own(), changed.then(|| self.moved(&mark.user, before, mark.origin)))
    }

    pub fn reply(&mut self, sender: &UserId, seq: Seq) -> Option<CommittedChange> {
        let before = self.member_state(sender);
        let mut after = before;
        let news = after.reply(seq);
        self.member_states.insert(sender.clone(), after);
        news.then(|| self.moved(sender, before, None))
    }

    fn moved(&self, user: &UserId, before: MemberState, origin: Option<Origin>) -> CommittedChange {
        let now = self.member_state(user);
        CommittedChange::ReadState(ReadStateMoved {
            conversation: self.conversation.id,
            user: user.clone(),
            members: Arc::clone(&self.members),
            own: now.own(),
            shown: (now.shown() != before.shown()).then(|| now.shown()),
            unread: self.members.get(user).map(|member| self.unread(member)),
            origin,
        })
    }

    /// Counts the unread messages by scanning all messages.
    pub fn unread(&self, member: &Member) -> u64 {
        let from = self.member_state(&member.user).read_since(member.joined_seq);
        let by_others = self.messages.iter().filter(|message| {
            message.seq > from && message.sender != member.user && message.content_type.counts_as_unread()
        });
        by_others.count() as u64
    }

    pub fn statuses(&self, reader: &UserId) -> Statuses {
        let status = |member: &Member| {
            let member_state = self.member_state(&member.user);
            let read_state = if member.user == *reader { member_state.own() } else { member_state.shown() };
            MemberStatus { user: member.user.clone(), read_state, joined: member.joined_seq }
        };
        Statuses { head: self.head(), members: self.members.iter().map(status).collect() }
    }

    pub fn receipt_counts(&self, reader: &UserId, seq: Seq) -> Result<ReceiptCounts, Refusal> {
        let reader = self.members.get(reader).ok_or(Refusal::NotAMember)?;
        let index = usize::try_from(seq.get()).ok().and_then(|seq| seq.checked_sub(1));
        let message = index.and_then(|index| self.messages.get(index)).ok_or(Refusal::NoSuchMessage)?;
        if seq < reader.joined_seq {
            return Err(Refusal::NoSuchMessage);
        }
        let mut receipts = ReceiptCounts::default();
        for member in
            self.members.iter().filter(|member| member.joined_seq <= seq && member.user != message.sender)
        {
            let shown = self.member_state(&member.user).shown();
            receipts.recipients += 1;
            receipts.delivered += usize::from(shown.delivered >= seq);
            receipts.read += usize::from(shown.read >= seq);
        }
        Ok(receipts)
    }
}
