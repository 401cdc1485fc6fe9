//! Tests of the inbox rows: unread counts, ticks and order.

use super::super::test_support::{direct, entry, marks, said, user, void};
use super::*;

fn inbox(line: InboxEntry) -> Inbox {
    let mut inbox = Inbox::new(user("alice"));
    inbox.learn(line, None);
    inbox
}

fn unread(inbox: &Inbox) -> u64 {
    inbox.get(direct()).unwrap().entry.unread
}

fn timeline(seqs: std::ops::RangeInclusive<u64>) -> Timeline {
    Timeline::restored(seqs.map(|seq| said(seq, "bob")).collect(), Seq::FIRST)
}

fn own_status(read: u64, unread: Option<u64>) -> Status {
    Status { conversation_id: direct(), user_id: user("alice"), marks: marks(read, read), unread }
}

#[test]
fn messages_by_others_count_as_unread_and_a_reply_reads_them_all() {
    let mut inbox = inbox(entry(3, 1, marks(3, 2)));
    inbox.take_message(&said(4, "bob"));
    inbox.take_message(&said(4, "bob"));
    assert_eq!(unread(&inbox), 2);
    inbox.take_message(&said(5, "alice"));
    assert_eq!(unread(&inbox), 0);
    assert_eq!(inbox.get(direct()).unwrap().entry.my_status, marks(4, 4));
}

#[test]
fn void_advances_last_seq_and_nothing_else() {
    let mut inbox = inbox(entry(3, 1, marks(3, 2)));
    inbox.take_message(&said(4, "bob"));
    inbox.take_message(&void(5));
    let line = &inbox.get(direct()).unwrap().entry;
    assert_eq!((line.last_seq, line.last_at.millis(), line.unread), (Seq::new(5), 4, 2));
    assert_eq!(line.last_message.as_ref().map(|last| last.seq), Some(Seq::new(4)));
}

#[test]
fn void_with_the_users_own_name_is_not_a_reply() {
    let mut inbox = Inbox::new(user("void"));
    inbox.learn(entry(3, 1, marks(3, 2)), None);
    inbox.take_message(&void(4));
    let line = &inbox.get(direct()).unwrap().entry;
    assert_eq!((line.unread, line.my_status), (1, marks(3, 2)));
}

#[test]
fn partial_read_leaves_no_voids_unread() {
    let mut inbox = inbox(entry(4, 3, marks(4, 1)));
    let held = vec![said(1, "bob"), said(2, "bob"), void(3), said(4, "bob")];
    let timeline = Timeline::restored(held, Seq::FIRST);
    assert_eq!(inbox.read_here(direct(), Seq::new(2), Some(&timeline)), Some(RowUpdate::Yes));
    assert_eq!(unread(&inbox), 1);
}

#[test]
fn late_inbox_entry_keeps_newer_messages() {
    let mut inbox = inbox(entry(3, 0, marks(3, 3)));
    inbox.take_message(&said(4, "bob"));
    inbox.take_message(&said(5, "bob"));
    inbox.learn(entry(4, 1, marks(3, 3)), None);
    assert_eq!((unread(&inbox), inbox.get(direct()).unwrap().entry.last_seq), (2, Seq::new(5)));
}

#[test]
fn outdated_inbox_entry_is_ignored() {
    let mut inbox = inbox(entry(4, 1, marks(3, 3)));
    inbox.learn(entry(3, 0, marks(3, 3)), None);
    assert_eq!((unread(&inbox), inbox.get(direct()).unwrap().entry.last_seq), (1, Seq::new(4)));
    inbox.learn(entry(5, 2, marks(3, 3)), None);
    assert_eq!(unread(&inbox), 2);
}

#[test]
fn partial_read_leaves_exactly_the_rest_unread() {
    let mut inbox = inbox(entry(9, 4, marks(9, 5)));
    assert_eq!(inbox.read_here(direct(), Seq::new(7), Some(&timeline(6..=9))), Some(RowUpdate::Yes));
    assert_eq!(unread(&inbox), 2);
    assert_eq!(inbox.read_here(direct(), Seq::new(7), None), None, "the row did not change");
    assert_eq!(
        inbox.read_here(direct(), Seq::new(8), None),
        Some(RowUpdate::Ask),
        "the messages above are not loaded"
    );
    assert_eq!(inbox.read_here(direct(), Seq::new(9), None), Some(RowUpdate::Yes));
    assert_eq!(unread(&inbox), 0);
}

#[test]
fn read_above_the_delivered_seq_is_ignored() {
    let mut inbox = inbox(entry(9, 4, marks(5, 5)));
    assert_eq!(inbox.read_here(direct(), Seq::new(9), None), None);
    assert_eq!(inbox.get(direct()).unwrap().entry.my_status, marks(5, 5));
}

#[test]
fn local_read_survives_an_older_inbox_entry() {
    let mut inbox = inbox(entry(9, 4, marks(9, 5)));
    inbox.read_here(direct(), Seq::new(9), None);
    inbox.learn(entry(9, 4, marks(9, 5)), None);
    assert_eq!(unread(&inbox), 0);
}

#[test]
fn read_on_another_own_device_updates_unread() {
    let mut inbox = inbox(entry(9, 4, marks(9, 5)));
    let nobody_waits = |_: &Row| false;
    assert_eq!(inbox.take_status(&own_status(7, Some(2)), nobody_waits), RowUpdate::Yes);
    assert_eq!(unread(&inbox), 2);
    assert_eq!(inbox.take_status(&own_status(8, None), nobody_waits), RowUpdate::Ask);
    assert_eq!(inbox.take_status(&own_status(9, None), nobody_waits), RowUpdate::Yes);
    assert_eq!(unread(&inbox), 0);
}

#[test]
fn older_status_never_moves_a_tick_back() {
    let mut inbox = inbox(entry(9, 0, marks(9, 9)));
    let status = |marks| Status { conversation_id: direct(), user_id: user("bob"), marks, unread: None };
    inbox.take_status(&status(marks(8, 7)), |_| false);
    inbox.take_status(&status(marks(9, 3)), |_| false);
    assert_eq!(inbox.get(direct()).unwrap().entry.peer_status, marks(9, 7));
    inbox.learn(entry(9, 0, marks(9, 9)), None);
    assert_eq!(inbox.get(direct()).unwrap().entry.peer_status, marks(9, 7));
}

#[test]
fn inbox_order_is_pinned_then_latest() {
    let mut inbox = Inbox::new(user("alice"));
    for (number, (pinned, last_at)) in [(false, 5), (true, 1), (false, 9), (true, 3)].into_iter().enumerate()
    {
        let mut line = entry(last_at, 0, marks(0, 0));
        line.conversation_id = ConversationId::group([number as u8; 15]);
        line.pinned = pinned;
        inbox.learn(line, None);
    }
    let order: Vec<i64> = inbox.sorted(false).iter().map(|row| row.entry.last_at.millis()).collect();
    assert_eq!(order, [3, 1, 9, 5]);
}

#[test]
fn message_read_on_another_device_before_arrival_is_not_unread() {
    let mut inbox = inbox(entry(3, 0, marks(4, 4)));
    inbox.take_message(&said(4, "bob"));
    assert_eq!(unread(&inbox), 0);
    inbox.take_message(&said(5, "bob"));
    assert_eq!(unread(&inbox), 1);
}
