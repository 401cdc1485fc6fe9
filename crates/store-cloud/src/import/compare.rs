//! Reading everything back: each row that must be there is, as it must be, and nothing else of it.

use bluetick_core::{Message, Seq};

use super::copy::{cells_there, members_there, place};
use super::rows::{self, Chain, Row};
use super::{ImportError, ImportedPerson, ImportedRoom, Importer};
use crate::cells::Cell;
use crate::rows::{Item, Key, Rows, Table};

/// What was found, a sentence each that names a place and nothing of what is in it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Comparison {
    /// How many rows were compared.
    pub rows: u64,
    /// How many are not as they must be.
    pub differences: u64,
    /// The first of them.
    pub sentences: Vec<String>,
}

const MOST_SENTENCES: usize = 20;

impl Comparison {
    pub fn add(&mut self, other: Comparison) {
        self.rows += other.rows;
        self.differences += other.differences;
        let room = MOST_SENTENCES.saturating_sub(self.sentences.len());
        self.sentences.extend(other.sentences.into_iter().take(room));
    }

    fn differs(&mut self, sentence: String) {
        self.differences += 1;
        if self.sentences.len() < MOST_SENTENCES {
            self.sentences.push(sentence);
        }
    }

    fn look(&mut self, what: impl FnOnce() -> String, ours: &Item, there: Option<&Item>) {
        self.rows += 1;
        match there {
            Some(there) if there == ours => {}
            Some(_) => self.differs(format!("{} is not what was copied", what())),
            None => self.differs(format!("{} is missing", what())),
        }
    }
}

fn named(table: Table, key: &Key) -> String {
    match &key.sort {
        crate::rows::Sort::Text(_) if table == Table::Names => {
            format!("a row of table {} under {:?}", table.name(), key.partition)
        }
        crate::rows::Sort::Text(sort) => {
            format!("the row of table {} for {} and {sort}", table.name(), key.partition)
        }
        _ => format!("the row of table {} for {}", table.name(), key.partition),
    }
}

async fn compare(rows: &dyn Rows, wanted: &[Row], found: &mut Comparison) -> Result<(), ImportError> {
    let keys = wanted.iter().map(|(table, key, _)| (*table, key.clone())).collect();
    let there = rows.get_many(keys).await?;
    for ((table, key, item), there) in wanted.iter().zip(&there) {
        found.look(|| named(*table, key), item, there.as_ref());
    }
    Ok(())
}

impl Importer {
    pub async fn compare_people(&self, people: &[ImportedPerson]) -> Result<Comparison, ImportError> {
        let wanted: Vec<Row> = people.iter().flat_map(rows::person).collect();
        let mut found = Comparison::default();
        compare(&*self.rows, &wanted, &mut found).await?;
        Ok(found)
    }

    /// All its messages come next, in their order, and then [`RoomComparison::finish`].
    pub fn compare_room(&self, room: ImportedRoom) -> RoomComparison<'_> {
        let chain = Chain::new(&room.conversation);
        RoomComparison { importer: self, chain, newest: None, room, found: Comparison::default() }
    }
}

/// A conversation that is being compared.
pub struct RoomComparison<'a> {
    importer: &'a Importer,
    room: ImportedRoom,
    chain: Chain,
    newest: Option<Cell>,
    found: Comparison,
}

impl RoomComparison<'_> {
    pub async fn messages(&mut self, messages: Vec<Message>) -> Result<(), ImportError> {
        let (Some(first), Some(last)) = (messages.first(), messages.last()) else { return Ok(()) };
        let conversation = &self.room.conversation;
        let there = cells_there(&*self.importer.rows, conversation.id, first.seq, last.seq).await?;
        for message in messages {
            let cell = self.chain.cell(message);
            self.found.look(|| place(conversation, cell.seq()), &cell.item(), there.get(&cell.seq()));
            self.newest = Some(cell);
        }
        Ok(())
    }

    pub async fn finish(mut self) -> Result<Comparison, ImportError> {
        let (rows, conversation) = (&*self.importer.rows, &self.room.conversation);
        let id = conversation.id;
        let above = cells_there(rows, id, conversation.head.next(), Seq::MAX).await?;
        if let Some(seq) = above.keys().next() {
            self.found
                .differs(format!("{} is above the last one that was copied", place(conversation, *seq)));
        }
        let consequences = rows::consequences(&self.room, self.newest.as_ref());
        compare(rows, &consequences.rows, &mut self.found).await?;
        let absent = rows.get_many(consequences.absent.clone()).await?;
        for ((table, key), there) in consequences.absent.iter().zip(absent) {
            self.found.rows += 1;
            if there.is_some() {
                self.found.differs(format!("{} should not be there", named(*table, key)));
            }
        }
        let mut there = members_there(rows, id).await?;
        for (table, key, item) in rows::members(&self.room) {
            let crate::rows::Sort::Text(user) = &key.sort else { continue };
            self.found.look(|| named(table, &key), &item, there.remove(user).as_ref());
        }
        for user in there.keys() {
            self.found.differs(format!("{user} is no member of conversation {id} and is one in the tables"));
        }
        compare(rows, &[(Table::Rooms, Key::new(id), rows::room(conversation))], &mut self.found).await?;
        Ok(self.found)
    }
}
