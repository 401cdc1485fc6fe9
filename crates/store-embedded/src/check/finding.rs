//! One problem in a store, and its location.

use std::fmt;

use bluetick_core::{ConversationId, Seq};
use serde::Serialize;

/// One problem in a store, and its location.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// Path relative to the data directory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub offset: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub table: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub conversation_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_seq: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_seq: Option<u64>,
    pub what: String,
}

impl Finding {
    pub fn file(file: impl Into<String>, offset: u64, what: impl Into<String>) -> Finding {
        Finding { file: Some(file.into()), offset: Some(offset), what: what.into(), ..Finding::default() }
    }

    pub fn row(table: &'static str, key: impl Into<String>, what: impl Into<String>) -> Finding {
        Finding { table: Some(table), key: Some(key.into()), what: what.into(), ..Finding::default() }
    }

    pub fn of(self, conversation: ConversationId) -> Finding {
        Finding { conversation_id: Some(conversation.to_string()), ..self }
    }

    pub fn at(self, first: Seq, last: Seq) -> Finding {
        Finding { first_seq: Some(first.get()), last_seq: Some(last.get().max(first.get())), ..self }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut locations = Vec::new();
        if let Some(file) = &self.file {
            let offset = self.offset.filter(|offset| *offset > 0);
            locations.push(offset.map_or_else(|| file.clone(), |offset| format!("{file} at byte {offset}")));
        }
        if let Some(table) = self.table {
            locations.push(format!("table {table}, {}", self.key.as_deref().unwrap_or("?")));
        }
        if let Some(conversation) =
            self.conversation_id.as_ref().filter(|_| self.first_seq.is_some() || self.table.is_none())
        {
            locations.push(format!("conversation {conversation}"));
        }
        match (self.first_seq, self.last_seq) {
            (Some(first), Some(last)) if first != last => locations.push(format!("seqs {first} to {last}")),
            (Some(first), _) => locations.push(format!("seq {first}")),
            _ => {}
        }
        write!(f, "{}: {}", locations.join(", "), self.what)
    }
}

/// Counts all findings and keeps the first `MAX_KEPT` of them.
#[derive(Debug, Default)]
pub struct Findings {
    kept: Vec<Finding>,
    count: u64,
}

impl Findings {
    /// Upper bound on the kept findings, so that a badly damaged store cannot exhaust memory.
    const MAX_KEPT: usize = 1_000;

    pub fn add(&mut self, finding: Finding) {
        self.count += 1;
        if self.kept.len() < Findings::MAX_KEPT {
            self.kept.push(finding);
        }
    }

    pub fn count(&self) -> u64 {
        self.count
    }

    pub fn into_parts(self) -> (Vec<Finding>, u64) {
        (self.kept, self.count)
    }
}
