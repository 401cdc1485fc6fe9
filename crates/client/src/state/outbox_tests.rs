//! Tests of the outbox: order, retries and cancellation.

use std::time::Duration;

use super::super::test_support::{direct, user};
use super::*;

fn item(id: &str, conversation_id: ConversationId) -> OutboxItem {
    OutboxItem {
        number: 0,
        conversation_id,
        message_id: MessageId::from_stored(id),
        content: id.into(),
        content_type: None,
        timestamp: Timestamp::from_millis(0),
        after_seq: Seq::new(7),
        attempted: false,
        failure: None,
    }
}

fn other() -> ConversationId {
    ConversationId::direct(&user("alice"), &user("carol"))
}

fn id(text: &str) -> MessageId {
    MessageId::from_stored(text)
}

/// Items written while connected and already stored.
fn outbox(ids: &[&str]) -> Outbox {
    let mut outbox = Outbox::default();
    for text in ids {
        outbox.add(item(text, direct()), true);
        outbox.kept(&id(text));
    }
    outbox
}

fn going(outbox: &mut Outbox, now: Instant) -> Vec<(String, bool)> {
    outbox.next_to_send(now).into_iter().map(|(item, again)| (item.content, again)).collect()
}

fn refusal() -> SendFailure {
    SendFailure { code: "content_too_large".into(), message: "too long".into() }
}

#[tokio::test]
async fn message_is_stored_before_it_is_sent() {
    let now = Instant::now();
    let mut outbox = Outbox::default();
    outbox.add(item("a", direct()), true);
    assert_eq!(going(&mut outbox, now), []);
    outbox.kept(&id("a"));
    assert_eq!(going(&mut outbox, now), [("a".into(), false)]);
    assert_eq!(outbox.state(&id("a")), Some(SendState::Sending));
}

#[tokio::test]
async fn each_conversation_sends_one_message_at_a_time_independently() {
    let now = Instant::now();
    let mut outbox = outbox(&["a", "b"]);
    outbox.add(item("c", other()), true);
    outbox.kept(&id("c"));
    assert_eq!(going(&mut outbox, now), [("a".into(), false), ("c".into(), false)]);
    assert_eq!(going(&mut outbox, now), []);
    assert!(outbox.settle(&id("a"), Seq::new(8)).is_some());
    assert_eq!(going(&mut outbox, now), [("b".into(), false)]);
    assert_eq!(outbox.state(&id("a")), Some(SendState::Sent(Seq::new(8))));
}

#[tokio::test]
async fn temporarily_refused_message_is_not_overtaken() {
    let now = Instant::now();
    let mut outbox = outbox(&["a", "b"]);
    going(&mut outbox, now);
    outbox.hold(&id("a"), now, |_| Duration::from_secs(2));
    outbox.release(now + Duration::from_secs(1));
    assert_eq!(going(&mut outbox, now), []);
    assert_eq!(outbox.next_release(), Some(now + Duration::from_secs(2)));
    outbox.release(now + Duration::from_secs(2));
    assert_eq!((going(&mut outbox, now), outbox.next_release()), (vec![("a".into(), true)], None));
}

#[tokio::test]
async fn retry_pause_grows_until_a_message_is_sent() {
    let now = Instant::now();
    let mut outbox = outbox(&["a", "b"]);
    let mut refusals = Vec::new();
    for _ in 0..3 {
        going(&mut outbox, now);
        outbox.hold(&id("a"), now, |count| {
            refusals.push(count);
            Duration::ZERO
        });
        outbox.release(now);
    }
    outbox.settle(&id("a"), Seq::FIRST);
    going(&mut outbox, now);
    outbox.hold(&id("b"), now, |count| {
        refusals.push(count);
        Duration::ZERO
    });
    assert_eq!(refusals, [0, 1, 2, 0]);
}

#[tokio::test]
async fn permanently_refused_message_leaves_the_queue_until_retried() {
    let now = Instant::now();
    let mut outbox = outbox(&["a", "b"]);
    going(&mut outbox, now);
    outbox.fail(&id("a"), refusal());
    assert_eq!(outbox.state(&id("a")), Some(SendState::Failed(refusal())));
    assert_eq!(going(&mut outbox, now), [("b".into(), false)]);
    assert!(outbox.retry(&id("a")).is_some());
    outbox.settle(&id("b"), Seq::FIRST);
    assert_eq!(going(&mut outbox, now), [("a".into(), true)]);
    outbox.fail(&id("a"), refusal());
    assert!(outbox.cancel(&id("a")).is_ok());
    assert!(outbox.is_empty());
}

#[tokio::test]
async fn attempted_message_cannot_be_cancelled() {
    let mut outbox = outbox(&["a"]);
    going(&mut outbox, Instant::now());
    assert_eq!(outbox.cancel(&id("a")), Err(CannotCancel::OnItsWay));
    outbox.connection_lost();
    assert_eq!(outbox.cancel(&id("a")), Err(CannotCancel::OnItsWay));
    outbox.add(item("offline", direct()), false);
    assert!(outbox.cancel(&id("offline")).is_ok());
    assert_eq!(outbox.cancel(&id("offline")), Err(CannotCancel::NotWaiting));
}

#[tokio::test]
async fn offline_message_is_marked_attempted_before_it_is_sent() {
    let now = Instant::now();
    let mut outbox = Outbox::default();
    outbox.add(item("a", direct()), false);
    outbox.kept(&id("a"));
    assert_eq!(going(&mut outbox, now), []);
    let noted = outbox.note_attempts();
    assert!(noted.len() == 1 && noted[0].attempted);
    assert_eq!(going(&mut outbox, now), []);
    outbox.kept(&id("a"));
    assert_eq!(going(&mut outbox, now), [("a".into(), false)]);
}

#[tokio::test]
async fn after_a_disconnect_or_crash_messages_are_resent_in_order() {
    let now = Instant::now();
    let mut first_life = outbox(&["a", "b"]);
    going(&mut first_life, now);
    first_life.connection_lost();
    assert_eq!(going(&mut first_life, now), [("a".into(), true)]);
    let mut kept: Vec<OutboxItem> = first_life.items().cloned().collect();
    kept.reverse();
    let mut second_life = Outbox::restored(kept);
    assert_eq!(going(&mut second_life, now), [("a".into(), true)]);
    assert_eq!(second_life.add(item("c", direct()), true).number, 2);
}

#[tokio::test]
async fn messages_are_resent_singly_to_isolate_the_one_that_fails() {
    let now = Instant::now();
    let mut outbox = outbox(&["a"]);
    outbox.add(item("c", other()), true);
    outbox.kept(&id("c"));
    outbox.go_solo();
    assert_eq!(going(&mut outbox, now).len(), 1);
    assert_eq!(going(&mut outbox, now).len(), 0);
}
