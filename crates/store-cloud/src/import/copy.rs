//! Writing: what is not there yet is written, what is there and equal is left, and what is there and different stops the
//! copy where it may not be replaced.

use std::collections::{BTreeMap, HashMap, HashSet};

use bluetick_core::{ContentType, Conversation, ConversationId, Message, Seq};

use super::rows::{self, Chain, Row};
use super::{ImportError, ImportedPerson, ImportedRoom, Importer};
use crate::cells::Cell;
use crate::hot::Partition;
use crate::keyed::side_by_side;
use crate::people::holder_rows;
use crate::rows::{Item, Key, Only, Query, Rows, Sort, SortRange, Table, Written};

/// Rows written side by side, where each has a condition.
const AT_ONCE: usize = 16;

/// The largest row that DynamoDB takes has 400 KiB, names and all.
const MOST_CONTENT_BYTES: usize = 390 << 10;

/// What was done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Copied {
    pub written: u64,
    /// There and equal.
    pub were_there: u64,
}

impl Importer {
    /// `may_replace`: whatever is in the tables belongs to an earlier run of this copy.
    pub async fn people(&self, people: &[ImportedPerson], may_replace: bool) -> Result<Copied, ImportError> {
        let wanted: Vec<Row> = people.iter().flat_map(rows::person).collect();
        let keys = wanted.iter().map(|(table, key, _)| (*table, key.clone())).collect();
        let there = self.rows.get_many(keys).await?;
        let mut done = Copied::default();
        let mut missing = Vec::new();
        for ((table, key, item), there) in wanted.into_iter().zip(there) {
            match there {
                Some(there) if there == item => done.were_there += 1,
                Some(_) if table == Table::Users && !may_replace => {
                    let user = &key.partition;
                    return Err(ImportError::Conflict(format!(
                        "user {user} is in the tables already and is another one"
                    )));
                }
                _ => missing.push((table, key, item)),
            }
        }
        done.written = missing.len() as u64;
        // Write the holder of each name first, so that no sign-up takes it. One of several
        // lookalike ids holds the name.
        let new: HashSet<&str> = missing.iter().map(|(_, key, _)| &*key.partition).collect();
        let new = people.iter().filter(|person| person.account.is_some() && new.contains(person.id.as_str()));
        let held: HashMap<_, Row> = new
            .flat_map(|person| holder_rows(&person.id))
            .map(|row| (row.1.partition.clone(), row))
            .collect();
        self.rows.put_all(held.into_values().collect()).await?;
        // The names first: one that leads to nobody is passed over.
        let (names, users): (Vec<Row>, Vec<Row>) =
            missing.into_iter().partition(|(table, ..)| *table == Table::Names);
        self.rows.put_all(names).await?;
        self.rows.put_all(users).await?;
        Ok(done)
    }

    /// Claims a conversation. Its messages come next, all of them in their order, and then [`RoomCopy::finish`].
    pub async fn room(&self, room: ImportedRoom) -> Result<RoomCopy<'_>, ImportError> {
        let conversation = &room.conversation;
        let (claim, done) = (rows::claim(conversation), rows::room(conversation));
        let key = Key::new(conversation.id);
        let claimed = match self.rows.put(Table::Rooms, &key, &claim, Only::IfAbsent).await? {
            Written::Done => Claimed::Now,
            Written::Refused(there) => {
                let there = match there {
                    Some(there) => Some(there),
                    None => self.rows.get(Table::Rooms, &key).await?,
                };
                match there {
                    Some(there) if there == claim => Claimed::Before,
                    Some(there) if there == done => Claimed::AndDone,
                    _ => {
                        let id = conversation.id;
                        return Err(ImportError::Conflict(format!(
                            "conversation {id} is in the tables already, and not by this copy"
                        )));
                    }
                }
            }
        };
        let chain = Chain::new(conversation);
        Ok(RoomCopy { importer: self, chain, newest: None, claimed, room, copied: Copied::default() })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Claimed {
    /// Nothing of it is there.
    Now,
    /// By an earlier run, which may have come to any point.
    Before,
    AndDone,
}

/// A conversation that is being copied.
pub struct RoomCopy<'a> {
    importer: &'a Importer,
    room: ImportedRoom,
    chain: Chain,
    newest: Option<Cell>,
    claimed: Claimed,
    copied: Copied,
}

impl RoomCopy<'_> {
    /// The next ones, without a gap.
    pub async fn messages(&mut self, messages: Vec<Message>) -> Result<(), ImportError> {
        let conversation = &self.room.conversation;
        let mut cells = Vec::with_capacity(messages.len());
        for message in messages {
            let expected = self.newest.as_ref().map_or(Seq::FIRST, |cell| cell.seq().next());
            assert_eq!(message.seq, expected, "messages come in their order");
            if message.content.len() > MOST_CONTENT_BYTES {
                let at = place(conversation, message.seq);
                return Err(ImportError::Conflict(format!("{at} is larger than a row can be")));
            }
            let cell = self.chain.cell(message);
            self.newest = Some(cell.clone());
            cells.push(cell);
        }
        let rows = &*self.importer.rows;
        if self.claimed == Claimed::Now {
            self.copied.written += cells.len() as u64;
            let cells = cells.iter().map(|cell| (Table::Messages, key_of(cell), cell.item()));
            return Ok(rows.put_all(cells.collect()).await?);
        }
        let (Some(first), Some(last)) = (cells.first(), cells.last()) else { return Ok(()) };
        let there = cells_there(rows, conversation.id, first.seq(), last.seq()).await?;
        let writing = cells.iter().map(|cell| mend(rows, conversation, cell, there.get(&cell.seq())));
        for written in side_by_side(AT_ONCE, writing.collect()).await {
            match written? {
                true => self.copied.written += 1,
                false => self.copied.were_there += 1,
            }
        }
        Ok(())
    }

    /// All messages are there: what follows from them, who may read them, and that it is done.
    pub async fn finish(mut self) -> Result<Copied, ImportError> {
        let (rows, conversation) = (&*self.importer.rows, &self.room.conversation);
        let head = self.newest.as_ref().map_or(Seq::ZERO, Cell::seq);
        assert_eq!(head, conversation.head, "all messages come before the end");
        let consequences = rows::consequences(&self.room, self.newest.as_ref());
        if self.claimed != Claimed::Now {
            let mut stale = consequences.absent;
            for user in strangers(rows, &self.room).await? {
                stale.push((Table::Members, Key::text(conversation.id, &user)));
                stale.extend(rows::rows_of_member(conversation.id, &user));
            }
            rows.delete_all(stale).await?;
        }
        let members = rows::members(&self.room);
        self.copied.written += (consequences.rows.len() + members.len() + 1) as u64;
        rows.put_all(consequences.rows).await?;
        rows.put_all(members).await?;
        if self.claimed != Claimed::AndDone {
            let (key, item) = (Key::new(conversation.id), rows::room(conversation));
            let written = rows.put(Table::Rooms, &key, &item, Only::IfVersion(1)).await?;
            if written != Written::Done {
                let id = conversation.id;
                return Err(ImportError::Conflict(format!(
                    "conversation {id} was changed by somebody else while it was copied"
                )));
            }
        }
        Ok(self.copied)
    }
}

pub(super) fn key_of(cell: &Cell) -> Key {
    Partition::Plain.key(cell.message.conversation, cell.seq())
}

/// In a sentence.
pub(super) fn place(conversation: &Conversation, seq: Seq) -> String {
    format!("message {seq} of conversation {}", conversation.id)
}

/// Whether it had to be written.
async fn mend(
    rows: &dyn Rows,
    conversation: &Conversation,
    cell: &Cell,
    there: Option<&Item>,
) -> Result<bool, ImportError> {
    let (key, item) = (key_of(cell), cell.item());
    let only = match there {
        Some(there) if *there == item => return Ok(false),
        Some(there) if may_replace(cell, there)? => Only::IfVersion(0),
        Some(_) => return Err(taken(conversation, cell)),
        None => Only::IfAbsent,
    };
    match rows.put(Table::Messages, &key, &item, only).await? {
        Written::Done => Ok(true),
        // A write of a run that was stopped may come late, and so may one of this run that got no answer.
        Written::Refused(Some(there)) if there == item => Ok(false),
        Written::Refused(_) => Err(taken(conversation, cell)),
    }
}

fn taken(conversation: &Conversation, cell: &Cell) -> ImportError {
    let place = place(conversation, cell.seq());
    ImportError::Conflict(format!("{place} is in the tables already and is another one"))
}

/// It was erased since the first run, or could not be read then.
fn may_replace(ours: &Cell, there: &Item) -> Result<bool, ImportError> {
    let there = Cell::decode(ours.message.conversation, ours.seq(), there)?;
    let (ours, there) = (&ours.message, &there.message);
    let same = Message {
        content: ours.content.clone(),
        content_type: ours.content_type.clone(),
        ..(**there).clone()
    };
    let was_unreadable = matches!(there.content_type, ContentType::Lost | ContentType::Void);
    let is_late = ours.content_type == ContentType::Erased || was_unreadable;
    Ok(is_late && same == **ours)
}

pub(super) async fn cells_there(
    rows: &dyn Rows,
    id: ConversationId,
    first: Seq,
    last: Seq,
) -> Result<BTreeMap<Seq, Item>, ImportError> {
    let mut found = BTreeMap::new();
    let mut next = first;
    while next <= last {
        let query = Query {
            table: Table::Messages,
            partition: Partition::Plain.name(id),
            range: SortRange::Numbers(next.get(), last.get()),
            descending: false,
            limit: 1_000,
            fields: &[],
        };
        let slice = rows.query(query).await?;
        for (sort, item) in slice.rows {
            if let Sort::Number(seq) = sort {
                next = Seq::new(seq).next();
                found.insert(Seq::new(seq), item);
            }
        }
        if !slice.more {
            break;
        }
    }
    Ok(found)
}

/// Who is a member in the tables.
pub(super) async fn members_there(
    rows: &dyn Rows,
    id: ConversationId,
) -> Result<BTreeMap<String, Item>, ImportError> {
    let (mut found, mut range) = (BTreeMap::new(), SortRange::All);
    loop {
        let query = Query {
            table: Table::Members,
            partition: id.to_string(),
            range,
            descending: false,
            limit: 1_000,
            fields: &[],
        };
        let slice = rows.query(query).await?;
        let last = slice.rows.last().map(|(sort, _)| sort.clone());
        for (sort, item) in slice.rows {
            if let Sort::Text(user) = sort {
                found.insert(user, item);
            }
        }
        match last {
            Some(Sort::Text(last)) if slice.more => range = SortRange::After(last),
            _ => return Ok(found),
        }
    }
}

/// Members in the tables who are none, or none any more.
async fn strangers(rows: &dyn Rows, room: &ImportedRoom) -> Result<Vec<String>, ImportError> {
    let mut there = members_there(rows, room.conversation.id).await?;
    for (member, _) in &room.members {
        there.remove(member.user.as_str());
    }
    Ok(there.into_keys().collect())
}
