//! Ticks, computed by scanning all members and messages.

use std::sync::Arc;

use bluetick_core::ports::{Change, Mark, MemberStatus, Moved, Origin, Statuses};
use bluetick_core::{Boundaries, Member, Receipts, Refusal, Seq, Standing, UserId};

use crate::Thread;

impl Thread {
    pub fn standing(&self, user: &UserId) -> Standing {
        self.standings.get(user).copied().unwrap_or_default()
    }

    pub fn mark(&mut self, mark: &Mark) -> (Boundaries, Option<Change>) {
        let (before, head) = (self.standing(&mark.user), self.head());
        let mut after = before;
        after.mark(mark.kind, mark.seq, head);
        if after == before {
            return (before.own(), None);
        }
        self.standings.insert(mark.user.clone(), after);
        // A member's first ack of its own messages changes what is pending, but publishes nothing.
        // If a member stops hiding its reads, others may see earlier reads, so compare `shown` too.
        let told = after.own() != before.own() || after.shown() != before.shown();
        (after.own(), told.then(|| self.moved(&mark.user, before, mark.origin)))
    }

    pub fn reply(&mut self, sender: &UserId, seq: Seq) -> Option<Change> {
        let before = self.standing(sender);
        let mut after = before;
        let news = after.reply(seq);
        self.standings.insert(sender.clone(), after);
        news.then(|| self.moved(sender, before, None))
    }

    fn moved(&self, user: &UserId, before: Standing, origin: Option<Origin>) -> Change {
        let now = self.standing(user);
        Change::Moved(Moved {
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
        let from = self.standing(&member.user).read_since(member.joined_seq);
        let by_others = self.messages.iter().filter(|message| {
            message.seq > from && message.sender != member.user && message.content_type.counts_as_unread()
        });
        by_others.count() as u64
    }

    pub fn statuses(&self, reader: &UserId) -> Statuses {
        let status = |member: &Member| {
            let standing = self.standing(&member.user);
            let boundaries = if member.user == *reader { standing.own() } else { standing.shown() };
            MemberStatus { user: member.user.clone(), boundaries, joined: member.joined_seq }
        };
        Statuses { head: self.head(), members: self.members.iter().map(status).collect() }
    }

    pub fn receipts(&self, reader: &UserId, seq: Seq) -> Result<Receipts, Refusal> {
        let reader = self.members.get(reader).ok_or(Refusal::NotAMember)?;
        let index = usize::try_from(seq.get()).ok().and_then(|seq| seq.checked_sub(1));
        let message = index.and_then(|index| self.messages.get(index)).ok_or(Refusal::NoSuchMessage)?;
        if seq < reader.joined_seq {
            return Err(Refusal::NoSuchMessage);
        }
        let mut receipts = Receipts::default();
        for member in
            self.members.iter().filter(|member| member.joined_seq <= seq && member.user != message.sender)
        {
            let shown = self.standing(&member.user).shown();
            receipts.recipients += 1;
            receipts.delivered += usize::from(shown.delivered >= seq);
            receipts.read += usize::from(shown.read >= seq);
        }
        Ok(receipts)
    }
}
