//! User profiles and token revocations.

use bluetick_core::{Profile, Revocations, Revoked, Timestamp, TokenFacts, TokenPrint};

use crate::world::NOW;
use crate::{Harness, StoreUnderTest};

pub async fn profile_of_an_unknown_user_is_the_default<H: Harness>(world: StoreUnderTest<H>) {
    assert_eq!(world.profile("alice").await, Profile::default());
    world.hide_presence("alice", true).await;
    world.holds(async |world| assert_eq!(world.profile("al").await, Profile::default())).await;
}

pub async fn hidden_presence_survives_later_updates<H: Harness>(world: StoreUnderTest<H>) {
    let hidden = Profile { hides_presence: true, ..Profile::default() };
    assert_eq!(world.hide_presence("alice", true).await, hidden);
    let world = world.holds(async |world| assert_eq!(world.profile("alice").await, hidden)).await;
    let seen = Profile { last_seen_at: Some(NOW), ..hidden };
    assert_eq!(
        world.seen_at("alice", NOW).await,
        seen,
        "an update of last_seen_at keeps the presence hidden"
    );
    let world = world.holds(async |world| assert_eq!(world.profile("alice").await, seen)).await;
    let open = Profile { hides_presence: false, ..seen };
    assert_eq!(world.hide_presence("alice", false).await, open);
    world.holds(async |world| assert_eq!(world.profile("alice").await, open)).await;
}

pub async fn last_seen_never_moves_back<H: Harness>(world: StoreUnderTest<H>) {
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

pub async fn revoked_token_stays_revoked<H: Harness>(world: StoreUnderTest<H>) {
    let (void, good) = (token(1, NOW), token(2, NOW));
    world.seen_at("alice", NOW).await;
    world.hide_presence("alice", true).await;
    world.revoke("alice", Revoked::Token(void)).await;
    let world = world
        .holds(async |world| {
            let profile = world.profile("alice").await;
            assert!(profile.revocations.voids(&void) && !profile.revocations.voids(&good));
            assert!(
                profile.hides_presence && profile.last_seen_at == Some(NOW),
                "other fields are unchanged"
            );
            assert_eq!(world.profile("bob").await, Profile::default());
        })
        .await;
    world.seen_at("alice", NOW.plus_millis(5)).await;
    world.holds(async |world| assert!(world.profile("alice").await.revocations.voids(&void))).await;
}

pub async fn tokens_issued_up_to_a_revocation_stay_revoked_and_later_ones_are_valid<H: Harness>(
    world: StoreUnderTest<H>,
) {
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
            assert!(void.voids(&token(2, NOW)), "an earlier revocation makes no token valid");
        })
        .await;
}

pub async fn concurrently_revoked_tokens_are_all_revoked<H: Harness>(world: StoreUnderTest<H>) {
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

pub async fn revocation_is_published_before_the_answer<H: Harness>(world: StoreUnderTest<H>) {
    let void = token(1, NOW);
    world.seen_at("alice", NOW).await;
    world.revoke("alice", Revoked::Token(void)).await;
    let published = world.recorder.revocations();
    assert!(!published.is_empty(), "a session with this token may be connected");
    for (user, revocations) in &published {
        assert!(*user == world.user("alice") && revocations.voids(&void), "{user} {revocations:?}");
    }
}
