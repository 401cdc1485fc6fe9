//! Recovery at startup: replays the log onto the tables.
//!
//! Replaying an event whose effect the tables already contain changes nothing. So recovery is
//! correct after a checkpoint that was interrupted at any step.

use std::sync::Arc;

use bluetick_core::members::MembershipChange;
use bluetick_core::{ContentType, ConversationId, Seq};
use bytes::Bytes;
use thiserror::Error;

use crate::codec::chunk::{Fingerprint, Fingerprinter};
use crate::codec::event::{self, LogEvent, MembershipRef};
use crate::codec::record::Record;
use crate::codec::{DecodeError, Reader};
use crate::log::{self, LogError, LogFrame, ScanEnd, StoreTag};
use crate::memory::{
    ConversationState, Generation, Profiles, ResidentConversation, ResidentConversations, StaleMembers,
    TailMessage, Users,
};
use crate::tables::{Tables, TablesError};

#[derive(Debug, Error)]
pub enum RecoveryError {
    #[error(transparent)]
    Log(#[from] LogError),
    #[error(transparent)]
    Tables(#[from] TablesError),
    #[error("batch {batch} of the log: {error}")]
    Event { batch: u64, error: DecodeError },
    #[error(
        "batch {batch} of the log puts a message at seq {found} of {conversation}, where {expected} comes next"
    )]
    OutOfPlace { batch: u64, conversation: String, found: Seq, expected: Seq },
    #[error("batch {batch} of the log names {conversation}, which does not exist")]
    NoSuchConversation { batch: u64, conversation: String },
}

pub struct Recovery<'a> {
    pub tables: &'a Tables,
    pub residents: &'a ResidentConversations,
    pub users: &'a Users,
    pub profiles: &'a Profiles,
    pub fingerprinter: Fingerprinter,
    pub generation: &'a mut Generation,
}

impl Recovery<'_> {
    pub fn run(&mut self, directory: &std::path::Path, tag: StoreTag) -> Result<ScanEnd, RecoveryError> {
        let checkpoint = self.tables.current()?.checkpoint()?;
        self.generation.through = checkpoint;
        log::scan(directory, tag, checkpoint, |frame| self.replay(frame))
    }

    fn replay(&mut self, frame: LogFrame<'_>) -> Result<(), RecoveryError> {
        let batch = frame.number.0;
        // One copy per batch; the records in memory share it.
        let payload = Bytes::copy_from_slice(frame.payload);
        let mut reader = Reader(&payload);
        let in_batch = |error| RecoveryError::Event { batch, error };
        let mut events = 0;
        // A membership change takes effect with its notice. If the tables contain the notice, they
        // also contain the change and what its members did since, so the change is skipped.
        let mut announced: Option<(ConversationId, MembershipChange)> = None;
        while let Some(event) = event::next_event(&mut reader).map_err(in_batch)? {
            events += 1;
            match event {
                LogEvent::Message { conversation, seq, record } => {
                    let change = announced.take();
                    let resident = self.resident(batch, conversation)?;
                    let mut state = resident.state();
                    self.list(&resident, &mut state);
                    let decoded = Record::decode(record).map_err(in_batch)?;
                    self.generation.replayed(decoded.received_at);
                    let expected = state.head().next();
                    if seq < expected {
                        continue;
                    }
                    if seq > expected || state.conversation.is_none() {
                        let conversation = conversation.to_string();
                        return Err(RecoveryError::OutOfPlace { batch, conversation, found: seq, expected });
                    }
                    if let Some((of, change)) = change {
                        if of != conversation {
                            return Err(in_batch(DecodeError::Malformed("a change without its notice")));
                        }
                        state.change_membership(&change);
                        if let MembershipChange::Left { user, .. } = &change {
                            self.generation.changed_for(user, &resident, &mut state);
                        }
                        self.generation.changed(&resident, &mut state);
                    }
                    let notice = decoded.content_type == ContentType::System;
                    let fingerprint = match notice {
                        true => Fingerprint::NONE,
                        false => self.fingerprinter.of(decoded.sender, &decoded.message_id),
                    };
                    let message = TailMessage { record: payload.slice_ref(record), fingerprint };
                    state.push(seq, message, decoded.received_at);
                    if !notice {
                        state.update_member_state(decoded.sender, |member_state| {
                            member_state.reply(seq);
                        });
                    }
                }
                LogEvent::Created { conversation, members } => {
                    let resident = self.resident(batch, conversation.id)?;
                    let mut state = resident.state();
                    if state.conversation.is_none() {
                        state.create(conversation, Arc::new(members));
                    }
                    self.list(&resident, &mut state);
                }
                LogEvent::Membership { conversation, change } => announced = Some((conversation, change)),
                LogEvent::ReadStateChanged { membership, member_state } => {
                    self.update_member_state(batch, &membership, |now| {
                        now.advance(&member_state);
                    })?;
                }
                LogEvent::PreferencesChanged { membership, preferences } => {
                    self.update_member_state(batch, &membership, |now| now.preferences = preferences)?;
                }
                LogEvent::Profile { user, profile } => {
                    self.generation.profiles.push(user.clone());
                    self.profiles.put(user, profile);
                }
                LogEvent::User(user) => {
                    self.generation.users.push(user.id.clone());
                    self.users.put(user);
                }
            }
        }
        if events != frame.events {
            return Err(in_batch(DecodeError::Malformed("the number of events")));
        }
        self.generation.log_bytes += frame.length_on_disk() as u64;
        self.generation.through = frame.number;
        Ok(())
    }

    /// Adds the conversation to the generation and marks the rows by user of all members as stale.
    /// The checkpoint may not have written them before the crash.
    fn list(&mut self, resident: &Arc<ResidentConversation>, state: &mut ConversationState) {
        self.generation.changed(resident, state);
        state.stale = StaleMembers::AllMembers;
    }

    /// Applies `change` to a member's read state. The tables may be ahead of the log: the user may
    /// have left, or joined again. In both cases the replayed change no longer applies and is
    /// skipped.
    fn update_member_state(
        &mut self,
        batch: u64,
        membership: &MembershipRef,
        change: impl FnOnce(&mut bluetick_core::MemberState),
    ) -> Result<(), RecoveryError> {
        let resident = self.resident(batch, membership.conversation)?;
        let mut state = resident.state();
        if state.conversation.is_none() {
            let conversation = membership.conversation.to_string();
            return Err(RecoveryError::NoSuchConversation { batch, conversation });
        }
        if state
            .member(&membership.user)
            .is_some_and(|(member, _)| member.joined_seq == membership.joined_seq)
        {
            state.update_member_state(membership.user.as_str(), change);
        }
        self.list(&resident, &mut state);
        Ok(())
    }

    fn resident(&self, batch: u64, id: ConversationId) -> Result<Arc<ResidentConversation>, RecoveryError> {
        let mut failure = None;
        let resident = self.residents.get_or_load(id, || {
            load(self.tables, id).map(|state| state.unwrap_or_else(unread)).map_err(|error| {
                let text = error.to_string();
                failure = Some(error);
                bluetick_core::StoreError::Failed(text.into())
            })
        });
        match (resident, failure) {
            (Ok(resident), _) => Ok(resident),
            (Err(_), Some(error)) => Err(error.into()),
            (Err(_), None) => {
                Err(RecoveryError::Event { batch, error: DecodeError::Malformed("a conversation") })
            }
        }
    }
}

/// Returns the state of a conversation that the tables do not contain. The first write loads its
/// message ids, as for all others.
fn unread() -> ConversationState {
    let mut resident = ConversationState::absent();
    resident.ids = None;
    resident
}

/// Returns whether the tables contain anything of the conversation, even if its row is lost.
pub fn exists(tables: &Tables, id: ConversationId) -> Result<bool, TablesError> {
    let tables = tables.current()?;
    let snapshot = tables.snapshot()?;
    Ok(snapshot.has_conversation(id)? || snapshot.is_orphaned(id)?)
}

/// Loads the conversation state from the tables. Returns `None` if they do not contain the
/// conversation, and an error if only its row is lost.
pub fn load(tables: &Tables, id: ConversationId) -> Result<Option<ConversationState>, TablesError> {
    let tables = tables.current()?;
    let snapshot = tables.snapshot()?;
    match snapshot.conversation(id)? {
        Some(stored) => {
            let (members, member_states) = snapshot.members(id)?;
            Ok(Some(ConversationState::stored(stored, Arc::new(members), member_states)))
        }
        None if snapshot.is_orphaned(id)? => Err(TablesError::Orphaned { id }),
        None => Ok(None),
    }
}
