//! Properties of the encodings: events, rows and chunks round-trip, and keys sort in the order in
//! which their table is read.

use bluetick_archive::{BlockRef, SegmentRef};
use bluetick_core::inbox::{InboxKey, InboxSection};
use bluetick_core::members::MembershipChange;
use bluetick_core::{
    ContentType, Conversation, ConversationId, Member, MemberState, Members, MessageId, Preferences, Profile,
    Role, Seq, Timestamp, User, UserId,
};
use bluetick_store_embedded::codec::chunk::{
    self, ChunkEntry, ChunkPacker, Fingerprint, Fingerprinter, Header,
};
use bluetick_store_embedded::codec::cold::{self, ColdChunk};
use bluetick_store_embedded::codec::event::{self, LogEvent, MembershipRef};
use bluetick_store_embedded::codec::record::Record;
use bluetick_store_embedded::codec::{Reader, rows};
use proptest::prelude::*;

fn user() -> impl Strategy<Value = UserId> {
    "[a-z0-9ü🥪._-]{1,20}".prop_map(|name| name.parse().expect("a good name"))
}

fn conversation_id() -> impl Strategy<Value = ConversationId> {
    prop_oneof![
        any::<[u8; 15]>().prop_map(ConversationId::group),
        (user(), user()).prop_map(|(one, other)| ConversationId::direct(&one, &other)),
    ]
}

fn seq() -> impl Strategy<Value = Seq> {
    prop_oneof![0..300u64, 0..=Seq::MAX.get()].prop_map(Seq::new)
}

fn timestamp() -> impl Strategy<Value = Timestamp> {
    any::<i64>().prop_map(Timestamp::from_millis)
}

fn member() -> impl Strategy<Value = Member> {
    (user(), any::<bool>(), seq()).prop_map(|(user, admin, joined_seq)| Member {
        user,
        role: if admin { Role::Admin } else { Role::Member },
        joined_seq,
    })
}

fn preferences() -> impl Strategy<Value = Preferences> {
    any::<[bool; 4]>().prop_map(|[muted, pinned, archived, hides_reads]| Preferences {
        muted,
        pinned,
        archived,
        hides_reads,
    })
}

fn member_state() -> impl Strategy<Value = MemberState> {
    (seq(), seq(), seq(), seq(), seq()).prop_map(|(delivered, read, shown_read, acknowledged, sent)| {
        MemberState { delivered, read, shown_read, acknowledged, sent, preferences: Preferences::default() }
    })
}

fn conversation() -> impl Strategy<Value = Conversation> {
    (conversation_id(), prop::option::of("[^ \\x00-\\x1f\\x7f][a-zü ]{0,20}"), user(), timestamp()).prop_map(
        |(id, title, created_by, created_at)| Conversation {
            id,
            title: title.and_then(|title| title.parse().ok()),
            created_by,
            created_at,
            head: Seq::ZERO,
            last_at: created_at,
        },
    )
}

fn account() -> impl Strategy<Value = User> {
    (user(), prop::option::of(".{0,20}"), prop::option::of(".{0,40}"), timestamp()).prop_map(
        |(id, display_name, password_hash, created_at)| User {
            id,
            display_name: display_name.map(Into::into),
            password_hash: password_hash.map(Into::into),
            created_at,
        },
    )
}

fn profile() -> impl Strategy<Value = Profile> {
    (prop::option::of(timestamp()), any::<bool>()).prop_map(|(last_seen_at, hides_presence)| Profile {
        last_seen_at,
        hides_presence,
        ..Profile::default()
    })
}

fn membership() -> impl Strategy<Value = MembershipRef> {
    (conversation_id(), user(), seq()).prop_map(|(conversation, user, joined_seq)| MembershipRef {
        conversation,
        user,
        joined_seq,
    })
}

/// Generates every kind of event. A message record is opaque bytes here.
fn happening() -> impl Strategy<Value = LogEvent<'static>> {
    prop_oneof![
        (conversation_id(), seq()).prop_map(|(conversation, seq)| LogEvent::Message {
            conversation,
            seq,
            record: b"record"
        }),
        (conversation(), prop::collection::vec(member(), 0..5)).prop_map(|(conversation, members)| {
            LogEvent::Created { conversation, members: Members::from_unsorted(members) }
        }),
        (conversation_id(), member()).prop_map(|(conversation, member)| {
            LogEvent::Membership { conversation, change: MembershipChange::Joined(member) }
        }),
        (conversation_id(), user(), prop::option::of(user())).prop_map(|(conversation, user, new_admin)| {
            LogEvent::Membership { conversation, change: MembershipChange::Left { user, new_admin } }
        }),
        account().prop_map(LogEvent::User),
        (membership(), member_state())
            .prop_map(|(membership, member_state)| LogEvent::ReadStateChanged { membership, member_state }),
        (membership(), preferences())
            .prop_map(|(membership, preferences)| LogEvent::PreferencesChanged { membership, preferences }),
        (user(), profile()).prop_map(|(user, profile)| LogEvent::Profile { user, profile }),
    ]
}

fn put(out: &mut Vec<u8>, event: &LogEvent<'_>) {
    match event {
        LogEvent::Message { conversation, seq, record } => {
            event::put_message(out, *conversation, *seq, record);
        }
        LogEvent::Created { conversation, members } => event::put_created(out, conversation, members),
        LogEvent::Membership { conversation, change } => event::put_membership(out, *conversation, change),
        LogEvent::User(user) => event::put_user(out, user),
        LogEvent::ReadStateChanged { membership, member_state } => {
            event::put_read_state(out, membership, member_state)
        }
        LogEvent::PreferencesChanged { membership, preferences } => {
            event::put_preferences_changed(out, membership, *preferences)
        }
        LogEvent::Profile { user, profile } => event::put_profile(out, user, profile),
    }
}

fn records() -> impl Strategy<Value = Vec<Vec<u8>>> {
    let record = (timestamp(), timestamp(), "[!-~]{1,40}", "(?s).{0,60}").prop_map(
        |(received_at, timestamp, id, content)| {
            let mut bytes = Vec::new();
            Record {
                received_at,
                timestamp,
                sender: "alice",
                message_id: MessageId::from_stored(&id),
                content_type: ContentType::Text,
                content: &content,
            }
            .encode(&mut bytes);
            bytes
        },
    );
    prop::collection::vec(record, 1..=chunk::CAPACITY)
}

proptest! {
    #[test]
    fn any_events_round_trip_in_order(events in prop::collection::vec(happening(), 0..12)) {
        let mut batch = Vec::new();
        events.iter().for_each(|event| put(&mut batch, event));
        let mut reader = Reader(&batch);
        for event in events {
            prop_assert_eq!(event::next_event(&mut reader), Ok(Some(event)));
        }
        prop_assert_eq!(event::next_event(&mut reader), Ok(None));
    }

    #[test]
    fn member_row_round_trips_with_read_state(
        id in conversation_id(), member in member(), member_state in member_state(), preferences in preferences(),
    ) {
        let member_state = MemberState { preferences, ..member_state };
        let row = rows::member_row(&member, &member_state);
        let key = rows::member_key(id, &member.user);
        prop_assert_eq!(rows::read_member(&key, &row), Ok((member, member_state)));
    }

    #[test]
    fn order_keys_sort_in_inbox_order(
        who in user(),
        positions in prop::collection::vec((0..3usize, any::<i64>(), any::<[u8; 15]>()), 2..12),
    ) {
        let mut positions: Vec<_> = positions
            .into_iter()
            .map(|(shelf, at, id)| InboxKey {
                shelf: InboxSection::ALL[shelf],
                last_at: Timestamp::from_millis(at),
                id: ConversationId::group(id),
            })
            .collect();
        positions.sort();
        let keys: Vec<_> = positions.iter().map(|position| rows::order_key(&who, position)).collect();
        prop_assert!(keys.is_sorted());
        for (key, position) in keys.iter().zip(positions) {
            prop_assert_eq!(rows::read_inbox_position(key), Ok(position));
        }
    }

}

proptest! {
    // Few cases, because each packs a whole chunk twice.
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn chunk_round_trips_and_its_cold_chunk_matches_it(records in records(), first in 1..1_000u64) {
        let hasher = Fingerprinter([7; 16]);
        let entries: Vec<_> = records
            .iter()
            .zip(0..)
            .map(|(record, number)| ChunkEntry { record, fingerprint: Fingerprint(number % 3) })
            .collect();
        let mut hot = Vec::new();
        ChunkPacker::default().pack(&entries, Timestamp::from_millis(9), 5, &mut hot);
        let header = Header::read(&hot).expect("the lines above packed it");
        let unpacked = chunk::unpack(&header).expect("the lines above packed it");
        prop_assert!(unpacked.records().eq(records.iter().map(Vec::as_slice)));

        let stubs: Vec<_> =
            records.iter().map(|record| cold::stub_of(record, &hasher).expect("a record")).collect();
        let frame = BlockRef { offset: 53, length: 900, raw_length: 2_000, checksum: 7 };
        let location = SegmentRef { first: Seq::new(1), last: Seq::new(5_000), revision: 1, block: frame, index: 3 };
        let mut met = 0;
        for (part_first, part) in cold::pack(Seq::new(first), &header, &location, &stubs) {
            prop_assert_eq!(part_first, Seq::new(first + met as u64), "parts follow each other");
            let part_header = Header::read(&part).expect("the lines above packed it");
            let part = ColdChunk::read(&part_header).expect("the lines above packed it");
            prop_assert_eq!(part.location.index as usize, 3 + met);
            for (index, (stub, hash)) in part.entries().enumerate() {
                let whole = Record::decode(&records[met]).expect("a record");
                let left = Record::decode(stub).expect("a record");
                prop_assert_eq!(&Record { content: whole.content, ..left }, &whole);
                prop_assert_eq!(hash, hasher.of_content(whole.content));
                prop_assert_eq!(part_header.notices_through(index), header.notices_through(met));
                met += 1;
            }
        }
        prop_assert_eq!(met, records.len());
    }
}
