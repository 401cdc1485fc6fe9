//! How far a conversation has come on its way to the archive: a part of the room's row.

use bluetick_core::{ConversationId, Seq, StoreError, Timestamp};

use crate::engine::Engine;
use crate::rows::{Item, Key, Only, Table, Written};

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Way {
    /// There may be objects of it. Set before the first is put.
    pub has_cold: bool,
    /// It was brought back to stay.
    pub kept_hot: bool,
    /// Nothing up to here has its content in the rows, but for what was brought back.
    pub moved_through: Seq,
    /// Everything up to here is past its retention and erased.
    pub expired_through: Seq,
    /// The revision of the objects that were put last. Raised by every job before it puts any, so that no two have ever
    /// put something under the same name: one that was slow, or a request that was given up and is carried out later,
    /// meets no object that somebody refers to.
    pub names_raised: u32,
    /// Nothing can be moved before, as long as what counts as old stays the same.
    pub look: Option<Look>,
}

/// When to look next, and for which age that was found out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Look {
    pub at: Timestamp,
    pub age_seconds: u64,
}

impl Way {
    pub fn is_worth_a_look(&self, now: Timestamp, age_seconds: u64) -> bool {
        !self.kept_hot && self.look.is_none_or(|look| look.age_seconds != age_seconds || look.at <= now)
    }

    /// What is not so is not written: most conversations are young.
    pub fn written_into(&self, mut item: Item) -> Item {
        for (name, is_so) in [("has_cold", self.has_cold), ("kept_hot", self.kept_hot)] {
            if is_so {
                item = item.flag(name, true);
            }
        }
        let counts = [
            ("moved_through", self.moved_through.get()),
            ("expired_through", self.expired_through.get()),
            ("names_raised", self.names_raised.into()),
        ];
        for (name, count) in counts {
            if count > 0 {
                item = item.count(name, count);
            }
        }
        match self.look {
            Some(look) => item.number("look_at", look.at.millis()).count("look_age", look.age_seconds),
            None => item,
        }
    }

    pub fn decode(item: &Item) -> Way {
        let look = item
            .find_number("look_at")
            .map(|at| Look { at: Timestamp::from_millis(at), age_seconds: item.find_count("look_age") });
        Way {
            has_cold: item.find_flag("has_cold"),
            kept_hot: item.find_flag("kept_hot"),
            moved_through: Seq::new(item.find_count("moved_through")),
            expired_through: Seq::new(item.find_count("expired_through")),
            names_raised: u32::try_from(item.find_count("names_raised")).unwrap_or(u32::MAX),
            look,
        }
    }
}

impl Engine {
    /// Returns it as it is then; `None` where there is no such conversation.
    pub(super) async fn change_way(
        &self,
        id: ConversationId,
        change: impl Fn(&mut Way),
    ) -> Result<Option<Way>, StoreError> {
        loop {
            let Some(mut row) = self.room_row(id).await? else { return Ok(None) };
            let before = row.way.clone();
            change(&mut row.way);
            if row.way == before {
                return Ok(Some(before));
            }
            let only = Only::IfVersion(row.version);
            row.version += 1;
            if self.rows.put(Table::Rooms, &Key::new(id), &row.item(), only).await? == Written::Done {
                return Ok(Some(row.way));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_comes_back_and_a_young_conversation_says_nothing() {
        let way = Way {
            has_cold: true,
            kept_hot: true,
            moved_through: Seq::new(1000),
            expired_through: Seq::new(3),
            names_raised: 2,
            look: Some(Look { at: Timestamp::from_millis(7), age_seconds: 90 }),
        };
        assert_eq!(Way::decode(&way.written_into(Item::new())), way);
        assert_eq!(Way::default().written_into(Item::new()), Item::new());
        assert_eq!(Way::decode(&Item::new()), Way::default());
    }
}
