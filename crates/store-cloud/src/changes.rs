//! Conversations begin and their members change.
//!
//! Each is decided by one conditional write of the room's row. A beginning writes everything else first, where nobody
//! looks yet. A change of members is decided first and carried out afterwards, by whoever meets it: the row carries the
//! intent with the places of its notices until all rows say the same.

use std::sync::Arc;

use bluetick_core::ports::{AddMembers, CommittedChange, NewConversation, OpenedConversation, RemoveMember};
use bluetick_core::{
    Conversation, ConversationId, ConversationWithMembers, Member, MemberState, MessageId, Refusal, Seq,
    StoreError, Timestamp, UserId, decide,
};

use crate::append::LARGE;
use crate::archive::Way;
use crate::cells::{Cell, Placed};
use crate::engine::Engine;
use crate::hints::{MessageKey, Place, Reserve, Reserved, Seed};
use crate::hot::Partition;
use crate::inbox::inbox_item;
use crate::intent::{Intent, Joining, Leaving, user};
use crate::keyed::side_by_side;
use crate::memberships::{
    Departure, Facts, Known, RoomRow, decode_departure, decode_member, member_item, with_departure,
};
use crate::pending::pending_item;
use crate::rooms::Arrival;
use crate::rows::{Item, Key, Only, Table, Written};
use crate::standings::status_item;

/// Of a conversation in which much is being written while its members change.
const MOST_TOLD_AGAIN: u64 = 1_000;

/// Rows written side by side.
const AT_ONCE: usize = 16;

impl Engine {
    pub(crate) async fn open_now(
        self: &Arc<Engine>,
        new: NewConversation,
    ) -> Result<OpenedConversation, StoreError> {
        let _work = self.begin_write()?;
        if self.room_row(new.id).await?.is_some() {
            let view = self.view(new.id, &new.created_by).await?;
            return Ok(OpenedConversation { view, created: false });
        }
        let founding = decide::initial_state(&new);
        let Conversation { id, title, created_by, created_at, .. } = founding.conversation.clone();
        let facts = Facts { id, title, created_by, created_at };
        let row = RoomRow { facts, version: 1, members_version: 1, intent: None, way: Way::default() };
        self.write_founding(&row, &founding).await?;
        match self.rows.put(Table::Rooms, &Key::new(id), &row.item(), Only::IfAbsent).await? {
            Written::Done => {}
            Written::Refused(_) => {
                let view = self.view(new.id, &new.created_by).await?;
                return Ok(OpenedConversation { view, created: false });
            }
        }
        let members = Arc::new(founding.members);
        let (facts, departures) = (Arc::new(row.facts), Arc::default());
        let known = Known { facts, members: Arc::clone(&members), departures, version: 1 };
        self.memberships.keep(known.clone());
        let seed = Seed {
            conversation: id,
            is_whole: true,
            // Nobody was writing before.
            read_at: None,
            head: founding.conversation.head,
            settled: Seq::ZERO,
            last_at: created_at,
            members_version: 1,
            ids: Vec::new(),
            sent: Vec::new(),
            registry: None,
        };
        let _may_fail = self.hints.seed(&seed).await;
        let has_messages = founding.notice.is_some();
        let users = members.iter().map(|member| member.user.clone());
        let users: Vec<_> =
            users.filter(|user| founding.conversation.is_listed_for(user, has_messages)).collect();
        let mut touched = self.hints.touch(id, created_at, &users).await.ok();
        if let Some(notice) = founding.notice {
            let cell =
                Cell { message: Arc::new(notice), last_at: Some(created_at), departed: None, cold: None };
            let message = &cell.message;
            let relied = self.settle_pending(message, &known, touched.as_deref_mut(), None, &[]).await?;
            self.send_news(&cell, &known, touched.as_deref(), Seq::ZERO);
            self.arrive(Seq::ZERO, vec![Arrival { cell, known: known.clone(), relied }]);
        }
        for user in users {
            self.tell_change(CommittedChange::Joined { conversation: id, user });
        }
        let view = ConversationWithMembers { conversation: founding.conversation, members };
        Ok(OpenedConversation { view, created: true })
    }

    /// Everything but the room's row, without which nobody looks at it.
    async fn write_founding(&self, row: &RoomRow, founding: &decide::InitialState) -> Result<(), StoreError> {
        let id = row.facts.id;
        if let Some(notice) = &founding.notice {
            let message = Arc::new(notice.clone());
            let cell = Cell { message, last_at: Some(row.facts.created_at), departed: None, cold: None };
            // Nobody has decided anything about it yet.
            let (key, item) = (Partition::Plain.key(id, Seq::FIRST), cell.item());
            self.rows.put(Table::Messages, &key, &item, Only::Always).await?;
        }
        let fresh = inbox_item(Default::default(), row.facts.created_at, None, 1);
        if founding.members.len() <= 2 {
            for member in &founding.members {
                let (user, item) = (&member.user, member_item(member).versioned(1));
                self.rows.put(Table::Members, &Key::text(id, user), &item, Only::IfAbsent).await?;
                self.rows.put(Table::Conversations, &Key::text(user, id), &fresh, Only::IfAbsent).await?;
            }
            return Ok(());
        }
        let mut rows = Vec::with_capacity(3 * founding.members.len());
        for member in &founding.members {
            rows.push((Table::Members, Key::text(id, &member.user), member_item(member).versioned(1)));
            rows.push((Table::Conversations, Key::text(&member.user, id), fresh.clone()));
            if founding.members.len() > LARGE {
                let item = pending_item(Seq::FIRST, true);
                rows.push((Table::PendingDeliveries, Key::text(&member.user, id), item));
            }
        }
        Ok(self.rows.put_all(rows).await?)
    }

    pub(crate) async fn view(
        &self,
        id: ConversationId,
        reader: &UserId,
    ) -> Result<ConversationWithMembers, StoreError> {
        let known = self.known_to(id, reader).await?;
        self.view_of(&known).await
    }

    pub(crate) async fn view_of(&self, known: &Known) -> Result<ConversationWithMembers, StoreError> {
        let (head, last_at) = self.activity(known.facts.id).await?;
        let conversation = known.facts.conversation(head, last_at);
        Ok(ConversationWithMembers { conversation, members: Arc::clone(&known.members) })
    }

    /// The head, and when somebody last wrote.
    pub(crate) async fn activity(&self, id: ConversationId) -> Result<(Seq, Option<Timestamp>), StoreError> {
        let Some(newest) = self.newest(id).await? else { return Ok((Seq::ZERO, None)) };
        let head = newest.seq();
        let last = if newest.is_void() { self.newest_message(id, head).await? } else { Some(newest) };
        Ok((head, last.and_then(|cell| cell.last_at)))
    }

    pub(crate) async fn add_now(
        self: &Arc<Engine>,
        add: AddMembers,
    ) -> Result<ConversationWithMembers, StoreError> {
        let _work = self.begin_write()?;
        let id = add.conversation;
        loop {
            let row = self.room_row(id).await?.ok_or(Refusal::NotAMember)?;
            let Some(known) = self.known_by(&row).await? else { continue };
            let joining = known.members.plan_addition(id.kind(), &add.actor, &add.users, add.member_limit)?;
            if joining.is_empty() {
                return self.view_of(&known).await;
            }
            let mut intent = Intent {
                actor: add.actor.as_str().to_owned(),
                at: add.at.millis(),
                last_at: add.at.millis(),
                joining: Vec::new(),
                leaving: None,
            };
            let mut settled = Seq::MAX;
            for user in &joining {
                let what = format!("join:{}:{user}", row.version);
                let place = self.notice_place(id, &add.actor, &what, add.at, intent.joining.len()).await?;
                settled = settled.min(place.settled);
                intent.last_at = intent.last_at.max(place.last_at.millis());
                intent.joining.push(Joining { user: user.as_str().to_owned(), seq: place.seq.get() });
            }
            if let Some(view) = self.decide_and_finish(row, intent, settled).await? {
                for user in joining {
                    self.tell_change(CommittedChange::Joined { conversation: id, user });
                }
                return Ok(view);
            }
        }
    }

    pub(crate) async fn remove_now(
        self: &Arc<Engine>,
        remove: RemoveMember,
    ) -> Result<ConversationWithMembers, StoreError> {
        let _work = self.begin_write()?;
        let RemoveMember { conversation: id, actor, user, at } = &remove;
        loop {
            let row = self.room_row(*id).await?.ok_or(Refusal::NotAMember)?;
            let Some(known) = self.known_by(&row).await? else { continue };
            let heir = known.members.plan_removal(id.kind(), actor, user)?;
            let what = format!("leave:{}:{user}", row.version);
            let place = self.notice_place(*id, actor, &what, *at, 0).await?;
            let leaving = Leaving {
                user: user.as_str().to_owned(),
                seq: place.seq.get(),
                heir: heir.map(|heir| heir.as_str().to_owned()),
            };
            let intent = Intent {
                actor: actor.as_str().to_owned(),
                at: at.millis(),
                last_at: place.last_at.millis(),
                joining: Vec::new(),
                leaving: Some(leaving),
            };
            if let Some(view) = self.decide_and_finish(row, intent, place.settled).await? {
                return Ok(view);
            }
        }
    }

    /// `None` when another change came first.
    async fn decide_and_finish(
        self: &Arc<Engine>,
        mut row: RoomRow,
        intent: Intent,
        settled: Seq,
    ) -> Result<Option<ConversationWithMembers>, StoreError> {
        let id = row.facts.id;
        let members_version = row.members_version + 1;
        loop {
            let only = Only::IfVersion(row.version);
            let decided = RoomRow {
                version: row.version + 1,
                members_version,
                intent: Some(intent.clone()),
                ..row.clone()
            };
            if self.rows.put(Table::Rooms, &Key::new(id), &decided.item(), only).await? == Written::Done {
                break;
            }
            // A run of the archive writes the row too, and nothing that matters here: the places stay good.
            match self.room_row(id).await? {
                Some(now) if now.members_version == row.members_version && now.intent.is_none() => row = now,
                _ => return Ok(None),
            }
        }
        let cells = match self.finish_change(id).await? {
            Some(cells) => cells,
            None => self.as_stored(intent.notices(id)?).await?,
        };
        self.announce_change(id, cells, settled).await.map(Some)
    }

    /// Somebody else has finished the change and may have moved notices: those that are where they were meant to be. It
    /// tells of the others.
    async fn as_stored(&self, cells: Vec<Cell>) -> Result<Vec<Cell>, StoreError> {
        let mut stored = Vec::with_capacity(cells.len());
        for cell in cells {
            let there = self.cell(cell.message.conversation, cell.seq()).await?;
            if there.is_some_and(|there| there.is(&cell)) {
                stored.push(cell);
            }
        }
        Ok(stored)
    }

    /// What follows from a change whose notices are stored.
    pub(crate) async fn announce_change(
        self: &Arc<Engine>,
        id: ConversationId,
        cells: Vec<Cell>,
        settled: Seq,
    ) -> Result<ConversationWithMembers, StoreError> {
        let known = self.known_now(id).await?;
        let Some(first) = cells.first().map(|cell| Arc::clone(&cell.message)) else {
            return self.view_of(&known).await;
        };
        let last_at = cells.iter().filter_map(|cell| cell.last_at).max().unwrap_or(first.received_at);
        let users: Vec<_> = known.members.iter().map(|member| member.user.clone()).collect();
        let mut touched = match users.len() > LARGE {
            true => None,
            false => self.hints.touch(id, last_at, &users).await.ok(),
        };
        let is_new = |member: &&Member| cells.iter().any(|cell| cell.seq() == member.joined_seq);
        let joined: Vec<_> = known.members.iter().filter(is_new).map(|member| member.user.clone()).collect();
        let relied = self.settle_pending(&first, &known, touched.as_deref_mut(), None, &joined).await?;
        for cell in &cells {
            match touched.is_none() && known.members.len() <= LARGE {
                true => self.write_inboxes(cell, &known).await?,
                false => self.flush.note_message(cell, &known),
            }
            self.send_news(cell, &known, touched.as_deref(), settled);
        }
        let last = cells.last().map_or(first.seq, Cell::seq);
        tokio::spawn(Arc::clone(self).tell_new_members(id, last));
        let arrivals = cells.into_iter().map(|cell| {
            let (known, relied) = (known.clone(), relied.clone());
            Arrival { cell, known, relied }
        });
        self.until_told(self.arrive(settled, arrivals.collect())).await?;
        self.view_of(&known).await
    }

    /// Whoever had a place before all knew of the change counts with the members of before. What they write is told to the
    /// new ones as well; who is so slow as to lose the place learns of them with the next one.
    async fn tell_new_members(self: Arc<Engine>, id: ConversationId, last: Seq) {
        let Ok(Some(glance)) = self.hints.glance(id).await else { return };
        if glance.reserved > last
            && let Err(error) = self.tell_once_more(id, last.next(), glance.reserved).await
        {
            tracing::debug!(conversation = %id, %error, "a new member finds some messages only when it looks");
        }
    }

    async fn tell_once_more(
        self: &Arc<Engine>,
        id: ConversationId,
        first: Seq,
        last: Seq,
    ) -> Result<(), StoreError> {
        let cells = self.dense_with_content(id, first, last.min(first.plus(MOST_TOLD_AGAIN))).await?;
        let known = self.known_now(id).await?;
        let users: Vec<_> = known.members.iter().map(|member| member.user.clone()).collect();
        let mut touched = self.hints.whereabouts(id, &users).await.ok();
        for cell in cells.into_iter().filter(|cell| !cell.is_void()) {
            let sender = Some(&cell.message.sender);
            self.settle_pending(&cell.message, &known, touched.as_deref_mut(), sender, &[]).await?;
            self.send_news(&cell, &known, touched.as_deref(), first.previous());
        }
        Ok(())
    }

    /// Finishes what another node or call has decided. It may be dead, so this one sees to it that all hear of it.
    pub(crate) async fn help_to_finish(&self, id: ConversationId) -> Result<(), StoreError> {
        if let Some(cells) = self.finish_change(id).await? {
            self.mending.announce(id, cells);
        }
        Ok(())
    }

    /// Carries out a change that is decided; done again, it changes nothing. `Some` with the notices where this call
    /// ended it.
    async fn finish_change(&self, id: ConversationId) -> Result<Option<Vec<Cell>>, StoreError> {
        loop {
            let Some(row) = self.room_row(id).await? else { return Ok(None) };
            let Some(intent) = row.intent.clone() else { return Ok(None) };
            let cells = intent.notices(id)?;
            if let Some(index) = self.place_notices(&cells).await? {
                // Somebody else has the place: the notice needs another one, and all who help must know.
                let what = format!("again:{}:{index}", row.version);
                let at = Timestamp::from_millis(intent.at);
                let place = self.notice_place(id, &user(&intent.actor)?, &what, at, 0).await?;
                let mut intent = intent;
                intent.move_notice(index, place.seq);
                let moved = RoomRow { version: row.version + 1, intent: Some(intent), ..row.clone() };
                let condition = Only::IfVersion(row.version);
                self.rows.put(Table::Rooms, &Key::new(id), &moved.item(), condition).await?;
                continue;
            }
            self.write_change(&row, &intent).await?;
            // Before it is over, so that whoever ends it has told all nodes.
            if self.hints.members_changed(id, row.members_version).await.is_err() {
                self.ledgers.storing(id, cells[0].seq());
            }
            let done = RoomRow { version: row.version + 1, intent: None, ..row.clone() };
            let condition = Only::IfVersion(row.version);
            if self.rows.put(Table::Rooms, &Key::new(id), &done.item(), condition).await? == Written::Done {
                return Ok(Some(cells));
            }
        }
    }

    /// The first that finds its place taken by something else.
    async fn place_notices(&self, cells: &[Cell]) -> Result<Option<usize>, StoreError> {
        let placing = cells.iter().map(|cell| async move {
            Ok(match self.place(cell).await? {
                Placed::Done => true,
                Placed::Taken(there) => there.is(cell),
            })
        });
        let placed = side_by_side(AT_ONCE, placing.collect()).await;
        let placed = placed.into_iter().collect::<Result<Vec<bool>, StoreError>>()?;
        Ok(placed.iter().position(|placed| !placed))
    }

    async fn write_change(&self, row: &RoomRow, intent: &Intent) -> Result<(), StoreError> {
        let id = row.facts.id;
        let (members, _) = self.read_members_now(id).await?;
        let changes = intent.changes(&members)?;
        let grown = members.len() + intent.joining.len();
        if grown > LARGE && members.len() <= LARGE {
            let rows = members.iter().map(|member| {
                (Table::PendingDeliveries, Key::text(&member.user, id), pending_item(Seq::FIRST, true))
            });
            self.rows.put_all(rows.collect()).await?;
        }
        // What a member has from this change on has a version above all that was there before. So somebody who helps and
        // is slow cannot take it for old.
        let life = row.members_version << 32;
        let writing = changes.into_iter().map(|(user, member)| async move {
            let (key, own) = (Key::text(id, &user), Key::text(&user, id));
            let of_user = vec![(Table::MessageStatus, own.clone()), (Table::Conversations, own)];
            let [status, inbox] = self.get_several(of_user).await?;
            let there = self.rows.get(Table::Members, &key).await?;
            let version = there.as_ref().map_or(0, |item| item.version());
            if version >= row.members_version {
                return Ok(());
            }
            self.member_states.forget(&(id, user.clone()));
            let item = match &member {
                Some(member) => {
                    let is_new = there.as_ref().is_none_or(|item| item.find_flag("left"));
                    if is_new {
                        let at = Timestamp::from_millis(intent.last_at);
                        self.welcome(id, member, at, (status, inbox), life).await?;
                    }
                    if is_new && grown > LARGE {
                        let (key, item) = (Key::text(&user, id), pending_item(member.joined_seq, true));
                        self.rows.put(Table::PendingDeliveries, &key, &item, Only::Always).await?;
                    }
                    let departure = there.as_ref().and_then(|item| decode_departure(&user, item));
                    with_departure(member_item(member), departure.as_ref())
                }
                None => {
                    self.bid_farewell(id, &user, (status, inbox), life).await?;
                    let gone = decode_member(user.clone(), &there.unwrap_or_default());
                    let left_seq = intent.leaving.as_ref().map_or(Seq::ZERO, |leaving| Seq::new(leaving.seq));
                    let item = member_item(&gone).flag("left", true);
                    with_departure(item, Some(&Departure { member: gone, left_seq }))
                }
            };
            let only = if version == 0 { Only::IfAbsent } else { Only::IfVersion(version) };
            // Refused: whoever helps was faster.
            self.rows.put(Table::Members, &key, &item.versioned(row.members_version), only).await?;
            Ok(())
        });
        side_by_side(AT_ONCE, writing.collect()).await.into_iter().collect()
    }

    async fn welcome(
        &self,
        id: ConversationId,
        member: &Member,
        at: Timestamp,
        (status, inbox): (Option<Item>, Option<Item>),
        life: u64,
    ) -> Result<(), StoreError> {
        let key = Key::text(&member.user, id);
        if status.is_some() {
            let fresh = status_item(&MemberState::default(), life);
            self.replace_older(Table::MessageStatus, &key, status, Some(&fresh), life).await?;
        }
        let fresh = inbox_item(Default::default(), at, None, life);
        self.replace_older(Table::Conversations, &key, inbox, Some(&fresh), life).await?;
        let shelf = bluetick_core::InboxSection::Ordinary;
        let _may_fail = self.hints.shelve(&member.user, id, Some((shelf, at))).await;
        Ok(())
    }

    async fn bid_farewell(
        &self,
        id: ConversationId,
        user: &UserId,
        (status, inbox): (Option<Item>, Option<Item>),
        life: u64,
    ) -> Result<(), StoreError> {
        let key = Key::text(user, id);
        self.replace_older(Table::MessageStatus, &key, status, None, life).await?;
        self.replace_older(Table::Conversations, &key, inbox, None, life).await?;
        self.rows.delete(Table::PendingDeliveries, &key, Only::Always).await?;
        let _may_fail = self.hints.shelve(user, id, None).await;
        let _may_fail = self.hints.set_pending(user, id, false).await;
        self.local.forget(user, id);
        Ok(())
    }

    /// Puts a row in the place of one from before this life, or deletes that; `there` is what was seen.
    async fn replace_older(
        &self,
        table: Table,
        key: &Key,
        mut there: Option<Item>,
        fresh: Option<&Item>,
        life: u64,
    ) -> Result<(), StoreError> {
        while there.as_ref().is_none_or(|there| there.version() < life) {
            let only = there.as_ref().map_or(Only::IfAbsent, |there| Only::IfVersion(there.version()));
            let written = match (fresh, &there) {
                (Some(fresh), _) => self.rows.put(table, key, fresh, only).await?,
                (None, Some(_)) => self.rows.delete(table, key, only).await?,
                (None, None) => return Ok(()),
            };
            match written {
                Written::Done => return Ok(()),
                // Whoever helps was faster, and the row is gone since.
                Written::Refused(None) => return Ok(()),
                Written::Refused(newer) => there = newer,
            }
        }
        Ok(())
    }

    /// A place for a notice. Without Redis, the next free one as far as this node can see; a conflict gives another.
    async fn notice_place(
        &self,
        id: ConversationId,
        actor: &UserId,
        what: &str,
        now: Timestamp,
        ahead: usize,
    ) -> Result<Place, StoreError> {
        let reserve = Reserve {
            conversation: id,
            id: MessageKey::new(actor, &MessageId::from_stored(&format!("system:{what}"))),
            sender: actor.clone(),
            now,
            instead_of: None,
            settled: self.rooms.settled(id).unwrap_or(Seq::ZERO),
            registry_version: self.keeper.at_hand(id).version(),
        };
        for _ in 0..10 {
            match self.hints.reserve(&reserve).await {
                Ok(Reserved::Place(place)) => {
                    self.hear_of_registry(id, &place);
                    return Ok(place);
                }
                Ok(Reserved::Unseeded) if self.seed(id).await.is_ok() => {}
                _ => break,
            }
        }
        let (head, last_at) = self.activity(id).await?;
        let last_at = last_at.map_or(now, |at| at.max(now));
        let seq = head.plus(1 + ahead as u64);
        let settled = reserve.settled;
        Ok(Place {
            seq,
            known: false,
            last_at,
            members_version: 0,
            settled,
            seeded_ago: None,
            seeded_head: Seq::ZERO,
            registry: None,
        })
    }
}
