//! Somebody's conversations: the order from Redis, or from the rows; what an entry shows from the tables.

use std::sync::Arc;

use bluetick_core::ports::{CommittedChange, SetPreferences};
use bluetick_core::{
    ConversationId, ConversationKind, InboxEntry, InboxFilter, InboxKey, InboxPage, InboxRequest,
    InboxSection, LastMessage, Member, Preferences, ReadState, Refusal, Seq, StoreError, Timestamp, UserId,
};

use crate::append::LARGE;
use crate::cells::Cell;
use crate::engine::Engine;
use crate::keyed::side_by_side;
use crate::memberships::{Known, RoomRow, decode_member};
use crate::rows::{Item, Key, Only, Query, Sort, SortRange, Table, Written};

/// Entries put together side by side.
const AT_ONCE: usize = 21;

pub(crate) fn inbox_item(
    preferences: Preferences,
    last_at: Timestamp,
    last: Option<&Cell>,
    version: u64,
) -> Item {
    let message = last.map(|cell| &cell.message);
    let preview = last.map(Cell::preview);
    Item::new()
        .count("last_seq", message.map_or(0, |message| message.seq.get()))
        .number("last_at", last_at.millis())
        .text_if("preview", preview)
        .flag("muted", preferences.muted)
        .flag("pinned", preferences.pinned)
        .flag("archived", preferences.archived)
        .versioned(version)
}

/// Whether reads are hidden stands in the status row, beside what it acts on.
pub(crate) fn decode_preferences(item: &Item) -> Preferences {
    Preferences {
        muted: item.find_flag("muted"),
        pinned: item.find_flag("pinned"),
        archived: item.find_flag("archived"),
        hides_reads: false,
    }
}

fn last_message(cell: &Cell) -> LastMessage {
    let message = &cell.message;
    LastMessage {
        seq: message.seq,
        message_id: message.message_id.clone(),
        sender: message.sender.clone(),
        content_type: message.content_type.clone(),
        preview: cell.preview().into(),
        timestamp: message.timestamp,
        received_at: message.received_at,
    }
}

/// An entry of which the rows are read.
struct Draft {
    row: RoomRow,
    member: Member,
    known: Known,
    set: Preferences,
    /// Where the members stand; not of a large group, of which that is asked differently.
    status: Vec<Option<Item>>,
}

impl Engine {
    pub(crate) async fn entry(&self, id: ConversationId, user: &UserId) -> Result<InboxEntry, StoreError> {
        let mut entries = self.entries(&[id], user).await?;
        entries.pop().unwrap_or(Err(Refusal::NotAMember.into()))
    }

    /// What each of these conversations shows. All their rows are read in two goes.
    async fn entries(
        &self,
        ids: &[ConversationId],
        user: &UserId,
    ) -> Result<Vec<Result<InboxEntry, StoreError>>, StoreError> {
        let wanted = ids.iter().flat_map(|id| {
            let room = (Table::Rooms, Key::new(id));
            [room, (Table::Members, Key::text(id, user)), (Table::Conversations, Key::text(user, id))]
        });
        let rows = self.rows.get_many(wanted.collect()).await?;
        let drafting = ids.iter().zip(rows.chunks(3)).map(|(id, rows)| self.draft(*id, user, rows));
        let mut drafts = side_by_side(AT_ONCE, drafting.collect()).await;
        self.read_status(&mut drafts).await?;
        let finishing = drafts.into_iter().map(|draft| async move { self.finish(draft?, user).await });
        Ok(side_by_side(AT_ONCE, finishing.collect()).await)
    }

    async fn draft(
        &self,
        id: ConversationId,
        user: &UserId,
        rows: &[Option<Item>],
    ) -> Result<Draft, StoreError> {
        let mut rows = rows.to_vec();
        loop {
            let [Some(room), Some(member), inbox] = &rows[..] else { return Err(Refusal::NotAMember.into()) };
            if member.find_flag("left") {
                return Err(Refusal::NotAMember.into());
            }
            let row = RoomRow::decode(id, room)?;
            if let Some(known) = self.known_by(&row).await? {
                let member = decode_member(user.clone(), member);
                let set = inbox.as_ref().map(decode_preferences).unwrap_or_default();
                return Ok(Draft { row, member, known, set, status: Vec::new() });
            }
            // The members have changed since.
            let wanted = vec![
                (Table::Rooms, Key::new(id)),
                (Table::Members, Key::text(id, user)),
                (Table::Conversations, Key::text(user, id)),
            ];
            rows = self.rows.get_many(wanted).await?;
        }
    }

    async fn read_status(&self, drafts: &mut [Result<Draft, StoreError>]) -> Result<(), StoreError> {
        let small = |draft: &&mut Draft| draft.known.members.len() <= LARGE;
        let mut drafts: Vec<_> =
            drafts.iter_mut().filter_map(|draft| draft.as_mut().ok()).filter(small).collect();
        let keys = drafts.iter().flat_map(|draft| {
            let id = draft.known.facts.id;
            draft.known.members.iter().map(move |member| (Table::MessageStatus, Key::text(&member.user, id)))
        });
        let mut rows = self.rows.get_many(keys.collect()).await?.into_iter();
        for draft in &mut drafts {
            draft.status = rows.by_ref().take(draft.known.members.len()).collect();
        }
        Ok(())
    }

    async fn finish(&self, draft: Draft, user: &UserId) -> Result<InboxEntry, StoreError> {
        let Draft { row, member, known, set, status } = draft;
        let id = known.facts.id;
        let (member_states, newest) =
            tokio::join!(self.everybodys_standings_by(&known, status), self.newest(id));
        let (member_states, newest) = (member_states?, newest?);
        let head = newest.as_ref().map_or(Seq::ZERO, |cell| cell.seq());
        let last = match newest {
            Some(cell) if cell.is_void() => self.newest_message(id, head).await?,
            other => other,
        };
        let mut own = bluetick_core::MemberState::default();
        let mut lowest: Option<ReadState> = None;
        for (other, member_state) in known.members.iter().zip(member_states) {
            if other.user == *user {
                own = member_state;
                continue;
            }
            let shown = member_state.shown_since(other.joined_seq);
            lowest = Some(lowest.map_or(shown, |lowest| ReadState {
                delivered: lowest.delivered.min(shown.delivered),
                read: lowest.read.min(shown.read),
            }));
        }
        let direct = id.kind() == ConversationKind::Direct;
        Ok(InboxEntry {
            conversation: row.facts.conversation(head, last.as_ref().and_then(|cell| cell.last_at)),
            peer: direct.then(|| known.members.peer_of(user).cloned()).flatten(),
            member_count: known.members.len(),
            last_message: last.as_ref().map(last_message),
            unread: self.unread(id, &member, &own, head).await?,
            own: own.own(),
            others: lowest.unwrap_or(ReadState { delivered: head, read: head }),
            preferences: Preferences { hides_reads: own.preferences.hides_reads, ..set },
            joined: member.joined_seq,
        })
    }

    pub(crate) async fn inbox_page(&self, request: InboxRequest) -> Result<InboxPage, StoreError> {
        let InboxRequest { user, after, limit, filter } = &request;
        for (id, last_at) in self.flush.behind_for(user, true) {
            let _may_fail = self.hints.touch(id, last_at, std::slice::from_ref(user)).await;
        }
        let (mut entries, mut from) = (Vec::new(), *after);
        let wanted = limit.count() + 1;
        loop {
            let places = self.places(user, *filter, from, wanted).await?;
            let ids: Vec<_> = places.iter().map(|place| place.id).collect();
            let found = self.entries(&ids, user).await?;
            for (place, entry) in places.iter().zip(found) {
                match entry {
                    // Keep the index entry: a concurrent message may be adding it.
                    Ok(entry) if !entry.is_listed_for(user) => {}
                    Ok(entry) => {
                        if entry.place() != *place {
                            self.put_right(user, &entry).await;
                        }
                        entries.push((*place, entry));
                    }
                    Err(StoreError::Refused(_)) => {
                        let _may_fail = self.hints.shelve(user, place.id, None).await;
                    }
                    Err(error) => return Err(error),
                }
            }
            from = places.last().copied();
            if entries.len() >= wanted || places.len() < wanted {
                break;
            }
        }
        let more = entries.len() > limit.count();
        entries.truncate(limit.count());
        // By where it was listed and not by where it turned out to be, or something in between would be skipped.
        let next = entries.last().filter(|_| more).map(|(place, _)| *place);
        let mut entries: Vec<_> = entries.into_iter().map(|(_, entry)| entry).collect();
        entries.sort_by_key(InboxEntry::place);
        Ok(InboxPage { entries, next })
    }

    /// Redis has it in another place than it belongs.
    async fn put_right(&self, user: &UserId, entry: &InboxEntry) {
        let InboxKey { shelf, last_at, id } = entry.place();
        let _may_fail = self.hints.shelve(user, id, Some((shelf, last_at))).await;
    }

    /// Where conversations are, in the order of the inbox.
    pub(crate) async fn places(
        &self,
        user: &UserId,
        filter: InboxFilter,
        after: Option<InboxKey>,
        limit: usize,
    ) -> Result<Vec<InboxKey>, StoreError> {
        let indexed = self.hints.inbox(user, filter, after, limit).await;
        if let Ok(Some(places)) = indexed {
            return Ok(places);
        }
        let mut all = self.listed(user).await?;
        if indexed.is_ok() {
            let _may_fail = self.hints.fill_inbox(user, &all).await;
            if let Ok(Some(places)) = self.hints.inbox(user, filter, after, limit).await {
                return Ok(places);
            }
        }
        all.retain(|place| filter.takes(place.shelf) && after.is_none_or(|after| *place > after));
        all.sort();
        all.truncate(limit);
        Ok(all)
    }

    /// Whether the user has a row of any conversation. Every member has one from the start.
    pub(crate) async fn is_member(&self, user: &UserId) -> Result<bool, StoreError> {
        let query = Query {
            table: Table::Conversations,
            partition: user.to_string(),
            range: SortRange::All,
            descending: false,
            limit: 1,
            fields: &["last_at"],
        };
        Ok(!self.rows.query(query).await?.rows.is_empty())
    }

    /// All conversations of the user by its rows, and by what this node has not written into them yet.
    pub(crate) async fn listed(&self, user: &UserId) -> Result<Vec<InboxKey>, StoreError> {
        let mut places: Vec<InboxKey> = Vec::new();
        let mut range = SortRange::All;
        loop {
            let query = Query {
                table: Table::Conversations,
                partition: user.to_string(),
                range,
                descending: false,
                limit: 1_000,
                fields: &["last_at", "pinned", "archived"],
            };
            let slice = self.rows.query(query).await?;
            for (sort, item) in &slice.rows {
                let Sort::Text(id) = sort else { continue };
                let id = id
                    .parse()
                    .map_err(|_| StoreError::Damaged(format!("a row in the inbox of {user}").into()))?;
                let last_at = Timestamp::from_millis(item.find_number("last_at").unwrap_or(i64::MIN));
                places.push(InboxKey { shelf: InboxSection::of(decode_preferences(item)), last_at, id });
            }
            match slice.rows.last() {
                Some((Sort::Text(last), _)) if slice.more => range = SortRange::After(last.clone()),
                _ => break,
            }
        }
        for (id, last_at) in self.flush.behind_for(user, false) {
            if let Some(place) = places.iter_mut().find(|place| place.id == id) {
                place.last_at = place.last_at.max(last_at);
            }
        }
        Ok(places)
    }

    pub(crate) async fn prefer_now(
        self: &Arc<Engine>,
        prefer: SetPreferences,
    ) -> Result<InboxEntry, StoreError> {
        let _work = self.begin_write()?;
        let SetPreferences { conversation: id, user, change } = prefer;
        let (_, member) = self.membership(id, &user).await?;
        let whose = (id, user.clone());
        let _one = self.member_states.one_at_a_time.enter(&whose).await;
        let mut changed = false;
        if let Some(hides) = change.hides_reads {
            loop {
                let loaded = self.standings_of(id, std::slice::from_ref(&member), Seq::MAX).await?;
                let mut loaded = loaded[0];
                if loaded.member_state.preferences.hides_reads == hides {
                    break;
                }
                loaded.member_state.preferences.hides_reads = hides;
                if self.write_standing(&whose, &mut loaded).await?.is_some() {
                    self.member_states.kept(whose.clone(), loaded);
                    changed = true;
                    break;
                }
            }
        }
        let key = Key::text(&user, id);
        loop {
            let row = self.rows.get(Table::Conversations, &key).await?.ok_or(Refusal::NotAMember)?;
            let before = decode_preferences(&row);
            let now = Preferences { hides_reads: false, ..change.applied_to(before) };
            if now == before {
                break;
            }
            let (version, mut item) = (row.version(), row);
            for (name, value) in [("muted", now.muted), ("pinned", now.pinned), ("archived", now.archived)] {
                item = item.flag(name, value);
            }
            let item = item.versioned(version + 1);
            if self.rows.put(Table::Conversations, &key, &item, Only::IfVersion(version)).await?
                == Written::Done
            {
                changed = true;
                break;
            }
        }
        let entry = self.entry(id, &user).await?;
        if changed {
            self.put_right(&user, &entry).await;
            self.tell_change(CommittedChange::PreferencesChanged { conversation: id, user });
        }
        Ok(entry)
    }
}
