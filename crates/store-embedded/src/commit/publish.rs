//! Makes a durable batch visible to readers, and collects the listener's events and the answers.

use std::ops::Range;
use std::sync::Arc;

use bluetick_core::decide::{self, ChangeWithNotice};
use bluetick_core::members::MembershipChange;
use bluetick_core::ports::{
    Appended, Committed, CommittedChange, OpenedConversation, Origin, ReadStateMoved, SetPreferences,
};
use bluetick_core::{
    ConversationId, ConversationWithMembers, MemberState, Preferences, Profile, ReadState, Refusal,
    StoreError, UserId,
};
use bytes::Bytes;

use super::WritableConversation;
use super::batch::{AppendCommand, PlannedEffect, PlannedMessage, ReceiptCommand, ReplySender, answer};
use crate::codec::chunk::Fingerprint;
use crate::memory::{
    ConversationState, Generation, NoticesAbove, Profiles, ResidentConversation, TailMessage, Users,
};

pub struct Publisher<'a> {
    pub generation: &'a mut Generation,
    pub users: &'a Users,
    pub profiles: &'a Profiles,
    /// The batch as written to the log. The records of its messages are slices of it.
    pub bytes: Bytes,
    pub listens: bool,
    pub committed: Vec<Committed>,
    pub changes: Vec<CommittedChange>,
    pub answers: Vec<PendingAnswer>,
}

/// An answer to send after the listener was notified. Most answers are about messages, so larger
/// variants are boxed.
pub enum PendingAnswer {
    Appended(Appended, ReplySender<Appended>),
    Opened(Box<OpenedConversation>, ReplySender<OpenedConversation>),
    Changed(Box<Result<ConversationWithMembers, StoreError>>, ReplySender<ConversationWithMembers>),
    ReadStateChanged(ReadState, ReplySender<ReadState>),
    Profile(Profile, ReplySender<Profile>),
    Done(ReplySender<()>),
}

impl PendingAnswer {
    pub fn send(self) {
        match self {
            PendingAnswer::Appended(appended, reply) => answer(reply, Ok(appended)),
            PendingAnswer::Opened(opened, reply) => answer(reply, Ok(*opened)),
            PendingAnswer::Changed(view, reply) => answer(reply, *view),
            PendingAnswer::ReadStateChanged(read_state, reply) => answer(reply, Ok(read_state)),
            PendingAnswer::Profile(profile, reply) => answer(reply, Ok(profile)),
            PendingAnswer::Done(reply) => answer(reply, Ok(())),
        }
    }
}

impl Publisher<'_> {
    pub fn planned(&mut self, planned: PlannedEffect) {
        match planned {
            PlannedEffect::Message(planned) => self.message(planned),
            PlannedEffect::Receipt { command, member_state } => self.apply_receipt(*command, &member_state),
            PlannedEffect::Echo { appended, reply } => {
                self.answers.push(PendingAnswer::Appended(appended, reply))
            }
            PlannedEffect::Created { resident, initial, notice, reply } => {
                self.created(&resident, *initial, notice, reply);
            }
            PlannedEffect::Members { resident, changes, reply } => self.members(&resident, changes, reply),
            PlannedEffect::User { user, reply } => {
                self.generation.users.push(user.id.clone());
                self.users.put(user);
                self.answers.push(PendingAnswer::Done(reply));
            }
            PlannedEffect::PreferencesChanged { resident, prefer, preferences, reply } => {
                self.preferences_changed(&resident, prefer, preferences, reply);
            }
            PlannedEffect::Profile { user, profile, revokes, reply } => {
                self.generation.profiles.push(user.clone());
                if revokes {
                    let revocations = profile.revocations.clone();
                    self.changes.push(CommittedChange::Revoked { user: user.clone(), revocations });
                }
                self.profiles.put(user, profile.clone());
                self.answers.push(PendingAnswer::Profile(profile, reply));
            }
        }
    }

    fn message(&mut self, planned: PlannedMessage) {
        let PlannedMessage { command, seq, member_index, record } = planned;
        let AppendCommand { resident: WritableConversation(resident), append, fingerprint, reply, .. } =
            command;
        let received_at = append.received_at;
        let mut state = resident.state();
        state.push(seq, TailMessage { record: self.bytes.slice(record), fingerprint }, received_at);
        let mut news = false;
        let before =
            state.update_member_state_at(member_index, |member_state| news = member_state.reply(seq));
        self.generation.changed(&resident, &mut state);
        if self.listens {
            let members = Arc::clone(&state.members);
            if let Some(before) = before.filter(|_| news) {
                self.changes.extend(moved(resident.id, &state, &append.sender, &before, None));
            }
            drop(state);
            let origin = append.origin;
            let message = Arc::new(decide::place(append, &members, seq));
            self.committed.push(Committed { message, members, departed: None, origin, is_stored_here: true });
        }
        self.answers.push(PendingAnswer::Appended(Appended { seq, received_at, duplicate: false }, reply));
    }

    fn apply_receipt(&mut self, command: ReceiptCommand, member_state: &MemberState) {
        let ReceiptCommand { resident, receipt, reply } = command;
        let mut state = resident.state();
        let before = state.update_member_state(receipt.user.as_str(), |now| {
            now.advance(member_state);
        });
        if let Some(before) = before {
            self.generation.changed_for(&receipt.user, &resident, &mut state);
            if self.listens {
                self.changes.extend(moved(resident.id, &state, &receipt.user, &before, receipt.origin));
            }
        }
        // Falls back to the planned read state if the user is no longer a member.
        let own =
            state.member(&receipt.user).map_or(member_state.own(), |(_, member_state)| member_state.own());
        drop(state);
        self.answers.push(PendingAnswer::ReadStateChanged(own, reply));
    }

    fn created(
        &mut self,
        resident: &Arc<ResidentConversation>,
        initial: decide::InitialState,
        notice: Option<Range<usize>>,
        reply: ReplySender<OpenedConversation>,
    ) {
        let mut state = resident.state();
        state.create(initial.conversation, Arc::new(initial.members));
        if let (Some(message), Some(record)) = (initial.notice, notice) {
            state.push(message.seq, self.notice(record), message.received_at);
            self.committed.push(Committed {
                message: Arc::new(message),
                members: Arc::clone(&state.members),
                departed: None,
                origin: None,
                is_stored_here: true,
            });
        }
        self.generation.changed(resident, &mut state);
        let listed = state.members.iter().filter(|member| state.is_listed_for(&member.user));
        self.changes.extend(listed.map(|member| joined(resident.id, &member.user)));
        let view = state.view().expect("`create` above stored the conversation");
        self.answers.push(PendingAnswer::Opened(Box::new(OpenedConversation { view, created: true }), reply));
    }

    fn members(
        &mut self,
        resident: &Arc<ResidentConversation>,
        changes: Vec<(ChangeWithNotice, Range<usize>)>,
        reply: ReplySender<ConversationWithMembers>,
    ) {
        let mut state = resident.state();
        // Apply all changes first, so that all events share one list of members.
        for ((change, _), _) in &changes {
            state.change_membership(change);
            if let MembershipChange::Left { user, .. } = change {
                self.generation.changed_for(user, resident, &mut state);
            }
        }
        self.generation.changed(resident, &mut state);
        for ((change, message), record) in changes {
            state.push(message.seq, self.notice(record), message.received_at);
            let departed = match change {
                MembershipChange::Left { user, .. } => Some(user),
                MembershipChange::Joined(member) => {
                    self.changes.push(joined(resident.id, &member.user));
                    None
                }
            };
            self.committed.push(Committed {
                message: Arc::new(message),
                members: Arc::clone(&state.members),
                departed,
                origin: None,
                is_stored_here: true,
            });
        }
        let view = state.view().ok_or(Refusal::NotAMember.into());
        self.answers.push(PendingAnswer::Changed(Box::new(view), reply));
    }

    fn preferences_changed(
        &mut self,
        resident: &Arc<ResidentConversation>,
        prefer: SetPreferences,
        preferences: Preferences,
        reply: ReplySender<()>,
    ) {
        let mut state = resident.state();
        let changed = state
            .update_member_state(prefer.user.as_str(), |member_state| member_state.preferences = preferences);
        if changed.is_some() {
            self.generation.changed_for(&prefer.user, resident, &mut state);
        }
        drop(state);
        self.changes
            .push(CommittedChange::PreferencesChanged { conversation: resident.id, user: prefer.user });
        self.answers.push(PendingAnswer::Done(reply));
    }

    fn notice(&self, record: Range<usize>) -> TailMessage {
        TailMessage { record: self.bytes.slice(record), fingerprint: Fingerprint::NONE }
    }
}

fn joined(conversation: ConversationId, user: &UserId) -> CommittedChange {
    CommittedChange::Joined { conversation, user: user.clone() }
}

/// Returns the event that announces a changed read state. `None` if neither the member's own
/// read state nor the ones shown to others moved.
fn moved(
    conversation: ConversationId,
    state: &ConversationState,
    user: &UserId,
    before: &MemberState,
    origin: Option<Origin>,
) -> Option<CommittedChange> {
    let (member, now) = state.member(user)?;
    if now.own() == before.own() && now.shown() == before.shown() {
        return None;
    }
    let unread = match state.notices_above(conversation, now.read_since(member.joined_seq)) {
        NoticesAbove::Known(notices) => Some(now.unread(member.joined_seq, state.head(), notices)),
        NoticesAbove::UpTo(_) => None,
    };
    Some(CommittedChange::ReadState(ReadStateMoved {
        conversation,
        user: user.clone(),
        members: Arc::clone(&state.members),
        own: now.own(),
        shown: (now.shown() != before.shown()).then(|| now.shown()),
        unread,
        origin,
    }))
}
