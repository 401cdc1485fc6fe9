//! Who is in a conversation, kept at hand with the version it belongs to.
//!
//! A change of membership is decided by one conditional write of the room's row, which then carries the change (the
//! intent) until all that follows from it is done. Whoever meets an intent finishes it, so a node that dies in the middle
//! leaves nothing half done: see [`changes`](crate::changes).

use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use bluetick_core::{
    Conversation, ConversationId, Member, Members, Refusal, Role, Seq, StoreError, Timestamp, Title, UserId,
};

use crate::archive::Way;
use crate::engine::Engine;
use crate::intent::Intent;
use crate::rows::{Item, Key, Query, Sort, SortRange, Table};

/// What never changes about a conversation.
#[derive(Clone, Debug)]
pub(crate) struct Facts {
    pub id: ConversationId,
    pub title: Option<Title>,
    pub created_by: UserId,
    pub created_at: Timestamp,
}

impl Facts {
    pub fn conversation(&self, head: Seq, last_at: Option<Timestamp>) -> Conversation {
        Conversation {
            id: self.id,
            title: self.title.clone(),
            created_by: self.created_by.clone(),
            created_at: self.created_at,
            head,
            last_at: last_at.map_or(self.created_at, |at| at.max(self.created_at)),
        }
    }
}

/// The row of a conversation.
#[derive(Clone, Debug)]
pub(crate) struct RoomRow {
    pub facts: Facts,
    /// Of the row; goes up with every write.
    pub version: u64,
    /// Goes up with every change of membership.
    pub members_version: u64,
    pub intent: Option<Intent>,
    /// How far it has come on its way to the archive.
    pub way: Way,
}

impl RoomRow {
    pub fn item(&self) -> Item {
        let Facts { title, created_by, created_at, .. } = &self.facts;
        let intent = self.intent.as_ref().map(|intent| intent.to_text());
        let item = Item::new()
            .text_if("title", title.as_ref().map(Title::as_str))
            .text("created_by", created_by.as_str())
            .number("created_at", created_at.millis())
            .count("members_version", self.members_version)
            .text_if("intent", intent)
            .versioned(self.version);
        self.way.written_into(item)
    }

    /// Whether it is more than the claim of a copy that has not come to its end.
    pub fn is_whole(&self) -> bool {
        self.members_version > 0
    }

    pub fn decode(id: ConversationId, item: &Item) -> Result<RoomRow, StoreError> {
        let damaged = |what: &str| StoreError::Damaged(format!("the {what} of {id}").into());
        let title = item.find_text("title").map(|title| Title::from_stored(title));
        let facts = Facts {
            id,
            title: title.transpose().map_err(|_| damaged("title"))?,
            created_by: UserId::from_stored(item.get_text("created_by")?).map_err(|_| damaged("maker"))?,
            created_at: Timestamp::from_millis(item.get_number("created_at")?),
        };
        let intent = item.find_text("intent").map(|text| Intent::from_text(text));
        Ok(RoomRow {
            facts,
            version: item.version(),
            members_version: item.find_count("members_version"),
            intent: intent.transpose().map_err(|_| damaged("intent"))?,
            way: Way::decode(item),
        })
    }
}

pub(crate) fn member_item(member: &Member) -> Item {
    Item::new()
        .text("role", if member.role == Role::Admin { "admin" } else { "member" })
        .count("joined_seq", member.joined_seq.get())
}

pub(crate) fn decode_member(user: UserId, item: &Item) -> Member {
    let admin = item.find_text("role").is_some_and(|role| **role == *"admin");
    Member {
        user,
        role: if admin { Role::Admin } else { Role::Member },
        joined_seq: Seq::new(item.find_count("joined_seq")),
    }
}

/// Adds the seqs that a departed member saw to the member's row, which also survives a later join.
pub(crate) fn with_departure(item: Item, departure: Option<&Departure>) -> Item {
    match departure {
        Some(Departure { member, left_seq }) => {
            item.count("departed_joined_seq", member.joined_seq.get()).count("left_seq", left_seq.get())
        }
        None => item,
    }
}

/// The member's last departure. `None` for rows of members that never left, or left before rows
/// held it.
pub(crate) fn decode_departure(user: &UserId, item: &Item) -> Option<Departure> {
    let left_seq = Seq::new(item.find_count("left_seq"));
    let joined_seq = Seq::new(item.find_count("departed_joined_seq"));
    let member = Member { user: user.clone(), role: Role::Member, joined_seq };
    (left_seq > Seq::ZERO).then_some(Departure { member, left_seq })
}

/// A membership that has ended: the member saw the seqs from `member.joined_seq` up to and without
/// `left_seq`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Departure {
    pub member: Member,
    pub left_seq: Seq,
}

/// Bounds the departures that a node keeps per conversation: the latest ones. A member whose
/// departure is not among them may miss the last messages before it on a node that is behind.
const MOST_DEPARTURES: usize = 64;

/// A conversation and who was in it at a version.
#[derive(Clone, Debug)]
pub(crate) struct Known {
    pub facts: Arc<Facts>,
    pub members: Arc<Members>,
    /// The latest departures. A message below `left_seq` still belongs to the member, however late a
    /// node announces it.
    pub departures: Arc<[Departure]>,
    pub version: u64,
}

impl Known {
    /// The members that may see `seq`. Includes members that left above it.
    pub fn members_at(&self, seq: Seq) -> Arc<Members> {
        let saw_it =
            |departure: &&Departure| (departure.member.joined_seq..departure.left_seq).contains(&seq);
        let mut departed = self.departures.iter().filter(saw_it).peekable();
        if departed.peek().is_none() {
            return Arc::clone(&self.members);
        }
        let mut members = Members::clone(&self.members);
        for departure in departed {
            // A member that has joined again since sees nothing before it did.
            if members.get(&departure.member.user).is_none_or(|member| member.joined_seq > seq) {
                members.insert(departure.member.clone());
            }
        }
        Arc::new(members)
    }

    pub fn member(&self, user: &UserId) -> Result<&Member, Refusal> {
        self.members.get(user).ok_or(Refusal::NotAMember)
    }
}

#[derive(Default)]
pub(crate) struct Memberships(Mutex<HashMap<ConversationId, Known>>);

/// Conversations whose members are kept at hand.
const MOST_KNOWN: usize = 100_000;

impl Memberships {
    pub fn get(&self, id: ConversationId) -> Option<Known> {
        self.0.lock().expect("nothing panics while it holds the lock").get(&id).cloned()
    }

    /// Keeps the newer of two.
    pub fn keep(&self, known: Known) {
        let mut all = self.0.lock().expect("nothing panics while it holds the lock");
        if all.len() >= MOST_KNOWN {
            all.clear();
        }
        let kept = all.entry(known.facts.id).or_insert_with(|| known.clone());
        if kept.version < known.version {
            *kept = known;
        }
    }
}

impl Engine {
    pub(crate) async fn room_row(&self, id: ConversationId) -> Result<Option<RoomRow>, StoreError> {
        let item = self.rows.get(Table::Rooms, &Key::new(id)).await?;
        item.map(|item| RoomRow::decode(id, &item)).transpose()
    }

    /// From memory, or from the tables where nothing is at hand. What is at hand may be old; whoever must know for sure
    /// compares versions or asks [`Engine::known_now`].
    pub(crate) async fn known(&self, id: ConversationId) -> Result<Known, StoreError> {
        match self.memberships.get(id) {
            Some(known) => Ok(known),
            None => self.known_now(id).await,
        }
    }

    /// As the tables have it.
    pub(crate) async fn known_now(&self, id: ConversationId) -> Result<Known, StoreError> {
        loop {
            let row = self.room_row(id).await?.ok_or(Refusal::NotAMember)?;
            if let Some(known) = self.known_by(&row).await? {
                return Ok(known);
            }
        }
    }

    /// The members that belong to a row just read. `None` when they changed meanwhile.
    pub(crate) async fn known_by(&self, row: &RoomRow) -> Result<Option<Known>, StoreError> {
        let id = row.facts.id;
        if row.intent.is_some() {
            self.help_to_finish(id).await?;
            return Ok(None);
        }
        if let Some(known) = self.memberships.get(id).filter(|known| known.version >= row.members_version) {
            return Ok(Some(known));
        }
        let (members, departures) = self.read_members_now(id).await?;
        let again = self.room_row(id).await?;
        if again.is_none_or(|again| again.version != row.version) {
            return Ok(None);
        }
        let known = Known {
            facts: Arc::new(row.facts.clone()),
            members: Arc::new(members),
            departures: departures.into(),
            version: row.members_version,
        };
        self.memberships.keep(known.clone());
        Ok(Some(known))
    }

    /// The members as the tables have them, and the latest departures.
    pub(crate) async fn read_members_now(
        &self,
        id: ConversationId,
    ) -> Result<(Members, Vec<Departure>), StoreError> {
        let (mut members, mut departures) = (Vec::new(), Vec::new());
        let mut range = SortRange::All;
        loop {
            let query = Query {
                table: Table::Members,
                partition: id.to_string(),
                range,
                descending: false,
                limit: 10_000,
                fields: &[],
            };
            let slice = self.rows.query(query).await?;
            for (sort, item) in &slice.rows {
                let Sort::Text(user) = sort else { continue };
                let user = UserId::from_stored(user)
                    .map_err(|_| StoreError::Damaged(format!("a member of {id}").into()))?;
                departures.extend(decode_departure(&user, item));
                if !item.find_flag("left") {
                    members.push(decode_member(user, item));
                }
            }
            match slice.rows.last() {
                Some((Sort::Text(last), _)) if slice.more => range = SortRange::After(last.clone()),
                _ => {
                    departures.sort_unstable_by_key(|departure| Reverse(departure.left_seq));
                    departures.truncate(MOST_DEPARTURES);
                    return Ok((Members::from_unsorted(members), departures));
                }
            }
        }
    }

    /// The conversation and the reader's own membership, for sure, in one request.
    pub(crate) async fn membership(
        &self,
        id: ConversationId,
        user: &UserId,
    ) -> Result<(RoomRow, Member), StoreError> {
        loop {
            let wanted = vec![(Table::Rooms, Key::new(id)), (Table::Members, Key::text(id, user))];
            let [room, member] = self.get_several(wanted).await?;
            let row = RoomRow::decode(id, &room.ok_or(Refusal::NotAMember)?)?;
            if row.intent.is_some() {
                self.help_to_finish(id).await?;
                continue;
            }
            let member = member.filter(|item| !item.find_flag("left")).ok_or(Refusal::NotAMember)?;
            return Ok((row, decode_member(user.clone(), &member)));
        }
    }

    pub(crate) async fn get_several<const N: usize>(
        &self,
        wanted: Vec<(Table, Key)>,
    ) -> Result<[Option<Item>; N], StoreError> {
        let found = self.rows.get_many(wanted).await?;
        found.try_into().map_err(|_| StoreError::Failed("the engine gave back another number of rows".into()))
    }
}
