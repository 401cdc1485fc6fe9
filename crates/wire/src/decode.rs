//! Decodes JSON, with errors that name the field.

use serde::de::{Deserialize, Deserializer, Visitor};
use thiserror::Error;

/// Invalid input. The text is for the client. It never repeats a value that the client sent, which
/// may be a secret.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("{0}")]
pub struct BadInput(String);

impl BadInput {
    pub fn new(message: impl Into<String>) -> BadInput {
        BadInput(message.into())
    }

    /// Creates an error about the value of one field.
    pub fn field(name: &str, problem: impl std::fmt::Display) -> BadInput {
        BadInput(format!("{name}: {problem}"))
    }
}

/// Maximum length of a field path in an error, in characters. It bounds the response to a client
/// that sends long keys. The paths of all known fields are shorter.
const PATH_CHARS: usize = 100;

/// Decodes a JSON object. Ignores unknown fields, so that newer clients work with older servers.
pub fn decode<'a, T: Deserialize<'a>>(json: &'a [u8]) -> Result<T, BadInput> {
    // Tracking the field path costs time on every field, so only failed input is decoded again with
    // it.
    let mut reader = serde_json::Deserializer::from_slice(json);
    let decoded = match json.first() {
        // An object for certain, so `ObjectOnly` is not needed.
        Some(b'{') => T::deserialize(&mut reader),
        _ => T::deserialize(ObjectOnly(&mut reader)),
    };
    let decoded = decoded.and_then(|decoded| reader.end().map(|()| decoded));
    decoded.map_err(|error| explain::<T>(json, &error))
}

fn explain<'a, T: Deserialize<'a>>(json: &'a [u8], first: &serde_json::Error) -> BadInput {
    if first.is_syntax() || first.is_eof() {
        return BadInput(format!("not valid JSON at line {} column {}", first.line(), first.column()));
    }
    let mut reader = serde_json::Deserializer::from_slice(json);
    match serde_path_to_error::deserialize::<_, T>(ObjectOnly(&mut reader)) {
        Ok(_) => BadInput(in_plain_words(&first.to_string())),
        Err(error) => {
            // The path may contain keys that the client chose, of any length.
            let path: String = error.path().to_string().chars().take(PATH_CHARS).collect();
            let problem = in_plain_words(&error.into_inner().to_string());
            if path == "." { BadInput(problem) } else { BadInput(format!("{path}: {problem}")) }
        }
    }
}

/// Rewrites an error from serde. Its text quotes the invalid value, which may be a password, and
/// names Rust types, which mean nothing to a client.
fn in_plain_words(problem: &str) -> String {
    let problem = problem.rsplit_once(" at line ").map_or(problem, |(problem, _)| problem);
    if problem.starts_with("missing field `") || problem.starts_with("duplicate field `") {
        return problem.to_string();
    }
    let expected = problem.rsplit_once(", expected ").map_or("", |(_, expected)| expected);
    let plain = match expected {
        "a string" | "a borrowed string" | "str" => "expected a string",
        "a boolean" => "expected true or false",
        "a sequence" => "expected an array",
        "a map" => "expected an object",
        "a position" => "expected an object with a seq, or the seq alone",
        "i8" | "i16" | "i32" | "i64" | "isize" => "expected a whole number",
        "u8" | "u16" | "u32" | "u64" | "usize" => "expected a whole number that is not negative",
        object if object.starts_with("struct ") => "expected an object",
        _ => "not what is expected here",
    };
    plain.to_string()
}

/// Accepts a struct as a JSON object only. serde also accepts an array with the fields in order,
/// which is not part of the API.
pub(crate) struct ObjectOnly<D>(pub D);

impl<'de, D: Deserializer<'de>> Deserializer<'de> for ObjectOnly<D> {
    type Error = D::Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
        self.0.deserialize_any(visitor)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        _fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        self.0.deserialize_map(visitor)
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct
        newtype_struct seq tuple tuple_struct map enum identifier ignored_any
    }
}
