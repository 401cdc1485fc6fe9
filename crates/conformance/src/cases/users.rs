//! People.

use bluetick_core::ports::UserUpdate;
use bluetick_core::{Refusal, User};

use crate::world::{NOW, assert_refused};
use crate::{Harness, World};

fn user<H: Harness>(world: &World<H>, name: &str) -> User {
    User {
        id: world.user(name),
        display_name: Some("Somebody".into()),
        password_hash: Some("hash".into()),
        created_at: NOW,
    }
}

pub async fn users_are_created_once_and_survive_a_crash<H: Harness>(world: World<H>) {
    let alice = user(&world, "alice");
    assert_eq!(world.store().user(&alice.id).await.unwrap(), None);
    world.store().create_user(alice.clone()).await.unwrap();
    assert_refused(world.store().create_user(alice.clone()).await, Refusal::UserExists);
    let world = world.crash().await;
    assert_eq!(world.store().user(&alice.id).await.unwrap(), Some(alice.clone()));
    assert_refused(world.store().create_user(alice.clone()).await, Refusal::UserExists);

    let update = |id| UserUpdate { id, display_name: None, password_hash: Some("new".into()) };
    world.store().update_user(update(alice.id.clone())).await.unwrap();
    assert_refused(world.store().update_user(update(world.user("nobody"))).await, Refusal::NoSuchUser);
    let world = world.restart().await;
    let changed = User { password_hash: Some("new".into()), ..alice };
    assert_eq!(world.store().user(&changed.id).await.unwrap(), Some(changed));
}

pub async fn two_sign_ups_for_one_name_have_one_winner<H: Harness>(world: World<H>) {
    for round in 0..10 {
        let candidate = user(&world, &format!("u{round}"));
        let store = world.store();
        let (one, other) =
            tokio::join!(store.create_user(candidate.clone()), store.create_user(candidate.clone()));
        assert_ne!(one.is_ok(), other.is_ok());
    }
}
