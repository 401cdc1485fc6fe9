//! User profiles and token revocations.

use bluetick_core::{Profile, Revocations, Revoked, Timestamp, TokenFacts, TokenPrint};

use crate::world::NOW;
use crate::{Harness, World};

pub async fn of_somebody_unknown_the_profile_is_the_default<H: Harness>(world: World<H>) {
    assert_eq!(world.profile("alice").await, Profile::default());
    world.hide_presence("alice", true).await;
    world.holds(async |world| assert_eq!(world.profile("al").await, Profile::default())).await;
}

pub async fn who_hides_its_presence_stays_hidden<H: Harness>(world: World<H>) {
    let hidden = Profile { hides_presence: true, ..Profile::default() };
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
    let expected = Profile { last_seen_at: Some(later), ..Profile::default() };
    assert_eq!(world.seen_at("alice", NOW).await, expected);
    let world = world.crash().await;
    assert_eq!(world.seen_at("alice", NOW).await, expected);
    let world = world.holds(async |world| assert_eq!(world.profile("alice").await, expected)).await;
    let latest = later.plus_millis(1);
    world.seen_at("alice", latest).await;
    world.holds(async |world| assert_eq!(world.profile("alice").await.last_seen_at, Some(latest))).await;
}

fn token(number: u8, issued_at: Timestamp) -> TokenFacts {
    TokenFacts {
        print: TokenPrint::from_bytes([number; 16]),
        issued_at,
        expires_at: issued_at.plus_millis(86_400_000),
    }
}

pub async fn a_token_that_was_revoked_stays_void<H: Harness>(world: World<H>) {
    let (void, good) = (token(1, NOW), token(2, NOW));
    world.seen_at("alice", NOW).await;
    world.hide_presence("alice", true).await;
    world.revoke("alice", Revoked::Token(void)).await;
    let world = world
        .holds(async |world| {
            let profile = world.profile("alice").await;
            assert!(profile.revocations.voids(&void) && !profile.revocations.voids(&good));
            assert!(profile.hides_presence && profile.last_seen_at == Some(NOW), "the rest is as it was");
            assert_eq!(world.profile("bob").await, Profile::default());
        })
        .await;
    world.seen_at("alice", NOW.plus_millis(5)).await;
    world.holds(async |world| assert!(world.profile("alice").await.revocations.voids(&void))).await;
}

pub async fn all_tokens_up_to_a_moment_stay_void_and_later_ones_are_good<H: Harness>(world: World<H>) {
    world.revoke("alice", Revoked::Token(token(1, NOW.plus_millis(-5)))).await;
    world.revoke("alice", Revoked::Through(NOW)).await;
    let world = world
        .holds(async |world| {
            let void = world.profile("alice").await.revocations;
            assert!(void.voids(&token(1, NOW.plus_millis(-5))) && void.voids(&token(2, NOW)));
            assert!(!void.voids(&token(3, void.issue_at(NOW))));
        })
        .await;
    world.revoke("alice", Revoked::Through(NOW.plus_millis(-1_000))).await;
    world
        .holds(async |world| {
            let void = world.profile("alice").await.revocations;
            assert!(void.voids(&token(2, NOW)), "an earlier moment makes nothing valid");
        })
        .await;
}

pub async fn however_many_tokens_are_revoked_at_once_each_is_void<H: Harness>(world: World<H>) {
    let tokens: Vec<TokenFacts> =
        (0..100).map(|number| token(number, NOW.plus_millis(number.into()))).collect();
    let revoke = async |tokens: &[TokenFacts]| {
        for token in tokens {
            world.revoke("alice", Revoked::Token(*token)).await;
        }
    };
    tokio::join!(revoke(&tokens[..50]), revoke(&tokens[50..]));
    world
        .holds(async |world| {
            let void = world.profile("alice").await.revocations;
            assert!(void.tokens().len() <= Revocations::MOST_TOKENS);
            assert!(tokens.iter().all(|token| void.voids(token)));
            assert!(!void.voids(&token(200, NOW.plus_millis(1_000))));
        })
        .await;
}

pub async fn a_revocation_is_heard_before_the_answer_and_what_changes_nothing_is_not<H: Harness>(
    world: World<H>,
) {
    let void = token(1, NOW);
    world.seen_at("alice", NOW).await;
    world.revoke("alice", Revoked::Token(void)).await;
    let heard = world.recorder.revocations();
    assert!(!heard.is_empty(), "somebody with that token may be connected");
    for (user, revocations) in &heard {
        assert!(*user == world.user("alice") && revocations.voids(&void), "{user} {revocations:?}");
    }
}
