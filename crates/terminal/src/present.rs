//! Converts the client's state to the model: names, texts and dividers. All user text is sanitised
//! for the terminal here.

use std::sync::Arc;

use bluetick_client::wire::bodies::{Message, Notice};
use bluetick_client::{ConversationView, Row, SendState, Tick, tick_of};
use bluetick_types::{ConversationKind, Seq, Timestamp, UserId};

use crate::calendar::Calendar;
use crate::model::{ChatPane, Content, InboxLine, Item, ItemKey};
use crate::text::{safe, safe_line};

/// The context for converting state to text: this user, display names, time zone and current time.
pub struct Words<'a> {
    pub user: &'a UserId,
    pub name: &'a dyn Fn(&UserId) -> String,
    pub calendar: &'a Calendar,
    pub now: Timestamp,
}

impl Words<'_> {
    fn name_of(&self, user: &UserId) -> String {
        if user == self.user { "You".to_owned() } else { safe_line(&(self.name)(user)) }
    }

    fn name_of_text(&self, user: &str) -> String {
        user.parse().map_or_else(|_| safe_line(user), |user| self.name_of(&user))
    }

    /// The title of a conversation: the group's title or the peer's name.
    pub fn title(&self, row: &Row) -> String {
        match (&row.entry.title, &row.entry.peer) {
            (Some(title), _) => safe_line(title),
            (None, Some(peer)) => safe_line(&(self.name)(peer)),
            (None, None) => "a conversation".to_owned(),
        }
    }

    /// The text of a group event.
    pub fn notice(&self, notice: &Notice) -> String {
        match notice {
            Notice::GroupCreated { by, title } => {
                format!("{} created the group {}", self.name_of_text(by), safe_line(title))
            }
            Notice::MemberAdded { by, user_id } => {
                format!("{} added {}", self.name_of_text(by), lower_you(&self.name_of_text(user_id)))
            }
            Notice::MemberRemoved { by, user_id } => {
                format!("{} removed {}", self.name_of_text(by), lower_you(&self.name_of_text(user_id)))
            }
            Notice::MemberLeft { user_id } => format!("{} left", self.name_of_text(user_id)),
            Notice::Other => "the group was changed".to_owned(),
        }
    }

    /// Converts an inbox row. `unsent` is the newest unsent message of this user and its tick; it
    /// replaces the preview.
    pub fn inbox_line(
        &self,
        row: &Row,
        online: bool,
        is_typing: bool,
        unsent: Option<(&str, Tick)>,
    ) -> InboxLine {
        let entry = &row.entry;
        let last = entry.last_message.as_ref().filter(|last| last.content_type != "void");
        let own = last.filter(|last| last.sender_id == *self.user && last.content_type != "system");
        let (preview, tick) = match (unsent, last) {
            (Some((text, tick)), _) => (safe_line(text), Some(tick)),
            (None, None) => (String::new(), None),
            (None, Some(last)) => {
                let text = match serde_notice(&last.content_type, &last.content) {
                    Some(notice) => self.notice(&notice),
                    None => {
                        let said = absence(&last.content_type)
                            .map_or_else(|| safe_line(&last.content), str::to_owned);
                        let is_by_another = entry.kind() == ConversationKind::Group && own.is_none();
                        if is_by_another {
                            format!("{}: {said}", self.name_of(&last.sender_id))
                        } else {
                            said
                        }
                    }
                };
                (text, own.map(|own| tick_of(own.seq, entry.peer_status)))
            }
        };
        InboxLine {
            id: entry.conversation_id,
            name: self.title(row),
            preview,
            tick,
            at: self.calendar.short(entry.last_at, self.now),
            unread: entry.unread,
            pinned: entry.pinned,
            muted: entry.muted,
            archived: entry.archived,
            online,
            is_typing,
        }
    }

    /// The line below a conversation's name: typing, membership, presence.
    pub fn about(&self, view: &ConversationView) -> String {
        if !view.typists.is_empty() {
            let group = view.row.as_ref().is_some_and(|row| row.entry.kind() == ConversationKind::Group);
            return match view.typists.as_slice() {
                [_] if !group => "typing…".to_owned(),
                [one] => format!("{} is typing…", self.name_of(one)),
                [one, other] => format!("{} and {} are typing…", self.name_of(one), self.name_of(other)),
                many => format!("{} people are typing…", many.len()),
            };
        }
        let Some(row) = &view.row else { return "you are no longer a member of this chat".to_owned() };
        if row.entry.kind() == ConversationKind::Group {
            return match row.entry.member_count {
                1 => "1 member".to_owned(),
                count => format!("{count} members"),
            };
        }
        match &view.presence {
            Some(presence) if presence.online => "online".to_owned(),
            Some(presence) => {
                presence.last_seen_at.map(|at| self.calendar.last_seen(at, self.now)).unwrap_or_default()
            }
            None => String::new(),
        }
    }

    /// Converts all messages and outbox items of a conversation. `unread_after` is the read
    /// position when it was opened.
    pub fn items(&self, view: &ConversationView, unread_after: Seq) -> Vec<Item> {
        let is_group = view.row.as_ref().is_some_and(|row| row.entry.kind() == ConversationKind::Group);
        let mut items: Vec<Item> = Vec::with_capacity(view.messages.len() + view.waiting.len());
        let (mut day, mut sender, mut divided) = (None, None, false);
        for message in view.messages.iter().filter(|message| !message.is_void()) {
            let new_day = self.new_day(&mut day, message.received_at);
            let is_others = message.sender_id != *self.user && message.is_said();
            let unread_begins = !divided && is_others && message.seq > unread_after;
            divided |= unread_begins;
            let same = sender.as_ref() == Some(&message.sender_id) && new_day.is_none() && !unread_begins;
            items.push(Item {
                key: ItemKey::Stored(message.seq),
                day: new_day,
                unread_begins,
                shows_name: is_group && !same,
                content: self.content(view, message),
                message_id: message.message_id.clone(),
                failed: false,
            });
            sender = message.is_said().then(|| message.sender_id.clone());
        }
        // Outbox items belong below the newest message, so show them only if it is loaded.
        for (item, state) in
            view.waiting.iter().filter(|_| view.window.reaches_head || view.messages.is_empty())
        {
            let problem = match state {
                SendState::Failed(failure) => Some(safe_line(&failure.message)),
                _ => None,
            };
            items.push(Item {
                key: ItemKey::Waiting(item.number),
                day: self.new_day(&mut day, item.timestamp),
                unread_begins: false,
                shows_name: false,
                failed: problem.is_some(),
                content: Content::Said {
                    who: "You".to_owned(),
                    own: true,
                    text: safe(&item.content),
                    is_absent: false,
                    at: self.calendar.time(item.timestamp),
                    tick: Some(Tick::from(state)),
                    problem,
                },
                message_id: item.message_id.clone(),
            });
        }
        items
    }

    /// The text of the day divider, if `moment` is on another day than the previous item.
    fn new_day(&self, day: &mut Option<i64>, moment: Timestamp) -> Option<String> {
        let number = self.calendar.day_number(moment);
        (day.replace(number) != Some(number)).then(|| self.calendar.day(moment, self.now))
    }

    fn content(&self, view: &ConversationView, message: &Arc<Message>) -> Content {
        if let Some(notice) = message.notice() {
            return Content::Notice(self.notice(&notice));
        }
        let absence = absence(&message.content_type);
        Content::Said {
            who: self.name_of(&message.sender_id),
            own: message.sender_id == *self.user,
            text: absence.map_or_else(|| safe(&message.content), str::to_owned),
            is_absent: absence.is_some(),
            at: self.calendar.time(message.received_at),
            tick: view.tick(message),
            problem: None,
        }
    }
}

fn lower_you(name: &str) -> String {
    if name == "You" { "you".to_owned() } else { name.to_owned() }
}

fn serde_notice(content_type: &str, content: &str) -> Option<Notice> {
    if content_type != "system" {
        return None;
    }
    Some(Notice::parse(content).unwrap_or(Notice::Other))
}

/// The text to show instead of missing content.
fn absence(content_type: &str) -> Option<&'static str> {
    match content_type {
        "erased" => Some("This message was deleted"),
        "lost" => Some("This message cannot be read at the moment"),
        _ => None,
    }
}

/// Replaces the items of a chat and counts the new ones below a scrolled view. Does not move the
/// view.
pub fn refresh(chat: &mut ChatPane, items: Vec<Item>) {
    let stored = |item: &Item| match item.key {
        ItemKey::Stored(seq) => Some(seq),
        ItemKey::Waiting(_) => None,
    };
    if chat.anchor.is_some()
        && let Some(newest) = chat.items.iter().rev().find_map(stored)
    {
        // Count the items, because not every seq is a message.
        chat.new_below += items.iter().rev().filter_map(stored).take_while(|seq| *seq > newest).count();
    }
    chat.items = items;
}

#[cfg(test)]
#[path = "present_tests.rs"]
mod tests;
