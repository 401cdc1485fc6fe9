//! What a device that comes back has to be sent.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use bluetick_core::ports::{Behind, Missed, Position};
use bluetick_core::{
    ConversationId, InboxFilter, InboxKey, InboxSection, Member, MemberState, PageLimit, Seq, StoreError,
    Timestamp, UserId,
};

use crate::engine::Engine;
use crate::keyed::side_by_side;
use crate::memberships::{Known, RoomRow, decode_member};
use crate::rooms::ON_ITS_WAY;
use crate::rows::{Key, Query, Sort, SortRange, Table};

/// Conversations looked at side by side.
const AT_ONCE: usize = 16;

/// Where somebody stands in a conversation that may have something for it.
struct Look {
    member: Member,
    member_state: MemberState,
    head: Seq,
    last_at: Timestamp,
}

impl Engine {
    pub(crate) async fn missed(
        self: &Arc<Engine>,
        user: &UserId,
        positions: Vec<Position>,
    ) -> Result<Missed, StoreError> {
        // The last word on a conversation counts.
        let mut at: HashMap<ConversationId, Seq> = HashMap::new();
        let mut order = Vec::new();
        for position in &positions {
            if at.insert(position.conversation, position.seq).is_none() {
                order.push(position.conversation);
            }
        }
        let looks = self.look(user, &order).await?;
        let mut missed = Missed::default();
        let mut found: Vec<(Timestamp, Behind)> = Vec::new();
        let mut above_head = HashSet::new();
        for id in &order {
            let Some(look) = looks.get(id) else {
                missed.gone.push(*id);
                continue;
            };
            let (position, floor) = (at[id], look.member.joined_seq.previous());
            if position > look.head {
                above_head.insert(*id);
                continue;
            }
            let after = position.max(floor);
            let acknowledged = look.member_state.acknowledged.max(floor);
            let unacknowledged = acknowledged < after;
            self.local.is_sent(user, *id, acknowledged.min(after).next(), look.head);
            if after < look.head || unacknowledged {
                let behind = Behind { conversation: *id, after, head: look.head, unacknowledged };
                found.push((look.last_at, behind));
            }
        }
        let newest = self.newest_position(&order, &at, &looks).await?;
        let mut others: Vec<ConversationId> = self.owed(user).await?;
        // What another connection to this node was pushed is owed when that one ends.
        others.extend(self.local.unanswered(user));
        let doubt = self.local.doubt_of(user);
        if let Some(since) = doubt {
            others.extend(self.active_lately(user, since).await?);
        }
        others.extend(above_head.iter().copied());
        if let Some(newest) = newest {
            others.extend(self.active_since(user, newest).await?);
        }
        let known: HashSet<_> = order.iter().filter(|id| !above_head.contains(id)).copied().collect();
        let mut seen = HashSet::new();
        others.retain(|id| !known.contains(id) && seen.insert(*id));
        for (id, look) in self.look(user, &others).await? {
            let pending = look.member_state.pending_after(look.member.joined_seq, look.head);
            if let Some(after) = pending.filter(|_| doubt.is_some()) {
                // This connection may end before it has acknowledged anything.
                self.owe(user.clone(), id, after.next()).await?;
            }
            let is_active = newest.is_some_and(|newest| look.last_at > newest);
            let floor = look.member.joined_seq.previous();
            let newest_page = is_active.then(|| look.head.minus(PageLimit::MAX.get()).max(floor));
            if let Some(after) = pending.or(newest_page).filter(|after| *after < look.head) {
                self.local.is_sent(user, id, after.next(), look.head);
                let behind = Behind { conversation: id, after, head: look.head, unacknowledged: false };
                found.push((look.last_at, behind));
            }
        }
        if let Some(since) = doubt {
            self.local.dispel_doubt(user, since);
        }
        self.local.caught_up(user);
        found.sort_by_key(|(last_at, _)| std::cmp::Reverse(*last_at));
        missed.behind = found.into_iter().map(|(_, behind)| behind).collect();
        Ok(missed)
    }

    /// Those of these conversations that the user is in. What stands in them up to the head that is found is told here
    /// before this returns, so that nobody hears of it again afterwards.
    async fn look(
        self: &Arc<Engine>,
        user: &UserId,
        ids: &[ConversationId],
    ) -> Result<HashMap<ConversationId, Look>, StoreError> {
        let keys = ids.iter().flat_map(|id| {
            let room = (Table::Rooms, Key::new(id));
            [room, (Table::Members, Key::text(id, user)), (Table::MessageStatus, Key::text(user, id))]
        });
        let rows = self.rows.get_many(keys.collect()).await?;
        let mut members = Vec::new();
        for (id, rows) in ids.iter().zip(rows.chunks(3)) {
            let [Some(room), Some(member), status] = rows else { continue };
            if room.find_text("intent").is_some() {
                match self.membership(*id, user).await {
                    Ok((row, member)) => members.push((row, member, status.clone())),
                    Err(StoreError::Refused(_)) => {}
                    // Nobody is told that they are out because somebody could not be asked.
                    Err(error) => return Err(error),
                }
            } else if !member.find_flag("left") {
                let member = decode_member(user.clone(), member);
                members.push((RoomRow::decode(*id, room)?, member, status.clone()));
            }
        }
        let looking = members.into_iter().map(|(row, member, status)| async move {
            let id = row.facts.id;
            let (member_state, view) = tokio::join!(
                self.replayed(id, std::slice::from_ref(&member), vec![status], Seq::MAX),
                self.activity_of(&row)
            );
            let (known, head, last_at) = view?;
            self.begin_to_follow(&known, user, head).await?;
            let member_state = member_state?[0].member_state;
            Ok((id, Look { member, member_state, head, last_at }))
        });
        side_by_side(AT_ONCE, looking.collect()).await.into_iter().collect()
    }

    async fn activity_of(&self, row: &RoomRow) -> Result<(Known, Seq, Timestamp), StoreError> {
        let known = match self.known_by(row).await? {
            Some(known) => known,
            None => self.known_now(row.facts.id).await?,
        };
        let conversation = self.view_of(&known).await?.conversation;
        Ok((known, conversation.head, conversation.last_at))
    }

    /// What comes above the head is told here from now on, and nothing up to it any more. Others who are connected here
    /// may have been told nothing so far, and what is on its way to them would come too late.
    async fn begin_to_follow(
        self: &Arc<Engine>,
        known: &Known,
        user: &UserId,
        head: Seq,
    ) -> Result<(), StoreError> {
        let id = known.facts.id;
        let mut others = known.members.iter().filter(|member| member.user != *user);
        let others_are_here = others.any(|member| self.local.is_here(&member.user));
        self.rooms.follow(id, if others_are_here { head.minus(ON_ITS_WAY) } else { head }, head);
        self.catch_up_to(id, head).await
    }

    /// When the newest of the messages that the device is at was received.
    async fn newest_position(
        &self,
        order: &[ConversationId],
        at: &HashMap<ConversationId, Seq>,
        looks: &HashMap<ConversationId, Look>,
    ) -> Result<Option<Timestamp>, StoreError> {
        let places = order.iter().filter_map(|id| {
            let look = looks.get(id)?;
            let seq = at[id].max(look.member.joined_seq.previous());
            (at[id] <= look.head && seq > Seq::ZERO).then_some((*id, seq))
        });
        let rows = self.reader.points(&places.collect::<Vec<_>>()).await?;
        let times = rows.iter().flatten().filter_map(|row| row.find_number("received_at"));
        Ok(times.max().map(Timestamp::from_millis))
    }

    /// Conversations with a row for undelivered messages.
    async fn owed(&self, user: &UserId) -> Result<Vec<ConversationId>, StoreError> {
        let (mut owed, mut range) = (Vec::new(), SortRange::All);
        loop {
            let query = Query {
                table: Table::PendingDeliveries,
                partition: user.to_string(),
                range,
                descending: false,
                limit: 1_000,
                fields: &["version"],
            };
            let slice = self.rows.query(query).await?;
            for (sort, _) in &slice.rows {
                let Sort::Text(id) = sort else { continue };
                owed.extend(id.parse::<ConversationId>().ok());
            }
            match slice.rows.last() {
                Some((Sort::Text(last), _)) if slice.more => range = SortRange::After(last.clone()),
                _ => return Ok(owed),
            }
        }
    }

    async fn active_since(
        &self,
        user: &UserId,
        newest: Timestamp,
    ) -> Result<Vec<ConversationId>, StoreError> {
        for (id, last_at) in self.flush.behind_for(user, true) {
            let _may_fail = self.hints.touch(id, last_at, std::slice::from_ref(user)).await;
        }
        let mut active = Vec::new();
        for shelf in InboxSection::ALL {
            let filter = match shelf {
                InboxSection::Archived => InboxFilter::Archived,
                InboxSection::Pinned | InboxSection::Ordinary => InboxFilter::NotArchived,
            };
            let mut after = match shelf {
                InboxSection::Ordinary => Some(InboxKey::end_of(InboxSection::Pinned)),
                InboxSection::Pinned | InboxSection::Archived => None,
            };
            loop {
                let places = self.places(user, filter, after, 100).await?;
                let on_shelf =
                    places.iter().take_while(|place| place.shelf == shelf && place.last_at > newest);
                let recent: Vec<_> = on_shelf.map(|place| place.id).collect();
                let (count, whole) = (recent.len(), places.len());
                active.extend(recent);
                if count < whole || whole < 100 {
                    break;
                }
                after = places.last().copied();
            }
        }
        Ok(active)
    }
}
