//! Fuzz targets for what the fleet reads from its tables, from Redis and from the archive.

use bluetick_core::{ConversationId, Seq};
use bluetick_store_cloud::fuzzing::{read_row, read_text};
use bluetick_store_cloud::rows::{Item, Value};

/// Reads a table row, given as a JSON object with strings, integers and booleans. Ignores fields of
/// other types.
pub fn any_row(json: &[u8]) {
    let Ok(serde_json::Value::Object(fields)) = serde_json::from_slice(json) else { return };
    let attribute = |(name, value): (String, serde_json::Value)| {
        let value = match value {
            serde_json::Value::String(text) => Value::Text(text.into()),
            serde_json::Value::Bool(flag) => Value::Flag(flag),
            serde_json::Value::Number(number) => Value::Number(number.as_i64()?),
            _ => return None,
        };
        Some((name, value))
    };
    let item: Item = fields.into_iter().filter_map(attribute).collect();
    let user = "alice".parse().expect("the name is a valid user id");
    read_row(ConversationId::group([7; 15]), Seq::new(5), &user, &item);
}

pub fn any_text(bytes: &[u8]) {
    read_text(ConversationId::group([7; 15]), bytes);
}
