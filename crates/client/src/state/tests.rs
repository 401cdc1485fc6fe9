//! What a client makes of what it hears.

use super::test_support::{direct, entry, marks, said, user};
use super::*;
use crate::wire::frames::{Backlog, ClientFrame, Gone};

fn state() -> State {
    let mut state = State::new(user("alice"));
    state.welcome(1);
    state.hear(ServerFrame::CaughtUp, Instant::now());
    state.todo.reload = false;
    state
}

fn hear(state: &mut State, frame: ServerFrame) {
    state.hear(frame, Instant::now());
}

fn seqs(state: &State) -> Vec<u64> {
    state.timelines[&direct()].messages().map(|message| message.seq.get()).collect()
}

fn told(state: &mut State) -> Vec<String> {
    state.take_acks().iter().map(ClientFrame::encode).collect()
}

#[test]
fn a_message_is_taken_once_and_acknowledged_up_to_where_nothing_is_missing() {
    let mut state = state();
    state.learn(entry(2, 0, marks(2, 2)));
    for seq in [3, 3, 5] {
        hear(&mut state, ServerFrame::Message(said(seq, "bob")));
    }
    assert_eq!(
        told(&mut state),
        [format!(r#"{{"type":"delivered","conversation_id":"{}","seq":3}}"#, direct())]
    );
    assert_eq!(state.todo.missing, [direct()]);
    let events = state.todo.events.len();
    state.received(Arc::new(said(4, "bob")), Origin::Fetched);
    state.received(Arc::new(said(5, "bob")), Origin::Fetched);
    assert_eq!(seqs(&state), [3, 4, 5]);
    assert_eq!(state.inbox.get(direct()).unwrap().have_seq, Seq::new(5));
    assert_eq!(state.todo.events.len(), events, "what is fetched is no news");
}

#[test]
fn a_stranger_is_acknowledged_and_asked_about() {
    let mut state = state();
    hear(&mut state, ServerFrame::Message(said(1, "bob")));
    hear(&mut state, ServerFrame::Message(said(2, "bob")));
    assert_eq!(
        told(&mut state),
        [format!(r#"{{"type":"delivered","conversation_id":"{}","seq":2}}"#, direct())]
    );
    assert!(state.todo.refresh.contains(&direct()));
    state.learn(entry(2, 2, marks(0, 0)));
    let row = state.inbox.get(direct()).unwrap();
    assert_eq!((row.have_seq, row.entry.unread), (Seq::new(2), 2));
}

#[test]
fn another_epoch_drops_what_is_remembered_and_keeps_the_outbox() {
    let mut state = state();
    state.learn(entry(2, 0, marks(2, 2)));
    hear(&mut state, ServerFrame::Message(said(3, "bob")));
    assert_eq!(state.positions().len(), 1);
    assert!(!state.welcome(1));
    assert!(state.welcome(2));
    assert_eq!((state.positions().len(), state.timelines.len()), (0, 0));
}

#[test]
fn more_than_was_pushed_is_missing_once_all_that_was_pushed_is_here() {
    let mut state = state();
    state.learn(entry(2, 0, marks(2, 2)));
    state.connection_lost();
    state.welcome(1);
    hear(&mut state, ServerFrame::Message(said(3, "bob")));
    let backlog = Backlog { conversation_id: direct(), head_seq: Seq::new(5_000) };
    hear(&mut state, ServerFrame::Backlog(backlog));
    assert!(state.todo.missing.is_empty());
    hear(&mut state, ServerFrame::CaughtUp);
    assert_eq!((state.todo.missing.front(), state.todo.reload), (Some(&direct()), true));
}

#[test]
fn who_is_thrown_out_hears_of_it_and_keeps_nothing() {
    let mut state = state();
    state.learn(entry(2, 0, marks(2, 2)));
    hear(&mut state, ServerFrame::Gone(Gone { conversation_id: direct() }));
    assert!(state.inbox.get(direct()).is_none());
    assert!(matches!(state.todo.events.as_slice(), [Event::Gone(_)]));
}

#[test]
fn reading_is_told_and_covers_only_what_is_here() {
    let mut state = state();
    state.learn(entry(2, 1, marks(2, 1)));
    hear(&mut state, ServerFrame::Message(said(3, "bob")));
    told(&mut state);
    state.mark_read(direct(), None);
    assert_eq!(told(&mut state), [format!(r#"{{"type":"read","conversation_id":"{}","seq":3}}"#, direct())]);
    state.mark_read(direct(), None);
    assert_eq!(told(&mut state), [""; 0]);
}

#[test]
fn only_a_few_messages_are_held_of_a_conversation_nobody_looks_at() {
    let mut state = state();
    state.learn(entry(0, 0, marks(0, 0)));
    for seq in 1..=1_000 {
        hear(&mut state, ServerFrame::Message(said(seq, "bob")));
    }
    let held = seqs(&state);
    assert!(held.len() <= 2 * KEPT_MESSAGES && held.last() == Some(&1_000), "{}", held.len());
}

#[test]
fn who_stops_looking_leaves_the_newest_messages_behind() {
    let mut state = state();
    state.learn(entry(0, 0, marks(0, 0)));
    state.watch(direct());
    for seq in 1..=1_000 {
        hear(&mut state, ServerFrame::Message(said(seq, "bob")));
    }
    assert_eq!(seqs(&state).len(), 1_000);
    state.unwatch(direct());
    assert_eq!((seqs(&state).len(), seqs(&state).last()), (KEPT_MESSAGES, Some(&1_000)));
}
