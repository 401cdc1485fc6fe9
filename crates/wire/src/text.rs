//! Serialises domain types as JSON strings and numbers, without an intermediate buffer.

use std::fmt::Display;

use bluetick_core::{Seq, Timestamp};
use serde::Serializer;

pub fn shown<S: Serializer>(value: &impl Display, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(value)
}

pub fn shown_if_any<S: Serializer>(value: &Option<impl Display>, serializer: S) -> Result<S::Ok, S::Error> {
    match value {
        Some(value) => serializer.collect_str(value),
        None => serializer.serialize_none(),
    }
}

pub fn seq<S: Serializer>(seq: &Seq, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u64(seq.get())
}

pub fn seq_if_any<S: Serializer>(seq: &Option<Seq>, serializer: S) -> Result<S::Ok, S::Error> {
    match seq {
        Some(seq) => serializer.serialize_u64(seq.get()),
        None => serializer.serialize_none(),
    }
}

pub fn millis<S: Serializer>(at: &Timestamp, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_i64(at.millis())
}

pub fn millis_if_any<S: Serializer>(at: &Option<Timestamp>, serializer: S) -> Result<S::Ok, S::Error> {
    match at {
        Some(at) => serializer.serialize_i64(at.millis()),
        None => serializer.serialize_none(),
    }
}
