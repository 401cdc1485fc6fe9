//! Delivers one committed message to the outboxes of all sessions that may see it.

use std::cell::OnceCell;

use bluetick_core::ports::{Appended, Committed};
use bluetick_core::{Member, Members, UserId};
use bluetick_wire::frame::{write_ack, write_message};

use super::{EncodedFrame, SessionId, Sessions, UnstoredFrame, WebSocketSession};

/// Delivers a message and returns the number of frames pushed. The cost is that of the smaller of
/// members and online users.
pub(super) fn deliver(committed: &Committed, sessions: &Sessions) -> u64 {
    let Committed { members, message, departed, .. } = committed;
    let delivery = Delivery { committed, frame: OnceCell::new() };
    let mut pushes = 0;
    let mut hand_out = |session: &WebSocketSession| pushes += delivery.hand_to(session);

    each_member(sessions, members, |member| committed.concerns(member), &mut hand_out);
    if let Some(departed) = departed.as_ref().filter(|user| !members.contains(user)) {
        sessions.each_of(departed, &mut hand_out);
    }
    // A sender who is no longer a member still gets the ack.
    let hears_of_it = |user: &UserId| members.contains(user) || departed.as_ref() == Some(user);
    if committed.origin.is_some() && !hears_of_it(&message.sender) {
        sessions.each_of(&message.sender, &mut |session: &WebSocketSession| {
            if delivery.is_origin(session) {
                hand_out(session);
            }
        });
    }
    pushes
}

/// Visits the sessions of all `wanted` members. The cost is that of the smaller of members and
/// online users.
pub(super) fn each_member(
    sessions: &Sessions,
    members: &Members,
    wanted: impl Fn(&Member) -> bool,
    visit: &mut impl FnMut(&WebSocketSession),
) {
    if members.len() <= sessions.online_users() {
        for member in members.iter().filter(|member| wanted(member)) {
            sessions.each_of(&member.user, visit);
        }
    } else {
        sessions.each_online(|user| members.get(user).is_some_and(&wanted), visit);
    }
}

/// The delivery of one message.
struct Delivery<'a> {
    committed: &'a Committed,
    /// Encoded once, for the first receiver, and shared by all.
    frame: OnceCell<EncodedFrame>,
}

impl Delivery<'_> {
    fn is_origin(&self, session: &WebSocketSession) -> bool {
        self.committed.origin.map(SessionId::from) == Some(session.id)
    }

    /// Pushes the ack, the leave notice or the message, unless the session's catch-up covers it.
    /// Returns the number of frames pushed.
    fn hand_to(&self, session: &WebSocketSession) -> u64 {
        let message = &self.committed.message;
        let unstored = if self.is_origin(session) {
            let appended = Appended { seq: message.seq, received_at: message.received_at, duplicate: false };
            Some(UnstoredFrame::Ack(EncodedFrame::with(|buffer| {
                write_ack(buffer, message.conversation, &message.message_id, &appended);
            })))
        } else if self.committed.departed.as_ref() == Some(&session.user) {
            Some(UnstoredFrame::LeaveNotice(self.frame()))
        } else {
            None
        };
        let catch_up = &session.catch_up;
        if catch_up.is_active() && !catch_up.admit_live(message.conversation, message.seq, unstored.as_ref())
        {
            return 0;
        }
        session.outbox.push(unstored.map_or_else(|| self.frame(), UnstoredFrame::into_frame));
        1
    }

    fn frame(&self) -> EncodedFrame {
        self.frame
            .get_or_init(|| EncodedFrame::with(|buffer| write_message(buffer, &self.committed.message)))
            .clone()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use bluetick_core::ports::{Missed, Origin};
    use bluetick_core::{ContentType, ConversationId, Message, MessageId, Role, Seq, Timestamp, TokenFacts};
    use prometheus_client::metrics::gauge::Gauge;

    use super::*;
    use crate::delivery::{ConnectionOutbox, Registration};

    fn user(name: &str) -> UserId {
        name.parse().unwrap()
    }

    fn connect<'a>(sessions: &'a Sessions, name: &str) -> Registration<'a> {
        let outbox = ConnectionOutbox::new(1 << 20, Gauge::default());
        let registration = sessions
            .register(sessions.next_id(), user(name), TokenFacts::default(), outbox, usize::MAX)
            .unwrap();
        let session = &registration.session;
        session.catch_up.begin(&session.outbox, &Missed::default(), &[]);
        session.catch_up.finish(&session.outbox);
        session.outbox.taken();
        registration
    }

    fn committed(members: &[&str], sender: &str) -> Committed {
        let member = |name: &&str| Member { user: user(name), role: Role::Member, joined_seq: Seq::FIRST };
        let message = Message {
            conversation: ConversationId::group([1; 15]),
            seq: Seq::FIRST,
            message_id: MessageId::of_notice(Seq::FIRST),
            sender: user(sender),
            receiver: None,
            content_type: ContentType::Text,
            content: "hi".into(),
            timestamp: Timestamp::default(),
            received_at: Timestamp::default(),
        };
        let members = Arc::new(Members::from_unsorted(members.iter().map(member).collect()));
        Committed { message: Arc::new(message), members, departed: None, origin: None, is_stored_here: true }
    }

    fn kinds(device: &Registration<'_>) -> Vec<&'static str> {
        let frames = device.session.outbox.taken();
        let kind =
            |frame: &EncodedFrame| if frame.text().contains(r#""type":"ack""#) { "ack" } else { "message" };
        frames.iter().map(kind).collect()
    }

    #[test]
    fn message_reaches_every_device_of_every_member_and_no_other_user() {
        let sessions = Sessions::default();
        let [phone, laptop] = [connect(&sessions, "alice"), connect(&sessions, "alice")];
        let (bob, carol) = (connect(&sessions, "bob"), connect(&sessions, "carol"));
        deliver(&committed(&["alice", "bob"], "bob"), &sessions);
        assert_eq!([&phone, &laptop, &bob].map(|device| kinds(device)), [["message"]; 3]);
        assert_eq!(kinds(&carol), [""; 0]);
    }

    #[test]
    fn message_reaches_members_when_the_group_exceeds_online_users() {
        let sessions = Sessions::default();
        let (bob, stranger) = (connect(&sessions, "bob"), connect(&sessions, "zoe"));
        deliver(&committed(&["alice", "bob", "carol", "dave"], "alice"), &sessions);
        assert_eq!(kinds(&bob), ["message"]);
        assert_eq!(kinds(&stranger), [""; 0]);
    }

    #[test]
    fn sending_connection_gets_the_ack_instead_of_the_message() {
        let sessions = Sessions::default();
        let [phone, laptop] = [connect(&sessions, "alice"), connect(&sessions, "alice")];
        let mut committed = committed(&["alice", "bob"], "alice");
        committed.origin = Some(Origin::from(phone.session.id));
        deliver(&committed, &sessions);
        assert_eq!((kinds(&phone), kinds(&laptop)), (vec!["ack"], vec!["message"]));
    }

    #[test]
    fn sender_who_is_no_longer_a_member_gets_only_the_ack() {
        let sessions = Sessions::default();
        let [phone, laptop] = [connect(&sessions, "alice"), connect(&sessions, "alice")];
        let mut committed = committed(&["bob"], "alice");
        committed.origin = Some(Origin::from(phone.session.id));
        deliver(&committed, &sessions);
        assert_eq!((kinds(&phone), kinds(&laptop)), (vec!["ack"], vec![]));
    }

    #[test]
    fn later_member_does_not_get_an_earlier_message() {
        let sessions = Sessions::default();
        let (bob, carol) = (connect(&sessions, "bob"), connect(&sessions, "carol"));
        for crowd in 0..2 {
            let mut committed = committed(&["alice", "bob"], "alice");
            let late = Member { user: user("carol"), role: Role::Member, joined_seq: Seq::new(2) };
            Arc::make_mut(&mut committed.members).insert(late);
            // The first round iterates over the online users, the second over the members.
            let others: Vec<_> =
                (0..crowd * 5).map(|number| connect(&sessions, &format!("other{number}"))).collect();
            deliver(&committed, &sessions);
            assert_eq!((kinds(&bob), kinds(&carol)), (vec!["message"], vec![]));
            drop(others);
        }
    }

    #[test]
    fn departed_member_gets_the_leave_notice() {
        let sessions = Sessions::default();
        let alice = connect(&sessions, "alice");
        let mut committed = committed(&["bob"], "bob");
        committed.departed = Some(user("alice"));
        deliver(&committed, &sessions);
        assert_eq!(kinds(&alice), ["message"]);
    }
}
