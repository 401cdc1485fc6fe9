//! One row at a time, on a condition, and the truth about it when answers get lost.
//!
//! An attempt whose answer never came may have been done. The next one then meets its own work, which is no refusal; or
//! meets something that may have come after it, and then nobody can say. The engine's own order does the rest: a version
//! that was passed never comes back, so a late attempt finds its condition gone.

use aws_sdk_dynamodb::error::ProvideErrorMetadata;
use aws_sdk_dynamodb::operation::delete_item::DeleteItemError;
use aws_sdk_dynamodb::operation::put_item::PutItemError;
use aws_sdk_dynamodb::types::ReturnValuesOnConditionCheckFailure;

use super::super::{Item, Key, Only, RowsError, Table, Written};
use super::codec::{Attributes, decode_row, encode_key, encode_row, number};
use super::connection::Connection;
use super::counters::Operation;
use super::patience::{Failure, Patience};
use super::trouble::Passing;

/// What [`Item::versioned`] writes.
const VERSION: &str = "version";

/// A condition in the engine's words.
struct Condition {
    expression: String,
    version: Option<u64>,
}

impl Condition {
    fn new(table: Table, only: Only) -> Option<Condition> {
        let key = table.partition_key();
        match only {
            Only::Always => None,
            Only::IfAbsent => {
                Some(Condition { expression: format!("attribute_not_exists({key})"), version: None })
            }
            // A row without a version has version 0.
            Only::IfVersion(0) => Some(Condition {
                expression: format!(
                    "attribute_exists({key}) AND (attribute_not_exists(#version) OR #version = :version)"
                ),
                version: Some(0),
            }),
            Only::IfVersion(version) => {
                Some(Condition { expression: "#version = :version".to_owned(), version: Some(version) })
            }
        }
    }
}

/// The two requests that take a condition have the same words for it.
macro_rules! on_condition {
    ($request:expr, $condition:expr) => {
        match $condition {
            None => $request,
            Some(Condition { expression, version }) => {
                let request = $request
                    .condition_expression(expression)
                    .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld);
                match version {
                    None => request,
                    Some(version) => request
                        .expression_attribute_names("#version", VERSION)
                        .expression_attribute_values(":version", number(version)),
                }
            }
        }
    };
}

/// An error that says that the condition does not hold, and perhaps what is there.
trait Refusal: ProvideErrorMetadata + Sized {
    fn refusal(self) -> Result<Option<Attributes>, Self>;
}

impl Refusal for PutItemError {
    fn refusal(self) -> Result<Option<Attributes>, PutItemError> {
        match self {
            PutItemError::ConditionalCheckFailedException(refused) => Ok(refused.item),
            other => Err(other),
        }
    }
}

impl Refusal for DeleteItemError {
    fn refusal(self) -> Result<Option<Attributes>, DeleteItemError> {
        match self {
            DeleteItemError::ConditionalCheckFailedException(refused) => Ok(refused.item),
            other => Err(other),
        }
    }
}

pub async fn put(
    connection: &Connection,
    table: Table,
    key: &Key,
    item: &Item,
    only: Only,
) -> Result<Written, RowsError> {
    let request = connection.client().put_item().table_name(connection.table_name(table));
    let request = request.set_item(Some(encode_row(table, key, item)));
    let request = on_condition!(request, Condition::new(table, only));
    let mut patience = Patience::new(connection, Operation::PutItem, connection.table_words(table));
    loop {
        let there = match patience.ask(|| request.clone().send()).await {
            Ok(_) => return Ok(Written::Done),
            Err(failure) => what_is_there(connection, table, key, &patience, failure).await?,
        };
        let could_be_later = |there: &Item| there.version() > item.version();
        match (only, there) {
            (_, Some(there)) if patience.unsure && there == *item => return Ok(Written::Done),
            (_, Some(there)) if patience.unsure && could_be_later(&there) => return Err(unclear(&patience)),
            (_, Some(there)) => return Ok(Written::Refused(Some(there))),
            // It was refused because of a row that went meanwhile.
            (Only::IfAbsent, None) => patience.pause(Passing::Busy).await?,
            (_, None) if patience.unsure => return Err(unclear(&patience)),
            (_, None) => return Ok(Written::Refused(None)),
        }
    }
}

pub async fn delete(
    connection: &Connection,
    table: Table,
    key: &Key,
    only: Only,
) -> Result<Written, RowsError> {
    let request = connection.client().delete_item().table_name(connection.table_name(table));
    let request = request.set_key(Some(encode_key(table, key)));
    let request = on_condition!(request, Condition::new(table, only));
    let mut patience = Patience::new(connection, Operation::DeleteItem, connection.table_words(table));
    let there = match patience.ask(|| request.clone().send()).await {
        Ok(_) => return Ok(Written::Done),
        Err(failure) => what_is_there(connection, table, key, &patience, failure).await?,
    };
    match there {
        None if patience.unsure => Ok(Written::Done),
        // It may have been deleted, and then made anew.
        Some(_) if patience.unsure => Err(unclear(&patience)),
        there => Ok(Written::Refused(there)),
    }
}

fn unclear(patience: &Patience<'_>) -> RowsError {
    patience.no_answer("an answer was lost, and the row has changed since")
}

/// After a refusal. Not every engine gives the row back with it: then it is read.
async fn what_is_there<E: Refusal>(
    connection: &Connection,
    table: Table,
    key: &Key,
    patience: &Patience<'_>,
    failure: Failure<E>,
) -> Result<Option<Item>, RowsError> {
    let refusal = match failure {
        Failure::Said(error) => error.refusal().map_err(Failure::Said),
        gave_up => Err(gave_up),
    };
    match refusal.map_err(|failure| patience.error(failure))? {
        Some(row) => decode_row(table, row).map(Some),
        None => super::read::get(connection, table, key).await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_compare_the_attribute_that_rows_carry() {
        assert_eq!(Item::new().versioned(7).iter().map(|(name, _)| name).collect::<Vec<_>>(), [VERSION]);
    }
}
