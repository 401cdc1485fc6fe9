//! Serde helpers: domain types as JSON strings and numbers.

use std::borrow::Cow;
use std::fmt::Display;
use std::str::FromStr;

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serializer};

/// Types with `Display` and `FromStr`, as JSON strings.
pub mod spelled {
    use super::*;

    pub fn serialize<S: Serializer>(value: &impl Display, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(value)
    }

    pub fn deserialize<'de, T, D>(deserializer: D) -> Result<T, D::Error>
    where
        T: FromStr<Err: Display>,
        D: Deserializer<'de>,
    {
        Cow::<str>::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

pub mod spelled_if_any {
    use super::*;

    pub fn serialize<S: Serializer>(value: &Option<impl Display>, serializer: S) -> Result<S::Ok, S::Error> {
        match value {
            Some(value) => serializer.collect_str(value),
            None => serializer.serialize_none(),
        }
    }

    pub fn deserialize<'de, T, D>(deserializer: D) -> Result<Option<T>, D::Error>
    where
        T: FromStr<Err: Display>,
        D: Deserializer<'de>,
    {
        let text = Option::<Cow<str>>::deserialize(deserializer)?;
        text.map(|text| text.parse().map_err(D::Error::custom)).transpose()
    }
}

/// Message ids as JSON strings. Accepts the server's own ids of notices, which `FromStr` rejects.
pub mod message_id {
    use bluetick_types::MessageId;

    use super::*;

    pub fn serialize<S: Serializer>(id: &MessageId, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(id)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<MessageId, D::Error> {
        Ok(MessageId::from_stored(&Cow::<str>::deserialize(deserializer)?))
    }
}

pub mod seq {
    use bluetick_types::Seq;

    use super::*;

    pub fn serialize<S: Serializer>(seq: &Seq, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u64(seq.get())
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Seq, D::Error> {
        Ok(Seq::new(u64::deserialize(deserializer)?))
    }
}

pub mod seq_if_any {
    use bluetick_types::Seq;

    use super::*;

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Seq>, D::Error> {
        Ok(Option::<u64>::deserialize(deserializer)?.map(Seq::new))
    }

    pub fn serialize<S: Serializer>(seq: &Option<Seq>, serializer: S) -> Result<S::Ok, S::Error> {
        match seq {
            Some(seq) => serializer.serialize_u64(seq.get()),
            None => serializer.serialize_none(),
        }
    }
}

pub mod moment {
    use bluetick_types::Timestamp;

    use super::*;

    pub fn serialize<S: Serializer>(at: &Timestamp, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_i64(at.millis())
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Timestamp, D::Error> {
        Ok(Timestamp::from_millis(i64::deserialize(deserializer)?))
    }
}

pub mod moment_if_any {
    use bluetick_types::Timestamp;

    use super::*;

    pub fn serialize<S: Serializer>(at: &Option<Timestamp>, serializer: S) -> Result<S::Ok, S::Error> {
        match at {
            Some(at) => serializer.serialize_i64(at.millis()),
            None => serializer.serialize_none(),
        }
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Timestamp>, D::Error> {
        Ok(Option::<i64>::deserialize(deserializer)?.map(Timestamp::from_millis))
    }
}
