//! What is kept of a user besides an account.

use bluetick_core::Profile;

use crate::world::NOW;
use crate::{Harness, World};

pub async fn of_somebody_unknown_the_profile_is_the_default<H: Harness>(world: World<H>) {
    assert_eq!(world.profile("alice").await, Profile::default());
    world.hide_presence("alice", true).await;
    world.holds(async |world| assert_eq!(world.profile("al").await, Profile::default())).await;
}

pub async fn who_hides_its_presence_stays_hidden<H: Harness>(world: World<H>) {
    let hidden = Profile { last_seen_at: None, hides_presence: true };
    assert_eq!(world.hide_presence("alice", true).await, hidden);
    let world = world.holds(async |world| assert_eq!(world.profile("alice").await, hidden)).await;
    let seen = Profile { last_seen_at: Some(NOW), ..hidden };
    assert_eq!(world.seen_at("alice", NOW).await, seen, "being seen shows nothing");
    let world = world.holds(async |world| assert_eq!(world.profile("alice").await, seen)).await;
    let open = Profile { hides_presence: false, ..seen };
    assert_eq!(world.hide_presence("alice", false).await, open);
    world.holds(async |world| assert_eq!(world.profile("alice").await, open)).await;
}

pub async fn last_seen_only_goes_forward<H: Harness>(world: World<H>) {
    let later = NOW.plus_millis(60_000);
    world.seen_at("alice", later).await;
    let expected = Profile { last_seen_at: Some(later), hides_presence: false };
    assert_eq!(world.seen_at("alice", NOW).await, expected);
    let world = world.crash().await;
    assert_eq!(world.seen_at("alice", NOW).await, expected);
    let world = world.holds(async |world| assert_eq!(world.profile("alice").await, expected)).await;
    let latest = later.plus_millis(1);
    world.seen_at("alice", latest).await;
    world.holds(async |world| assert_eq!(world.profile("alice").await.last_seen_at, Some(latest))).await;
}
