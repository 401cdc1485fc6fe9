//! The inbox: order, content of an entry, and pages.

use bluetick_core::inbox::PREVIEW_MAX_BYTES;
use bluetick_core::{ContentType, ConversationId, InboxFilter, InboxKey, PreferenceChange, Preferences, Seq};

use crate::world::{ARCHIVE, MUTE, NOW, PIN, conversations, ticks};
use crate::{Harness, StoreUnderTest};

/// Creates `count` conversations of alice. Each has one message, one minute after the previous
/// conversation's.
async fn conversations_of_alice<H: Harness>(world: &StoreUnderTest<H>, count: i64) -> Vec<ConversationId> {
    let mut ids = Vec::new();
    for number in 0..count {
        let peer = format!("peer{number}");
        let id = world.direct("alice", &peer).await;
        world.sent_at(number, id, &peer, "hi").await;
        ids.push(id);
    }
    ids
}

fn latest_first(ids: &[ConversationId]) -> Vec<ConversationId> {
    ids.iter().rev().copied().collect()
}

pub async fn inbox_lists_the_latest_activity_first<H: Harness>(world: StoreUnderTest<H>) {
    assert!(world.inbox("alice").await.is_empty());
    let ids = conversations_of_alice(&world, 5).await;
    let world = world.holds(async |world| assert_eq!(world.inbox("alice").await, latest_first(&ids))).await;
    world.sent_at(10, ids[2], "alice", "answer").await;
    world.sent_at(11, ids[0], "peer0", "again").await;
    world.read(ids[1], "alice", 1).await;
    let expected = [ids[0], ids[2], ids[4], ids[3], ids[1]];
    let check = async |world: &StoreUnderTest<H>| {
        assert_eq!(world.inbox("alice").await, expected);
        assert_eq!(world.inbox("peer2").await, [ids[2]]);
    };
    world.holds(check).await;
}

pub async fn clock_set_back_moves_no_conversation_down<H: Harness>(world: StoreUnderTest<H>) {
    let ids = conversations_of_alice(&world, 3).await;
    world.sent_at(-5, ids[2], "alice", "sent with a clock set back").await;
    let check = async |world: &StoreUnderTest<H>| {
        assert_eq!(world.inbox("alice").await, [ids[2], ids[1], ids[0]]);
        let entry = world.entry(ids[2], "alice").await;
        assert_eq!(entry.conversation.last_at, NOW.plus_millis(2 * 60_000));
        assert_eq!(entry.last_message.unwrap().seq, Seq::new(2));
    };
    world.holds(check).await;
}

pub async fn inbox_lists_pinned_first_and_archived_last<H: Harness>(world: StoreUnderTest<H>) {
    let ids = conversations_of_alice(&world, 6).await;
    world.set_preferences(ids[1], "alice", PIN).await.unwrap();
    world.set_preferences(ids[3], "alice", PIN).await.unwrap();
    world.set_preferences(ids[5], "alice", ARCHIVE).await.unwrap();
    world.set_preferences(ids[4], "alice", MUTE).await.unwrap();
    let check = async |world: &StoreUnderTest<H>| {
        assert_eq!(world.inbox("alice").await, [ids[3], ids[1], ids[4], ids[2], ids[0], ids[5]]);
        assert_eq!(world.inbox("peer1").await, [ids[1]], "preferences of alice do not affect the peer");
    };
    let world = world.holds(check).await;
    world.sent_at(20, ids[5], "peer5", "still archived").await;
    world.set_preferences(ids[3], "alice", ARCHIVE).await.unwrap();
    let unpin = PreferenceChange { pinned: Some(false), ..PreferenceChange::default() };
    world.set_preferences(ids[1], "alice", unpin).await.unwrap();
    let check = async |world: &StoreUnderTest<H>| {
        assert_eq!(world.inbox("alice").await, [ids[4], ids[2], ids[1], ids[0], ids[5], ids[3]]);
        let preferences = world.entry(ids[3], "alice").await.preferences;
        assert_eq!(preferences, Preferences { pinned: true, archived: true, ..Preferences::default() });
    };
    world.holds(check).await;
}

pub async fn inbox_filter_separates_archived_conversations<H: Harness>(world: StoreUnderTest<H>) {
    let ids = conversations_of_alice(&world, 9).await;
    for number in [0, 4, 8] {
        world.set_preferences(ids[number], "alice", ARCHIVE).await.unwrap();
    }
    world.set_preferences(ids[2], "alice", PIN).await.unwrap();
    let check = async |world: &StoreUnderTest<H>| {
        for limit in [1, 2, 3, 100] {
            let archived = world.paged_inbox("alice", limit, InboxFilter::Archived).await;
            assert_eq!(conversations(&archived), [ids[8], ids[4], ids[0]]);
            let rest = world.paged_inbox("alice", limit, InboxFilter::NotArchived).await;
            assert_eq!(conversations(&rest), [ids[2], ids[7], ids[6], ids[5], ids[3], ids[1]]);
        }
        let none = world.filtered_page("peer3", None, 5, InboxFilter::Archived).await;
        assert!(none.entries.is_empty() && none.next.is_none());
    };
    world.holds(check).await;
}

pub async fn direct_conversation_without_messages_is_listed_for_its_creator_alone<H: Harness>(
    world: StoreUnderTest<H>,
) {
    world.turn_clock_to(7);
    let id = world.direct("alice", "bob").await;
    let check = async |world: &StoreUnderTest<H>| {
        let page = world.inbox_page("alice", None, 20).await;
        let [listed] = &page.entries[..] else { panic!("one conversation, not {page:?}") };
        for (name, peer) in [("alice", "bob"), ("bob", "alice")] {
            let entry = world.entry(id, name).await;
            assert_eq!((entry.conversation.id, &entry.peer), (id, &Some(world.user(peer))));
            assert_eq!(entry.conversation.last_at, NOW.plus_millis(7 * 60_000));
            assert_eq!((entry.conversation.head, &entry.last_message), (Seq::ZERO, &None));
            assert_eq!((entry.unread, ticks(entry.own), ticks(entry.others)), (0, (0, 0), (0, 0)));
            assert_eq!((entry.member_count, entry.joined), (2, Seq::FIRST));
            assert!(name == "bob" || *listed == entry);
        }
        let page = world.inbox_page("bob", None, 20).await;
        assert!(page.entries.is_empty() && page.next.is_none(), "{page:?}");
        for (name, is_member) in [("alice", true), ("bob", true), ("carol", false)] {
            assert_eq!(world.store().is_member(&world.user(name)).await.unwrap(), is_member, "{name}");
        }
    };
    world.holds(check).await;
}

/// Other users open direct conversations with bob; only some of these conversations have messages.
pub async fn direct_conversation_is_listed_for_the_peer_after_its_first_message<H: Harness>(
    world: StoreUnderTest<H>,
) {
    let mut ids = Vec::new();
    for number in 0..9 {
        world.turn_clock_to(number);
        ids.push(world.direct(&format!("peer{number}"), "bob").await);
    }
    for (minute, number) in [(20, 3), (21, 0), (22, 8)] {
        world.sent_at(minute, ids[number], &format!("peer{number}"), "hello").await;
    }
    // Opening a conversation again and changing a preference send no message.
    world.direct("bob", "peer5").await;
    world.set_preferences(ids[6], "bob", PIN).await.unwrap();
    let check = async |world: &StoreUnderTest<H>| {
        for limit in [1, 2, 3, 20] {
            let pages = world.paged_inbox("bob", limit, InboxFilter::All).await;
            assert_eq!(conversations(&pages), [ids[8], ids[0], ids[3]]);
            assert!(pages.iter().all(|entry| entry.unread == 1 && entry.last_message.is_some()));
        }
        let page = world.inbox_page("bob", None, 3).await;
        assert_eq!((page.entries.len(), page.next), (3, None), "no page follows");
        assert!(world.behind("bob", &[]).await.iter().all(|behind| behind.head > Seq::ZERO));
    };
    let world = world.holds(check).await;
    // In one conversation the creator sends the first message, in the other the peer does.
    world.sent_at(30, ids[6], "peer6", "hello").await;
    world.sent_at(31, ids[5], "bob", "hello").await;
    let check = async |world: &StoreUnderTest<H>| {
        let pages = world.paged_inbox("bob", 2, InboxFilter::All).await;
        assert_eq!(
            conversations(&pages),
            [ids[6], ids[5], ids[8], ids[0], ids[3]],
            "the pinned conversation is first"
        );
        let unread: Vec<u64> = pages.iter().map(|entry| entry.unread).collect();
        assert_eq!(unread, [1, 0, 1, 1, 1]);
    };
    world.holds(check).await;
}

pub async fn inbox_entry_has_preview_read_state_and_unread_count<H: Harness>(world: StoreUnderTest<H>) {
    let id = world.direct("alice", "bob").await;
    world.sent_at(1, id, "alice", "hello").await;
    world.sent_at(2, id, "bob", "hello yourself").await;
    world.sent_at(3, id, "alice", "how are you").await;
    world.delivered(id, "bob", 3).await;
    let check = async |world: &StoreUnderTest<H>| {
        let entry = world.entry(id, "alice").await;
        assert_eq!(world.inbox_page("alice", None, 1).await.entries[0], entry);
        assert_eq!((entry.peer, entry.conversation.title), (Some(world.user("bob")), None));
        assert_eq!((entry.conversation.head, entry.conversation.created_at), (Seq::new(3), NOW));
        assert_eq!((ticks(entry.own), ticks(entry.others), entry.unread), ((2, 2), (3, 1), 0));
        let last = entry.last_message.unwrap();
        assert_eq!((last.seq, &*last.preview), (Seq::new(3), "how are you"));
        assert_eq!((last.message_id.to_string(), last.sender), ("how-are-you".into(), world.user("alice")));
        assert_eq!(last.content_type, ContentType::Text);
        assert_eq!(last.received_at, NOW.plus_millis(3 * 60_000));
        assert_eq!((last.timestamp, entry.conversation.last_at), (last.received_at, last.received_at));
        assert_eq!(world.entry(id, "bob").await.unread, 1);
    };
    world.holds(check).await;
}

pub async fn preview_is_cut_at_a_character_boundary<H: Harness>(world: StoreUnderTest<H>) {
    let id = world.direct("alice", "bob").await;
    let contents = ["x".repeat(120), "x".repeat(121), format!("x{}", "€".repeat(90)), "🏳️‍🌈".repeat(40)];
    let mut world = world;
    for (number, content) in contents.iter().enumerate() {
        let mut append = world.message(id, "alice", &format!("m{number}"));
        append.content = content.as_str().into();
        append.content_type = ContentType::Other("text/markdown".into());
        world.append(append).await.unwrap();
        let check = async |world: &StoreUnderTest<H>| {
            let last = world.entry(id, "bob").await.last_message.unwrap();
            assert!(content.starts_with(&*last.preview));
            assert!(last.preview.len() <= PREVIEW_MAX_BYTES);
            assert!(last.preview.len() == content.len() || last.preview.len() > PREVIEW_MAX_BYTES - 4);
            assert_eq!(last.content_type.as_str(), "text/markdown");
        };
        world = world.holds(check).await;
    }
}

pub async fn group_entry_shows_its_title_and_a_notice_as_last_message<H: Harness>(world: StoreUnderTest<H>) {
    let id = world.group("alice", &["bob"]).await;
    world.sent_at(1, id, "alice", "hello").await;
    world.turn_clock_to(2);
    let long_name = "x".repeat(90);
    world.add(id, "alice", &[&long_name]).await.unwrap();
    let check = async |world: &StoreUnderTest<H>| {
        let notice = world.history(id, "bob").await.pop().unwrap();
        for name in ["alice", "bob", &long_name] {
            let entry = world.entry(id, name).await;
            assert_eq!((entry.peer, entry.member_count), (None, 3));
            assert_eq!(entry.conversation.title.unwrap().as_str(), "Tea");
            assert_eq!(entry.conversation.last_at, NOW.plus_millis(2 * 60_000));
            let last = entry.last_message.unwrap();
            assert_eq!((last.seq, last.content_type), (Seq::new(3), ContentType::System));
            assert_eq!(last.preview, notice.content, "a notice is not truncated");
        }
        assert_eq!(world.entry(id, &long_name).await.joined, Seq::new(3));
    };
    world.holds(check).await;
}

pub async fn group_tick_follows_the_member_furthest_behind<H: Harness>(world: StoreUnderTest<H>) {
    let id = world.group("alice", &["bob", "carol"]).await;
    world.sent_many(id, "alice", "m", 3).await;
    world.read(id, "bob", 4).await;
    world.delivered(id, "carol", 3).await;
    let others = async |world: &StoreUnderTest<H>| ticks(world.entry(id, "alice").await.others);
    let world = world.holds(async |world| assert_eq!(others(world).await, (3, 0))).await;
    world.read(id, "carol", 2).await;
    let world = world.holds(async |world| assert_eq!(others(world).await, (3, 2))).await;
    world.add(id, "alice", &["dave"]).await.unwrap();
    let world = world.holds(async |world| assert_eq!(others(world).await, (3, 2))).await;
    world.remove(id, "carol", "carol").await.unwrap();
    let world = world.holds(async |world| assert_eq!(others(world).await, (4, 4))).await;
    world.remove(id, "bob", "bob").await.unwrap();
    world.remove(id, "dave", "dave").await.unwrap();
    world
        .holds(async |world| {
            assert_eq!(others(world).await, (8, 8), "without other members, the head counts")
        })
        .await;
}

pub async fn inbox_lists_a_group_for_its_current_members_only<H: Harness>(world: StoreUnderTest<H>) {
    let id = world.group("alice", &["bob", "carol"]).await;
    let other = world.direct("bob", "dave").await;
    world.sent_at(1, other, "dave", "hi").await;
    world.turn_clock_to(2);
    world.remove(id, "alice", "bob").await.unwrap();
    world.turn_clock_to(3);
    world.add(id, "carol", &["dave"]).await.unwrap();
    world.sent_at(4, id, "alice", "after bob").await;
    let check = async |world: &StoreUnderTest<H>| {
        assert_eq!(world.inbox("bob").await, [other]);
        assert_eq!(world.inbox("dave").await, [id, other]);
        assert_eq!(world.inbox("alice").await, [id]);
    };
    let world = world.holds(check).await;
    world.turn_clock_to(5);
    world.add(id, "carol", &["bob"]).await.unwrap();
    world.holds(async |world| assert_eq!(world.inbox("bob").await, [id, other])).await;
}

pub async fn users_whose_ids_share_a_prefix_have_separate_inboxes<H: Harness>(world: StoreUnderTest<H>) {
    let names = ["a", "al", "alice", "al|", "al:", "al/", "al~", "alÿ", "al\u{10ffff}"];
    let mut expected = Vec::new();
    for (number, name) in names.iter().enumerate() {
        let id = world.direct(name, &format!("peer-of-{number}")).await;
        world.sent(id, name, "hi").await;
        expected.push(id);
    }
    let check = async |world: &StoreUnderTest<H>| {
        for (name, id) in names.iter().zip(&expected) {
            assert_eq!(world.inbox(name).await, [*id], "{name}");
            assert!(world.behind(name, &[]).await.is_empty(), "{name} sent the only message");
        }
        assert!(world.inbox("ali").await.is_empty());
    };
    world.holds(check).await;
}

pub async fn inbox_pages_list_each_conversation_once<H: Harness>(world: StoreUnderTest<H>) {
    let mut expected = Vec::new();
    for number in 0..150_u32 {
        let id = world.direct("alice", &format!("peer{number}")).await;
        // Groups of ten conversations share a timestamp. The first groups have no messages.
        let minute = i64::from(number / 10) - 5;
        if minute > 0 {
            world.sent_at(minute, id, "alice", "hi").await;
        }
        world.turn_clock_to(0);
        expected.push((-minute.max(0), id));
    }
    expected.sort_unstable();
    let expected: Vec<_> = expected.into_iter().map(|(_, id)| id).collect();
    let check = async |world: &StoreUnderTest<H>| {
        for limit in [7, 50, 100] {
            let entries = world.paged_inbox("alice", limit, InboxFilter::All).await;
            assert_eq!(conversations(&entries), expected, "by {limit}");
            assert!(entries.is_sorted_by_key(|entry| entry.place()));
        }
        let page = world.inbox_page("alice", None, 100).await;
        let last = world.inbox_page("alice", page.next, 50).await;
        assert_eq!((last.entries.len(), last.next), (50, None), "a full last page has no next page");
    };
    world.holds(check).await;
}

pub async fn conversation_that_moves_up_during_paging_is_on_no_later_page<H: Harness>(
    mut world: StoreUnderTest<H>,
) {
    let ids = conversations_of_alice(&world, 40).await;
    let (mut seen, mut after, mut jumped) = (Vec::new(), None, 0);
    loop {
        let page = world.inbox_page("alice", after, 6).await;
        seen.extend(conversations(&page.entries));
        after = page.next;
        let Some(place) = after else { break };
        // Send to a conversation that was on an earlier page, and to the one that would have come
        // last.
        for id in [seen[0], ids[jumped]] {
            world.sent_at(100, id, "alice", &format!("jump-{jumped}")).await;
            assert!(world.entry(id, "alice").await.place() < place, "it moved up");
        }
        jumped += 1;
        world = world.crash().await;
    }
    assert_eq!(seen, latest_first(&ids[jumped..]), "each other conversation is on one page");
}

pub async fn inbox_cursor_stays_valid_after_its_conversation_is_left<H: Harness>(world: StoreUnderTest<H>) {
    let ids = conversations_of_alice(&world, 6).await;
    world.turn_clock_to(3);
    let group = world.group("alice", &["bob"]).await;
    world.sent_at(4, group, "bob", "hi").await;
    world.set_preferences(ids[4], "alice", PIN).await.unwrap();
    let page = world.inbox_page("alice", None, 3).await;
    assert_eq!(conversations(&page.entries)[..2], [ids[4], ids[5]]);
    assert_eq!(page.next.unwrap().id, group);
    world.remove(group, "alice", "alice").await.unwrap();
    let spelled: InboxKey = page.next.unwrap().to_string().parse().unwrap();
    let check = async |world: &StoreUnderTest<H>| {
        let next = world.inbox_page("alice", Some(spelled), 20).await;
        assert_eq!(conversations(&next.entries), [ids[3], ids[2], ids[1], ids[0]]);
        assert_eq!(next.next, None);
    };
    world.holds(check).await;
}

pub async fn shown_read_state_never_moves_back_when_the_last_other_member_leaves<H: Harness>(
    world: StoreUnderTest<H>,
) {
    let id = world.group("alice", &["bob"]).await;
    let seq = world.sent(id, "alice", "hi").await;
    world.read(id, "bob", seq).await;
    assert_eq!(world.entry(id, "alice").await.others.read, Seq::new(seq));
    world.remove(id, "bob", "bob").await.unwrap();
    let check = async |world: &StoreUnderTest<H>| {
        assert_eq!(
            world.entry(id, "alice").await.others.read,
            Seq::new(seq + 1),
            "without other members, the head counts"
        );
    };
    world.holds(check).await;
}
