//! Checks that a single row decodes to what was written.

use bluetick_core::ConversationId;

use crate::codec::archive::{ArchiveProgress, Erasure, SegmentRow};
use crate::codec::chunk::{self, Header};
use crate::codec::cold::ColdChunk;
use crate::codec::record::Record;
use crate::codec::{DecodeError, rows};
use crate::tables::{is_meta_key, read_meta, verified};

/// Returns why a stored row is damaged. Ignores unknown tables.
pub fn row_problem(table: &str, key: &[u8], stored: &[u8]) -> Option<DecodeError> {
    let read = || -> Result<(), DecodeError> {
        let row = if table == "meta" { stored } else { verified(key, stored)? };
        match table {
            "conversations" => drop(rows::read_conversation(row, whole_conversation(key)?)?),
            "chunks" => {
                first_conversation(key)?;
                rows::chunk_first_seq(key)?;
                let header = Header::read(row)?;
                let records = match header.is_cold() {
                    true => ColdChunk::read(&header)?.stubs,
                    false => chunk::unpack(&header)?,
                };
                for record in records.records() {
                    Record::decode(record)?.sender_id()?;
                }
            }
            "members" => {
                first_conversation(key)?;
                rows::read_member(key, row)?;
            }
            "inbox" => {
                rows::key_conversation(key)?;
                let line = rows::read_inbox(row)?;
                if !line.record.is_empty() {
                    Record::decode(line.record)?;
                }
            }
            "order" => drop(rows::read_inbox_position(key)?),
            "unlisted" => drop(rows::key_conversation(key)?),
            "pending" => {
                rows::key_conversation(key)?;
                rows::read_pending(row)?;
            }
            "users" => drop(rows::read_user_row(key, row)?),
            "profiles" => drop(rows::read_profile(&mut rows::unseal(row)?)?),
            "names" => drop(rows::read_name_key(key)?),
            "segments" => {
                first_conversation(key)?;
                SegmentRow::read(row)?;
            }
            "progress" => {
                whole_conversation(key)?;
                ArchiveProgress::read(row)?;
            }
            "erasures" => drop(Erasure::read(key, row)?),
            "meta" if !is_meta_key(key) => return Err(DecodeError::Key),
            "meta" => read_meta(key, row)?,
            _ => {}
        }
        Ok(())
    };
    read().err()
}

fn whole_conversation(key: &[u8]) -> Result<ConversationId, DecodeError> {
    let id = key.try_into().ok().and_then(ConversationId::from_bytes);
    id.ok_or(DecodeError::Malformed("a conversation id"))
}

pub fn first_conversation(key: &[u8]) -> Result<ConversationId, DecodeError> {
    let id = key.first_chunk().and_then(|id| ConversationId::from_bytes(*id));
    id.ok_or(DecodeError::Malformed("a conversation id"))
}

/// Formats a key so that a person can search for it.
pub fn key_text(table: &str, key: &[u8]) -> String {
    let hex = || key.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let user_of = |user: &[u8]| String::from_utf8_lossy(user.get(1..).unwrap_or_default()).into_owned();
    let text = match table {
        "conversations" | "progress" => whole_conversation(key).ok().map(|id| id.to_string()),
        "chunks" | "segments" => first_conversation(key)
            .ok()
            .zip(rows::chunk_first_seq(key).ok())
            .map(|(id, first)| format!("{id} from seq {first}")),
        "members" | "erasures" => first_conversation(key)
            .ok()
            .map(|id| format!("{id} {}", String::from_utf8_lossy(key.get(16..).unwrap_or_default()))),
        "inbox" | "unlisted" | "pending" => rows::key_conversation(key)
            .ok()
            .zip(rows::key_user(key).ok())
            .map(|(id, user)| format!("{} {id}", user_of(user))),
        "order" => {
            let user = key.len().checked_sub(25).and_then(|end| key.get(..end));
            rows::read_inbox_position(key)
                .ok()
                .zip(user)
                .map(|(position, user)| format!("{} {}", user_of(user), position.id))
        }
        "users" | "profiles" | "meta" => std::str::from_utf8(key).ok().map(str::to_owned),
        "names" => rows::read_name_key(key).ok().map(|(term, user)| format!("{term} {user}")),
        _ => None,
    };
    text.unwrap_or_else(hex)
}
