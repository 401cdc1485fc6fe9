//! How far everybody has come, for whoever asks: standings of all members, receipts of a message, what is unread.

use std::collections::BTreeSet;
use std::sync::Arc;

use bluetick_core::ports::{MemberStatus, Statuses};
use bluetick_core::{ConversationId, Member, Receipts, Refusal, Seq, Standing, StoreError, UserId};
use tokio::time::Instant;

use crate::append::LARGE;
use crate::engine::Engine;
use crate::memberships::Known;
use crate::rows::Item;
use crate::standings::{Everybody, LARGE_GROUP_AGE, MOST_CACHED};

impl Engine {
    /// Of everybody in a conversation, in the order of the members.
    pub(crate) async fn everybodys_standings(&self, known: &Known) -> Result<Vec<Standing>, StoreError> {
        let members: Vec<Member> = known.members.iter().cloned().collect();
        if members.len() > LARGE {
            return self.standings_of_many(known, members).await;
        }
        let loaded = self.standings_of(known.facts.id, &members, Seq::MAX).await?;
        Ok(loaded.into_iter().map(|loaded| loaded.standing).collect())
    }

    /// The same, by their status rows where these have been read; they are not of a large group.
    pub(crate) async fn everybodys_standings_by(
        &self,
        known: &Known,
        status: Vec<Option<Item>>,
    ) -> Result<Vec<Standing>, StoreError> {
        let members: Vec<Member> = known.members.iter().cloned().collect();
        if members.len() > LARGE {
            return self.standings_of_many(known, members).await;
        }
        let loaded = self.replayed(known.facts.id, &members, status, Seq::MAX).await?;
        Ok(loaded.into_iter().map(|loaded| loaded.standing).collect())
    }

    /// Those of a large group are kept for a moment.
    async fn standings_of_many(
        &self,
        known: &Known,
        members: Vec<Member>,
    ) -> Result<Vec<Standing>, StoreError> {
        let id = known.facts.id;
        {
            let large = self.standings.large.lock().expect("no panic under the lock");
            if let Some(everybody) = large.get(&id)
                && everybody.version == known.version
                && everybody.read_at.elapsed() < LARGE_GROUP_AGE
            {
                let of = |member: &Member| everybody.standings.get(&member.user).copied();
                return Ok(members.iter().map(|member| of(member).unwrap_or_default()).collect());
            }
        }
        let loaded = self.standings_of(id, &members, Seq::MAX).await?;
        let standings: Vec<_> = loaded.into_iter().map(|loaded| loaded.standing).collect();
        let by_user = members.into_iter().map(|member| member.user).zip(standings.iter().copied());
        let by_user = Arc::new(by_user.collect());
        let everybody = Everybody { version: known.version, read_at: Instant::now(), standings: by_user };
        let mut large = self.standings.large.lock().expect("no panic under the lock");
        large.retain(|_, everybody| everybody.read_at.elapsed() < LARGE_GROUP_AGE);
        large.insert(id, everybody);
        Ok(standings)
    }

    pub(crate) async fn all_statuses(
        &self,
        id: ConversationId,
        reader: &UserId,
    ) -> Result<Statuses, StoreError> {
        let known = self.known_to(id, reader).await?;
        let (standings, newest) = tokio::join!(self.everybodys_standings(&known), self.newest(id));
        let members = known.members.iter().zip(standings?).map(|(member, standing)| MemberStatus {
            user: member.user.clone(),
            boundaries: self.at_least_as_told(id, member, &standing, member.user == *reader),
            joined: member.joined_seq,
        });
        Ok(Statuses { head: newest?.map_or(Seq::ZERO, |cell| cell.seq()), members: members.collect() })
    }

    pub(crate) async fn count_receipts(
        &self,
        id: ConversationId,
        reader: &UserId,
        seq: Seq,
    ) -> Result<Receipts, StoreError> {
        let known = self.known_to(id, reader).await?;
        let joined = known.member(reader)?.joined_seq;
        let cell = if seq < joined { None } else { self.cell(id, seq).await? };
        let cell = cell.filter(|cell| !cell.is_void()).ok_or(Refusal::NoSuchMessage)?;
        let standings = self.everybodys_standings(&known).await?;
        let mut receipts = Receipts::default();
        for (member, standing) in known.members.iter().zip(standings) {
            if member.joined_seq <= seq && member.user != cell.message.sender {
                receipts.recipients += 1;
                receipts.delivered += usize::from(standing.shown().delivered >= seq);
                receipts.read += usize::from(standing.shown().read >= seq);
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
        standing: &Standing,
        head: Seq,
    ) -> Result<u64, StoreError> {
        let from = standing.read_since(member.joined_seq);
        if from >= head {
            return Ok(0);
        }
        let whose = (id, member.user.clone());
        let before = self.standings.counted.lock().expect("no panic under the lock").get(&whose).copied();
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
        let mut all = self.standings.counted.lock().expect("no panic under the lock");
        if all.len() >= MOST_CACHED {
            all.clear();
        }
        all.insert(whose, (from, through, count));
        Ok(count)
    }
}
