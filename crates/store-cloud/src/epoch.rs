//! Which life of the tables this is. It is raised by hand when they were restored to an earlier state, so that devices drop
//! what they know instead of diverging.

use bluetick_core::{Epoch, StoreError};

use crate::people::shared_key;
use crate::rows::{Item, Only, Rows, Table, Written};

const NAME: &str = "epoch";

fn decode(row: Option<&Item>) -> Epoch {
    row.map_or(Epoch::FIRST, |row| Epoch::new(row.version()))
}

pub async fn read_epoch(rows: &dyn Rows) -> Result<Epoch, StoreError> {
    Ok(decode(rows.get(Table::Users, &shared_key(NAME)).await?.as_ref()))
}

/// Returns the new one. Nodes learn of it when they start.
pub async fn raise_epoch(rows: &dyn Rows) -> Result<Epoch, StoreError> {
    let key = shared_key(NAME);
    loop {
        let row = rows.get(Table::Users, &key).await?;
        let next = Epoch::new(decode(row.as_ref()).get() + 1);
        let only = row.as_ref().map_or(Only::IfAbsent, |row| Only::IfVersion(row.version()));
        if rows.put(Table::Users, &key, &Item::new().versioned(next.get()), only).await? == Written::Done {
            return Ok(next);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows::memory::MemoryRows;

    #[tokio::test]
    async fn it_begins_with_the_first_and_each_restore_makes_another() {
        let rows = MemoryRows::default();
        assert_eq!(read_epoch(&rows).await.unwrap(), Epoch::FIRST);
        for expected in [2, 3] {
            assert_eq!(raise_epoch(&rows).await.unwrap(), Epoch::new(expected));
            assert_eq!(read_epoch(&rows).await.unwrap(), Epoch::new(expected));
        }
    }
}
