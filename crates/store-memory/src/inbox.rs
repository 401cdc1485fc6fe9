//! The inbox. It sorts all entries for every request.

use std::cmp::Reverse;

use bluetick_core::inbox::preview_of;
use bluetick_core::ports::{Behind, Missed, Position};
use bluetick_core::{
    ConversationKind, InboxEntry, InboxPage, InboxRequest, LastMessage, PageLimit, ReadState, Refusal,
    Timestamp, UserId,
};

use crate::{MemoryConversation, MemoryState};

impl MemoryConversation {
    pub fn entry(&self, user: &UserId) -> Result<InboxEntry, Refusal> {
        let member = self.members.get(user).ok_or(Refusal::NotAMember)?;
        let others = self.members.iter().filter(|other| other.user != *user);
        let others = others.map(|other| self.member_state(&other.user).shown_since(other.joined_seq));
        let lowest = others.reduce(|one, other| ReadState {
            delivered: one.delivered.min(other.delivered),
            read: one.read.min(other.read),
        });
        let member_state = self.member_state(user);
        let direct = self.conversation.kind() == ConversationKind::Direct;
        Ok(InboxEntry {
            conversation: self.conversation.clone(),
            peer: direct.then(|| self.members.peer_of(user).cloned()).flatten(),
            member_count: self.members.len(),
            last_message: self.messages.last().map(|message| LastMessage {
                seq: message.seq,
                message_id: message.message_id.clone(),
                sender: message.sender.clone(),
                content_type: message.content_type.clone(),
                preview: preview_of(&message.content_type, &message.content).into(),
                timestamp: message.timestamp,
                received_at: message.received_at,
            }),
            unread: self.unread(member),
            own: member_state.own(),
            others: lowest.unwrap_or(ReadState { delivered: self.head(), read: self.head() }),
            preferences: member_state.preferences,
            joined: member.joined_seq,
        })
    }
}

impl MemoryState {
    fn entries(&self, user: &UserId) -> Vec<InboxEntry> {
        let mut entries: Vec<_> =
            self.conversations.values().filter_map(|thread| thread.entry(user).ok()).collect();
        entries.retain(|entry| entry.is_listed_for(user));
        entries.sort_by_key(InboxEntry::place);
        entries
    }

    pub fn is_member(&self, user: &UserId) -> bool {
        self.conversations.values().any(|thread| thread.entry(user).is_ok())
    }

    pub fn inbox(&self, request: &InboxRequest) -> InboxPage {
        let wanted = |entry: &InboxEntry| {
            let place = entry.place();
            request.filter.takes(place.shelf) && request.after.is_none_or(|after| place > after)
        };
        let mut entries: Vec<_> = self.entries(&request.user).into_iter().filter(wanted).collect();
        let limit = request.limit.count();
        let more = entries.len() > limit;
        entries.truncate(limit);
        let next = entries.last().filter(|_| more).map(InboxEntry::place);
        InboxPage { entries, next }
    }

    pub fn behind(&self, user: &UserId, positions: &[Position]) -> Missed {
        let mut newest: Option<Timestamp> = None;
        let (mut behind, mut gone) = (Vec::new(), Vec::new());
        for position in positions {
            let thread = self.conversations.get(&position.conversation);
            let held = thread.and_then(|thread| Some((thread, thread.members.get(user)?)));
            let Some((thread, member)) = held else {
                gone.push(position.conversation);
                continue;
            };
            let head = thread.head();
            if position.seq > head {
                continue;
            }
            let floor = member.joined_seq.previous();
            let after = position.seq.max(floor);
            let at = after
                .get()
                .checked_sub(1)
                .and_then(|index| thread.messages.get(usize::try_from(index).ok()?));
            newest = newest.max(at.map(|message| message.received_at));
            let unacknowledged = thread.member_state(user).acknowledged.max(floor) < after;
            if after < head || unacknowledged {
                behind.push(Behind { conversation: position.conversation, after, head, unacknowledged });
            }
        }
        for (id, thread) in &self.conversations {
            let Some(member) = thread.members.get(user) else { continue };
            let head = thread.head();
            if positions.iter().any(|position| position.conversation == *id && position.seq <= head) {
                continue;
            }
            let pending = thread.member_state(user).pending_after(member.joined_seq, head);
            let active = newest.is_some_and(|newest| thread.conversation.last_at > newest);
            let newest_page =
                active.then(|| head.minus(PageLimit::MAX.get()).max(member.joined_seq.previous()));
            let after = pending.or(newest_page);
            if let Some(after) = after.filter(|after| *after < head) {
                behind.push(Behind { conversation: *id, after, head, unacknowledged: false });
            }
        }
        behind.sort_by_key(|behind: &Behind| {
            Reverse(self.conversations[&behind.conversation].conversation.last_at)
        });
        Missed { behind, gone }
    }
}
