//! Rows of the archiver: the segments, the progress of each conversation, and the erasures.

use bluetick_core::ports::ColdCount;
use bluetick_core::{ConversationId, Seq, Timestamp, UserId};

use super::rows::{seal, unseal};
use super::{DecodeError, Reader, put_bytes, put_varint};

/// One archive object that chunks refer to. Its key has the form of a chunk key: conversation and
/// first seq.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentRow {
    pub last: Seq,
    pub revision: u32,
    pub messages: u64,
    /// Size of the object, in bytes.
    pub bytes: u64,
    /// Size before compression, in bytes.
    pub raw_bytes: u64,
}

impl SegmentRow {
    pub fn encode(&self) -> Vec<u8> {
        seal(|out| {
            put_varint(out, self.last.get());
            put_varint(out, self.revision.into());
            put_varint(out, self.messages);
            put_varint(out, self.bytes);
            put_varint(out, self.raw_bytes);
        })
    }

    pub fn read(row: &[u8]) -> Result<SegmentRow, DecodeError> {
        let mut reader = unseal(row)?;
        Ok(SegmentRow {
            last: Seq::new(reader.varint()?),
            revision: read_small(&mut reader)?,
            messages: reader.varint()?,
            bytes: reader.varint()?,
            raw_bytes: reader.varint()?,
        })
    }

    pub fn count(&self) -> ColdCount {
        ColdCount { segments: 1, messages: self.messages, bytes: self.bytes, raw_bytes: self.raw_bytes }
    }
}

/// The archiving progress of a conversation. A conversation without a row has the default progress.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ArchiveProgress {
    /// Archive runs skip chunks up to this seq, because their content is archived or erased. A
    /// restore resets it to zero.
    pub moved_through: Seq,
    /// All messages up to this seq are past their retention and erased.
    pub expired_through: Seq,
    /// The conversation was restored and stays in the hot store until a run names it.
    pub kept_hot: bool,
    /// Raised whenever an object name could be reused for other content. An abandoned request may
    /// still take effect later and must not overwrite or delete an object that rows refer to.
    pub names_raised: u32,
}

impl ArchiveProgress {
    pub fn encode(&self) -> Vec<u8> {
        seal(|out| {
            put_varint(out, self.moved_through.get());
            put_varint(out, self.expired_through.get());
            out.push(self.kept_hot.into());
            put_varint(out, self.names_raised.into());
        })
    }

    /// Returns the revision of objects that are put from now on.
    pub fn revision(&self) -> u32 {
        self.names_raised + 1
    }

    pub fn read(row: &[u8]) -> Result<ArchiveProgress, DecodeError> {
        let mut reader = unseal(row)?;
        Ok(ArchiveProgress {
            moved_through: Seq::new(reader.varint()?),
            expired_through: Seq::new(reader.varint()?),
            kept_hot: reader.u8()? != 0,
            names_raised: match read_small(&mut reader)? {
                // This value has no next revision, and no store reaches it.
                u32::MAX => return Err(DecodeError::Malformed("a number")),
                raised => raised,
            },
        })
    }
}

/// An erasure in progress. Written before the first deletion and deleted after the last one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Erasure {
    pub conversation: ConversationId,
    /// Erase only the messages of this user. `None`: of all users.
    pub sender: Option<UserId>,
    pub through: Seq,
}

impl Erasure {
    pub fn key(&self) -> Vec<u8> {
        let mut key = self.conversation.as_bytes().to_vec();
        key.extend_from_slice(self.sender.as_ref().map_or("", UserId::as_str).as_bytes());
        key
    }

    pub fn row(&self) -> Vec<u8> {
        seal(|out| {
            put_varint(out, self.through.get());
            put_bytes(out, self.sender.as_ref().map_or("", UserId::as_str).as_bytes());
        })
    }

    pub fn read(key: &[u8], row: &[u8]) -> Result<Erasure, DecodeError> {
        let conversation = key.first_chunk().and_then(|bytes| ConversationId::from_bytes(*bytes));
        let conversation = conversation.ok_or(DecodeError::Malformed("a conversation id"))?;
        let mut reader = unseal(row)?;
        let through = Seq::new(reader.varint()?);
        let sender = match reader.str()? {
            "" => None,
            name => Some(UserId::from_stored(name).map_err(|_| DecodeError::Malformed("a user id"))?),
        };
        Ok(Erasure { conversation, sender, through })
    }
}

/// An erasure as the operator requested it. It is durable before the erasure is acknowledged. The
/// search replaces it by one [`Erasure`] for each conversation with content to erase.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredErasureRequest {
    /// `None`: every conversation.
    pub conversation: Option<ConversationId>,
    /// `None`: every sender.
    pub sender: Option<UserId>,
    /// `None`: up to the head at the time of the search.
    pub through: Option<Seq>,
}

impl StoredErasureRequest {
    pub fn row(&self) -> Vec<u8> {
        seal(|out| {
            put_bytes(out, self.conversation.as_ref().map_or(&[], |id| &id.as_bytes()[..]));
            put_bytes(out, self.sender.as_ref().map_or("", UserId::as_str).as_bytes());
            out.push(self.through.is_some().into());
            put_varint(out, self.through.unwrap_or_default().get());
        })
    }

    pub fn read(row: &[u8]) -> Result<StoredErasureRequest, DecodeError> {
        let mut reader = unseal(row)?;
        let conversation = match reader.bytes()? {
            [] => None,
            bytes => Some(
                bytes
                    .try_into()
                    .ok()
                    .and_then(ConversationId::from_bytes)
                    .ok_or(DecodeError::Malformed("a conversation id"))?,
            ),
        };
        let sender = match reader.str()? {
            "" => None,
            // Earlier versions accepted ids that the current rules refuse.
            name => Some(UserId::from_stored(name).map_err(|_| DecodeError::Malformed("a user id"))?),
        };
        let has_through = reader.u8()? != 0;
        let through = Some(Seq::new(reader.varint()?)).filter(|_| has_through);
        Ok(StoredErasureRequest { conversation, sender, through })
    }
}

/// The time of the last archive run, and the reason if it stopped early.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LastRun {
    pub at: Timestamp,
    pub paused: Option<String>,
}

impl LastRun {
    pub fn encode(&self) -> Vec<u8> {
        seal(|out| {
            out.extend_from_slice(&self.at.millis().to_le_bytes());
            // An empty string encodes `None`, because no reason is empty.
            put_bytes(out, self.paused.as_deref().unwrap_or_default().as_bytes());
        })
    }

    pub fn read(row: &[u8]) -> Result<LastRun, DecodeError> {
        let mut reader = unseal(row)?;
        let at = Timestamp::from_millis(i64::from_le_bytes(reader.array()?));
        let paused = Some(reader.str()?.to_owned()).filter(|reason| !reason.is_empty());
        Ok(LastRun { at, paused })
    }
}

pub fn count_row(count: &ColdCount) -> Vec<u8> {
    seal(|out| {
        for number in [count.segments, count.messages, count.bytes, count.raw_bytes] {
            put_varint(out, number);
        }
    })
}

pub fn read_count(row: &[u8]) -> Result<ColdCount, DecodeError> {
    let mut reader = unseal(row)?;
    Ok(ColdCount {
        segments: reader.varint()?,
        messages: reader.varint()?,
        bytes: reader.varint()?,
        raw_bytes: reader.varint()?,
    })
}

fn read_small(reader: &mut Reader<'_>) -> Result<u32, DecodeError> {
    u32::try_from(reader.varint()?).map_err(|_| DecodeError::Malformed("a number"))
}

#[cfg(test)]
mod tests {
    use super::super::testing::hex;
    use super::*;

    #[test]
    fn archive_rows_match_bytes_of_version_1() {
        let segment = SegmentRow {
            last: Seq::new(1000),
            revision: 1,
            messages: 1000,
            bytes: 40_000,
            raw_bytes: 120_000,
        };
        assert_eq!(SegmentRow::read(&segment.encode()), Ok(segment));
        let progress = ArchiveProgress {
            moved_through: Seq::new(1000),
            expired_through: Seq::new(3),
            kept_hot: true,
            names_raised: 2,
        };
        assert_eq!(ArchiveProgress::read(&progress.encode()), Ok(progress));
        let count = ColdCount { segments: 3, messages: 3000, bytes: 1, raw_bytes: 2 };
        assert_eq!(read_count(&count_row(&count)), Ok(count));
        let erasure = Erasure {
            conversation: ConversationId::group([1; 15]),
            sender: Some("alice".parse().unwrap()),
            through: Seq::new(9),
        };
        assert_eq!(Erasure::read(&erasure.key(), &erasure.row()), Ok(erasure.clone()));
        let everybody = Erasure { sender: None, ..erasure.clone() };
        assert_eq!(Erasure::read(&everybody.key(), &everybody.row()), Ok(everybody));
        for request in [
            StoredErasureRequest { conversation: None, sender: erasure.sender.clone(), through: None },
            StoredErasureRequest {
                conversation: Some(erasure.conversation),
                sender: None,
                through: Some(Seq::new(9)),
            },
        ] {
            assert_eq!(StoredErasureRequest::read(&request.row()), Ok(request));
        }
        let run = LastRun { at: Timestamp::from_millis(7), paused: None };
        assert_eq!(LastRun::read(&run.encode()), Ok(run.clone()));
        let paused = LastRun { paused: Some("down".into()), ..run };
        assert_eq!(LastRun::read(&paused.encode()), Ok(paused.clone()));
        assert_eq!(hex(&paused.encode()), "03070000 00000000 0004646f 776ea3b3 9218");
        assert_eq!(hex(&progress.encode()), "03e80703 01029e89 7647");
        assert_eq!(hex(&erasure.row()), "03090561 6c696365 b04754cf");
    }
}
