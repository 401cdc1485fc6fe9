//! Rows of the derived tables, and their keys.
//!
//! A key sorts the way its table is read. A value starts with its format version and ends with a checksum, because
//! the table engine has none of its own.

use bluetick_core::{Conversation, ConversationId, Member, Role, Seq, Timestamp, User, UserId};

use super::event::{put_timestamp, role_code};
use super::{DecodeError, Reader, put_bytes, put_varint};

const VERSION: u8 = 1;

/// Wraps a row: version, body, checksum.
pub fn seal(body: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut out = vec![VERSION];
    body(&mut out);
    let checksum = crc32fast::hash(&out);
    out.extend_from_slice(&checksum.to_le_bytes());
    out
}

pub fn unseal(row: &[u8]) -> Result<Reader<'_>, DecodeError> {
    let (body, checksum) = row.split_last_chunk::<4>().ok_or(DecodeError::Short)?;
    if crc32fast::hash(body) != u32::from_le_bytes(*checksum) {
        return Err(DecodeError::Checksum);
    }
    let mut reader = Reader(body);
    match reader.u8()? {
        VERSION => Ok(reader),
        newer => Err(DecodeError::Unknown { what: "row version", value: newer.into() }),
    }
}

/// (conversation, first seq): a conversation's chunks lie side by side, oldest first.
pub fn chunk_key(conversation: ConversationId, first_seq: Seq) -> [u8; 24] {
    let mut key = [0; 24];
    key[..16].copy_from_slice(conversation.as_bytes());
    key[16..].copy_from_slice(&first_seq.get().to_be_bytes());
    key
}

pub fn chunk_first_seq(key: &[u8]) -> Result<Seq, DecodeError> {
    let (_, seq) = key.split_last_chunk::<8>().ok_or(DecodeError::Short)?;
    Ok(Seq::new(u64::from_be_bytes(*seq)))
}

/// (conversation, user): the members of a conversation lie side by side.
pub fn member_key(conversation: ConversationId, user: &UserId) -> Vec<u8> {
    [conversation.as_bytes(), user.as_str().as_bytes()].concat()
}

/// (user, conversation): a user's inbox lies side by side. The length in front keeps "al" apart from "alice".
pub fn inbox_key(user: &UserId, conversation: ConversationId) -> Vec<u8> {
    let mut key = Vec::with_capacity(1 + user.as_str().len() + 16);
    key.push(u8::try_from(user.as_str().len()).expect("a user id has at most 128 bytes"));
    key.extend_from_slice(user.as_str().as_bytes());
    key.extend_from_slice(conversation.as_bytes());
    key
}

/// What never changes about a conversation.
pub fn put_facts(out: &mut Vec<u8>, conversation: &Conversation) {
    put_timestamp(out, conversation.created_at);
    put_bytes(out, conversation.created_by.as_str().as_bytes());
    match &conversation.title {
        None => out.push(0),
        Some(title) => {
            out.push(1);
            put_bytes(out, title.as_str().as_bytes());
        }
    }
}

/// The conversation as it was on its first day; head and last activity are for the caller to set.
pub fn read_facts(reader: &mut Reader<'_>, id: ConversationId) -> Result<Conversation, DecodeError> {
    let created_at = Timestamp::from_millis(reader.signed()?);
    let created_by = super::event::read_user_id(reader)?;
    let title = match reader.u8()? {
        0 => None,
        _ => Some(reader.str()?.parse().map_err(|_| DecodeError::Malformed("a title"))?),
    };
    Ok(Conversation { id, title, created_by, created_at, head: Seq::ZERO, last_at: created_at })
}

/// A conversation, and what only the store needs to know of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredConversation {
    pub conversation: Conversation,
    /// No message in it was received later. Differs from `last_at` when a clock went back.
    pub newest_at: Timestamp,
}

pub fn conversation_row(stored: &StoredConversation) -> Vec<u8> {
    seal(|out| {
        put_varint(out, stored.conversation.head.get());
        put_timestamp(out, stored.conversation.last_at);
        put_timestamp(out, stored.newest_at);
        put_facts(out, &stored.conversation);
    })
}

pub fn read_conversation(row: &[u8], id: ConversationId) -> Result<StoredConversation, DecodeError> {
    let mut reader = unseal(row)?;
    let head = Seq::new(reader.varint()?);
    let last_at = Timestamp::from_millis(reader.signed()?);
    let newest_at = Timestamp::from_millis(reader.signed()?);
    let conversation = Conversation { head, last_at, ..read_facts(&mut reader, id)? };
    Ok(StoredConversation { conversation, newest_at })
}

pub fn put_membership(out: &mut Vec<u8>, member: &Member) {
    out.push(role_code(member.role));
    put_varint(out, member.joined_seq.get());
}

pub fn read_membership(reader: &mut Reader<'_>, user: UserId) -> Result<Member, DecodeError> {
    let role = match reader.u8()? {
        0 => Role::Member,
        1 => Role::Admin,
        value => return Err(DecodeError::Unknown { what: "role", value: value.into() }),
    };
    Ok(Member { user, role, joined_seq: Seq::new(reader.varint()?) })
}

pub fn member_row(member: &Member) -> Vec<u8> {
    seal(|out| put_membership(out, member))
}

/// `key` is the whole key of the row.
pub fn read_member(key: &[u8], row: &[u8]) -> Result<Member, DecodeError> {
    let user = key.get(16..).and_then(|user| std::str::from_utf8(user).ok());
    let user = user.and_then(|user| user.parse().ok()).ok_or(DecodeError::Malformed("a member's key"))?;
    read_membership(&mut unseal(row)?, user)
}

pub fn put_user(out: &mut Vec<u8>, user: &User) {
    put_timestamp(out, user.created_at);
    for text in [&user.display_name, &user.password_hash] {
        match text {
            None => out.push(0),
            Some(text) => {
                out.push(1);
                put_bytes(out, text.as_bytes());
            }
        }
    }
}

pub fn read_user(reader: &mut Reader<'_>, id: UserId) -> Result<User, DecodeError> {
    let created_at = Timestamp::from_millis(reader.signed()?);
    let mut text = || -> Result<_, DecodeError> {
        Ok(match reader.u8()? {
            0 => None,
            _ => Some(reader.str()?.into()),
        })
    };
    Ok(User { id, display_name: text()?, password_hash: text()?, created_at })
}

pub fn user_row(user: &User) -> Vec<u8> {
    seal(|out| put_user(out, user))
}

/// One line of somebody's inbox.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InboxRow<'a> {
    pub last_seq: Seq,
    pub last_at: Timestamp,
    pub preview: &'a str,
}

pub const PREVIEW_MAX_BYTES: usize = 80;

impl InboxRow<'_> {
    pub fn encode(&self) -> Vec<u8> {
        seal(|out| {
            put_varint(out, self.last_seq.get());
            put_timestamp(out, self.last_at);
            out.extend_from_slice(self.preview.as_bytes());
        })
    }
}

pub fn read_inbox(row: &[u8]) -> Result<InboxRow<'_>, DecodeError> {
    let mut reader = unseal(row)?;
    let last_seq = Seq::new(reader.varint()?);
    let last_at = Timestamp::from_millis(reader.signed()?);
    let preview = std::str::from_utf8(reader.rest()).map_err(|_| DecodeError::Malformed("a preview"))?;
    Ok(InboxRow { last_seq, last_at, preview })
}

/// The beginning of `content`, cut where a character ends.
pub fn preview(content: &str) -> &str {
    &content[..content.floor_char_boundary(PREVIEW_MAX_BYTES)]
}

#[cfg(test)]
mod tests {
    use super::super::testing::hex;
    use super::*;

    fn user(name: &str) -> UserId {
        name.parse().unwrap()
    }

    #[test]
    fn the_bytes_of_version_1() {
        let conversation = Conversation {
            id: ConversationId::group([1; 15]),
            title: Some("Tea".parse().unwrap()),
            created_by: user("alice"),
            created_at: Timestamp::from_millis(1000),
            head: Seq::new(300),
            last_at: Timestamp::from_millis(2000),
        };
        let id = conversation.id;
        let stored = StoredConversation { conversation, newest_at: Timestamp::from_millis(3000) };
        let row = conversation_row(&stored);
        assert_eq!(hex(&row), "01ac02a0 1ff02ed0 0f05616c 69636501 03546561 265331e4");
        assert_eq!(read_conversation(&row, id), Ok(stored));

        let member = Member { user: user("bob"), role: Role::Admin, joined_seq: Seq::new(9) };
        let key = member_key(ConversationId::group([1; 15]), &member.user);
        assert_eq!(hex(&key), "67010101 01010101 01010101 01010101 626f62");
        let row = member_row(&member);
        assert_eq!(hex(&row), "010109c0 3a449e");
        assert_eq!(read_member(&key, &row), Ok(member));

        let inbox = InboxRow { last_seq: Seq::new(5), last_at: Timestamp::from_millis(2000), preview: "hey" };
        assert_eq!(hex(&inbox.encode()), "0105a01f 686579c4 511c64");
        assert_eq!(read_inbox(&inbox.encode()), Ok(inbox));
        assert_eq!(
            hex(&inbox_key(&user("bob"), ConversationId::group([2; 15]))),
            "03626f62 67020202 02020202 02020202 02020202"
        );
    }

    #[test]
    fn a_flipped_bit_in_a_row_is_seen() {
        let row = user_row(&User {
            id: user("alice"),
            display_name: None,
            password_hash: Some("hash".into()),
            created_at: Timestamp::from_millis(1),
        });
        for bit in 0..row.len() * 8 {
            let mut damaged = row.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(unseal(&damaged).err(), Some(DecodeError::Checksum));
        }
    }

    #[test]
    fn a_row_of_a_newer_version_is_refused() {
        let mut row = vec![VERSION + 1, 0];
        row.extend_from_slice(&crc32fast::hash(&row).to_le_bytes());
        assert_eq!(unseal(&row).err(), Some(DecodeError::Unknown { what: "row version", value: 2 }));
    }

    #[test]
    fn a_preview_is_cut_where_a_character_ends() {
        assert_eq!(preview("short"), "short");
        assert_eq!(preview(&"€".repeat(40)), "€".repeat(26));
    }
}
