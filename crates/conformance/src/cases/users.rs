//! User accounts, reserved names and the search for people.

use bluetick_core::ports::UserUpdate;
use bluetick_core::{NamePrefix, Refusal, User};

use crate::world::{NOW, assert_refused};
use crate::{Harness, StoreUnderTest};

fn user<H: Harness>(world: &StoreUnderTest<H>, name: &str) -> User {
    User {
        id: world.user(name),
        display_name: Some("Somebody".into()),
        password_hash: Some("hash".into()),
        created_at: NOW,
    }
}

pub async fn users_are_created_once_and_survive_a_crash<H: Harness>(world: StoreUnderTest<H>) {
    let alice = user(&world, "alice");
    assert_eq!(world.store().user(&alice.id).await.unwrap(), None);
    world.store().create_user(alice.clone()).await.unwrap();
    assert_refused(world.store().create_user(alice.clone()).await, Refusal::UserExists);
    let world = world.crash().await;
    assert_eq!(world.store().user(&alice.id).await.unwrap(), Some(alice.clone()));
    assert_refused(world.store().create_user(alice.clone()).await, Refusal::UserExists);

    let update = |id| UserUpdate { id, display_name: None, password_hash: Some("new".into()) };
    world.store().update_user(update(alice.id.clone())).await.unwrap();
    assert_refused(world.store().update_user(update(world.user("unknown"))).await, Refusal::NoSuchUser);
    let world = world.restart().await;
    let changed = User { password_hash: Some("new".into()), ..alice };
    assert_eq!(world.store().user(&changed.id).await.unwrap(), Some(changed));
}

pub async fn concurrent_sign_ups_for_one_name_create_one_user<H: Harness>(world: StoreUnderTest<H>) {
    for round in 0..10 {
        let candidate = user(&world, &format!("u{round}"));
        let store = world.store();
        let (one, other) =
            tokio::join!(store.create_user(candidate.clone()), store.create_user(candidate.clone()));
        assert_ne!(one.is_ok(), other.is_ok());
    }
}

/// Lookalikes of `alice`: with an upper-case letter, a Cyrillic letter, and an invisible character.
const LOOKALIKES: [&str; 3] = ["Alice", "\u{430}lice", "al\u{34f}ice"];

pub async fn sign_up_with_a_lookalike_id_is_refused<H: Harness>(world: StoreUnderTest<H>) {
    world.store().create_user(user(&world, "alice")).await.unwrap();
    let world = world
        .holds(async |world| {
            // The last id contains a capital I, which looks like the letter l.
            for name in LOOKALIKES.into_iter().chain(["aIice"]) {
                assert_refused(world.store().create_user(user(world, name)).await, Refusal::UserExists);
                assert_eq!(world.store().user(&world.user(name)).await.unwrap(), None);
            }
        })
        .await;
    world.store().create_user(user(&world, "alicia")).await.unwrap();
}

pub async fn concurrent_sign_ups_for_lookalike_names_create_one_user<H: Harness>(world: StoreUnderTest<H>) {
    // The second pair contains a Cyrillic capital that looks like a Latin B but folds to another
    // letter.
    let pairs = [["ann", "ANN"], ["bob", "\u{412}ob"], ["Ida", "lda"]];
    for (round, pair) in pairs.into_iter().cycle().take(15).enumerate() {
        let [one, other] = pair.map(|name| user(&world, &format!("{name}{round}")));
        let store = world.store();
        let (first, second) = tokio::join!(store.create_user(one.clone()), store.create_user(other.clone()));
        assert_ne!(first.is_ok(), second.is_ok());
        let (winner, loser) = if first.is_ok() { (one, other) } else { (other, one) };
        assert_eq!(store.user(&loser.id).await.unwrap(), None);
        assert_eq!(store.user(&winner.id).await.unwrap(), Some(winner));
    }
}

pub async fn sign_up_with_a_reserved_name_is_refused<H: Harness>(world: StoreUnderTest<H>) {
    let alice = world.user("alice");
    world.store().reserve_name(alice.clone(), NOW).await.unwrap();
    let world = world
        .holds(async |world| {
            let reserved = User::named(alice.clone(), NOW);
            assert_eq!(world.store().user(&alice).await.unwrap(), Some(reserved));
            for name in ["alice"].into_iter().chain(LOOKALIKES) {
                assert_refused(world.store().create_user(user(world, name)).await, Refusal::UserExists);
            }
            // Reserving the name again changes nothing.
            world.store().reserve_name(alice.clone(), NOW.plus_millis(1)).await.unwrap();
        })
        .await;
    // The operator may create users with lookalike ids.
    world.store().reserve_name(world.user("Alice"), NOW).await.unwrap();
    world.store().create_user(user(&world, "bob")).await.unwrap();
    world.store().reserve_name(world.user("bob"), NOW).await.unwrap();
    let bob = world.store().user(&world.user("bob")).await.unwrap().unwrap();
    assert_eq!(bob, user(&world, "bob"), "an existing user is unchanged");
}

/// Returns the prefix of this world's user ids. It separates them from other worlds in the same
/// store.
fn tag<H: Harness>(world: &StoreUnderTest<H>) -> String {
    world.user("x").as_str().trim_end_matches('x').to_owned()
}

/// Prefixes each word of `name` with the tag.
fn tagged<H: Harness>(world: &StoreUnderTest<H>, name: &str) -> String {
    let tag = tag(world);
    name.split(' ').map(|word| format!("{tag}{word}")).collect::<Vec<_>>().join(" ")
}

async fn sign_up<H: Harness>(world: &StoreUnderTest<H>, name: &str, display_name: Option<&str>) {
    let display_name = display_name.map(|name| tagged(world, name).into());
    world.store().create_user(User { display_name, ..user(world, name) }).await.unwrap();
}

async fn rename<H: Harness>(world: &StoreUnderTest<H>, name: &str, display_name: &str) {
    let display_name = Some(tagged(world, display_name).into());
    let update = UserUpdate { id: world.user(name), display_name, password_hash: None };
    world.store().update_user(update).await.unwrap();
}

async fn found<H: Harness>(world: &StoreUnderTest<H>, text: &str, limit: usize) -> String {
    let prefix = NamePrefix::new(&tagged(world, text)).unwrap();
    let people = world.store().find_people(&prefix, limit).await.unwrap();
    let tag = tag(world);
    let short = |id: &str| id.strip_prefix(&tag).unwrap_or(id).to_owned();
    people.iter().map(|person| short(person.id.as_str())).collect::<Vec<_>>().join(" ")
}

pub async fn search_finds_people_by_the_prefix_of_a_word<H: Harness>(world: StoreUnderTest<H>) {
    sign_up(&world, "u1", Some("Alice Liddell")).await;
    sign_up(&world, "u2", Some("Bob")).await;
    sign_up(&world, "Alina", None).await;
    let world = world
        .holds(async |world| {
            assert_eq!(found(world, "al", 10).await, "u1 Alina", "ordered by name");
            assert_eq!(found(world, "ALICE L", 10).await, "u1");
            assert_eq!(found(world, "lidd", 10).await, "u1", "by a later word");
            assert_eq!(found(world, "u", 10).await, "u1 u2", "by the id");
            assert_eq!(found(world, "u", 1).await, "u1", "at most the limit");
            assert_eq!(found(world, "lice", 10).await, "", "not in the middle of a word");
        })
        .await;
    // The search covers stored and newer names. A new name replaces the old one.
    sign_up(&world, "u3", Some("Albert")).await;
    rename(&world, "u1", "Lorina Liddell").await;
    world
        .holds(async |world| {
            assert_eq!(found(world, "al", 10).await, "u3 Alina");
            assert_eq!(found(world, "al", 1).await, "u3");
            assert_eq!(found(world, "l", 10).await, "u1", "once, although two words match");
            assert_eq!(found(world, "alice", 10).await, "");
        })
        .await;
}

pub async fn people_are_returned_in_the_requested_order<H: Harness>(world: StoreUnderTest<H>) {
    sign_up(&world, "u1", Some("Alice")).await;
    sign_up(&world, "u2", None).await;
    world
        .holds(async |world| {
            let ids = ["u2", "unknown", "u1"].map(|name| world.user(name)).to_vec();
            let people = world.store().people(ids).await.unwrap();
            let names: Vec<_> = people.into_iter().map(|person| (person.id, person.display_name)).collect();
            let alice = tagged(world, "Alice").into();
            assert_eq!(names, [(world.user("u2"), None), (world.user("u1"), Some(alice))]);
        })
        .await;
}
