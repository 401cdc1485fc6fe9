//! Keys and rows as DynamoDB's attributes: numbers as N, text as S, flags as BOOL.

use std::collections::HashMap;

use aws_sdk_dynamodb::types::AttributeValue;

use super::super::{Item, Key, RowsError, Sort, SortKind, Table, Value};

pub type Attributes = HashMap<String, AttributeValue>;

pub fn number(value: u64) -> AttributeValue {
    AttributeValue::N(value.to_string())
}

pub fn encode_key(table: Table, key: &Key) -> Attributes {
    let mut attributes = HashMap::with_capacity(2);
    attributes.insert(table.partition_key().to_owned(), AttributeValue::S(key.partition.clone()));
    if let Some((name, _)) = table.sort_key() {
        let sort = match &key.sort {
            Sort::Number(value) => number(*value),
            Sort::Text(text) => AttributeValue::S(text.clone()),
            Sort::None => panic!("a key of table {} has a sort key", table.name()),
        };
        attributes.insert(name.to_owned(), sort);
    }
    attributes
}

pub fn encode_row(table: Table, key: &Key, item: &Item) -> Attributes {
    let mut attributes = encode_key(table, key);
    for (name, value) in item.iter() {
        let value = match value {
            Value::Text(text) => AttributeValue::S(text.to_string()),
            Value::Number(number) => AttributeValue::N(number.to_string()),
            Value::Flag(flag) => AttributeValue::Bool(*flag),
        };
        let before = attributes.insert(name.to_owned(), value);
        assert!(before.is_none(), "{name} is in the key of table {}, not in its rows", table.name());
    }
    attributes
}

/// The row without its key.
pub fn decode_row(table: Table, mut attributes: Attributes) -> Result<Item, RowsError> {
    attributes.remove(table.partition_key());
    if let Some((name, _)) = table.sort_key() {
        attributes.remove(name);
    }
    attributes
        .into_iter()
        .filter(|(_, value)| !value.is_null())
        .map(|(name, value)| match decode_value(value) {
            Some(value) => Ok((name, value)),
            None => Err(foreign(table, &name)),
        })
        .collect()
}

fn decode_value(value: AttributeValue) -> Option<Value> {
    match value {
        AttributeValue::S(text) => Some(Value::Text(text.into())),
        AttributeValue::N(number) => number.parse().ok().map(Value::Number),
        AttributeValue::Bool(flag) => Some(Value::Flag(flag)),
        _ => None,
    }
}

pub fn decode_sort(table: Table, attributes: &Attributes) -> Result<Sort, RowsError> {
    let Some((name, kind)) = table.sort_key() else {
        return Ok(Sort::None);
    };
    let sort = match (kind, attributes.get(name)) {
        (SortKind::Number, Some(AttributeValue::N(number))) => number.parse().ok().map(Sort::Number),
        (SortKind::Text, Some(AttributeValue::S(text))) => Some(Sort::Text(text.clone())),
        _ => None,
    };
    sort.ok_or_else(|| foreign(table, name))
}

pub fn decode_key(table: Table, attributes: &Attributes) -> Result<Key, RowsError> {
    match attributes.get(table.partition_key()) {
        Some(AttributeValue::S(partition)) => {
            Ok(Key { partition: partition.clone(), sort: decode_sort(table, attributes)? })
        }
        _ => Err(foreign(table, table.partition_key())),
    }
}

/// Something that this crate never writes.
fn foreign(table: Table, attribute: &str) -> RowsError {
    RowsError::Refused(format!(
        "a row of table {} has something else than expected as {attribute}",
        table.name()
    ))
}

/// About as much as the row takes, of what is limited.
pub fn weight_bytes(attributes: &Attributes) -> usize {
    let value_bytes = |value: &AttributeValue| match value {
        AttributeValue::S(text) | AttributeValue::N(text) => text.len(),
        _ => 1,
    };
    attributes.iter().map(|(name, value)| name.len() + value_bytes(value)).sum()
}
