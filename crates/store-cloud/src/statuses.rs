//! How far everybody has come, for whoever asks: member states of all members, receipts of a message, what is unread.

use std::collections::BTreeSet;
use std::sync::Arc;

use bluetick_core::ports::{MemberStatus, Statuses};
use bluetick_core::{ConversationId, Member, MemberState, ReceiptCounts, Refusal, Seq, StoreError, UserId};
use tokio::time::Instant;

use crate::append::LARGE;
use crate::engine::Engine;
use crate::memberships::Known;
use crate::rows::Item;
use crate::standings::{Everybody, LARGE_GROUP_AGE, MOST_CACHED};

impl Engine {
    /// Of everybody in a conversation, in the order of the members.
    pub(crate) async fn everybodys_standings(&self, known: &Known) -> Result<Vec<MemberState>, StoreError> {
        let members: Vec<Member> = known.members.iter().cloned().collect();
        if members.len() > LARGE {
            return self.standings_of_many(known, members).await;
        }
        let loaded = self.standings_of(known.facts.id, &members, Seq::MAX).await?;
        Ok(loaded.into_iter().map(|loaded| loaded.member_state).collect())
    }

    /// The same, by their status rows where these have been read; they are not of a large group.
    pub(crate) async fn everybodys_standings_by(
        &self,
        known: &Known,
        status: Vec<Option<Item>>,
    ) -> Result<Vec<MemberState>, StoreError> {
        let members: Vec<Member> = known.members.iter().cloned().collect();
        if members.len() > LARGE {
            return self.standings_of_many(known, members).await;
        }
        let loaded = self.replayed(known.facts.id, &members, status, Seq::MAX).await?;
        Ok(loaded.into_iter().map(|loaded| loaded.member_state).collect())
    }

    /// Those of a large group are kept for a moment.
    async fn standings_of_many(
        &self,
        known: &Known,
        members: Vec<Member>,
    ) -> Result<Vec<MemberState>, StoreError> {
        let id = known.facts.id;
        {
            let large = self.member_states.large.lock().expect("no panic under the lock");
            if let Some(everybody) = large.get(&id)
                && everybody.version == known.version
                && everybody.read_at.elapsed() < LARGE_GROUP_AGE
            {
                let of = |member: &Member| everybody.member_states.get(&member.user).copied();
                return Ok(members.iter().map(|member| of(member).unwrap_or_default()).collect());
            }
        }
        let loaded = self.standings_of(id, &members, Seq::MAX).await?;
        let member_states: Vec<_> = loaded.into_iter().map(|loaded| loaded.member_state).collect();
        let by_user = members.into_iter().map(|member| member.user).zip(member_states.iter().copied());
        let by_user = Arc::new(by_user.collect());
        let everybody = Everybody { version: known.version, read_at: Instant::now(), member_states: by_user };
        let mut large = self.member_states.large.lock().expect("no panic under the lock");
        large.retain(|_, everybody| everybody.read_at.elapsed() < LARGE_GROUP_AGE);
        large.insert(id, everybody);
        Ok(member_states)
    }

    pub(crate) async fn all_statuses(
        &self,
        id: ConversationId,
        reader: &UserId,
    ) -> Result<Statuses, StoreError> {
        let known = self.known_to(id, reader).await?;
        let (member_states, newest) = tokio::join!(self.everybodys_standings(&known), self.newest(id));
        let members = known.members.iter().zip(member_states?).map(|(member, member_state)| MemberStatus {
            user: member.user.clone(),
            read_state: self.at_least_as_told(id, member, &member_state, member.user == *reader),
            joined: member.joined_seq,
        });
        Ok(Statuses { head: newest?.map_or(Seq::ZERO, |cell| cell.seq()), members: members.collect() })
    }

    pub(crate) async fn count_receipts(
        &self,
        id: ConversationId,
        reader: &UserId,
        seq: Seq,
    ) -> Result<ReceiptCounts, StoreError> {
        let known = self.known_to(id, reader).await?;
        let joined = known.member(reader)?.joined_seq;
        let cell = if seq < joined { None } else { self.cell(id, seq).await? };
        let cell = cell.filter(|cell| !cell.is_void()).ok_or(Refusal::NoSuchMessage)?;
        let member_states = self.everybodys_standings(&known).await?;
        let mut receipts = ReceiptCounts::default();
        for (member, member_state) in known.members.iter().zip(member_states) {
            if member.joined_seq <= seq && member.user != cell.message.sender {
                receipts.recipients += 1;
                receipts.delivered += usize::from(member_state.shown().delivered >= seq);
                receipts.read += usize::from(member_state.shown().read >= seq);
            }
        }
        Ok(receipts)
    }

    /// The members for somebody who is one for sure.
    pub(crate) async fn known_to(&self, id: ConversationId, reader: &UserId) -> Result<Known, StoreError> {
        loop {
            let (row, _) = self.membership(id, reader).await?;
            if let Some(known) = self.known_by(&row).await? {
                known.member(reader)?;
                return Ok(known);
            }
        }
    }

    /// How many are unread: by others, no notices, no voids. What was counted before is not counted again, since cells
    /// never change.
    pub(crate) async fn unread(
        &self,
        id: ConversationId,
        member: &Member,
        member_state: &MemberState,
        head: Seq,
    ) -> Result<u64, StoreError> {
        let from = member_state.read_since(member.joined_seq);
        if from >= head {
            return Ok(0);
        }
        let whose = (id, member.user.clone());
        let before = self.member_states.counted.lock().expect("no panic under the lock").get(&whose).copied();
        let (mut through, mut count) = match before {
            Some((counted_from, through, count)) if counted_from == from && through <= head => {
                (through, count)
            }
            _ => (from, 0),
        };
        let noticed = Instant::now();
        loop {
            // What lies above a hole is counted when it is known what comes into the hole.
            let mut above = BTreeSet::new();
            self.each_writer(id, through.next(), head, |seq, sender, content_type| {
                if seq == through.next() {
                    let counts = content_type.counts_as_unread() && sender != member.user.as_str();
                    (through, count) = (seq, count + u64::from(counts));
                } else {
                    above.insert(seq);
                }
            })
            .await?;
            if through >= head {
                break;
            }
            self.wait_for_holes(id, (through.next(), head), &above, noticed).await?;
        }
        let mut all = self.member_states.counted.lock().expect("no panic under the lock");
        if all.len() >= MOST_CACHED {
            all.clear();
        }
        all.insert(whose, (from, through, count));
        Ok(count)
    }
}
