//! Checks the log after the position of the tables: whether each event follows from the tables and
//! the events before it. Reports events that a start would refuse.

use std::collections::{HashMap, HashSet};

use bluetick_core::members::MembershipChange;
use bluetick_core::{ConversationId, Seq, UserId};

use super::finding::{Finding, Findings};
use crate::codec::event::{self, LogEvent};
use crate::codec::record::Record;
use crate::codec::{DecodeError, Reader};
use crate::log::LogFrame;
use crate::tables::Snapshot;

/// The state of the conversations and users that the log has mentioned so far.
pub struct Replay<'a> {
    snapshot: &'a Snapshot<'a>,
    /// The newest seq of each mentioned conversation. `None` if the conversation does not exist.
    heads: HashMap<ConversationId, Option<Seq>>,
    users: HashSet<UserId>,
    /// Members and owners of profiles, who need not have an account.
    others: HashSet<UserId>,
    findings: Vec<Finding>,
}

/// The conversations and users whose rows the next start rewrites.
#[derive(Default)]
pub struct ChangedByLog {
    pub heads: HashMap<ConversationId, Option<Seq>>,
    pub users: HashSet<UserId>,
    /// Members and owners of profiles, who need not have an account.
    pub others: HashSet<UserId>,
}

impl<'a> Replay<'a> {
    pub fn new(snapshot: &'a Snapshot<'a>) -> Replay<'a> {
        let (heads, users, others) = (HashMap::new(), HashSet::new(), HashSet::new());
        Replay { snapshot, heads, users, others, findings: Vec::new() }
    }

    pub fn end(self, findings: &mut Findings) -> ChangedByLog {
        self.findings.into_iter().for_each(|finding| findings.add(finding));
        ChangedByLog { heads: self.heads, users: self.users, others: self.others }
    }

    pub fn batch(&mut self, frame: &LogFrame<'_>, file: &str, offset: u64) {
        let number = frame.number.0;
        let mut reader = Reader(frame.payload);
        let mut events = 0;
        loop {
            match event::next_event(&mut reader) {
                Ok(None) => break,
                Ok(Some(event)) => {
                    events += 1;
                    if let Err((conversation, seq, what)) = self.event(event) {
                        let mut finding = Finding::file(file, offset, format!("batch {number}: {what}"));
                        finding = conversation.map_or(finding.clone(), |id| finding.of(id));
                        self.findings.push(seq.map_or(finding.clone(), |seq| finding.at(seq, seq)));
                    }
                }
                Err(error) => {
                    self.findings.push(Finding::file(file, offset, format!("batch {number}: {error}")));
                    return;
                }
            }
        }
        if events != frame.events {
            let what = format!("batch {number}: it has {events} events instead of {}", frame.events);
            self.findings.push(Finding::file(file, offset, what));
        }
    }

    fn event(&mut self, event: LogEvent<'_>) -> Result<(), (Option<ConversationId>, Option<Seq>, String)> {
        match event {
            LogEvent::Message { conversation, seq, record } => {
                let wrong = |what: String| (Some(conversation), Some(seq), what);
                let decoded =
                    Record::decode(record).map_err(|error: DecodeError| wrong(error.to_string()))?;
                decoded.sender_id().map_err(|error| wrong(error.to_string()))?;
                match self.head(conversation) {
                    None => Err(wrong("there is no such conversation".to_owned())),
                    // The tables already hold this message.
                    Some(head) if seq <= head => Ok(()),
                    Some(head) if seq == head.next() => {
                        self.heads.insert(conversation, Some(seq));
                        Ok(())
                    }
                    Some(head) => Err(wrong(format!("{} comes next in this conversation", head.next()))),
                }
            }
            LogEvent::Created { conversation, members } => {
                self.others.extend(members.iter().map(|member| member.user.clone()));
                let head = self.head(conversation.id).unwrap_or(Seq::ZERO);
                self.heads.insert(conversation.id, Some(head));
                Ok(())
            }
            LogEvent::Membership { conversation, change } => {
                if let MembershipChange::Joined(member) = change {
                    self.others.insert(member.user);
                }
                self.exists(conversation)
            }
            LogEvent::Profile { user, .. } => {
                self.others.insert(user);
                Ok(())
            }
            LogEvent::ReadStateChanged { membership, .. }
            | LogEvent::PreferencesChanged { membership, .. } => self.exists(membership.conversation),
            LogEvent::User(user) => {
                self.users.insert(user.id);
                Ok(())
            }
        }
    }

    fn exists(&mut self, id: ConversationId) -> Result<(), (Option<ConversationId>, Option<Seq>, String)> {
        match self.head(id) {
            Some(_) => Ok(()),
            None => Err((Some(id), None, "there is no such conversation".to_owned())),
        }
    }

    fn head(&mut self, id: ConversationId) -> Option<Seq> {
        let snapshot = self.snapshot;
        let read = || snapshot.conversation(id).ok().flatten().map(|stored| stored.conversation.head);
        *self.heads.entry(id).or_insert_with(read)
    }
}
