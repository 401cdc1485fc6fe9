//! The messages that a device has of a conversation: contiguous, from the first visible one.

use serde_json::Value;

use crate::checker::HistoryMessage;
use crate::device::Trouble;
use crate::names::UserName;

/// A message as received in a push or a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReceivedMessage {
    pub seq: u64,
    pub sender: UserName,
    pub message_id: String,
    pub content: String,
    pub content_type: String,
}

/// A membership change in a notice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MembershipStep {
    Joined(UserName),
    Left(UserName),
}

impl ReceivedMessage {
    pub fn from_json(message: &Value) -> Option<ReceivedMessage> {
        let text = |field: &str| message[field].as_str().map(str::to_owned);
        Some(ReceivedMessage {
            seq: message["seq"].as_u64()?,
            sender: UserName::new(message["sender_id"].as_str()?),
            message_id: text("message_id")?,
            content: text("content")?,
            content_type: text("content_type")?,
        })
    }

    pub fn is_notice(&self) -> bool {
        self.content_type == "system"
    }

    /// Returns whether the seq is a void, which holds no message.
    pub fn is_void(&self) -> bool {
        self.content_type == "void"
    }

    /// Returns whether a user sent it. A sent message has an attempt, can be unread and counts as a
    /// reply.
    pub fn is_said(&self) -> bool {
        !self.is_notice() && !self.is_void()
    }

    /// Returns the membership change of this notice.
    pub fn step(&self) -> Option<MembershipStep> {
        if !self.is_notice() {
            return None;
        }
        let notice: Value = serde_json::from_str(&self.content).ok()?;
        let user = UserName::new(notice["user_id"].as_str()?);
        match notice["event"].as_str()? {
            "member_added" => Some(MembershipStep::Joined(user)),
            "member_removed" | "member_left" => Some(MembershipStep::Left(user)),
            _ => None,
        }
    }
}

impl From<&ReceivedMessage> for HistoryMessage {
    fn from(seen: &ReceivedMessage) -> HistoryMessage {
        HistoryMessage {
            seq: seen.seq,
            sender: seen.sender.as_str().to_owned(),
            message_id: seen.message_id.clone(),
            content: seen.content.clone(),
            system: !seen.is_said(),
        }
    }
}

/// The device's view of a conversation, kept across disconnects. It restarts when the user rejoins:
/// the messages in between are not visible.
#[derive(Clone, Debug)]
pub struct View {
    owner: UserName,
    first: u64,
    messages: Vec<ReceivedMessage>,
    left: bool,
}

impl View {
    pub fn new(owner: UserName) -> View {
        View { owner, first: 1, messages: Vec::new(), left: false }
    }

    /// The last seq of the view; `first` - 1 while it is empty.
    pub fn end(&self) -> u64 {
        self.first - 1 + self.messages.len() as u64
    }

    pub fn first(&self) -> u64 {
        self.first
    }

    pub fn messages(&self) -> &[ReceivedMessage] {
        &self.messages
    }

    /// Returns whether the owner has left, as far as the device knows.
    pub fn left(&self) -> bool {
        self.left
    }

    pub fn leave(&mut self) {
        self.left = true;
    }

    /// Returns whether this is the notice that the owner joined. A view starts with it.
    pub fn begins_with(&self, message: &ReceivedMessage) -> bool {
        message.step() == Some(MembershipStep::Joined(self.owner.clone()))
    }

    /// Returns whether this is the notice that the owner left. Messages still missing then stay
    /// invisible.
    pub fn ends_with(&self, message: &ReceivedMessage) -> bool {
        message.step() == Some(MembershipStep::Left(self.owner.clone()))
    }

    /// Appends the next message, or checks that a known one is unchanged. Fails on a message above
    /// a gap, unless it is the owner's join or leave notice.
    pub fn take(&mut self, message: &ReceivedMessage) -> Result<(), Trouble> {
        let known = message.seq.checked_sub(self.first).and_then(|at| self.messages.get(at as usize));
        if let Some(known) = known {
            return if known == message { Ok(()) } else { Err(Trouble::Altered { seq: message.seq }) };
        }
        if message.seq < self.first {
            return Ok(());
        }
        if self.begins_with(message) {
            *self =
                View { first: message.seq, messages: vec![message.clone()], ..View::new(self.owner.clone()) };
            return Ok(());
        }
        if self.left {
            return Ok(());
        }
        self.left = self.ends_with(message);
        if message.seq == self.end() + 1 {
            self.messages.push(message.clone());
        } else if !self.left {
            return Err(Trouble::Gap { after: self.end(), then: message.seq });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(seq: u64) -> ReceivedMessage {
        let content_type = "text".to_owned();
        let message_id = format!("m{seq}");
        ReceivedMessage {
            seq,
            sender: UserName::new("bob"),
            content: message_id.clone(),
            message_id,
            content_type,
        }
    }

    fn notice(seq: u64, event: &str, user: &str) -> ReceivedMessage {
        let content = format!(r#"{{"event":"{event}","by":"bob","user_id":"{user}"}}"#);
        ReceivedMessage { content, content_type: "system".to_owned(), ..said(seq) }
    }

    fn view(messages: &[ReceivedMessage]) -> View {
        let mut view = View::new(UserName::new("alice"));
        messages.iter().for_each(|message| view.take(message).unwrap());
        view
    }

    #[test]
    fn view_accepts_only_the_next_message() {
        let mut view = view(&[said(1), said(2)]);
        assert_eq!(view.take(&said(4)), Err(Trouble::Gap { after: 2, then: 4 }));
        assert_eq!(view.take(&said(2)), Ok(()));
        assert_eq!(view.end(), 2);
    }

    #[test]
    fn view_detects_a_changed_message() {
        let mut view = view(&[said(1), said(2)]);
        let altered = ReceivedMessage { content: "other".to_owned(), ..said(2) };
        assert_eq!(view.take(&altered), Err(Trouble::Altered { seq: 2 }));
    }

    #[test]
    fn view_of_a_new_member_starts_with_the_join_notice() {
        let mut view = view(&[notice(7, "member_added", "alice"), said(8)]);
        assert_eq!((view.first(), view.end()), (7, 8));
        view.take(&notice(9, "member_removed", "alice")).unwrap();
        assert!(view.left());
        view.take(&said(10)).unwrap();
        assert_eq!(view.end(), 9, "a message after the removal is not visible");
        view.take(&notice(12, "member_added", "alice")).unwrap();
        assert_eq!((view.first(), view.end(), view.left()), (12, 12, false));
    }

    #[test]
    fn removal_ends_a_view_that_has_a_gap() {
        let mut view = view(&[said(1), said(2)]);
        view.take(&notice(5, "member_removed", "alice")).unwrap();
        assert_eq!((view.end(), view.left()), (2, true));
    }

    #[test]
    fn notices_about_others_keep_the_membership() {
        let view = view(&[said(1), notice(2, "member_added", "carol"), notice(3, "member_left", "carol")]);
        assert_eq!((view.first(), view.end(), view.left()), (1, 3, false));
    }
}
