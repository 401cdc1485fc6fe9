//! The events of the log, several in each batch.
//!
//! An event records a fact, never a request. Replay needs no decision, and replaying an event whose
//! effect already exists is harmless.

use bluetick_core::members::MembershipChange;
use bluetick_core::ports::Append;
use bluetick_core::{
    Conversation, ConversationId, Member, MemberState, Members, Preferences, Profile, Role, Seq, Timestamp,
    User, UserId,
};

use super::{DecodeError, Reader, put_bytes, put_signed, put_varint, record, varint_length};

/// Kind of [`LogEvent::Message`] in the log. Stored, so the values of all kinds must never change.
const MESSAGE: u8 = 1;
/// Kind of [`LogEvent::Created`].
const CREATED: u8 = 2;
/// Kind of a [`LogEvent::Membership`] that adds a member.
const JOINED: u8 = 3;
/// Kind of a [`LogEvent::Membership`] that removes a member.
const LEFT: u8 = 4;
/// Kind of [`LogEvent::User`].
const USER: u8 = 5;
/// Kind of [`LogEvent::ReadStateChanged`].
const READ_STATE: u8 = 6;
/// Kind of [`LogEvent::PreferencesChanged`].
const PREFERENCES: u8 = 7;
/// Kind of [`LogEvent::Profile`].
const PROFILE: u8 = 8;

/// One decoded event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogEvent<'a> {
    Message {
        conversation: ConversationId,
        seq: Seq,
        record: &'a [u8],
    },
    Created {
        conversation: Conversation,
        members: Members,
    },
    Membership {
        conversation: ConversationId,
        change: MembershipChange,
    },
    User(User),
    /// A member's read state is at least this. A reply has no `ReadStateChanged` event: its read
    /// state follows from the message.
    ReadStateChanged {
        membership: MembershipRef,
        member_state: MemberState,
    },
    PreferencesChanged {
        membership: MembershipRef,
        preferences: Preferences,
    },
    Profile {
        user: UserId,
        profile: Profile,
    },
}

/// Identifies one membership. A user who leaves and rejoins gets another `joined_seq`, so events of
/// the old membership do not apply to the new one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MembershipRef {
    pub conversation: ConversationId,
    pub user: UserId,
    pub joined_seq: Seq,
}

/// Writes a message event. Returns the range of its record in `out`.
pub fn put_message(
    out: &mut Vec<u8>,
    conversation: ConversationId,
    seq: Seq,
    record: &[u8],
) -> std::ops::Range<usize> {
    put_message_head(out, conversation, seq, record.len());
    let start = out.len();
    out.extend_from_slice(record);
    start..out.len()
}

/// Like [`put_message`], for a new message. Encodes the record directly into `out`.
pub fn put_append(out: &mut Vec<u8>, append: &Append, seq: Seq) -> std::ops::Range<usize> {
    let length = record::length_of(append);
    put_message_head(out, append.conversation, seq, length);
    let start = out.len();
    record::encode_append(out, append);
    assert_eq!(out.len() - start, length, "the length was written before the record");
    start..out.len()
}

fn put_message_head(out: &mut Vec<u8>, conversation: ConversationId, seq: Seq, record_bytes: usize) {
    out.push(MESSAGE);
    put_varint(out, (16 + varint_length(seq.get()) + record_bytes) as u64);
    out.extend_from_slice(conversation.as_bytes());
    put_varint(out, seq.get());
}

pub fn put_created(out: &mut Vec<u8>, conversation: &Conversation, members: &Members) {
    let mut body = Vec::new();
    body.extend_from_slice(conversation.id.as_bytes());
    super::rows::put_facts(&mut body, conversation);
    put_varint(&mut body, members.len() as u64);
    for member in members {
        put_member(&mut body, member);
    }
    put_event(out, CREATED, &body);
}

pub fn put_membership(out: &mut Vec<u8>, conversation: ConversationId, change: &MembershipChange) {
    let mut body = conversation.as_bytes().to_vec();
    match change {
        MembershipChange::Joined(member) => {
            put_member(&mut body, member);
            put_event(out, JOINED, &body);
        }
        MembershipChange::Left { user, new_admin } => {
            put_bytes(&mut body, user.as_str().as_bytes());
            put_bytes(&mut body, new_admin.as_ref().map_or("", UserId::as_str).as_bytes());
            put_event(out, LEFT, &body);
        }
    }
}

pub fn put_user(out: &mut Vec<u8>, user: &User) {
    let mut body = Vec::new();
    put_bytes(&mut body, user.id.as_str().as_bytes());
    super::rows::put_user(&mut body, user);
    put_event(out, USER, &body);
}

/// Writes a read state. Does not write the preferences in `member_state`, which have their own
/// event.
pub fn put_read_state(out: &mut Vec<u8>, membership: &MembershipRef, member_state: &MemberState) {
    let mut body = membership_bytes(membership);
    super::rows::put_progress(&mut body, member_state);
    put_event(out, READ_STATE, &body);
}

pub fn put_preferences_changed(out: &mut Vec<u8>, membership: &MembershipRef, preferences: Preferences) {
    let mut body = membership_bytes(membership);
    body.push(super::rows::preference_bits(preferences));
    put_event(out, PREFERENCES, &body);
}

fn membership_bytes(membership: &MembershipRef) -> Vec<u8> {
    let mut body = membership.conversation.as_bytes().to_vec();
    put_bytes(&mut body, membership.user.as_str().as_bytes());
    put_varint(&mut body, membership.joined_seq.get());
    body
}

fn read_membership_ref(reader: &mut Reader<'_>) -> Result<MembershipRef, DecodeError> {
    let conversation = read_conversation_id(reader)?;
    let user = read_user_id(reader)?;
    Ok(MembershipRef { conversation, user, joined_seq: Seq::new(reader.varint()?) })
}

pub fn put_profile(out: &mut Vec<u8>, user: &UserId, profile: &Profile) {
    let mut body = Vec::new();
    put_bytes(&mut body, user.as_str().as_bytes());
    super::rows::put_profile(&mut body, profile);
    put_event(out, PROFILE, &body);
}

fn put_event(out: &mut Vec<u8>, kind: u8, body: &[u8]) {
    out.push(kind);
    put_bytes(out, body);
}

/// Reads the next event. Returns `None` at the end of the batch.
pub fn next_event<'a>(reader: &mut Reader<'a>) -> Result<Option<LogEvent<'a>>, DecodeError> {
    if reader.is_empty() {
        return Ok(None);
    }
    let kind = reader.u8()?;
    let mut body = Reader(reader.bytes()?);
    let event = match kind {
        MESSAGE => {
            let conversation = read_conversation_id(&mut body)?;
            let seq = Seq::new(body.varint()?);
            LogEvent::Message { conversation, seq, record: body.rest() }
        }
        CREATED => {
            let id = read_conversation_id(&mut body)?;
            let conversation = super::rows::read_facts(&mut body, id)?;
            let count = body.varint()?;
            let members = (0..count).map(|_| read_member(&mut body)).collect::<Result<_, _>>()?;
            LogEvent::Created { conversation, members: Members::from_unsorted(members) }
        }
        JOINED => {
            let conversation = read_conversation_id(&mut body)?;
            LogEvent::Membership { conversation, change: MembershipChange::Joined(read_member(&mut body)?) }
        }
        LEFT => {
            let conversation = read_conversation_id(&mut body)?;
            let user = read_user_id(&mut body)?;
            let new_admin = match body.str()? {
                "" => None,
                heir => Some(UserId::from_stored(heir).map_err(|_| DecodeError::Malformed("a user id"))?),
            };
            LogEvent::Membership { conversation, change: MembershipChange::Left { user, new_admin } }
        }
        USER => {
            let id = read_user_id(&mut body)?;
            LogEvent::User(super::rows::read_user(&mut body, id)?)
        }
        READ_STATE => {
            let membership = read_membership_ref(&mut body)?;
            LogEvent::ReadStateChanged { membership, member_state: super::rows::read_progress(&mut body)? }
        }
        PREFERENCES => {
            let membership = read_membership_ref(&mut body)?;
            LogEvent::PreferencesChanged {
                membership,
                preferences: super::rows::read_preferences(body.u8()?)?,
            }
        }
        PROFILE => {
            let user = read_user_id(&mut body)?;
            LogEvent::Profile { user, profile: super::rows::read_profile(&mut body)? }
        }
        value => return Err(DecodeError::Unknown { what: "event", value: value.into() }),
    };
    Ok(Some(event))
}

fn put_member(out: &mut Vec<u8>, member: &Member) {
    put_bytes(out, member.user.as_str().as_bytes());
    super::rows::put_membership(out, member);
}

fn read_member(reader: &mut Reader<'_>) -> Result<Member, DecodeError> {
    let user = read_user_id(reader)?;
    super::rows::read_membership(reader, user)
}

pub fn read_conversation_id(reader: &mut Reader<'_>) -> Result<ConversationId, DecodeError> {
    ConversationId::from_bytes(reader.array()?).ok_or(DecodeError::Malformed("a conversation id"))
}

pub fn read_user_id(reader: &mut Reader<'_>) -> Result<UserId, DecodeError> {
    UserId::from_stored(reader.str()?).map_err(|_| DecodeError::Malformed("a user id"))
}

pub fn role_code(role: Role) -> u8 {
    match role {
        Role::Member => 0,
        Role::Admin => 1,
    }
}

pub fn put_timestamp(out: &mut Vec<u8>, timestamp: Timestamp) {
    put_signed(out, timestamp.millis());
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::testing::hex;
    use super::*;

    fn user(name: &str) -> UserId {
        name.parse().unwrap()
    }

    fn conversation() -> Conversation {
        Conversation {
            id: ConversationId::group([1; 15]),
            title: Some("Tea".parse().unwrap()),
            created_by: user("alice"),
            created_at: Timestamp::from_millis(1000),
            head: Seq::ZERO,
            last_at: Timestamp::from_millis(1000),
        }
    }

    fn all_events(out: &mut Vec<u8>) {
        put_message(out, ConversationId::group([1; 15]), Seq::new(300), b"record");
        put_created(out, &conversation(), &Members::founding(&user("alice"), &[user("bob")]));
        let member = Member { user: user("carol"), role: Role::Member, joined_seq: Seq::new(2) };
        put_membership(out, ConversationId::group([1; 15]), &MembershipChange::Joined(member));
        let left = MembershipChange::Left { user: user("alice"), new_admin: Some(user("bob")) };
        put_membership(out, ConversationId::group([1; 15]), &left);
        put_user(
            out,
            &User {
                id: user("alice"),
                display_name: Some("Alice".into()),
                password_hash: None,
                created_at: Timestamp::from_millis(7),
            },
        );
        let member_state =
            MemberState { delivered: Seq::new(300), read: Seq::new(2), ..MemberState::default() };
        let conversation = ConversationId::group([1; 15]);
        let membership = MembershipRef { conversation, user: user("bob"), joined_seq: Seq::new(7) };
        put_read_state(out, &membership, &member_state);
        let preferences = Preferences { pinned: true, ..Preferences::default() };
        put_preferences_changed(out, &membership, preferences);
        let profile = Profile {
            last_seen_at: Some(Timestamp::from_millis(3)),
            hides_presence: true,
            ..Profile::default()
        };
        put_profile(out, &user("bob"), &profile);
    }

    #[test]
    fn events_match_bytes_of_version_1() {
        let mut out = Vec::new();
        all_events(&mut out);
        assert_eq!(
            hex(&out),
            "01186701 01010101 01010101 01010101 0101ac02 7265636f 7264022c 67010101 01010101 01010101 01010101 d00f0561 6c696365 01035465 61020561 6c696365 01010362 6f620001 03186701 01010101 01010101 01010101 01010563 61726f6c 0002041a 67010101 01010101 01010101 01010101 05616c69 63650362 6f62050f 05616c69 63650e01 05416c69 63650006 1b670101 01010101 01010101 01010101 0103626f 6207ac02 02000000 07166701 01010101 01010101 01010101 01010362 6f620702 08060362 6f620106"
        );
    }

    #[test]
    fn events_round_trip_in_order() {
        let mut out = Vec::new();
        all_events(&mut out);
        let mut reader = Reader(&out);
        let mut kinds = Vec::new();
        while let Some(event) = next_event(&mut reader).unwrap() {
            kinds.push(match event {
                LogEvent::Message { seq, record, .. } => format!("message {seq} {}", record.len()),
                LogEvent::Created { members, .. } => format!("founded by {}", members.len()),
                LogEvent::Membership { change, .. } => format!("{change:?}"),
                LogEvent::User(user) => format!("user {}", user.id),
                LogEvent::ReadStateChanged { membership, member_state } => {
                    format!("{membership:?} {member_state:?}")
                }
                LogEvent::PreferencesChanged { membership, preferences } => {
                    format!("{membership:?} {preferences:?}")
                }
                LogEvent::Profile { user, profile } => format!("{user} {profile:?}"),
            });
        }
        assert_eq!(kinds.len(), 8);
        assert_eq!(kinds[0], "message 300 6");
        assert_eq!(kinds[4], "user alice");
    }

    proptest! {
        #[test]
        fn reading_arbitrary_bytes_as_events_never_panics(bytes: Vec<u8>) {
            let mut reader = Reader(&bytes);
            while let Ok(Some(_)) = next_event(&mut reader) {}
        }
    }
}
