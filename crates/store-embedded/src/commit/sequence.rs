//! Sequencing: checks each command against the current state, then adds its events to the batch or
//! refuses it.

use std::sync::Arc;

use bluetick_core::decide;
use bluetick_core::ports::{
    AddMembers, Appended, NewConversation, OpenedConversation, RemoveMember, SetPreferences, UserUpdate,
};
use bluetick_core::{
    Cause, ContentType, ConversationWithMembers, Message, Profile, ProfileUpdate, Refusal, Seq, Skeleton,
    StoreError, User, UserId,
};

use super::batch::{
    AppendCommand, Batch, CommandSubject, CommitCommand, Control, PlannedEffect, PlannedMessage,
    ReceiptCommand, answer, names_of,
};
use super::{ReplySender, WritableConversation};
use crate::codec::chunk::{Fingerprint, Fingerprinter};
use crate::codec::record::Record;
use crate::codec::{event, record};
use crate::dedupe::DedupeClock;
use crate::load::seqs_in;
use crate::memory::{ConversationState, Profiles, ResidentConversation, Users};
use crate::tables::{StoredRecord, Tables};

pub struct Sequencer {
    pub tables: Arc<Tables>,
    pub users: Arc<Users>,
    pub profiles: Arc<Profiles>,
    pub dedupe: Arc<DedupeClock>,
    pub fingerprinter: Fingerprinter,
}

impl Sequencer {
    pub fn sequence(&self, batch: &mut Batch, command: CommitCommand) {
        match command {
            CommitCommand::Append(command) => self.append(batch, command),
            CommitCommand::Receipt(command) => apply_receipt(batch, command),
            CommitCommand::Control(control) => match *control {
                Control::Open { resident, new, reply } => self.open(batch, resident, &new, reply),
                Control::Add { resident, add, reply } => self.add(batch, resident, &add, reply),
                Control::Remove { resident, remove, reply } => self.remove(batch, resident, &remove, reply),
                Control::CreateUser { user, reply } => self.create_user(batch, user, reply),
                Control::ReserveName { user, reply } => self.reserve_name(batch, user, reply),
                Control::UpdateUser { update, reply } => self.update_user(batch, update, reply),
                Control::SetPreferences { resident, prefer, reply } => {
                    set_preferences(batch, resident, prefer, reply)
                }
                Control::Profile { update, reply } => self.update_profile(batch, update, reply),
            },
        }
    }

    fn append(&self, batch: &mut Batch, command: AppendCommand) {
        let AppendCommand { resident: WritableConversation(resident), append, fingerprint, .. } = &command;
        let fingerprint = *fingerprint;
        let mut state = resident.state();
        let member_index =
            state.members.position(append.sender.as_str()).filter(|_| state.conversation.is_some());
        let Some(member_index) = member_index else {
            drop(state);
            return answer(command.reply, Err(Refusal::NotAMember.into()));
        };
        let ids = state.ids.as_ref().expect("AppendCommand holds a writable conversation");
        let mut candidates: Vec<Seq> = ids.candidates(fingerprint, state.reserved).collect();
        if let Some(searched) = &command.searched {
            match self.stored_since(batch, resident, &state, fingerprint, searched.through) {
                Ok(since) => candidates.extend(searched.seqs.iter().copied().chain(since)),
                Err(error) => {
                    drop(state);
                    return answer(command.reply, Err(error));
                }
            }
        }
        for seq in candidates {
            let outcome = match self.compare(batch, resident, &state, seq, append) {
                Ok(Comparison::Other) => continue,
                Ok(Comparison::Conflict) => Err(Refusal::MessageIdReused { first_seq: seq }.into()),
                Ok(Comparison::Same(appended)) => Ok(appended),
                Err(error) => Err(error),
            };
            let durable = seq <= state.head();
            drop(state);
            match outcome {
                Ok(appended) if !durable => {
                    batch.planned.push(PlannedEffect::Echo { appended, reply: command.reply });
                }
                outcome => answer(command.reply, outcome),
            }
            return;
        }
        let seq = state.reserved.next();
        state.reserved = seq;
        let ids = state.ids.get_or_insert_default();
        ids.age(self.dedupe.observe(append.received_at), self.dedupe.window_ms());
        ids.insert(fingerprint, seq);
        drop(state);
        let record = event::put_append(&mut batch.buffer.bytes, append, seq);
        batch.buffer.events += 1;
        batch.planned.push(PlannedEffect::Message(PlannedMessage { command, seq, member_index, record }));
    }

    /// Returns the seqs above `through` with this fingerprint, durable or in the batch. A resend
    /// thus finds messages stored while it was queued, for any dedupe window.
    fn stored_since(
        &self,
        batch: &Batch,
        resident: &ResidentConversation,
        state: &ConversationState,
        fingerprint: Fingerprint,
        through: Seq,
    ) -> Result<Vec<Seq>, StoreError> {
        let mut seqs: Vec<Seq> = state.tail_seqs(fingerprint, through).collect();
        seqs.extend(batch.planned_seqs(resident.id, fingerprint));
        if state.tail_first() > through.next() {
            // A checkpoint has moved some of them from memory to the tables.
            self.tables.current()?.snapshot()?.headers_backwards(resident.id, |first_seq, header| {
                seqs.extend(seqs_in(first_seq, &header, fingerprint, through, state.tail_first()));
                first_seq > through
            })?;
        }
        Ok(seqs)
    }

    /// Compares the message at `seq`, which has the same fingerprint, with the one being sent.
    fn compare(
        &self,
        batch: &Batch,
        resident: &ResidentConversation,
        state: &ConversationState,
        seq: Seq,
        append: &bluetick_core::ports::Append,
    ) -> Result<Comparison, StoreError> {
        if let Some(planned) = batch.planned_message(resident.id, seq) {
            let earlier = &planned.command.append;
            if earlier.sender != append.sender || earlier.message_id != append.message_id {
                return Ok(Comparison::Other);
            }
            if earlier.content != append.content || earlier.content_type != append.content_type {
                return Ok(Comparison::Conflict);
            }
            let received_at = earlier.received_at;
            return Ok(Comparison::Same(Appended { seq, received_at, duplicate: true }));
        }
        if let Some(record) = state.tail_record(seq) {
            return compare_record(&StoredRecord { record, cold: None }, seq, append, &self.fingerprinter);
        }
        let mut found = Comparison::Other;
        let mut failure = None;
        self.tables.current()?.snapshot()?.records(resident.id, seq..=seq, |seq, candidate| {
            match compare_record(&candidate, seq, append, &self.fingerprinter) {
                Ok(comparison) => found = comparison,
                Err(error) => failure = Some(error),
            }
            Ok(())
        })?;
        failure.map_or(Ok(found), Err)
    }

    fn open(
        &self,
        batch: &mut Batch,
        resident: Arc<ResidentConversation>,
        new: &NewConversation,
        reply: ReplySender<OpenedConversation>,
    ) {
        if let Some(view) = resident.state().view() {
            let opened = match view.members.contains(&new.created_by) {
                true => Ok(OpenedConversation { view, created: false }),
                false => Err(Refusal::NotAMember.into()),
            };
            return answer(reply, opened);
        }
        let initial = decide::initial_state(new);
        let bytes = &mut batch.buffer.bytes;
        event::put_created(bytes, &initial.conversation, &initial.members);
        let notice = initial.notice.as_ref().map(|notice| put_notice(bytes, notice));
        batch.buffer.events += 1 + u32::from(notice.is_some());
        batch.unsettled.insert(CommandSubject::Conversation(resident.id));
        batch.planned.push(PlannedEffect::Created { resident, initial: Box::new(initial), notice, reply });
    }

    fn add(
        &self,
        batch: &mut Batch,
        resident: Arc<ResidentConversation>,
        add: &AddMembers,
        reply: ReplySender<ConversationWithMembers>,
    ) {
        let (decided, view) = {
            let state = resident.state();
            (decide::add_members(add, &state.members, state.reserved), state.view())
        };
        match decided {
            Ok(changes) if changes.is_empty() => answer(reply, view.ok_or(Refusal::NotAMember.into())),
            Ok(changes) => self.change(batch, resident, changes, reply),
            Err(refusal) => answer(reply, Err(refusal.into())),
        }
    }

    fn remove(
        &self,
        batch: &mut Batch,
        resident: Arc<ResidentConversation>,
        remove: &RemoveMember,
        reply: ReplySender<ConversationWithMembers>,
    ) {
        let decided = {
            let state = resident.state();
            decide::remove_member(remove, &state.members, state.reserved)
        };
        match decided {
            Ok(change) => self.change(batch, resident, vec![change], reply),
            Err(refusal) => answer(reply, Err(refusal.into())),
        }
    }

    fn change(
        &self,
        batch: &mut Batch,
        resident: Arc<ResidentConversation>,
        changes: Vec<decide::ChangeWithNotice>,
        reply: ReplySender<ConversationWithMembers>,
    ) {
        let mut planned = Vec::with_capacity(changes.len());
        for (change, notice) in changes {
            event::put_membership(&mut batch.buffer.bytes, resident.id, &change);
            let record = put_notice(&mut batch.buffer.bytes, &notice);
            batch.buffer.events += 2;
            resident.state().reserved = notice.seq;
            planned.push(((change, notice), record));
        }
        batch.unsettled.insert(CommandSubject::Conversation(resident.id));
        batch.planned.push(PlannedEffect::Members { resident, changes: planned, reply });
    }

    fn stored_user(&self, id: &UserId) -> Result<Option<User>, StoreError> {
        match self.users.get(id) {
            Some(user) => Ok(Some(user)),
            None => Ok(self.tables.current()?.snapshot()?.user(id)?),
        }
    }

    fn create_user(&self, batch: &mut Batch, user: User, reply: ReplySender<()>) {
        match self.is_held(&user.id) {
            Ok(false) => put_user(batch, user, reply),
            Ok(true) => answer(reply, Err(Refusal::UserExists.into())),
            Err(error) => answer(reply, Err(error)),
        }
    }

    fn reserve_name(&self, batch: &mut Batch, user: User, reply: ReplySender<()>) {
        match self.stored_user(&user.id) {
            Ok(None) => put_user(batch, user, reply),
            Ok(Some(_)) => answer(reply, Ok(())),
            Err(error) => answer(reply, Err(error)),
        }
    }

    /// Returns whether a user has this id or one that looks like it.
    fn is_held(&self, id: &UserId) -> Result<bool, StoreError> {
        for name in Skeleton::all(id.as_str()) {
            // Memory first: a user is in the tables before it is removed from memory.
            if self.users.holds(&name) || self.tables.current()?.snapshot()?.holds(&name)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn update_user(&self, batch: &mut Batch, update: UserUpdate, reply: ReplySender<()>) {
        match self.stored_user(&update.id) {
            Ok(Some(mut user)) => {
                user.display_name = update.display_name.or(user.display_name);
                user.password_hash = update.password_hash.or(user.password_hash);
                put_user(batch, user, reply);
            }
            Ok(None) => answer(reply, Err(Refusal::NoSuchUser.into())),
            Err(error) => answer(reply, Err(error)),
        }
    }
}

impl Sequencer {
    fn update_profile(&self, batch: &mut Batch, update: ProfileUpdate, reply: ReplySender<Profile>) {
        let before = match self.stored_profile(&update.user) {
            Ok(before) => before,
            Err(error) => return answer(reply, Err(error)),
        };
        let profile = update.applied_to(before.clone());
        if profile == before {
            return answer(reply, Ok(profile));
        }
        event::put_profile(&mut batch.buffer.bytes, &update.user, &profile);
        batch.buffer.events += 1;
        batch.unsettled.insert(CommandSubject::Profile(update.user.clone()));
        let revokes = profile.revocations != before.revocations;
        batch.planned.push(PlannedEffect::Profile { user: update.user, profile, revokes, reply });
    }

    fn stored_profile(&self, user: &UserId) -> Result<Profile, StoreError> {
        match self.profiles.get(user) {
            Some(profile) => Ok(profile),
            None => Ok(self.tables.current()?.snapshot()?.profile(user)?.unwrap_or_default()),
        }
    }
}

/// Sequences a receipt. Clamps it to the durable head: a device cannot have received more.
///
/// Several receipts of one batch may move the same member's read state. They merge when the batch
/// becomes visible, because a read state only moves forward.
fn apply_receipt(batch: &mut Batch, command: Box<ReceiptCommand>) {
    let ReceiptCommand { resident, receipt, .. } = &*command;
    let (joined_seq, before, member_state) = {
        let state = resident.state();
        let Some((member, before)) = state.member(&receipt.user) else {
            drop(state);
            return answer(command.reply, Err(Refusal::NotAMember.into()));
        };
        let mut member_state = *before;
        member_state.apply_receipt(receipt.kind, receipt.seq, state.head());
        (member.joined_seq, *before, member_state)
    };
    if member_state == before {
        return answer(command.reply, Ok(before.own()));
    }
    let membership =
        event::MembershipRef { conversation: resident.id, user: receipt.user.clone(), joined_seq };
    event::put_read_state(&mut batch.buffer.bytes, &membership, &member_state);
    batch.buffer.events += 1;
    batch.planned.push(PlannedEffect::Receipt { command, member_state });
}

fn set_preferences(
    batch: &mut Batch,
    resident: Arc<ResidentConversation>,
    prefer: SetPreferences,
    reply: ReplySender<()>,
) {
    let found =
        resident.state().member(&prefer.user).map(|(member, now)| (member.joined_seq, now.preferences));
    let Some((joined_seq, before)) = found else { return answer(reply, Err(Refusal::NotAMember.into())) };
    let preferences = prefer.change.applied_to(before);
    if preferences == before {
        return answer(reply, Ok(()));
    }
    let membership =
        event::MembershipRef { conversation: resident.id, user: prefer.user.clone(), joined_seq };
    event::put_preferences_changed(&mut batch.buffer.bytes, &membership, preferences);
    batch.buffer.events += 1;
    // Hidden read receipts must take effect before the next receipt is sequenced.
    batch.unsettled.insert(CommandSubject::Conversation(resident.id));
    batch.planned.push(PlannedEffect::PreferencesChanged { resident, prefer, preferences, reply });
}

enum Comparison {
    /// A different message; the fingerprints collided.
    Other,
    Same(Appended),
    /// The same message id with different content.
    Conflict,
}

/// Compares a stored message with the one being sent. Compares archived content by its hash, so the
/// committer never waits for the archive.
fn compare_record(
    candidate: &StoredRecord<'_>,
    seq: Seq,
    append: &bluetick_core::ports::Append,
    hasher: &Fingerprinter,
) -> Result<Comparison, StoreError> {
    let stored = Record::decode(candidate.record).map_err(|error| StoreError::Damaged(Cause::of(error)))?;
    if stored.sender != append.sender.as_str() || stored.message_id != append.message_id {
        return Ok(Comparison::Other);
    }
    let same_content = match candidate.cold {
        Some(cold) => hasher.of_content(&append.content) == cold.content_hash,
        None => stored.content == &*append.content,
    };
    // A resend of an erased message does not restore its content.
    let erased = stored.content_type == ContentType::Erased;
    if !erased && (!same_content || stored.content_type != append.content_type) {
        return Ok(Comparison::Conflict);
    }
    Ok(Comparison::Same(Appended { seq, received_at: stored.received_at, duplicate: true }))
}

fn put_user(batch: &mut Batch, user: User, reply: ReplySender<()>) {
    event::put_user(&mut batch.buffer.bytes, &user);
    batch.buffer.events += 1;
    batch.unsettled.extend(names_of(&user.id));
    batch.planned.push(PlannedEffect::User { user, reply });
}

fn put_notice(bytes: &mut Vec<u8>, notice: &Message) -> std::ops::Range<usize> {
    let mut body = Vec::new();
    record::encode(
        &mut body,
        notice.received_at,
        notice.timestamp,
        notice.sender.as_str(),
        &notice.message_id,
        &notice.content_type,
        &notice.content,
    );
    event::put_message(bytes, notice.conversation, notice.seq, &body)
}
