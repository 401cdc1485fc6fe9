//! Membership and access rights.

use bluetick_core::{ContentType, PageFrom, PageLimit, Refusal, Role, Seq};

use crate::world::assert_refused;
use crate::{Harness, StoreUnderTest};

pub async fn direct_conversation_opened_by_both_peers_concurrently_is_created_once<H: Harness>(
    world: StoreUnderTest<H>,
) {
    let (one, other) = tokio::join!(world.open_direct("alice", "bob"), world.open_direct("bob", "alice"));
    let (one, other) = (one.unwrap(), other.unwrap());
    assert_eq!(one.view.conversation.id, other.view.conversation.id);
    assert_ne!(one.created, other.created, "exactly one call creates it");
    assert!(!world.open_direct("alice", "bob").await.unwrap().created);
}

pub async fn opening_the_id_of_others_direct_conversation_is_refused<H: Harness>(world: StoreUnderTest<H>) {
    let id = world.direct("alice", "bob").await;
    let creation = bluetick_core::ports::Creation::Direct { peer: world.user("alice") };
    let created_by = world.user("mallory");
    let new =
        bluetick_core::ports::NewConversation { id, creation, created_by, created_at: crate::world::NOW };
    assert_refused(world.store().open_conversation(new).await, Refusal::NotAMember);
    assert_refused(world.send(id, "mallory", "hi").await, Refusal::NotAMember);
}

pub async fn new_group_starts_with_its_creation_notice<H: Harness>(world: StoreUnderTest<H>) {
    let id = world.group("alice", &["bob", "carol"]).await;
    let history = world.history(id, "carol").await;
    assert_eq!(history.len(), 1);
    assert_eq!((history[0].seq, &history[0].content_type), (Seq::FIRST, &ContentType::System));
    assert_eq!((&history[0].sender, &history[0].receiver), (&world.user("alice"), &None));
    let view = world.store().conversation(id, &world.user("bob")).await.unwrap();
    assert_eq!((view.members.len(), view.conversation.head), (3, Seq::FIRST));
    assert_eq!(view.members.get(&world.user("alice")).unwrap().role, Role::Admin);
}

pub async fn added_member_sees_history_from_its_join_notice<H: Harness>(world: StoreUnderTest<H>) {
    let id = world.group("alice", &["bob"]).await;
    world.sent(id, "bob", "secret").await;
    let view = world.add(id, "bob", &["carol", "dave"]).await.unwrap();
    assert_eq!((view.members.len(), view.conversation.head), (4, Seq::new(4)));
    world.sent(id, "alice", "welcome").await;
    let seen = |history: Vec<(u64, String)>| history.into_iter().map(|(seq, _)| seq).collect::<Vec<_>>();
    assert_eq!(seen(world.texts(id, "alice").await), [1, 2, 3, 4, 5]);
    assert_eq!(seen(world.texts(id, "carol").await), [3, 4, 5]);
    assert_eq!(seen(world.texts(id, "dave").await), [4, 5]);
    let page = world.page(id, "dave", PageFrom::Before(Seq::new(4)), PageLimit::DEFAULT).await.unwrap();
    assert_eq!((page.messages.len(), page.next_before), (0, None));
    assert_eq!(world.history(id, "dave").await[0].content_type, ContentType::System);
}

pub async fn adding_existing_members_changes_nothing<H: Harness>(world: StoreUnderTest<H>) {
    let id = world.group("alice", &["bob"]).await;
    let view = world.add(id, "alice", &["bob", "alice"]).await.unwrap();
    assert_eq!((view.members.len(), view.conversation.head), (2, Seq::FIRST));
}

pub async fn refused_membership_change_stores_nothing<H: Harness>(world: StoreUnderTest<H>) {
    let id = world.group("alice", &["bob"]).await;
    let refused = world.add_with_limit(id, "alice", &["carol", "dave"], 3).await;
    assert_refused(refused, Refusal::GroupFull { limit: 3 });
    assert_refused(world.remove(id, "bob", "alice").await, Refusal::NotAnAdmin);
    assert_refused(world.remove(id, "alice", "nobody").await, Refusal::NoSuchMember);
    assert_eq!(world.sent(id, "bob", "next").await, 2);
    assert_eq!(world.store().conversation(id, &world.user("bob")).await.unwrap().members.len(), 2);
}

pub async fn removed_member_is_refused_like_a_non_member<H: Harness>(world: StoreUnderTest<H>) {
    let id = world.group("alice", &["bob", "carol"]).await;
    world.sent(id, "bob", "hello").await;
    let view = world.remove(id, "alice", "bob").await.unwrap();
    assert_eq!((view.members.len(), view.conversation.head), (2, Seq::new(3)));
    assert_refused(world.send(id, "bob", "still here").await, Refusal::NotAMember);
    assert_refused(world.page(id, "bob", PageFrom::Newest, PageLimit::DEFAULT).await, Refusal::NotAMember);
    assert_refused(world.store().conversation(id, &world.user("bob")).await, Refusal::NotAMember);
    assert_refused(world.add(id, "bob", &["dave"]).await, Refusal::NotAMember);
    let last = world.history(id, "carol").await.pop().unwrap();
    assert_eq!(last.content_type, ContentType::System);
}

pub async fn rejoined_member_sees_history_from_its_second_join<H: Harness>(world: StoreUnderTest<H>) {
    let id = world.group("alice", &["bob"]).await;
    world.remove(id, "bob", "bob").await.unwrap();
    world.sent(id, "alice", "while you were out").await;
    world.add(id, "alice", &["bob"]).await.unwrap();
    assert_eq!(world.history(id, "bob").await[0].seq, Seq::new(4));
    assert_eq!(world.sent(id, "bob", "back").await, 5);
}

pub async fn last_admin_who_leaves_is_replaced_by_the_earliest_member<H: Harness>(world: StoreUnderTest<H>) {
    let id = world.group("alice", &["bob", "carol"]).await;
    let view = world.remove(id, "alice", "alice").await.unwrap();
    let admins: Vec<_> = view.members.iter().filter(|member| member.role == Role::Admin).collect();
    assert_eq!(admins.len(), 1);
    assert_eq!(admins[0].user, world.user("bob"), "of the earliest members, the first by id");
    world.remove(id, "bob", "carol").await.unwrap();
    let view = world.remove(id, "bob", "bob").await.unwrap();
    assert!(view.members.is_empty());
}

pub async fn membership_change_of_a_direct_conversation_is_refused<H: Harness>(world: StoreUnderTest<H>) {
    let id = world.direct("alice", "bob").await;
    assert_refused(world.add(id, "alice", &["carol"]).await, Refusal::DirectIsFixed);
    assert_refused(world.remove(id, "alice", "alice").await, Refusal::DirectIsFixed);
}

pub async fn non_member_gets_the_refusal_of_an_unknown_conversation<H: Harness>(world: StoreUnderTest<H>) {
    let direct = world.direct("alice", "bob").await;
    let group = world.group("alice", &["bob"]).await;
    let nothing = bluetick_core::ConversationId::direct(&world.user("x"), &world.user("y"));
    let no_group = bluetick_core::ConversationId::group([9; 15]);
    for id in [direct, group, nothing, no_group] {
        assert_refused(world.send(id, "zoe", "hi").await, Refusal::NotAMember);
        assert_refused(
            world.page(id, "zoe", PageFrom::Newest, PageLimit::DEFAULT).await,
            Refusal::NotAMember,
        );
        assert_refused(world.store().conversation(id, &world.user("zoe")).await, Refusal::NotAMember);
        assert_refused(world.add(id, "zoe", &["zoe"]).await, Refusal::NotAMember);
        assert_refused(world.remove(id, "zoe", "alice").await, Refusal::NotAMember);
    }
    assert_eq!(world.history(group, "alice").await.len(), 1);
}

pub async fn group_of_10_000_members_accepts_a_message<H: Harness>(world: StoreUnderTest<H>) {
    let names: Vec<String> = (0..9_999).map(|number| format!("m{number}")).collect();
    let id = world.group("alice", &names.iter().map(String::as_str).collect::<Vec<_>>()).await;
    assert_eq!(world.sent(id, "m9998", "hello, all").await, 2);
    let world = world.crash().await;
    let view = world.store().conversation(id, &world.user("m1234")).await.unwrap();
    assert_eq!(view.members.len(), 10_000);
    assert_eq!(world.texts(id, "m77").await[1].1, "hello, all");
    let refused = world.add_with_limit(id, "alice", &["one-too-many"], 10_000).await;
    assert_refused(refused, Refusal::GroupFull { limit: 10_000 });
}
