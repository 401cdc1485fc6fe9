//! Reading one row, the rows of a partition in their order, or all of a table. Always consistent reads.

use aws_sdk_dynamodb::types::AttributeValue;

use super::super::{Item, Key, Query, RowsError, Scanned, Slice, SortRange, Table};
use super::codec::{decode_key, decode_row, decode_sort, encode_key, number, weight_bytes};
use super::connection::Connection;
use super::counters::Operation;
use super::patience::Patience;

/// An engine reads as much for one answer; a slice is not made of many.
const SLICE_BYTES: usize = 1 << 20;

pub async fn get(connection: &Connection, table: Table, key: &Key) -> Result<Option<Item>, RowsError> {
    let request = connection.client().get_item().table_name(connection.table_name(table));
    let request = request.set_key(Some(encode_key(table, key))).consistent_read(true);
    let mut patience = Patience::new(connection, Operation::GetItem, connection.table_words(table));
    let answer = patience.demand(|| request.clone().send()).await?;
    answer.item.map(|row| decode_row(table, row)).transpose()
}

pub async fn query(connection: &Connection, query: Query) -> Result<Slice, RowsError> {
    let table = query.table;
    let mut words = vec![format!("{} = :partition", table.partition_key())];
    let mut values = vec![(":partition", AttributeValue::S(query.partition))];
    let sort = table.sort_key().map(|(name, _)| name);
    match (query.range, sort) {
        (SortRange::All, _) => {}
        (range, None) => panic!("table {} has no sort key for {range:?}", table.name()),
        (SortRange::Numbers(first, last), _) if first > last => return Ok(Slice::default()),
        (SortRange::Numbers(first, last), Some(sort)) => {
            words.push(format!("{sort} BETWEEN :first AND :last"));
            values.extend([(":first", number(first)), (":last", number(last))]);
        }
        // An empty text is no key, and every text begins so and is above it.
        (SortRange::Prefix(text) | SortRange::After(text), _) if text.is_empty() => {}
        (SortRange::Prefix(prefix), Some(sort)) => {
            words.push(format!("begins_with({sort}, :text)"));
            values.push((":text", AttributeValue::S(prefix)));
        }
        (SortRange::After(text), Some(sort)) => {
            words.push(format!("{sort} > :text"));
            values.push((":text", AttributeValue::S(text)));
        }
    }
    let mut request = connection.client().query().table_name(connection.table_name(table));
    request = request.key_condition_expression(words.join(" AND "));
    for (name, value) in values {
        request = request.expression_attribute_values(name, value);
    }
    if !query.fields.is_empty() {
        // By number, since many a plain name is a word of the engine's own.
        let fields = query.fields.iter().copied().chain(sort);
        let numbered: Vec<_> =
            fields.enumerate().map(|(index, field)| (format!("#field{index}"), field)).collect();
        let names: Vec<_> = numbered.iter().map(|(name, _)| name.as_str()).collect();
        request = request.projection_expression(names.join(", "));
        for (name, field) in numbered {
            request = request.expression_attribute_names(name, field);
        }
    }
    let request = request.scan_index_forward(!query.descending).consistent_read(true);

    let mut patience = Patience::new(connection, Operation::Query, connection.table_words(table));
    let mut slice = Slice::default();
    let mut slice_bytes = 0;
    let mut start = None;
    loop {
        // An engine does not take 0; for a limit of 0 the row only says that there is one.
        let wanted = (query.limit - slice.rows.len()).max(1);
        let part =
            request.clone().limit(i32::try_from(wanted).unwrap_or(i32::MAX)).set_exclusive_start_key(start);
        let answer = patience.demand(|| part.clone().send()).await?;
        for row in answer.items.unwrap_or_default() {
            slice_bytes += weight_bytes(&row);
            slice.rows.push((decode_sort(table, &row)?, decode_row(table, row)?));
        }
        let is_full = slice.rows.len() >= query.limit || slice_bytes >= SLICE_BYTES;
        start = answer.last_evaluated_key;
        // Without a row there would be nothing from which to go on.
        if start.is_none() || (is_full && !slice.rows.is_empty()) {
            slice.more = start.is_some() || slice.rows.len() > query.limit;
            slice.rows.truncate(query.limit);
            return Ok(slice);
        }
        patience.progressed();
    }
}

/// One request.
pub async fn scan(
    connection: &Connection,
    table: Table,
    after: Option<&Key>,
    limit: usize,
) -> Result<Scanned, RowsError> {
    let request = connection.client().scan().table_name(connection.table_name(table));
    let request = request.limit(i32::try_from(limit).unwrap_or(i32::MAX)).consistent_read(true);
    let request = request.set_exclusive_start_key(after.map(|key| encode_key(table, key)));
    let mut patience = Patience::new(connection, Operation::Scan, connection.table_words(table));
    let answer = patience.demand(|| request.clone().send()).await?;
    let mut scanned = Scanned::default();
    for row in answer.items.unwrap_or_default() {
        scanned.rows.push((decode_key(table, &row)?, decode_row(table, row)?));
    }
    scanned.next = answer.last_evaluated_key.map(|key| decode_key(table, &key)).transpose()?;
    Ok(scanned)
}
