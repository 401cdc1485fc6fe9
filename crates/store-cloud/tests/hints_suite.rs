//! What hints promise, the same for every adapter.
#![expect(clippy::unwrap_used, reason = "a test stops where its own set-up fails")]

mod hints_common;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use bluetick_core::{ConversationId, Epoch, InboxFilter, InboxKey, InboxSection, Seq, Timestamp, UserId};
use bluetick_store_cloud::NodeId;
use bluetick_store_cloud::hints::{
    Glance, Hints, MessageKey, RegistryCopy, Reserve, Reserved, Seed, Touched,
};
use hints_common::*;
use tokio::time::Instant;

macro_rules! suite {
    ($($case:ident),* $(,)?) => {
        mod in_memory { $(#[tokio::test] async fn $case() { super::$case(super::memory().await).await; })* }
        mod on_one_redis { $(#[tokio::test] async fn $case() { super::$case(super::single().await).await; })* }
        mod on_a_cluster { $(#[tokio::test] async fn $case() { super::$case(super::cluster().await).await; })* }
    };
}

suite! {
    nothing_is_known_of_a_conversation_before_it_is_seeded,
    places_follow_the_head_without_a_gap,
    an_id_keeps_its_place,
    an_id_keeps_its_place_over_days_and_when_clocks_go_back,
    an_id_whose_place_was_taken_gets_another_one_once,
    many_at_once_get_different_places,
    seeding_moves_the_counter_up_and_never_back,
    what_the_tables_say_of_an_id_counts,
    thousands_of_ids_are_seeded,
    moments_and_the_settled_mark_never_go_back,
    how_long_ago_it_was_seeded_is_known_to_all_whatever_their_clocks,
    the_version_of_the_members_only_goes_up,
    a_copy_of_the_registry_gives_way_to_a_later_one_alone,
    who_has_sent_where_last_is_known,
    conversations_with_recent_places_are_listed,
    a_touch_says_where_people_are,
    a_pending_row_is_known_until_it_is_gone,
    an_inbox_is_unknown_until_it_is_filled,
    an_inbox_is_read_in_its_order_by_pages_of_any_size,
    thousands_with_the_same_moment_are_read_once_each,
    a_touch_moves_up_and_never_down_and_keeps_the_shelf,
    what_moved_up_while_an_inbox_was_filled_stays_there,
    names_may_hold_braces,
}

type Any = Arc<dyn Hints>;

async fn nothing_is_known_of_a_conversation_before_it_is_seeded(hints: Any) {
    let id = conversation();
    assert_eq!(hints.reserve(&reserve(id, 1)).await.unwrap(), Reserved::Unseeded);
    assert_eq!(hints.glance(id).await.unwrap(), None);
    assert_eq!(hints.sent(id, &[user(), user()]).await.unwrap(), None);
    hints.members_changed(id, 7).await.unwrap();
    assert_eq!(hints.glance(id).await.unwrap(), None);
}

async fn places_follow_the_head_without_a_gap(hints: Any) {
    let (id, other) = (conversation(), conversation());
    hints.seed(&seed(id, 41)).await.unwrap();
    hints.seed(&seed(other, 0)).await.unwrap();
    for (message, expected) in (1..).zip(42..50) {
        assert_eq!(seq(&*hints, &reserve(id, message)).await, (expected, false));
    }
    assert_eq!(seq(&*hints, &reserve(other, 1)).await, (1, false));
    let glance = Glance { reserved: Seq::new(49), settled: Seq::ZERO, members_version: 1 };
    assert_eq!(hints.glance(id).await.unwrap(), Some(glance));
}

async fn an_id_keeps_its_place(hints: Any) {
    let id = conversation();
    hints.seed(&Seed { ids: vec![(MessageKey(u64::MAX), Seq::new(3), NOW)], ..seed(id, 5) }).await.unwrap();
    assert_eq!(seq(&*hints, &reserve(id, 0)).await, (6, false));
    assert_eq!(seq(&*hints, &reserve(id, 1)).await, (7, false));
    assert_eq!(seq(&*hints, &reserve(id, 0)).await, (6, true));
    assert_eq!(seq(&*hints, &reserve(id, u64::MAX)).await, (3, true));
    assert_eq!(seq(&*hints, &reserve(id, 2)).await, (8, false));
}

async fn an_id_keeps_its_place_over_days_and_when_clocks_go_back(hints: Any) {
    let id = conversation();
    let days_ago = vec![(MessageKey(100), Seq::new(2), at(-6 * DAY_MS)), (MessageKey(101), Seq::new(3), NOW)];
    hints.seed(&Seed { ids: days_ago, ..seed(id, 3) }).await.unwrap();
    assert_eq!(seq(&*hints, &reserve(id, 100)).await, (2, true));
    assert_eq!(seq(&*hints, &reserve(id, 1)).await, (4, false));
    let later = |message, millis| Reserve { now: at(millis), ..reserve(id, message) };
    assert_eq!(seq(&*hints, &later(2, 5 * DAY_MS)).await, (5, false));
    assert_eq!(seq(&*hints, &later(1, 5 * DAY_MS)).await, (4, true));
    assert_eq!(seq(&*hints, &later(2, -5 * DAY_MS)).await, (5, true));
    assert_eq!(seq(&*hints, &later(101, 6 * DAY_MS)).await, (3, true));
}

async fn an_id_whose_place_was_taken_gets_another_one_once(hints: Any) {
    let id = conversation();
    hints.seed(&seed(id, 0)).await.unwrap();
    assert_eq!(seq(&*hints, &reserve(id, 1)).await, (1, false));
    let again = Reserve { instead_of: Some(Seq::new(1)), now: at(DAY_MS), ..reserve(id, 1) };
    assert_eq!(seq(&*hints, &again).await, (2, false));
    assert_eq!(seq(&*hints, &again).await, (2, true));
    assert_eq!(seq(&*hints, &reserve(id, 1)).await, (2, true));
    let unknown = Reserve { instead_of: Some(Seq::new(9)), ..reserve(id, 2) };
    assert_eq!(seq(&*hints, &unknown).await, (3, false));
}

async fn many_at_once_get_different_places(hints: Any) {
    let id = conversation();
    hints.seed(&seed(id, 0)).await.unwrap();
    let calls = (0..200).map(|message| {
        let hints = hints.clone();
        async move { seq(&*hints, &reserve(id, message)).await.0 }
    });
    let places: BTreeSet<_> = futures_util::future::join_all(calls).await.into_iter().collect();
    assert_eq!(places, (1..=200).collect());
}

async fn seeding_moves_the_counter_up_and_never_back(hints: Any) {
    let id = conversation();
    for (head, next) in [(10, 11), (5, 12), (20, 21), (0, 22)] {
        hints.seed(&seed(id, head)).await.unwrap();
        assert_eq!(seq(&*hints, &reserve(id, 1000 + next)).await, (next, false));
    }
}

async fn what_the_tables_say_of_an_id_counts(hints: Any) {
    let id = conversation();
    hints.seed(&seed(id, 0)).await.unwrap();
    assert_eq!(seq(&*hints, &reserve(id, 1)).await, (1, false));
    let yesterday = vec![(MessageKey(1), Seq::new(7), at(-DAY_MS)), (MessageKey(2), Seq::new(8), NOW)];
    hints.seed(&Seed { ids: yesterday, ..seed(id, 8) }).await.unwrap();
    assert_eq!(seq(&*hints, &reserve(id, 1)).await, (7, true));
    assert_eq!(seq(&*hints, &reserve(id, 2)).await, (8, true));
    assert_eq!(seq(&*hints, &reserve(id, 3)).await, (9, false));
}

async fn thousands_of_ids_are_seeded(hints: Any) {
    let id = conversation();
    let moment = |message: u64| at(-(message as i64) * DAY_MS / 700);
    let ids = (1..=3000).map(|message| (MessageKey(message), Seq::new(message), moment(message)));
    let users: Vec<UserId> = (0..1200).map(|_| user()).collect();
    let sent = users.iter().cloned().zip((1..).map(Seq::new));
    let whole = Seed { ids: ids.collect(), sent: sent.collect(), ..seed(id, 3000) };
    hints.seed(&whole).await.unwrap();
    for message in [1, 500, 501, 2999, 3000] {
        assert_eq!(seq(&*hints, &reserve(id, message)).await, (message, true));
    }
    assert_eq!(seq(&*hints, &reserve(id, 3001)).await, (3001, false));
    let expected: Vec<_> = (1..=1200).map(Seq::new).collect();
    assert_eq!(hints.sent(id, &users).await.unwrap().unwrap(), expected);
}

async fn moments_and_the_settled_mark_never_go_back(hints: Any) {
    let id = conversation();
    hints.seed(&Seed { settled: Seq::new(4), last_at: at(50), ..seed(id, 10) }).await.unwrap();
    let mut expected = (at(50), 4);
    for (message, (millis, settled)) in (1..).zip([(10, 3), (70, 6), (60, 9), (70, 1)]) {
        let place =
            place(&*hints, &Reserve { now: at(millis), settled: Seq::new(settled), ..reserve(id, message) })
                .await;
        expected = (expected.0.max(at(millis)), expected.1.max(settled));
        assert_eq!((place.last_at, place.settled.get()), expected);
    }
    hints.seed(&Seed { settled: Seq::new(2), last_at: at(0), ..seed(id, 1) }).await.unwrap();
    let place = place(&*hints, &reserve(id, 9)).await;
    assert_eq!((place.last_at, place.settled.get()), (at(70), 9));
}

async fn how_long_ago_it_was_seeded_is_known_to_all_whatever_their_clocks(hints: Any) {
    let (founded, found) = (conversation(), conversation());
    hints.seed(&seed(founded, 0)).await.unwrap();
    assert_eq!(place(&*hints, &reserve(founded, 1)).await.seeded_ago, None, "nobody was writing");
    let a_while = Duration::from_secs(2);
    let read_at = Instant::now() - a_while;
    hints.seed(&Seed { read_at: Some(read_at), ..seed(found, 0) }).await.unwrap();
    for (message, now) in (1..).zip([at(0), at(900_000_000)]) {
        let ago = place(&*hints, &Reserve { now, ..reserve(found, message) }).await.seeded_ago.unwrap();
        assert!(ago >= a_while && ago < Duration::from_secs(3_600), "{ago:?}");
    }
}

async fn the_version_of_the_members_only_goes_up(hints: Any) {
    let id = conversation();
    hints.seed(&seed(id, 0)).await.unwrap();
    for (version, expected) in [(1, 1), (5, 5), (3, 5), (10, 10)] {
        hints.members_changed(id, version).await.unwrap();
        assert_eq!(place(&*hints, &reserve(id, 1)).await.members_version, expected);
    }
    hints.seed(&Seed { members_version: 7, ..seed(id, 0) }).await.unwrap();
    assert_eq!(place(&*hints, &reserve(id, 1)).await.members_version, 10);
}

async fn a_copy_of_the_registry_gives_way_to_a_later_one_alone(hints: Any) {
    let id = conversation();
    let copy = |epoch, version| RegistryCopy {
        epoch: Epoch::new(epoch),
        version,
        text: format!("{version}024;1025:2:64").into(),
    };
    hints.registry_changed(id, &copy(1, 1)).await.unwrap();
    assert_eq!(hints.glance(id).await.unwrap(), None, "it says nothing of the counter");
    hints.seed(&Seed { registry: Some(copy(1, 9)), ..seed(id, 0) }).await.unwrap();
    let known_to = async |registry_version| {
        place(&*hints, &Reserve { registry_version, ..reserve(id, 1) }).await.registry
    };
    assert_eq!(known_to(8).await, Some(copy(1, 9)));
    assert_eq!(known_to(9).await, None, "who has it need not be told");
    for (told, expected) in [((1, 8), (1, 9)), ((1, 10), (1, 10)), ((2, 3), (2, 3)), ((1, 11), (2, 3))] {
        hints.registry_changed(id, &copy(told.0, told.1)).await.unwrap();
        assert_eq!(known_to(0).await, Some(copy(expected.0, expected.1)));
    }
    hints.seed(&Seed { registry: Some(copy(2, 2)), ..seed(id, 0) }).await.unwrap();
    hints.seed(&seed(id, 0)).await.unwrap();
    assert_eq!(known_to(0).await, Some(copy(2, 3)));
}

async fn who_has_sent_where_last_is_known(hints: Any) {
    let id = conversation();
    let (one, two, three) = (user(), user(), user());
    hints.seed(&Seed { sent: vec![(one.clone(), Seq::new(2))], ..seed(id, 5) }).await.unwrap();
    place(&*hints, &Reserve { sender: two.clone(), ..reserve(id, 1) }).await;
    let people = [three.clone(), two.clone(), one.clone(), two.clone()];
    let seqs = |seqs: [u64; 4]| seqs.map(Seq::new).to_vec();
    assert_eq!(hints.sent(id, &people).await.unwrap().unwrap(), seqs([0, 6, 2, 6]));
    let behind = Seed { sent: vec![(two.clone(), Seq::new(1)), (three, Seq::new(4))], ..seed(id, 5) };
    hints.seed(&behind).await.unwrap();
    assert_eq!(hints.sent(id, &people).await.unwrap().unwrap(), seqs([4, 6, 2, 6]));
}

async fn conversations_with_recent_places_are_listed(hints: Any) {
    let ids: Vec<_> = (0..50).map(|_| conversation()).collect();
    for (millis, id) in (0..).zip(&ids) {
        hints.seed(&seed(*id, 0)).await.unwrap();
        place(&*hints, &Reserve { now: at(millis * 1000), ..reserve(*id, 1) }).await;
    }
    let recent: BTreeSet<_> = hints.recently_reserved(at(30_000)).await.unwrap().into_iter().collect();
    let found: Vec<_> = ids.iter().filter(|id| recent.contains(id)).collect();
    assert_eq!(found, ids[30..].iter().collect::<Vec<_>>());
}

async fn a_touch_says_where_people_are(hints: Any) {
    let id = conversation();
    let (here, there) = (NodeId::new("here"), NodeId::new("there"));
    let people: Vec<_> = (0..300).map(|_| user()).collect();
    hints.connect(&people[7], &there).await.unwrap();
    hints.connect(&people[7], &here).await.unwrap();
    hints.connect(&people[7], &here).await.unwrap();
    hints.connect(&people[250], &there).await.unwrap();
    let nodes = |touched: Vec<Touched>| {
        let found = touched.into_iter().enumerate().filter(|(_, touched)| !touched.nodes.is_empty());
        found.map(|(index, touched)| (index, touched.nodes)).collect::<Vec<_>>()
    };
    let both = vec![here.clone(), there.clone()];
    let expected = vec![(7, both), (250, vec![there.clone()])];
    assert_eq!(nodes(hints.touch(id, NOW, &people).await.unwrap()), expected);
    assert_eq!(nodes(hints.whereabouts(id, &people).await.unwrap()), expected);
    hints.disconnect(&people[7], &there).await.unwrap();
    hints.disconnect(&people[250], &there).await.unwrap();
    hints.disconnect(&people[9], &there).await.unwrap();
    assert_eq!(nodes(hints.whereabouts(id, &people).await.unwrap()), [(7, vec![here])]);
}

async fn a_pending_row_is_known_until_it_is_gone(hints: Any) {
    let (id, other) = (conversation(), conversation());
    let people = [user(), user()];
    let pending = |touched: Vec<Touched>| touched.iter().map(|touched| touched.pending).collect::<Vec<_>>();
    hints.set_pending(&people[1], id, true).await.unwrap();
    assert_eq!(pending(hints.touch(id, NOW, &people).await.unwrap()), [false, true]);
    assert_eq!(pending(hints.whereabouts(other, &people).await.unwrap()), [false, false]);
    hints.set_pending(&people[1], id, false).await.unwrap();
    assert_eq!(pending(hints.whereabouts(id, &people).await.unwrap()), [false, false]);
}

async fn an_inbox_is_unknown_until_it_is_filled(hints: Any) {
    let user = user();
    hints.touch(conversation(), NOW, std::slice::from_ref(&user)).await.unwrap();
    assert_eq!(hints.inbox(&user, InboxFilter::All, None, 10).await.unwrap(), None);
    let other = self::user();
    hints.fill_inbox(&other, &[]).await.unwrap();
    assert_eq!(hints.inbox(&other, InboxFilter::All, None, 10).await.unwrap(), Some(vec![]));
}

fn inbox_place(shelf: InboxSection, last_at: Timestamp, id: ConversationId) -> InboxKey {
    InboxKey { shelf, last_at, id }
}

async fn pages(hints: &dyn Hints, user: &UserId, filter: InboxFilter, limit: usize) -> Vec<InboxKey> {
    let mut all: Vec<InboxKey> = Vec::new();
    loop {
        let page = hints.inbox(user, filter, all.last().copied(), limit).await.unwrap().unwrap();
        assert!(page.len() <= limit && all.len() < 10_000, "it does not end");
        if page.is_empty() {
            return all;
        }
        all.extend(page);
    }
}

async fn an_inbox_is_read_in_its_order_by_pages_of_any_size(hints: Any) {
    let user = user();
    let mut places: Vec<_> = (0..60)
        .map(|index| inbox_place(InboxSection::ALL[index % 3], at((index as i64 * 7) % 10), conversation()))
        .collect();
    hints.fill_inbox(&user, &places).await.unwrap();
    places.sort();
    for filter in [InboxFilter::All, InboxFilter::Archived, InboxFilter::NotArchived] {
        let expected: Vec<_> = places.iter().copied().filter(|place| filter.takes(place.shelf)).collect();
        for limit in [1, 7, 1000] {
            assert_eq!(pages(&*hints, &user, filter, limit).await, expected, "{filter:?} by {limit}");
        }
        for after in
            [places[5], InboxKey::end_of(InboxSection::Pinned), InboxKey::end_of(InboxSection::Archived)]
        {
            let expected: Vec<_> = expected.iter().copied().filter(|place| *place > after).collect();
            let page = hints.inbox(&user, filter, Some(after), 1000).await.unwrap();
            assert_eq!(page, Some(expected), "{filter:?} after {after}");
        }
    }
}

async fn thousands_with_the_same_moment_are_read_once_each(hints: Any) {
    let user = user();
    let mut places: Vec<_> =
        (0..3000).map(|_| inbox_place(InboxSection::Ordinary, NOW, conversation())).collect();
    hints.fill_inbox(&user, &places).await.unwrap();
    places.sort();
    assert_eq!(pages(&*hints, &user, InboxFilter::All, 257).await, places);
    let gone = places[1000];
    hints.shelve(&user, gone.id, None).await.unwrap();
    let page = hints.inbox(&user, InboxFilter::All, Some(gone), 2).await.unwrap().unwrap();
    assert_eq!(page, places[1001..1003]);
}

async fn a_touch_moves_up_and_never_down_and_keeps_the_shelf(hints: Any) {
    let user = user();
    let (pinned, ordinary, archived, new) = (conversation(), conversation(), conversation(), conversation());
    hints.fill_inbox(&user, &[inbox_place(InboxSection::Ordinary, at(10), ordinary)]).await.unwrap();
    hints.shelve(&user, pinned, Some((InboxSection::Pinned, at(5)))).await.unwrap();
    hints.shelve(&user, archived, Some((InboxSection::Archived, at(6)))).await.unwrap();
    for (id, millis) in [(pinned, 20), (archived, 30), (ordinary, 3), (new, 11), (new, 2)] {
        hints.touch(id, at(millis), std::slice::from_ref(&user)).await.unwrap();
    }
    let expected = vec![
        inbox_place(InboxSection::Pinned, at(20), pinned),
        inbox_place(InboxSection::Ordinary, at(11), new),
        inbox_place(InboxSection::Ordinary, at(10), ordinary),
        inbox_place(InboxSection::Archived, at(30), archived),
    ];
    assert_eq!(hints.inbox(&user, InboxFilter::All, None, 10).await.unwrap(), Some(expected));
    hints.shelve(&user, pinned, Some((InboxSection::Ordinary, at(1)))).await.unwrap();
    hints.shelve(&user, ordinary, None).await.unwrap();
    let expected = vec![
        inbox_place(InboxSection::Ordinary, at(11), new),
        inbox_place(InboxSection::Ordinary, at(1), pinned),
        inbox_place(InboxSection::Archived, at(30), archived),
    ];
    assert_eq!(hints.inbox(&user, InboxFilter::All, None, 10).await.unwrap(), Some(expected));
}

async fn what_moved_up_while_an_inbox_was_filled_stays_there(hints: Any) {
    let user = user();
    let (one, two) = (conversation(), conversation());
    hints.touch(one, at(9), std::slice::from_ref(&user)).await.unwrap();
    let rows =
        [inbox_place(InboxSection::Archived, at(5), one), inbox_place(InboxSection::Pinned, at(7), two)];
    hints.fill_inbox(&user, &rows).await.unwrap();
    let expected =
        vec![inbox_place(InboxSection::Pinned, at(7), two), inbox_place(InboxSection::Archived, at(9), one)];
    assert_eq!(hints.inbox(&user, InboxFilter::All, None, 10).await.unwrap(), Some(expected));
}

async fn names_may_hold_braces(hints: Any) {
    let id = conversation();
    let people: Vec<UserId> =
        ["}", "{", "{}", "a}b{c", "%7b", "日本"].iter().map(|name| name.parse().unwrap()).collect();
    let node = NodeId::new("{node}");
    hints.connect(&people[3], &node).await.unwrap();
    let touched = hints.touch(id, NOW, &people).await.unwrap();
    let found: Vec<_> = touched.iter().map(|touched| touched.nodes.len()).collect();
    assert_eq!(found, [0, 0, 0, 1, 0, 0]);
    hints.seed(&seed(id, 0)).await.unwrap();
    assert_eq!(seq(&*hints, &Reserve { sender: people[3].clone(), ..reserve(id, 1) }).await, (1, false));
    assert_eq!(hints.sent(id, &people[3..4]).await.unwrap().unwrap(), [Seq::FIRST]);
}
