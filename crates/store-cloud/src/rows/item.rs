//! A row without its key: attributes by name.

use std::collections::BTreeMap;
use std::sync::Arc;

use bluetick_core::{Cause, StoreError};
use thiserror::Error;

/// Attributes by name. What is not there and what is null are the same.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Item(BTreeMap<String, Value>);

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    Text(Arc<str>),
    Number(i64),
    Flag(bool),
}

/// A row that is not as it was written.
#[derive(Clone, Debug, Error)]
#[error("a row has no {0}, or something else in its place")]
pub struct Damaged(pub &'static str);

impl From<Damaged> for StoreError {
    fn from(damaged: Damaged) -> StoreError {
        StoreError::Damaged(Cause::of(damaged))
    }
}

/// The attribute that conditions compare.
const VERSION: &str = "version";

impl Item {
    pub fn new() -> Item {
        Item::default()
    }

    #[must_use]
    pub fn text(mut self, name: &str, value: impl Into<Arc<str>>) -> Item {
        self.set(name, Value::Text(value.into()));
        self
    }

    #[must_use]
    pub fn text_if(self, name: &str, value: Option<impl Into<Arc<str>>>) -> Item {
        match value {
            Some(value) => self.text(name, value),
            None => self,
        }
    }

    #[must_use]
    pub fn number(mut self, name: &str, value: i64) -> Item {
        self.set(name, Value::Number(value));
        self
    }

    #[must_use]
    pub fn count(self, name: &str, value: u64) -> Item {
        self.number(name, i64::try_from(value).expect("counts stay below 2^63"))
    }

    #[must_use]
    pub fn flag(mut self, name: &str, value: bool) -> Item {
        self.set(name, Value::Flag(value));
        self
    }

    #[must_use]
    pub fn versioned(self, version: u64) -> Item {
        self.count(VERSION, version)
    }

    pub fn set(&mut self, name: &str, value: Value) {
        self.0.insert(name.to_owned(), value);
    }

    pub fn get_text(&self, name: &'static str) -> Result<&Arc<str>, Damaged> {
        self.find_text(name).ok_or(Damaged(name))
    }

    pub fn find_text(&self, name: &str) -> Option<&Arc<str>> {
        match self.0.get(name) {
            Some(Value::Text(text)) => Some(text),
            _ => None,
        }
    }

    pub fn get_number(&self, name: &'static str) -> Result<i64, Damaged> {
        self.find_number(name).ok_or(Damaged(name))
    }

    pub fn find_number(&self, name: &str) -> Option<i64> {
        match self.0.get(name) {
            Some(Value::Number(number)) => Some(*number),
            _ => None,
        }
    }

    /// 0 where there is none.
    pub fn find_count(&self, name: &str) -> u64 {
        self.find_number(name).and_then(|number| u64::try_from(number).ok()).unwrap_or(0)
    }

    pub fn find_flag(&self, name: &str) -> bool {
        matches!(self.0.get(name), Some(Value::Flag(true)))
    }

    pub fn version(&self) -> u64 {
        self.find_count(VERSION)
    }

    pub fn iter(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value))
    }
}

impl FromIterator<(String, Value)> for Item {
    fn from_iter<Attributes: IntoIterator<Item = (String, Value)>>(attributes: Attributes) -> Item {
        Item(attributes.into_iter().collect())
    }
}
