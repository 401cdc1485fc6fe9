//! Computes what a reconnecting device has missed.

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};

use bluetick_core::inbox::{InboxKey, InboxSection};
use bluetick_core::ports::{Behind, Missed, Position};
use bluetick_core::{
    Cause, ConversationId, Member, MemberState, PageLimit, Seq, StoreError, Timestamp, UserId,
};

use crate::codec::record::Record;
use crate::inbox::InboxReader;
use crate::tables::{Snapshot, TablesError};

/// Upper bound on the recently active conversations that are added without a position from the
/// device. It bounds the response. The device finds further ones in the inbox.
const MAX_UNNAMED: usize = 1_000;

/// A conversation from the user's point of view.
struct MemberView {
    member: Member,
    member_state: MemberState,
    head: Seq,
    last_at: Timestamp,
}

/// Upper bound on the changed and pending conversations for which the result is read on the
/// caller's thread. A larger value blocks a runtime thread for longer.
const FEW_PENDING: usize = 16;

impl InboxReader {
    /// Returns whether a few rows are enough to compute what a device without positions has missed.
    pub fn has_few_pending(&self, user: &UserId) -> Result<bool, StoreError> {
        if self.recent.residents_of(user).len() > FEW_PENDING {
            return Ok(false);
        }
        Ok(self.tables.current()?.snapshot()?.pending_is_at_most(user, FEW_PENDING)?)
    }

    /// Returns the conversations in which the device is behind, the most recently active first, and
    /// those it may no longer read. Reads the disk.
    pub fn behind(&self, user: &UserId, positions: &[Position]) -> Result<Missed, StoreError> {
        let recent = self.recent.residents_of(user);
        let tables = self.tables.current()?;
        let snapshot = tables.snapshot()?;
        let (mut behind, mut gone) = (Vec::new(), Vec::new());
        let mut named = HashSet::new();
        let mut newest: Option<Timestamp> = None;
        for Position { conversation, seq } in positions {
            let Some(member_view) = self.member_view(&snapshot, *conversation, user)? else {
                gone.push(*conversation);
                continue;
            };
            let MemberView { member, member_state, head, last_at } = member_view;
            if *seq > head || !named.insert(*conversation) {
                continue;
            }
            let floor = member.joined_seq.previous();
            let after = (*seq).max(floor);
            let at = if after == head {
                Some(last_at)
            } else {
                self.received_at(&snapshot, *conversation, after)?
            };
            newest = newest.max(at.filter(|_| after > Seq::ZERO));
            let unacknowledged = member_state.acknowledged.max(floor) < after;
            if after < head || unacknowledged {
                behind.push((last_at, Behind { conversation: *conversation, after, head, unacknowledged }));
            }
        }
        let mut after: HashMap<ConversationId, Option<Seq>> =
            snapshot.pending(user)?.into_iter().map(|(id, after)| (id, Some(after))).collect();
        after.extend(recent.iter().map(|resident| (resident.id, None)));
        if let Some(newest) = newest {
            for id in self.active_since(&snapshot, user, newest)? {
                after.entry(id).or_default();
            }
        }
        for id in after.into_keys().filter(|id| !named.contains(id)) {
            let Some(member_view) = self.member_view(&snapshot, id, user)? else { continue };
            let MemberView { member, member_state, head, last_at } = member_view;
            let floor = member.joined_seq.previous();
            let pending = member_state.pending_after(member.joined_seq, head);
            let active = newest.is_some_and(|newest| last_at > newest);
            let newest_page = active.then(|| head.minus(PageLimit::MAX.get()).max(floor));
            if let Some(after) = pending.or(newest_page).filter(|after| *after < head) {
                behind.push((last_at, Behind { conversation: id, after, head, unacknowledged: false }));
            }
        }
        behind.sort_by_key(|(last_at, _)| Reverse(*last_at));
        Ok(Missed { behind: behind.into_iter().map(|(_, behind)| behind).collect(), gone })
    }

    /// Returns `None` if the user is not a member.
    fn member_view(
        &self,
        snapshot: &Snapshot<'_>,
        id: ConversationId,
        user: &UserId,
    ) -> Result<Option<MemberView>, StoreError> {
        if let Some(resident) = self.residents.get(id) {
            let state = resident.state();
            let member_view = state.member(user).zip(state.conversation.as_ref()).map(
                |((member, member_state), conversation)| MemberView {
                    member: member.clone(),
                    member_state: *member_state,
                    head: conversation.head,
                    last_at: conversation.last_at,
                },
            );
            return Ok(member_view);
        }
        let Some((member, member_state)) = snapshot.member(id, user)? else { return Ok(None) };
        let stored = snapshot.conversation(id)?.ok_or(TablesError::Orphaned { id })?.conversation;
        Ok(Some(MemberView { member, member_state, head: stored.head, last_at: stored.last_at }))
    }

    /// Returns when the message at `seq` was received.
    fn received_at(
        &self,
        snapshot: &Snapshot<'_>,
        id: ConversationId,
        seq: Seq,
    ) -> Result<Option<Timestamp>, StoreError> {
        let in_memory =
            self.residents.get(id).and_then(|resident| resident.state().tail_record(seq).cloned());
        let record = match in_memory {
            Some(record) => Some(record.to_vec()),
            None => snapshot.record(id, seq)?,
        };
        let decoded = record.as_deref().map(Record::decode).transpose();
        Ok(decoded.map_err(|error| StoreError::Damaged(Cause::of(error)))?.map(|record| record.received_at))
    }

    /// Returns the conversations in the tables that were active after `newest`. Each shelf has its
    /// own order.
    fn active_since(
        &self,
        snapshot: &Snapshot<'_>,
        user: &UserId,
        newest: Timestamp,
    ) -> Result<Vec<ConversationId>, StoreError> {
        let mut active = Vec::new();
        let mut from = None;
        for shelf in InboxSection::ALL {
            snapshot.order(user, from.as_ref(), |position| {
                let later = position.shelf == shelf && position.last_at > newest;
                if later {
                    active.push(position.id);
                }
                later && active.len() < MAX_UNNAMED
            })?;
            from = Some(InboxKey::end_of(shelf));
        }
        Ok(active)
    }
}
