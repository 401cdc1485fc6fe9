//! Tokens that one node makes void, and the connections of others.

use bluetick_core::ports::Store;
use bluetick_core::time::{Clock, SystemClock};
use bluetick_core::{Profile, ProfileUpdate, Revoke, Revoked, StoreError, TokenFacts, TokenPrint};
use bluetick_store_cloud::rows::Table;

use crate::town::{Fate, Node, Town, until, user};

fn token(number: u8) -> TokenFacts {
    let now = SystemClock.now();
    TokenFacts {
        print: TokenPrint::from_bytes([number; 16]),
        issued_at: now,
        expires_at: now.plus_millis(3_600_000),
    }
}

async fn revoke(node: &Node, token: TokenFacts) -> Result<Profile, StoreError> {
    let revoke = Some(Revoke { what: Revoked::Token(token), at: SystemClock.now() });
    node.store.update_profile(ProfileUpdate { revoke, ..ProfileUpdate::of(user("alice")) }).await
}

fn has_heard(node: &Node, token: &TokenFacts) -> bool {
    let heard = node.recorder.revocations();
    heard.iter().any(|(of, void)| *of == user("alice") && void.voids(token))
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_revoked_at_one_node_is_heard_at_the_other() {
    let town = Town::default();
    let (here, there) = (town.node().await, town.node().await);
    Town::settle(&[&here, &there]).await;
    let (void, good) = (token(1), token(2));
    revoke(&here, void).await.unwrap();
    assert!(has_heard(&here, &void), "before the call returns");
    until(async || has_heard(&there, &void)).await;
    assert!(!has_heard(&there, &good));
    let stored = there.store.profile(&user("alice")).await.unwrap().revocations;
    assert!(stored.voids(&void) && !stored.voids(&good));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_no_news_reach_reads_of_it() {
    let town = Town::default();
    let (here, there) = (town.node().await, town.node().await);
    Town::settle(&[&here, &there]).await;
    town.street.hold_letters_from("node-0");
    let void = token(1);
    revoke(&here, void).await.unwrap();
    until(async || has_heard(&there, &void)).await;
    town.street.deliver_letters();
}

/// Whoever logged in after it has a token that is above it, as the next revocation has to be.
#[tokio::test(flavor = "multi_thread")]
async fn a_moment_below_what_is_void_already_is_read_as_what_it_comes_to() {
    let town = Town::default();
    let (here, there) = (town.node().await, town.node().await);
    Town::settle(&[&here, &there]).await;
    town.street.hold_letters_from("node-0");
    let now = SystemClock.now();
    let log_out = async |moment| {
        let revoke = Some(Revoke { what: Revoked::Through(moment), at: SystemClock.now() });
        let update = ProfileUpdate { revoke, ..ProfileUpdate::of(user("alice")) };
        here.store.update_profile(update).await.unwrap().revocations
    };
    let ahead = now.plus_millis(600_000);
    let void = log_out(ahead).await;
    let again = TokenFacts { issued_at: void.issue_at(now), ..token(1) };
    assert!(!void.voids(&again));
    assert!(log_out(now).await.voids(&again));
    until(async || has_heard(&there, &again)).await;
    town.street.deliver_letters();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_dies_before_all_is_written_has_closed_the_connections_and_it_can_be_done_again() {
    let town = Town::default();
    let (here, there) = (town.node().await, town.node().await);
    Town::settle(&[&here, &there]).await;
    // The heartbeat writes to that table too, and may take the blow.
    let mut tokens = (1..).map(token);
    let void = loop {
        let void = tokens.next().unwrap();
        here.way.next_write(Table::Users, Fate::Refused);
        if let Err(error) = revoke(&here, void).await {
            assert!(matches!(error, StoreError::NoAnswer(_)), "{error}");
            break void;
        }
    };
    until(async || has_heard(&there, &void)).await;
    assert!(revoke(&there, void).await.unwrap().revocations.voids(&void));
}
