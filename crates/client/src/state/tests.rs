//! Tests of how frames change the state.

use super::test_support::{direct, entry, marks, said, user, void};
use super::*;
use crate::storage::{MemoryStorage, Storage};
use crate::stored_state::{StoredState, restore};
use crate::wire::frames::{Backlog, ClientFrame, Gone};
use bluetick_types::MessageId;

fn state() -> State {
    let mut state = State::new(user("alice"));
    state.welcome(1, Timestamp::from_millis(100));
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

fn backlog(next_after_seq: u64, head_seq: u64) -> ServerFrame {
    ServerFrame::Backlog(Backlog {
        conversation_id: direct(),
        next_after_seq: Seq::new(next_after_seq),
        head_seq: Seq::new(head_seq),
    })
}

#[test]
fn message_is_taken_once_and_acknowledged_up_to_the_first_gap() {
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
    state.received(Arc::new(said(4, "bob")), MessageArrival::Fetched);
    state.received(Arc::new(said(5, "bob")), MessageArrival::Fetched);
    assert_eq!(seqs(&state), [3, 4, 5]);
    assert_eq!(state.inbox.get(direct()).unwrap().have_seq, Seq::new(5));
    assert_eq!(state.todo.events.len(), events, "fetched messages cause no event");
}

#[test]
fn void_is_acknowledged_and_is_not_new() {
    let mut state = state();
    state.learn(entry(2, 0, marks(2, 2)));
    hear(&mut state, ServerFrame::Message(said(3, "bob")));
    hear(&mut state, ServerFrame::Message(void(4)));
    hear(&mut state, ServerFrame::Message(said(5, "bob")));
    assert_eq!(seqs(&state), [3, 4, 5]);
    assert!(state.todo.missing.is_empty());
    assert_eq!(
        told(&mut state),
        [format!(r#"{{"type":"delivered","conversation_id":"{}","seq":5}}"#, direct())]
    );
    hear(&mut state, ServerFrame::Message(void(6)));
    assert_eq!(
        told(&mut state),
        [format!(r#"{{"type":"delivered","conversation_id":"{}","seq":6}}"#, direct())]
    );
    assert_eq!((state.todo.events.len(), state.inbox.unread_total()), (2, 2));
}

#[test]
fn unknown_conversation_is_acknowledged_and_fetched() {
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
fn new_epoch_drops_the_cache_and_keeps_the_outbox() {
    let mut state = state();
    state.learn(entry(2, 0, marks(2, 2)));
    hear(&mut state, ServerFrame::Message(said(3, "bob")));
    assert_eq!(state.positions().len(), 1);
    assert!(!state.welcome(1, Timestamp::from_millis(100)));
    assert!(state.welcome(2, Timestamp::from_millis(100)));
    assert_eq!((state.positions().len(), state.timelines.len()), (0, 0));
}

#[test]
fn backlog_marks_older_messages_missing_after_the_pushed_ones() {
    let mut state = state();
    state.learn(entry(2, 0, marks(2, 2)));
    state.connection_lost();
    state.welcome(1, Timestamp::from_millis(100));
    hear(&mut state, ServerFrame::Message(said(3, "bob")));
    hear(&mut state, backlog(3, 5_000));
    assert!(state.todo.missing.is_empty());
    hear(&mut state, ServerFrame::CaughtUp);
    assert_eq!((state.todo.missing.front(), state.todo.reload), (Some(&direct()), true));
}

#[test]
fn unknown_conversation_is_acknowledged_only_below_the_gap() {
    let mut state = State::new(user("alice"));
    state.welcome(1, Timestamp::from_millis(100));
    hear(&mut state, ServerFrame::Message(said(1, "bob")));
    hear(&mut state, backlog(1, 30));
    hear(&mut state, ServerFrame::CaughtUp);
    hear(&mut state, ServerFrame::Message(said(31, "bob")));
    let delivered =
        |seq: u64| [format!(r#"{{"type":"delivered","conversation_id":"{}","seq":{seq}}}"#, direct())];
    assert_eq!(told(&mut state), delivered(1));
    assert!(state.todo.refresh.contains(&direct()));
    state.learn(entry(31, 31, marks(1, 0)));
    assert_eq!(state.todo.missing, [direct()]);
    for seq in 2..=31 {
        state.received(Arc::new(said(seq, "bob")), MessageArrival::Fetched);
    }
    assert_eq!(told(&mut state), delivered(31));
}

#[test]
fn removed_member_gets_an_event_and_loses_the_cache() {
    let mut state = state();
    state.learn(entry(2, 0, marks(2, 2)));
    hear(&mut state, ServerFrame::Gone(Gone { conversation_id: direct() }));
    assert!(state.inbox.get(direct()).is_none());
    assert!(matches!(state.todo.events.as_slice(), [Event::Gone(_)]));
}

/// An unsent message to this conversation.
fn written_to(conversation_id: ConversationId) -> OutboxItem {
    OutboxItem {
        number: 0,
        conversation_id,
        message_id: MessageId::from_stored("waits"),
        content: "Lunch?".into(),
        content_type: None,
        timestamp: Timestamp::from_millis(0),
        after_seq: Seq::ZERO,
        attempted: false,
        failure: None,
    }
}

#[test]
fn queued_messages_for_a_lost_group_fail_with_an_event() {
    let mut state = state();
    let group = ConversationId::group([7; 15]);
    state.learn(InboxEntry { conversation_id: group, ..entry(2, 0, marks(2, 2)) });
    state.outbox.add(written_to(group), true);
    state
        .outbox
        .add(OutboxItem { message_id: MessageId::from_stored("other"), ..written_to(direct()) }, true);
    hear(&mut state, ServerFrame::Gone(Gone { conversation_id: group }));
    let [Event::Gone(_), Event::GivenUp(given_up)] = state.todo.events.as_slice() else {
        panic!("{:?}", state.todo.events)
    };
    assert_eq!((given_up.len(), given_up[0].content.as_str()), (1, "Lunch?"));
    assert_eq!(state.todo.settled, *given_up, "the message is removed from the storage");
    assert!(matches!(state.outbox.state(&given_up[0].message_id), Some(outbox::SendState::Failed(_))));
    assert_eq!(state.outbox.items().count(), 1, "messages of other conversations keep waiting");
}

#[test]
fn unlisted_conversation_with_a_sent_message_is_fetched() {
    let mut state = state();
    let group = ConversationId::group([7; 15]);
    state.outbox.add(written_to(group), false);
    hear(&mut state, ServerFrame::CaughtUp);
    assert!(state.todo.refresh.remove(&group));
    state.learn(InboxEntry { conversation_id: group, ..entry(2, 0, marks(2, 2)) });
    state.welcome(1, Timestamp::from_millis(100));
    state.forget_unconfirmed(&HashSet::new());
    assert!(state.todo.refresh.contains(&group));
}

#[test]
fn draft_is_kept_until_empty_or_conversation_gone() {
    let mut state = state();
    state.learn(entry(2, 0, marks(2, 2)));
    let (mut ledger, mut kept) = (StoredState::default(), MemoryStorage::default());
    let mut drafts = |state: &mut State| {
        kept.apply(&ledger.changes(state)).unwrap();
        restore(&state.user, kept.load().unwrap()).unwrap().0.drafts
    };
    state.set_draft(direct(), "half a word");
    assert_eq!(drafts(&mut state), HashMap::from([(direct(), "half a word".to_owned())]));
    state.set_draft(direct(), "");
    assert_eq!(drafts(&mut state).len(), 0);
    state.set_draft(direct(), "half a word");
    drafts(&mut state);
    state.gone(direct());
    assert_eq!(drafts(&mut state).len(), 0);
}

#[test]
fn temporarily_refused_receipt_is_sent_again_at_its_latest_seq() {
    let mut state = state();
    state.learn(entry(2, 1, marks(2, 1)));
    state.mark_read(direct(), None);
    told(&mut state);
    hear(&mut state, ServerFrame::Message(said(3, "bob")));
    told(&mut state);
    state.tell_again(direct());
    let frame =
        |kind: &str, seq: u64| format!(r#"{{"type":"{kind}","conversation_id":"{}","seq":{seq}}}"#, direct());
    assert_eq!(told(&mut state), [frame("read", 2), frame("delivered", 3)]);
}

#[test]
fn read_receipt_covers_only_received_messages() {
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
fn status_before_its_inbox_entry_is_kept() {
    let mut state = state();
    let status =
        Status { conversation_id: direct(), user_id: user("alice"), marks: marks(2, 2), unread: Some(1) };
    hear(&mut state, ServerFrame::Status(status));
    state.learn(entry(3, 3, marks(3, 0)));
    assert_eq!(state.inbox.unread_total(), 1);
}

#[test]
fn closed_conversation_keeps_few_messages_in_memory() {
    let mut state = state();
    state.learn(entry(0, 0, marks(0, 0)));
    for seq in 1..=1_000 {
        hear(&mut state, ServerFrame::Message(said(seq, "bob")));
    }
    let held = seqs(&state);
    assert!(held.len() <= 2 * KEPT_MESSAGES && held.last() == Some(&1_000), "{}", held.len());
}

#[test]
fn closing_a_conversation_keeps_its_newest_messages() {
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

#[test]
fn live_message_during_catch_up_is_new_and_the_backlog_is_not() {
    let mut state = State::new(user("alice"));
    state.welcome(1, Timestamp::from_millis(3));
    state.learn(entry(2, 2, marks(0, 0)));
    for seq in [1, 2, 3, 3] {
        hear(&mut state, ServerFrame::Message(said(seq, "bob")));
    }
    let news = |state: &State| {
        let said =
            |event: &Event| if let Event::Message(message) = event { Some(message.seq.get()) } else { None };
        state.todo.events.iter().filter_map(said).collect::<Vec<_>>()
    };
    assert_eq!(news(&state), [3]);
    hear(&mut state, ServerFrame::CaughtUp);
    // The reloaded inbox counts the message before it arrives.
    state.learn(entry(4, 4, marks(0, 0)));
    hear(&mut state, ServerFrame::Message(said(4, "bob")));
    assert_eq!(news(&state), [3, 4]);
}
