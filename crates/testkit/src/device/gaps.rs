//! Fetches missing messages page by page, while messages above the gap keep arriving.

use serde_json::Value;

use super::connection::{ConnectionEnd, DeviceConnection};
use super::{ReadState, ReceivedMessage, Trouble, View};
use crate::checker::ClientEvent;
use crate::names::ConversationName;

/// A range of missing messages that the device fetches over HTTP.
#[derive(Clone, Copy, Debug)]
pub(super) struct MissingRange {
    /// The last missing seq.
    pub until: u64,
    pub origin: GapOrigin,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum GapOrigin {
    /// A `backlog` frame announced them as skipped.
    Announced,
    /// A device without positions received a message above them. The server must have sent the
    /// pending ones itself.
    Passed,
    /// The inbox shows a higher head. The messages may also be in flight.
    Inbox,
}

impl DeviceConnection<'_> {
    /// Records a gap, or extends the existing one.
    pub fn open_gap(&mut self, conversation: &ConversationName, gap: MissingRange) {
        let noted = self.gaps.entry(conversation.clone()).or_insert(gap);
        if gap.until > noted.until {
            *noted = gap;
        }
    }

    /// Adds a message to the view, or holds it back while there is a gap below it.
    pub fn keep(
        &mut self,
        conversation: &ConversationName,
        message: ReceivedMessage,
    ) -> Result<(), ConnectionEnd> {
        let waits =
            self.gaps.contains_key(conversation) && !self.device.view_mut(conversation).begins_with(&message);
        if waits {
            self.ahead.entry(conversation.clone()).or_default().insert(message.seq, message);
            return Ok(());
        }
        self.take(conversation, &message)
    }

    fn take(
        &mut self,
        conversation: &ConversationName,
        message: &ReceivedMessage,
    ) -> Result<(), ConnectionEnd> {
        let view = self.device.view_mut(conversation);
        if view.begins_with(message) && message.seq > view.end() {
            // The user rejoined: earlier missing messages are not visible to it any more.
            self.gaps.retain(|name, gap| name != conversation || gap.until > message.seq);
            self.ahead.entry(conversation.clone()).or_default().retain(|seq, _| *seq > message.seq);
            self.device.record.happened.rejoined += 1;
        }
        let taken = self.device.view_mut(conversation).take(message);
        taken.map_err(|trouble| self.device.violation(Some(conversation), trouble).into())
    }

    /// Fetches one page of the first gap, if there is one.
    pub async fn fetch_some(&mut self) -> Result<(), ConnectionEnd> {
        let Some((conversation, gap)) = self.gaps.iter().next().map(|(name, gap)| (name.clone(), *gap))
        else {
            return Ok(());
        };
        let after = self.device.view_mut(&conversation).end();
        if after < gap.until {
            let limit = self.device.dice.between(1, 60);
            let path = format!("/v1/conversations/{conversation}/messages?after_seq={after}&limit={limit}");
            let Some(page) = self.ask(Some(&conversation), "GET", &path, None).await? else { return Ok(()) };
            self.take_page(&conversation, gap, &page)?;
        }
        let reached = self.device.view_mut(&conversation).end() >= gap.until;
        if reached { self.close_gap(&conversation) } else { Ok(()) }
    }

    fn take_page(
        &mut self,
        conversation: &ConversationName,
        gap: MissingRange,
        page: &Value,
    ) -> Result<(), ConnectionEnd> {
        self.device.record.happened.pages += 1;
        let misspoken = || Trouble::Misspoken(format!("a page: {page}"));
        let messages: Option<Vec<ReceivedMessage>> =
            page["messages"].as_array().and_then(|all| all.iter().map(ReceivedMessage::from_json).collect());
        let Some(messages) = messages else {
            return Err(self.device.violation(Some(conversation), misspoken()).into());
        };
        let wanted: Vec<ReceivedMessage> =
            messages.into_iter().filter(|message| message.seq <= gap.until).collect();
        if wanted.is_empty() {
            // The whole gap lies before the user rejoined. The server has pushed what is visible
            // now.
            if self.device.may_be_out(conversation) {
                self.device.drop_conversation(conversation);
                return self.close_gap(conversation);
            }
            return Err(self.device.violation(Some(conversation), misspoken()).into());
        }
        for message in &wanted {
            let own = message.sender == self.device.identity.user;
            self.device.record.happened.own_gaps += usize::from(own && gap.origin == GapOrigin::Passed);
            let strict = gap.origin == GapOrigin::Passed && self.device.habits.only_device;
            // The server does not push voids as pending; a reader may have just written it.
            let is_owed = !own && !message.is_void();
            if strict && is_owed && self.device.view_mut(conversation).end() < message.seq {
                let trouble = Trouble::NotPending { seq: message.seq };
                return Err(self.device.violation(Some(conversation), trouble).into());
            }
            self.take(conversation, message)?;
        }
        Ok(())
    }

    fn close_gap(&mut self, conversation: &ConversationName) -> Result<(), ConnectionEnd> {
        self.gaps.remove(conversation);
        for (_, message) in self.ahead.remove(conversation).unwrap_or_default() {
            self.take(conversation, &message)?;
        }
        Ok(())
    }

    /// Pages through the inbox and records gaps in conversations that `hello` did not list.
    pub async fn read_inbox(&mut self) -> Result<(), ConnectionEnd> {
        let mut cursor: Option<String> = None;
        loop {
            let limit = self.device.dice.between(3, 20);
            let from = cursor.map(|cursor| format!("&cursor={cursor}")).unwrap_or_default();
            let path = format!("/v1/conversations?limit={limit}{from}");
            let Some(page) = self.ask(None, "GET", &path, None).await? else { return Ok(()) };
            for entry in page["conversations"].as_array().into_iter().flatten() {
                let (Some(id), Some(last)) = (entry["conversation_id"].as_str(), entry["last_seq"].as_u64())
                else {
                    return Err(self.device.violation(None, Trouble::Misspoken(entry.to_string())).into());
                };
                let conversation = ConversationName::new(id);
                let view = self.device.view_mut(&conversation);
                if !self.listed.contains_key(&conversation) && view.end() < last {
                    self.open_gap(&conversation, MissingRange { until: last, origin: GapOrigin::Inbox });
                }
            }
            cursor = page["next_cursor"].as_str().map(str::to_owned);
            if cursor.is_none() {
                return Ok(());
            }
        }
    }

    /// Requests the read states of all members. They must not be below any read state received
    /// before.
    pub async fn ask_status(&mut self, conversation: &ConversationName) -> Result<(), ConnectionEnd> {
        let path = format!("/v1/conversations/{conversation}/status");
        let Some(answer) = self.ask(Some(conversation), "GET", &path, None).await? else { return Ok(()) };
        let members = answer["members"].as_array().cloned().unwrap_or_default();
        for member in &members {
            let (Some(user), Some(told)) = (member["user_id"].as_str(), ReadState::from_json(member)) else {
                let trouble = Trouble::Misspoken(answer.to_string());
                return Err(self.device.violation(Some(conversation), trouble).into());
            };
            let user = crate::names::UserName::new(user);
            let steady = self.device.is_steady(conversation, &user);
            let heard = self.device.record.hear_answer((conversation.clone(), user), told, steady);
            heard.map_err(|trouble| self.device.violation(Some(conversation), trouble))?;
        }
        Ok(())
    }

    /// Returns the conversations that the user is a member of, as far as the device knows.
    pub fn rooms(&self) -> Vec<ConversationName> {
        let inside = |(name, view): (&ConversationName, &View)| (!view.left()).then(|| name.clone());
        self.device.views.iter().filter_map(inside).collect()
    }

    pub fn log(&mut self, event: ClientEvent) {
        self.device.record.log.events.push(event);
    }
}
