//! Rows of the derived tables, and their keys.
//!
//! Keys sort in the order in which their table is read. A row starts with its format version and
//! ends with a checksum, because LMDB has none. The table adds a checksum of the key when it stores
//! the row.

use bluetick_core::inbox::{InboxKey, InboxSection};
use bluetick_core::people::name_terms;
use bluetick_core::{
    Conversation, ConversationId, Member, MemberState, Person, Preferences, Profile, Role, Seq, Skeleton,
    Timestamp, Title, User, UserId,
};

use super::event::{put_timestamp, role_code};
use super::{DecodeError, KEYED_VERSION, Reader, UNKEYED_VERSION, put_bytes, put_varint};

/// Wraps a row: version, body, checksum.
pub fn seal(body: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut out = vec![KEYED_VERSION];
    body(&mut out);
    let checksum = crc32fast::hash(&out);
    out.extend_from_slice(&checksum.to_le_bytes());
    out
}

/// Verifies the checksum and version of a row, and returns a reader of its body.
pub fn unseal(row: &[u8]) -> Result<Reader<'_>, DecodeError> {
    let (body, checksum) = row.split_last_chunk::<4>().ok_or(DecodeError::Short)?;
    if crc32fast::hash(body) != u32::from_le_bytes(*checksum) {
        return Err(DecodeError::Checksum);
    }
    let mut reader = Reader(body);
    match reader.u8()? {
        UNKEYED_VERSION | KEYED_VERSION => Ok(reader),
        newer => Err(DecodeError::Unknown { what: "row version", value: newer.into() }),
    }
}

/// (conversation, first seq): the chunks of a conversation are adjacent, oldest first.
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

/// (conversation, user): the members of a conversation are adjacent.
pub fn member_key(conversation: ConversationId, user: &UserId) -> Vec<u8> {
    [conversation.as_bytes(), user.as_str().as_bytes()].concat()
}

/// Returns the common prefix of one user's keys. The leading length separates "al" from "alice".
pub fn user_prefix(user: &UserId) -> Vec<u8> {
    let mut key = Vec::with_capacity(1 + user.as_str().len() + 25);
    key.push(u8::try_from(user.as_str().len()).expect("a user id has at most 128 bytes"));
    key.extend_from_slice(user.as_str().as_bytes());
    key
}

/// (user, conversation): the rows of a user are adjacent.
pub fn inbox_key(user: &UserId, conversation: ConversationId) -> Vec<u8> {
    let mut key = user_prefix(user);
    key.extend_from_slice(conversation.as_bytes());
    key
}

/// (user, shelf, latest first, conversation): the keys of a user sort in inbox order.
pub fn order_key(user: &UserId, position: &InboxKey) -> Vec<u8> {
    order_key_in(&user_prefix(user), position)
}

/// Like [`order_key`], with the user part of the key already encoded.
pub fn order_key_in(user: &[u8], position: &InboxKey) -> Vec<u8> {
    let mut key = Vec::with_capacity(user.len() + 25);
    key.extend_from_slice(user);
    put_inbox_position(&mut key, position);
    key
}

/// Returns the user part of an inbox or pending key.
pub fn key_user(key: &[u8]) -> Result<&[u8], DecodeError> {
    key.split_last_chunk::<16>().map(|(user, _)| user).ok_or(DecodeError::Short)
}

/// (term, user) for each search term of a person: all matches of a prefix are adjacent. A zero byte
/// separates the two; no term contains one.
pub fn name_keys(person: &Person) -> Vec<Vec<u8>> {
    let id = person.id.as_str();
    let terms = name_terms(&person.id, person.display_name.as_deref());
    terms.iter().map(|term| [term.as_bytes(), &[0], id.as_bytes()].concat()).collect()
}

/// Returns the common prefix of the skeleton keys in `names`. It starts with a control character,
/// which no search term does.
pub fn skeleton_prefix(name: &Skeleton) -> Vec<u8> {
    format!("\u{1}{}\0", name.key()).into_bytes()
}

/// (skeleton, user) for each skeleton of the id. [`skeleton_prefix`] finds these keys.
pub fn skeleton_keys(user: &UserId) -> Vec<Vec<u8>> {
    let key = |skeleton| [&skeleton_prefix(&skeleton), user.as_str().as_bytes()].concat();
    Skeleton::all(user.as_str()).into_iter().map(key).collect()
}

pub fn read_name_key(key: &[u8]) -> Result<(&str, UserId), DecodeError> {
    let text = std::str::from_utf8(key).ok().and_then(|text| text.split_once('\0'));
    let (term, user) = text.ok_or(DecodeError::Malformed("a name's key"))?;
    Ok((term, UserId::from_stored(user).map_err(|_| DecodeError::Malformed("a name's key"))?))
}

fn put_inbox_position(key: &mut Vec<u8>, position: &InboxKey) {
    key.push(section_code(position.shelf));
    // Maps signed order to unsigned order, then inverts it to put the latest first.
    let descending = !(position.last_at.millis().cast_unsigned() ^ (1 << 63));
    key.extend_from_slice(&descending.to_be_bytes());
    key.extend_from_slice(position.id.as_bytes());
}

/// Reads the position from an `order` key. Ignores the user part.
pub fn read_inbox_position(key: &[u8]) -> Result<InboxKey, DecodeError> {
    let (_, position) = key.split_last_chunk::<25>().ok_or(DecodeError::Short)?;
    let mut reader = Reader(position);
    let shelf = read_section(reader.u8()?)?;
    let descending = u64::from_be_bytes(reader.array()?);
    let last_at = Timestamp::from_millis((!descending ^ (1 << 63)).cast_signed());
    Ok(InboxKey { shelf, last_at, id: super::event::read_conversation_id(&mut reader)? })
}

fn section_code(shelf: InboxSection) -> u8 {
    match shelf {
        InboxSection::Pinned => 0,
        InboxSection::Ordinary => 1,
        InboxSection::Archived => 2,
    }
}

fn read_section(code: u8) -> Result<InboxSection, DecodeError> {
    InboxSection::ALL
        .into_iter()
        .find(|shelf| section_code(*shelf) == code)
        .ok_or(DecodeError::Unknown { what: "shelf", value: code.into() })
}

/// Returns the conversation at the end of an inbox or pending key.
pub fn key_conversation(key: &[u8]) -> Result<ConversationId, DecodeError> {
    let (_, id) = key.split_last_chunk::<16>().ok_or(DecodeError::Short)?;
    super::event::read_conversation_id(&mut Reader(id))
}

/// Writes the immutable facts of a conversation.
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

/// Reads the immutable facts of a conversation. The head is zero and `last_at` is the creation time
/// until the caller sets them.
pub fn read_facts(reader: &mut Reader<'_>, id: ConversationId) -> Result<Conversation, DecodeError> {
    let created_at = Timestamp::from_millis(reader.signed()?);
    let created_by = super::event::read_user_id(reader)?;
    let title = match reader.u8()? {
        0 => None,
        _ => Some(Title::from_stored(reader.str()?).map_err(|_| DecodeError::Malformed("a title"))?),
    };
    Ok(Conversation { id, title, created_by, created_at, head: Seq::ZERO, last_at: created_at })
}

/// A conversation with the fields that only the store needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredConversation {
    pub conversation: Conversation,
    /// No message in it was received later. Differs from `last_at` if the clock went back.
    pub newest_at: Timestamp,
    /// The number of notices among its messages.
    pub notices: u64,
}

pub fn conversation_row(stored: &StoredConversation) -> Vec<u8> {
    seal(|out| {
        put_varint(out, stored.conversation.head.get());
        put_timestamp(out, stored.conversation.last_at);
        put_timestamp(out, stored.newest_at);
        put_varint(out, stored.notices);
        put_facts(out, &stored.conversation);
    })
}

pub fn read_conversation(row: &[u8], id: ConversationId) -> Result<StoredConversation, DecodeError> {
    let mut reader = unseal(row)?;
    let head = Seq::new(reader.varint()?);
    let last_at = Timestamp::from_millis(reader.signed()?);
    let newest_at = Timestamp::from_millis(reader.signed()?);
    let notices = reader.varint()?;
    let conversation = Conversation { head, last_at, ..read_facts(&mut reader, id)? };
    Ok(StoredConversation { conversation, newest_at, notices })
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

/// Writes a read state without the preferences.
pub fn put_progress(out: &mut Vec<u8>, member_state: &MemberState) {
    let MemberState { delivered, read, shown_read, acknowledged, sent, preferences: _ } = member_state;
    for seq in [delivered, read, shown_read, acknowledged, sent] {
        put_varint(out, seq.get());
    }
}

pub fn read_progress(reader: &mut Reader<'_>) -> Result<MemberState, DecodeError> {
    let mut seq = || reader.varint().map(Seq::new);
    Ok(MemberState {
        delivered: seq()?,
        read: seq()?,
        shown_read: seq()?,
        acknowledged: seq()?,
        sent: seq()?,
        preferences: Preferences::default(),
    })
}

pub fn preference_bits(preferences: Preferences) -> u8 {
    let Preferences { muted, pinned, archived, hides_reads } = preferences;
    u8::from(muted) | u8::from(pinned) << 1 | u8::from(archived) << 2 | u8::from(hides_reads) << 3
}

pub fn read_preferences(bits: u8) -> Result<Preferences, DecodeError> {
    if bits >= 1 << 4 {
        return Err(DecodeError::Unknown { what: "preference", value: bits.into() });
    }
    let bit = |number: u8| bits & (1 << number) != 0;
    Ok(Preferences { muted: bit(0), pinned: bit(1), archived: bit(2), hides_reads: bit(3) })
}

/// Encodes a member with its read state in one row, so that a receipt costs one write.
pub fn member_row(member: &Member, member_state: &MemberState) -> Vec<u8> {
    seal(|out| {
        put_membership(out, member);
        if *member_state != MemberState::default() {
            out.push(preference_bits(member_state.preferences));
            put_progress(out, member_state);
        }
    })
}

/// Reads a member row. `key` is the whole key of the row.
pub fn read_member(key: &[u8], row: &[u8]) -> Result<(Member, MemberState), DecodeError> {
    let user = key.get(16..).and_then(|user| std::str::from_utf8(user).ok());
    let user = user
        .and_then(|user| UserId::from_stored(user).ok())
        .ok_or(DecodeError::Malformed("a member's key"))?;
    let mut reader = unseal(row)?;
    let member = read_membership(&mut reader, user)?;
    if reader.is_empty() {
        return Ok((member, MemberState::default()));
    }
    let preferences = read_preferences(reader.u8()?)?;
    Ok((member, MemberState { preferences, ..read_progress(&mut reader)? }))
}

pub use super::profile::{put_profile, read_profile};

pub fn profile_row(profile: &Profile) -> Vec<u8> {
    seal(|out| put_profile(out, profile))
}

/// Encodes a pending row: the seq before the first undelivered message. The row stays the same
/// while that message stays undelivered.
pub fn pending_row(after: Seq) -> Vec<u8> {
    seal(|out| put_varint(out, after.get()))
}

pub fn read_pending(row: &[u8]) -> Result<Seq, DecodeError> {
    unseal(row)?.varint().map(Seq::new)
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

/// Reads an account row. `key` is the whole key of the row.
pub fn read_user_row(key: &[u8], row: &[u8]) -> Result<User, DecodeError> {
    let id = std::str::from_utf8(key).ok().and_then(|id| UserId::from_stored(id).ok());
    read_user(&mut unseal(row)?, id.ok_or(DecodeError::Malformed("a user's key"))?)
}

/// One inbox row: its position in the order, and the newest message, cut to its preview.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InboxRow<'a> {
    pub last_seq: Seq,
    pub last_at: Timestamp,
    pub shelf: InboxSection,
    /// A [`Record`](super::record::Record). Empty if the conversation has no message.
    pub record: &'a [u8],
}

impl InboxRow<'_> {
    pub fn encode(&self) -> Vec<u8> {
        seal(|out| {
            out.push(section_code(self.shelf));
            put_varint(out, self.last_seq.get());
            put_timestamp(out, self.last_at);
            out.extend_from_slice(self.record);
        })
    }

    pub fn position(&self, id: ConversationId) -> InboxKey {
        InboxKey { shelf: self.shelf, last_at: self.last_at, id }
    }
}

pub fn read_inbox(row: &[u8]) -> Result<InboxRow<'_>, DecodeError> {
    let mut reader = unseal(row)?;
    let shelf = read_section(reader.u8()?)?;
    let last_seq = Seq::new(reader.varint()?);
    let last_at = Timestamp::from_millis(reader.signed()?);
    Ok(InboxRow { last_seq, last_at, shelf, record: reader.rest() })
}

#[cfg(test)]
mod tests {
    use super::super::testing::hex;
    use super::*;

    fn user(name: &str) -> UserId {
        name.parse().unwrap()
    }

    #[test]
    fn rows_match_bytes_of_version_3() {
        let conversation = Conversation {
            id: ConversationId::group([1; 15]),
            title: Some("Tea".parse().unwrap()),
            created_by: user("alice"),
            created_at: Timestamp::from_millis(1000),
            head: Seq::new(300),
            last_at: Timestamp::from_millis(2000),
        };
        let id = conversation.id;
        let stored = StoredConversation { conversation, newest_at: Timestamp::from_millis(3000), notices: 4 };
        let row = conversation_row(&stored);
        assert_eq!(hex(&row), "03ac02a0 1ff02e04 d00f0561 6c696365 01035465 61e5ee27 54");
        assert_eq!(read_conversation(&row, id), Ok(stored));

        let member = Member { user: user("bob"), role: Role::Admin, joined_seq: Seq::new(9) };
        let key = member_key(ConversationId::group([1; 15]), &member.user);
        assert_eq!(hex(&key), "67010101 01010101 01010101 01010101 626f62");
        let row = member_row(&member, &MemberState::default());
        assert_eq!(hex(&row), "030109ae eec09d");
        assert_eq!(read_member(&key, &row), Ok((member.clone(), MemberState::default())));
        let member_state = MemberState {
            delivered: Seq::new(300),
            read: Seq::new(200),
            shown_read: Seq::new(100),
            acknowledged: Seq::new(299),
            sent: Seq::new(1),
            preferences: Preferences { pinned: true, hides_reads: true, ..Preferences::default() },
        };
        let row = member_row(&member, &member_state);
        assert_eq!(hex(&row), "0301090a ac02c801 64ab0201 49bc002a");
        assert_eq!(read_member(&key, &row), Ok((member, member_state)));
        assert_eq!(read_pending(&pending_row(Seq::new(300))), Ok(Seq::new(300)));

        let inbox = InboxRow {
            last_seq: Seq::new(5),
            last_at: Timestamp::from_millis(2000),
            shelf: InboxSection::Ordinary,
            record: b"hey",
        };
        assert_eq!(hex(&inbox.encode()), "030105a0 1f686579 3056dd12");
        assert_eq!(read_inbox(&inbox.encode()), Ok(inbox));
        assert_eq!(
            hex(&inbox_key(&user("bob"), ConversationId::group([2; 15]))),
            "03626f62 67020202 02020202 02020202 02020202"
        );
    }

    #[test]
    fn row_of_version_2_is_readable() {
        let row = [2, 0xac, 2];
        let sealed = [&row[..], &crc32fast::hash(&row).to_le_bytes()].concat();
        assert_eq!(read_pending(&sealed), Ok(Seq::new(300)));
    }

    #[test]
    fn flipped_bit_in_row_is_an_error() {
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
    fn row_of_newer_version_is_refused() {
        let mut row = vec![KEYED_VERSION + 1, 0];
        row.extend_from_slice(&crc32fast::hash(&row).to_le_bytes());
        assert_eq!(unseal(&row).err(), Some(DecodeError::Unknown { what: "row version", value: 4 }));
    }

    #[test]
    fn order_keys_sort_like_inbox_positions() {
        let alice = user("alice");
        let position = |shelf, last_at, bit| InboxKey {
            shelf,
            last_at: Timestamp::from_millis(last_at),
            id: ConversationId::group([bit; 15]),
        };
        let mut positions = Vec::new();
        for shelf in InboxSection::ALL {
            for last_at in [i64::MIN, -5, 0, 7, i64::MAX] {
                positions.extend([position(shelf, last_at, 1), position(shelf, last_at, 2)]);
            }
        }
        positions.sort();
        let keys: Vec<_> = positions.iter().map(|position| order_key(&alice, position)).collect();
        assert!(keys.is_sorted());
        for (key, position) in keys.iter().zip(positions) {
            assert_eq!(read_inbox_position(key), Ok(position));
        }
    }
}
