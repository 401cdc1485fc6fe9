//! Whether there is anything in the tables: the one question that is asked of no particular row.

use aws_sdk_dynamodb::types::AttributeValue;

use super::super::{RowsError, Table};
use super::connection::Connection;
use super::counters::Operation;
use super::patience::Patience;
use crate::people::SHARED;

/// More than there are of what nodes share.
const ROWS_LOOKED_AT: i32 = 20;

pub async fn in_use(connection: &Connection) -> Result<Option<String>, RowsError> {
    for table in Table::ALL {
        let request = connection.client().scan().table_name(connection.table_name(table));
        let request = request.limit(ROWS_LOOKED_AT).consistent_read(true);
        let mut patience = Patience::new(connection, Operation::Tables, connection.table_words(table));
        let answer = patience.demand(|| request.clone().send()).await?;
        let is_shared = |key: &AttributeValue| key.as_s().is_ok_and(|text| text.starts_with(SHARED));
        let rows = answer.items.unwrap_or_default();
        if rows.iter().any(|row| !row.get(table.partition_key()).is_some_and(is_shared)) {
            return Ok(Some(connection.table_name(table)));
        }
    }
    Ok(None)
}
