//! Many rows at once: in parts as large as the engine takes, several side by side, and again what it left over.

use std::collections::{HashMap, HashSet};

use aws_sdk_dynamodb::types::{DeleteRequest, KeysAndAttributes, PutRequest, WriteRequest};
use futures_util::{StreamExt, TryStreamExt, stream};

use super::super::{Item, Key, RowsError, Table};
use super::codec::{decode_key, decode_row, encode_key, encode_row};
use super::connection::Connection;
use super::counters::Operation;
use super::patience::Patience;
use super::trouble::Passing;

const KEYS_PER_READ: usize = 100;
const ROWS_PER_WRITE: usize = 25;
/// A large call leaves room for the others.
const PARTS_AT_ONCE: usize = 8;

type Found = HashMap<(Table, Key), Item>;

pub async fn get_many(
    connection: &Connection,
    wanted: Vec<(Table, Key)>,
) -> Result<Vec<Option<Item>>, RowsError> {
    // The engine refuses to be asked twice for a row in one request.
    let unique: Vec<_> = wanted.iter().collect::<HashSet<_>>().into_iter().cloned().collect();
    let parts: Vec<Vec<_>> = unique.chunks(KEYS_PER_READ).map(<[_]>::to_vec).collect();
    let found: Vec<Found> = stream::iter(parts)
        .map(|part| get_part(connection, part))
        .buffer_unordered(PARTS_AT_ONCE)
        .try_collect()
        .await?;
    Ok(wanted.iter().map(|wanted| found.iter().find_map(|part| part.get(wanted)).cloned()).collect())
}

async fn get_part(connection: &Connection, part: Vec<(Table, Key)>) -> Result<Found, RowsError> {
    let mut names = HashMap::new();
    let mut keys: HashMap<Table, Vec<_>> = HashMap::new();
    for (table, key) in &part {
        names.entry(connection.table_name(*table)).or_insert(*table);
        keys.entry(*table).or_default().push(encode_key(*table, key));
    }
    let mut left = HashMap::new();
    for (name, table) in &names {
        let keys = KeysAndAttributes::builder().set_keys(keys.remove(table)).consistent_read(true);
        left.insert(name.clone(), keys.build().expect("keys are given"));
    }
    let mut patience = Patience::new(connection, Operation::BatchGetItem, words(names.keys()));
    let mut found = Found::new();
    loop {
        let request = connection.client().batch_get_item().set_request_items(Some(left));
        let answer = patience.demand(|| request.clone().send()).await?;
        let before = found.len();
        for (name, rows) in answer.responses.unwrap_or_default() {
            let Some(&table) = names.get(&name) else { continue };
            for row in rows {
                found.insert((table, decode_key(table, &row)?), decode_row(table, row)?);
            }
        }
        left = answer.unprocessed_keys.unwrap_or_default();
        if left.is_empty() {
            return Ok(found);
        }
        if found.len() > before {
            patience.progressed();
        }
        patience.pause(Passing::Throttled).await?;
    }
}

pub async fn put_all(connection: &Connection, rows: Vec<(Table, Key, Item)>) -> Result<(), RowsError> {
    // Nor does it write a row twice in one request; the last one stands.
    let rows: HashMap<_, _> = rows.into_iter().map(|(table, key, item)| ((table, key), item)).collect();
    let request = |((table, key), item): ((Table, Key), Item)| {
        let put = PutRequest::builder().set_item(Some(encode_row(table, &key, &item)));
        let put = put.build().expect("a row is given");
        (connection.table_name(table), WriteRequest::builder().put_request(put).build())
    };
    write_all(connection, rows.into_iter().map(request).collect()).await
}

pub async fn delete_all(connection: &Connection, rows: Vec<(Table, Key)>) -> Result<(), RowsError> {
    let rows: HashSet<_> = rows.into_iter().collect();
    let request = |(table, key): (Table, Key)| {
        let delete = DeleteRequest::builder().set_key(Some(encode_key(table, &key)));
        let delete = delete.build().expect("a key is given");
        (connection.table_name(table), WriteRequest::builder().delete_request(delete).build())
    };
    write_all(connection, rows.into_iter().map(request).collect()).await
}

async fn write_all(connection: &Connection, rows: Vec<(String, WriteRequest)>) -> Result<(), RowsError> {
    let parts: Vec<Vec<_>> = rows.chunks(ROWS_PER_WRITE).map(<[_]>::to_vec).collect();
    stream::iter(parts)
        .map(|part| write_part(connection, part))
        .buffer_unordered(PARTS_AT_ONCE)
        .try_collect::<()>()
        .await
}

async fn write_part(connection: &Connection, part: Vec<(String, WriteRequest)>) -> Result<(), RowsError> {
    let mut left: HashMap<String, Vec<WriteRequest>> = HashMap::new();
    for (name, row) in part {
        left.entry(name).or_default().push(row);
    }
    let mut patience = Patience::new(connection, Operation::BatchWriteItem, words(left.keys()));
    loop {
        let rows_before = left.values().map(Vec::len).sum::<usize>();
        let request = connection.client().batch_write_item().set_request_items(Some(left));
        let answer = patience.demand(|| request.clone().send()).await?;
        left = answer.unprocessed_items.unwrap_or_default();
        if left.is_empty() {
            return Ok(());
        }
        if left.values().map(Vec::len).sum::<usize>() < rows_before {
            patience.progressed();
        }
        patience.pause(Passing::Throttled).await?;
    }
}

/// The tables of a part, for a sentence.
fn words<'a>(names: impl Iterator<Item = &'a String>) -> String {
    let mut names: Vec<_> = names.map(String::as_str).collect();
    names.sort_unstable();
    format!("table {}", names.join(", "))
}
