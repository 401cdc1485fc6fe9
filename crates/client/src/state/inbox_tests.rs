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
fn a_void_moves_the_place_of_the_last_message_and_nothing_else() {
    let mut inbox = inbox(entry(3, 1, marks(3, 2)));
    inbox.take_message(&said(4, "bob"));
    inbox.take_message(&void(5));
    let line = &inbox.get(direct()).unwrap().entry;
    assert_eq!((line.last_seq, line.last_at.millis(), line.unread), (Seq::new(5), 4, 2));
    assert_eq!(line.last_message.as_ref().map(|last| last.seq), Some(Seq::new(4)));
}

#[test]
fn to_somebody_whose_name_is_that_of_a_voids_sender_it_is_no_reply() {
    let mut inbox = Inbox::new(user("void"));
    inbox.learn(entry(3, 1, marks(3, 2)), None);
    inbox.take_message(&void(4));
    let line = &inbox.get(direct()).unwrap().entry;
    assert_eq!((line.unread, line.my_status), (1, marks(3, 2)));
}

#[test]
fn voids_are_not_left_unread_when_a_part_is_read() {
    let mut inbox = inbox(entry(4, 3, marks(4, 1)));
    let held = vec![said(1, "bob"), said(2, "bob"), void(3), said(4, "bob")];
    let timeline = Timeline::restored(held, Seq::FIRST);
    assert_eq!(inbox.read_here(direct(), Seq::new(2), Some(&timeline)), Some(Enough::Yes));
    assert_eq!(unread(&inbox), 1);
}

#[test]
fn a_late_answer_of_the_server_does_not_take_back_what_came_in_since() {
    let mut inbox = inbox(entry(3, 0, marks(3, 3)));
    inbox.take_message(&said(4, "bob"));
    inbox.take_message(&said(5, "bob"));
    inbox.learn(entry(4, 1, marks(3, 3)), None);
    assert_eq!((unread(&inbox), inbox.get(direct()).unwrap().entry.last_seq), (2, Seq::new(5)));
}

#[test]
fn an_answer_that_was_overtaken_by_a_newer_one_counts_nothing() {
    let mut inbox = inbox(entry(4, 1, marks(3, 3)));
    inbox.learn(entry(3, 0, marks(3, 3)), None);
    assert_eq!((unread(&inbox), inbox.get(direct()).unwrap().entry.last_seq), (1, Seq::new(4)));
    inbox.learn(entry(5, 2, marks(3, 3)), None);
    assert_eq!(unread(&inbox), 2);
}

#[test]
fn reading_a_part_leaves_exactly_the_rest_unread() {
    let mut inbox = inbox(entry(9, 4, marks(9, 5)));
    assert_eq!(inbox.read_here(direct(), Seq::new(7), Some(&timeline(6..=9))), Some(Enough::Yes));
    assert_eq!(unread(&inbox), 2);
    assert_eq!(inbox.read_here(direct(), Seq::new(7), None), None, "that is no news");
    assert_eq!(
        inbox.read_here(direct(), Seq::new(8), None),
        Some(Enough::Ask),
        "what is above is not at hand"
    );
    assert_eq!(inbox.read_here(direct(), Seq::new(9), None), Some(Enough::Yes));
    assert_eq!(unread(&inbox), 0);
}

#[test]
fn nothing_is_read_above_what_the_device_has() {
    let mut inbox = inbox(entry(9, 4, marks(5, 5)));
    assert_eq!(inbox.read_here(direct(), Seq::new(9), None), None);
    assert_eq!(inbox.get(direct()).unwrap().entry.my_status, marks(5, 5));
}

#[test]
fn what_was_read_here_stays_read_when_the_server_has_not_heard_of_it() {
    let mut inbox = inbox(entry(9, 4, marks(9, 5)));
    inbox.read_here(direct(), Seq::new(9), None);
    inbox.learn(entry(9, 4, marks(9, 5)), None);
    assert_eq!(unread(&inbox), 0);
}

#[test]
fn another_device_of_ones_own_reads_and_tells_how_many_are_left() {
    let mut inbox = inbox(entry(9, 4, marks(9, 5)));
    let nobody_waits = |_: &Row| false;
    assert_eq!(inbox.take_status(&own_status(7, Some(2)), nobody_waits), Enough::Yes);
    assert_eq!(unread(&inbox), 2);
    assert_eq!(inbox.take_status(&own_status(8, None), nobody_waits), Enough::Ask);
    assert_eq!(inbox.take_status(&own_status(9, None), nobody_waits), Enough::Yes);
    assert_eq!(unread(&inbox), 0);
}

#[test]
fn ticks_only_move_forward() {
    let mut inbox = inbox(entry(9, 0, marks(9, 9)));
    let status = |marks| Status { conversation_id: direct(), user_id: user("bob"), marks, unread: None };
    inbox.take_status(&status(marks(8, 7)), |_| false);
    inbox.take_status(&status(marks(9, 3)), |_| false);
    assert_eq!(inbox.get(direct()).unwrap().entry.peer_status, marks(9, 7));
    inbox.learn(entry(9, 0, marks(9, 9)), None);
    assert_eq!(inbox.get(direct()).unwrap().entry.peer_status, marks(9, 7));
}

#[test]
fn the_order_is_pinned_first_and_then_the_latest() {
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
fn what_another_device_has_read_before_it_came_is_not_unread() {
    let mut inbox = inbox(entry(3, 0, marks(4, 4)));
    inbox.take_message(&said(4, "bob"));
    assert_eq!(unread(&inbox), 0);
    inbox.take_message(&said(5, "bob"));
    assert_eq!(unread(&inbox), 1);
}
