//! The checker finds each kind of violation and accepts a correct run.

use super::*;

fn attempted(id: &str) -> ClientEvent {
    ClientEvent::Attempted {
        conversation: "c".into(),
        message_id: id.into(),
        content: format!("text of {id}"),
    }
}

fn acknowledged(id: &str, seq: u64) -> ClientEvent {
    ClientEvent::Acknowledged { conversation: "c".into(), message_id: id.into(), seq, duplicate: false }
}

fn received(seq: u64, sender: &str, id: &str) -> ClientEvent {
    let content = format!("text of {id}");
    ClientEvent::Received { conversation: "c".into(), seq, sender: sender.into(), content }
}

fn stored(seq: u64, sender: &str, id: &str) -> HistoryMessage {
    let content = format!("text of {id}");
    HistoryMessage { seq, sender: sender.into(), message_id: id.into(), content, system: false }
}

/// Alice sends a1, a2 and a3, loses the connection, and resends a3; Bob sends b1 in between.
fn a_good_run() -> (Vec<ClientLog>, Vec<HistoryMessage>) {
    let alice = ClientLog {
        sender: "alice".into(),
        events: vec![
            ClientEvent::Connected,
            attempted("a1"),
            attempted("a2"),
            acknowledged("a1", 1),
            received(2, "bob", "b1"),
            acknowledged("a2", 3),
            attempted("a3"),
            ClientEvent::Connected,
            attempted("a3"),
            acknowledged("a3", 4),
            attempted("a4"),
        ],
    };
    let bob = ClientLog {
        sender: "bob".into(),
        events: vec![
            ClientEvent::Connected,
            received(1, "alice", "a1"),
            attempted("b1"),
            acknowledged("b1", 2),
            received(3, "alice", "a2"),
            received(4, "alice", "a3"),
        ],
    };
    let history = vec![
        stored(1, "alice", "a1"),
        stored(2, "bob", "b1"),
        stored(3, "alice", "a2"),
        stored(4, "alice", "a3"),
    ];
    (vec![alice, bob], history)
}

fn judge(logs: &[ClientLog], history: Vec<HistoryMessage>) -> Result<Checked, Vec<Violation>> {
    check(logs, &Histories::from([("c".to_owned(), history)]))
}

fn assert_found(verdict: Result<Checked, Vec<Violation>>, expected: fn(&Violation) -> bool) {
    let violations = verdict.expect_err("the checker found nothing");
    assert!(violations.iter().any(expected), "{violations:?}");
}

#[test]
fn checker_accepts_a_correct_run() {
    let (logs, history) = a_good_run();
    let checked = judge(&logs, history).unwrap();
    assert_eq!(checked, Checked { attempted: 5, acknowledged: 4, stored: 4, received: 4, connections: 3 });
}

#[test]
fn checker_finds_a_lost_acknowledged_message() {
    let (logs, mut history) = a_good_run();
    history.pop();
    assert_found(judge(&logs, history), |v| matches!(v, Violation::AcknowledgedThenLost { seq: 4, .. }));
}

#[test]
fn checker_finds_a_gap() {
    let (logs, mut history) = a_good_run();
    history.remove(1);
    assert_found(judge(&logs, history), |v| matches!(v, Violation::NotDense { expected: 2, found: 3, .. }));
}

#[test]
fn checker_finds_a_message_at_another_seq_than_acknowledged() {
    let (logs, mut history) = a_good_run();
    history.swap(0, 1);
    history[0].seq = 1;
    history[1].seq = 2;
    assert_found(judge(&logs, history), |v| matches!(v, Violation::NotAtItsPlace { .. }));
}

#[test]
fn checker_finds_a_message_stored_twice() {
    let (logs, mut history) = a_good_run();
    history.push(stored(5, "alice", "a1"));
    assert_found(judge(&logs, history), |v| matches!(v, Violation::StoredTwice { .. }));
}

#[test]
fn checker_finds_a_message_without_a_sender() {
    let (logs, mut history) = a_good_run();
    history.push(stored(5, "bob", "b9"));
    assert_found(judge(&logs, history), |v| matches!(v, Violation::Invented { seq: 5, .. }));
}

#[test]
fn checker_finds_a_changed_content() {
    let (logs, mut history) = a_good_run();
    history[2].content = "something else".into();
    assert_found(judge(&logs, history), |v| matches!(v, Violation::Altered { seq: 3, .. }));
}

#[test]
fn checker_finds_a_later_message_without_the_earlier_one() {
    let (mut logs, mut history) = a_good_run();
    logs[0].events.insert(10, attempted("lost"));
    history.push(stored(5, "alice", "a4"));
    assert_found(
        judge(&logs, history),
        |v| matches!(v, Violation::NotAPrefix { missing_or_late, .. } if missing_or_late == "lost"),
    );
}

#[test]
fn checker_finds_a_push_that_skips_or_repeats_a_seq() {
    let (mut logs, history) = a_good_run();
    logs[1].events.remove(4);
    assert_found(judge(&logs, history.clone()), |v| {
        matches!(v, Violation::PushedOutOfOrder { after: 2, then: 4, .. })
    });
    let (mut logs, history) = a_good_run();
    logs[1].events.push(received(4, "alice", "a3"));
    assert_found(judge(&logs, history), |v| {
        matches!(v, Violation::PushedOutOfOrder { after: 4, then: 4, .. })
    });
}

#[test]
fn checker_finds_a_push_of_an_unstored_message() {
    let (mut logs, history) = a_good_run();
    logs[1].events.push(received(5, "alice", "never-durable"));
    assert_found(judge(&logs, history), |v| matches!(v, Violation::PushedSomethingElse { seq: 5, .. }));
}

#[test]
fn seqs_announced_as_backlog_are_not_missing() {
    let (mut logs, history) = a_good_run();
    logs[1].events[4] = ClientEvent::LeftOut { conversation: "c".into(), up_to: 3 };
    judge(&logs, history).unwrap();
}
