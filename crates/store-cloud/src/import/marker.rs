//! How far a copy has come, in the tables themselves: it belongs to them and not to the machine that fills them.

use bluetick_core::{ConversationId, Timestamp, UserId};

use super::{ImportError, Importer};
use crate::people::shared_key;
use crate::rows::{Item, Only, Rows, Table, Written};

const NAME: &str = "migration";

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Marker {
    /// The store that is copied.
    pub source: String,
    /// Where it stood when its copy began; another number means that it was written to since.
    pub position: u64,
    /// Nobody had written to the tables before. Then all that is in them belongs to the copy.
    pub began_vacant: bool,
    pub people_after: Option<UserId>,
    pub are_people_copied: bool,
    /// All conversations up to this one are copied, in the order of their ids.
    pub rooms_after: Option<ConversationId>,
    pub is_copied: bool,
    /// For the next run to say how much there was.
    pub people: u64,
    pub conversations: u64,
    pub messages: u64,
    pub lost: u64,
    pub erased: u64,
    /// Set when all is copied and compared. From then on nothing is written any more.
    pub finished_at: Option<Timestamp>,
    version: u64,
}

impl Marker {
    pub fn new(source: &str, position: u64, began_vacant: bool) -> Marker {
        Marker {
            source: source.to_owned(),
            position,
            began_vacant,
            people_after: None,
            are_people_copied: false,
            rooms_after: None,
            is_copied: false,
            people: 0,
            conversations: 0,
            messages: 0,
            lost: 0,
            erased: 0,
            finished_at: None,
            version: 0,
        }
    }

    /// In the place of this one, which is finished or goes through everything again.
    pub fn instead(&self, source: &str, position: u64, began_vacant: bool) -> Marker {
        Marker { version: self.version, ..Marker::new(source, position, began_vacant) }
    }

    fn item(&self) -> Item {
        let item = Item::new()
            .text("source", self.source.as_str())
            .count("position", self.position)
            .flag("began_vacant", self.began_vacant)
            .text_if("people_after", self.people_after.as_ref().map(UserId::as_str))
            .flag("are_people_copied", self.are_people_copied)
            .text_if("rooms_after", self.rooms_after.map(|id| id.to_string()))
            .flag("is_copied", self.is_copied)
            .count("people", self.people)
            .count("conversations", self.conversations)
            .count("messages", self.messages)
            .count("lost", self.lost)
            .count("erased", self.erased)
            .versioned(self.version);
        match self.finished_at {
            Some(at) => item.number("finished_at", at.millis()),
            None => item,
        }
    }

    fn decode(item: &Item) -> Result<Marker, ImportError> {
        let damaged = || ImportError::Damaged("how far the copy has come cannot be read".to_owned());
        Ok(Marker {
            source: item.get_text("source")?.to_string(),
            position: item.find_count("position"),
            began_vacant: item.find_flag("began_vacant"),
            people_after: item
                .find_text("people_after")
                .map(|id| UserId::from_stored(id))
                .transpose()
                .map_err(|_| damaged())?,
            are_people_copied: item.find_flag("are_people_copied"),
            rooms_after: item
                .find_text("rooms_after")
                .map(|id| id.parse())
                .transpose()
                .map_err(|_| damaged())?,
            is_copied: item.find_flag("is_copied"),
            people: item.find_count("people"),
            conversations: item.find_count("conversations"),
            messages: item.find_count("messages"),
            lost: item.find_count("lost"),
            erased: item.find_count("erased"),
            finished_at: item.find_number("finished_at").map(Timestamp::from_millis),
            version: item.version(),
        })
    }

    /// That of the tables; `None`: nothing was ever copied into them.
    pub async fn read(rows: &dyn Rows) -> Result<Option<Marker>, ImportError> {
        let item = rows.get(Table::Users, &shared_key(NAME)).await?;
        item.map(|item| Marker::decode(&item)).transpose()
    }
}

impl Importer {
    pub async fn marker(&self) -> Result<Option<Marker>, ImportError> {
        Marker::read(&*self.rows).await
    }

    /// Fails when somebody else has written it meanwhile: two copies at once.
    pub async fn save(&self, marker: &mut Marker) -> Result<(), ImportError> {
        let only = match marker.version {
            0 => Only::IfAbsent,
            version => Only::IfVersion(version),
        };
        marker.version += 1;
        match self.rows.put(Table::Users, &shared_key(NAME), &marker.item(), only).await? {
            Written::Done => Ok(()),
            Written::Refused(_) => Err(ImportError::Conflict(
                "somebody else copies into these tables at the same time".to_owned(),
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::rows::memory::MemoryRows;

    #[tokio::test]
    async fn a_marker_comes_back_and_two_copies_at_once_are_noticed() {
        let importer = Importer::new(Arc::new(MemoryRows::default()));
        assert_eq!(importer.marker().await.unwrap(), None);
        let mut ours = Marker::new("0123", 7, true);
        let mut theirs = ours.clone();
        importer.save(&mut ours).await.unwrap();
        assert!(importer.save(&mut theirs).await.is_err());
        ours.people_after = Some("ann".parse().unwrap());
        ours.rooms_after = Some(ConversationId::group([3; 15]));
        ours.finished_at = Some(Timestamp::from_millis(5));
        importer.save(&mut ours).await.unwrap();
        assert_eq!(importer.marker().await.unwrap(), Some(ours));
    }
}
