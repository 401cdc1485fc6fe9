//! The catch-up state of a session: the server sends its backlog while new messages arrive.
//!
//! Invariant: on one connection the seqs of a conversation increase one by one, also at the
//! transition from backlog to live. The only exception is a range that a `backlog` frame leaves to
//! the device to page. While the backlog of a conversation is being sent, the fan-out records the
//! newest seq. It also holds the acks of the session's own sends for their seqs. Once the backlog
//! reaches the recorded seq, the fan-out pushes again. Reading the store and waiting for the client
//! belong to `ws`.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bluetick_core::ports::{Behind, Missed, Position};
use bluetick_core::{ConversationId, MessageId, Page, Seq, UserId};
use bluetick_wire::frame::{encode_backlog, encode_caught_up, encode_gone, write_message};
use parking_lot::{Mutex, MutexGuard};
use tokio::time::Instant;

use super::{ConnectionOutbox, EncodedFrame};

/// How long after catch-up the fan-out's repeats of backlog messages are suppressed. A store may
/// return a message shortly before it reports the commit. If this is too short, the device gets
/// such a message twice.
const DUPLICATE_WINDOW: Duration = Duration::from_secs(10);

/// Decides whether the fan-out may push to a session or the backlog covers the message.
pub(crate) struct CatchUp {
    /// Whether the fan-out must ask [`CatchUp::admit_live`] before it pushes.
    is_active: AtomicBool,
    state: Mutex<CatchUpState>,
}

struct CatchUpState {
    stage: CatchUpStage,
    conversations: HashMap<ConversationId, ConversationCatchUp>,
    held_frames: usize,
    /// The session's own sends with an unknown outcome.
    sending: Vec<(ConversationId, MessageId)>,
}

#[derive(Clone, Copy)]
enum CatchUpStage {
    /// The store has not yet answered which conversations have a backlog.
    Asking,
    /// Backlogs are being sent. Conversations that are not listed, or are listed as `live`, are
    /// live.
    Sending,
    /// All conversations are live. Reports up to the end of their backlog may still arrive for the
    /// listed ones.
    Live { since: Instant },
}

/// The catch-up state of one conversation.
#[derive(Default)]
struct ConversationCatchUp {
    live: bool,
    /// The device has everything up to this seq, or a `backlog` frame announced the range up to
    /// here for paging.
    up_to: Option<Seq>,
    /// The newest seq that the fan-out has reported.
    newest_seen: Seq,
    /// The position that the device claims in a conversation that its user is no longer a member
    /// of.
    claimed_position: Option<Seq>,
    held: BTreeMap<Seq, HeldFrames>,
}

/// Frames that are held until the backlog reaches their seq.
#[derive(Default)]
struct HeldFrames {
    /// Sent in place of the message.
    replacement: Option<UnstoredFrame>,
    /// Sent after it.
    after: Vec<EncodedFrame>,
}

/// A frame that only the fan-out has. It cannot be read from the store again.
#[derive(Clone)]
pub(crate) enum UnstoredFrame {
    /// The ack of an own send. It is sent regardless of the device's position.
    Ack(EncodedFrame),
    /// The notice that the user itself left. A device whose position is at or past it already has
    /// it.
    LeaveNotice(EncodedFrame),
}

impl UnstoredFrame {
    pub fn into_frame(self) -> EncodedFrame {
        match self {
            UnstoredFrame::Ack(frame) | UnstoredFrame::LeaveNotice(frame) => frame,
        }
    }
}

/// A conversation with a backlog to send: the seqs above `after`, up to `head`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BacklogRange {
    pub conversation: ConversationId,
    pub after: Seq,
    pub head: Seq,
}

/// The result of sending a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PageOutcome {
    pub pushed: usize,
    /// The device has everything up to this seq.
    pub up_to: Seq,
    pub next_step: NextStep,
}

/// The next step after a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NextStep {
    /// The conversation is live from here on.
    Live,
    /// More messages are to be sent.
    More,
    /// The next message is the session's own, and the fan-out does not have its ack yet.
    AckPending,
}

impl CatchUp {
    pub fn new() -> CatchUp {
        let state = CatchUpState {
            stage: CatchUpStage::Asking,
            conversations: HashMap::new(),
            held_frames: 0,
            sending: Vec::new(),
        };
        CatchUp { is_active: AtomicBool::new(true), state: Mutex::new(state) }
    }

    fn state(&self) -> MutexGuard<'_, CatchUpState> {
        self.state.lock()
    }

    pub fn is_active(&self) -> bool {
        self.is_active.load(Ordering::Acquire)
    }

    /// Handles a message that the fan-out has for the session. Returns whether to push it now;
    /// otherwise the backlog covers it or the device has it.
    pub fn admit_live(
        &self,
        conversation: ConversationId,
        seq: Seq,
        unstored: Option<&UnstoredFrame>,
    ) -> bool {
        let is_ack = matches!(unstored, Some(UnstoredFrame::Ack(_)));
        let mut state = self.state();
        if matches!(unstored, Some(UnstoredFrame::LeaveNotice(_))) && state.has_position_at(conversation, seq)
        {
            return false;
        }
        if let CatchUpStage::Live { since } = state.stage {
            return self.admit_after_backlog(&mut state, since, conversation, seq, is_ack);
        }
        let backlogs_known = matches!(state.stage, CatchUpStage::Sending);
        match state.conversations.get_mut(&conversation) {
            None if backlogs_known => return true,
            Some(progress) if progress.live => {
                if progress.up_to.is_some_and(|up_to| seq <= up_to) {
                    return is_ack;
                }
                progress.newest_seen = seq;
                return true;
            }
            _ => {}
        }
        let progress = state.conversations.entry(conversation).or_default();
        progress.up_to.get_or_insert(seq.previous());
        progress.newest_seen = progress.newest_seen.max(seq);
        if let Some(unstored) = unstored {
            progress.held.entry(seq).or_default().replacement = Some(unstored.clone());
            state.held_frames += 1;
        }
        false
    }

    fn admit_after_backlog(
        &self,
        state: &mut CatchUpState,
        since: Instant,
        conversation: ConversationId,
        seq: Seq,
        is_ack: bool,
    ) -> bool {
        if since.elapsed() >= DUPLICATE_WINDOW {
            state.conversations.clear();
        }
        let push = match state.conversations.entry(conversation) {
            Entry::Occupied(entry) if entry.get().up_to.is_some_and(|up_to| seq <= up_to) => is_ack,
            Entry::Occupied(entry) => {
                entry.remove();
                true
            }
            Entry::Vacant(_) => true,
        };
        self.finish_if_caught_up(state);
        push
    }

    fn finish_if_caught_up(&self, state: &mut CatchUpState) {
        if state.conversations.is_empty() {
            state.conversations = HashMap::new();
            self.is_active.store(false, Ordering::Release);
        }
    }

    /// Handles the ack of a message that was stored earlier. Returns whether to push it now;
    /// otherwise it is held and sent after that message.
    pub fn admit_repeated_ack(&self, conversation: ConversationId, seq: Seq, ack: &EncodedFrame) -> bool {
        let mut state = self.state();
        let push_now = match (state.stage, state.conversations.get(&conversation)) {
            (CatchUpStage::Live { .. }, _) | (CatchUpStage::Sending, None) => true,
            (CatchUpStage::Sending, Some(progress)) => {
                progress.live || progress.up_to.is_some_and(|up_to| seq <= up_to)
            }
            // Live messages that arrived meanwhile do not show what the device misses below them.
            (CatchUpStage::Asking, _) => false,
        };
        if !push_now {
            let progress = state.conversations.entry(conversation).or_default();
            progress.held.entry(seq).or_default().after.push(ack.clone());
            state.held_frames += 1;
        }
        push_now
    }

    /// Number of held frames. The connection stops reading when there are too many.
    pub fn held_frames(&self) -> usize {
        if self.is_active() { self.state().held_frames } else { 0 }
    }

    /// Records an own send with an unknown outcome.
    pub fn send_begins(&self, conversation: ConversationId, message_id: &MessageId) {
        if self.is_active() {
            let mut state = self.state();
            if !matches!(state.stage, CatchUpStage::Live { .. }) {
                state.sending.push((conversation, message_id.clone()));
            }
        }
    }

    /// Removes an own send. Its outcome is known, and the store has reported the message if it is
    /// new.
    pub fn send_ends(&self, conversation: ConversationId, message_id: &MessageId) {
        if self.is_active() {
            let mut state = self.state();
            let ended = state.sending.iter().position(|(of, id)| *of == conversation && id == message_id);
            if let Some(at) = ended {
                state.sending.swap_remove(at);
            }
        }
    }

    /// The own sends that a page may contain before the fan-out has their acks. Call this after the
    /// page is read and before the fan-out is flushed.
    pub fn pending_sends(&self, conversation: ConversationId) -> Vec<MessageId> {
        let state = self.state();
        state.sending.iter().filter(|(of, _)| *of == conversation).map(|(_, id)| id.clone()).collect()
    }

    /// Applies the store's answer: conversations without a backlog become live. Returns the
    /// backlogs to send.
    pub fn begin(
        &self,
        outbox: &ConnectionOutbox,
        missed: &Missed,
        positions: &[Position],
    ) -> Vec<BacklogRange> {
        let Missed { behind, gone } = missed;
        let claimed: HashMap<ConversationId, Seq> =
            positions.iter().map(|position| (position.conversation, position.seq)).collect();
        let mut guard = self.state();
        let state = &mut *guard;
        for id in gone {
            state.conversations.entry(*id).or_default().claimed_position = claimed.get(id).copied();
        }
        for (id, progress) in &mut state.conversations {
            let Some(claim) = claimed.get(id) else { continue };
            // The fan-out reported late messages that the device already has.
            if let Some(up_to) = &mut progress.up_to {
                *up_to = (*up_to).max((*claim).min(progress.newest_seen));
            }
            state.held_frames -= progress.drop_leave_notices(*claim);
        }
        let mut missing = Vec::with_capacity(behind.len());
        for Behind { conversation, after, head, .. } in
            behind.iter().filter(|behind| behind.after < behind.head)
        {
            let progress = state.conversations.entry(*conversation).or_default();
            let after = match progress.up_to {
                Some(reported) if !claimed.contains_key(conversation) => reported.min(*after),
                _ => *after,
            };
            progress.up_to = Some(after);
            missing.push(BacklogRange { conversation: *conversation, after, head: *head });
        }
        let listed: std::collections::HashSet<ConversationId> =
            missing.iter().map(|missing| missing.conversation).collect();
        for (id, progress) in state.conversations.iter_mut().filter(|(id, _)| !listed.contains(id)) {
            match progress.up_to {
                Some(after) if progress.claimed_position < Some(progress.newest_seen) => {
                    missing.push(BacklogRange { conversation: *id, after, head: progress.newest_seen });
                }
                _ => progress.go_live(outbox, &mut state.held_frames),
            }
        }
        state.stage = CatchUpStage::Sending;
        missing
    }

    /// Pushes at most `most` messages of a page that the device does not have. After the first one,
    /// pushes only while the outbox has room. Stops at an own message without its ack.
    pub fn push_page(
        &self,
        outbox: &ConnectionOutbox,
        conversation: ConversationId,
        user: &UserId,
        page: &Page,
        pending_sends: &[MessageId],
        most: usize,
    ) -> PageOutcome {
        let mut pushed = 0;
        for message in &page.messages {
            if pushed == most || (pushed > 0 && !outbox.has_room_now()) {
                break;
            }
            let mut guard = self.state();
            let state = &mut *guard;
            let progress = state.conversations.entry(conversation).or_default();
            if progress.up_to.is_some_and(|up_to| message.seq <= up_to) {
                continue;
            }
            let has_ack = progress.held.get(&message.seq).is_some_and(|held| held.replacement.is_some());
            if !has_ack && message.sender == *user && pending_sends.contains(&message.message_id) {
                let up_to = progress.up_to.unwrap_or_default();
                return PageOutcome { pushed, up_to, next_step: NextStep::AckPending };
            }
            progress.push_held_below(message.seq, outbox, &mut state.held_frames);
            let mut held = progress.held.remove(&message.seq).unwrap_or_default();
            state.held_frames -= held.count();
            let replacement = held.replacement.take().map(UnstoredFrame::into_frame);
            outbox.push(
                replacement.unwrap_or_else(|| EncodedFrame::with(|buffer| write_message(buffer, message))),
            );
            held.push_into(outbox);
            progress.up_to = Some(message.seq);
            pushed += 1;
        }
        let (up_to, next_step) = self.finish_page(outbox, conversation, page.head, pushed == most);
        PageOutcome { pushed, up_to, next_step }
    }

    /// Makes the conversation live if the device has everything or got `enough`. In the latter
    /// case, pushes a `backlog` frame with the seq from which the device pages the rest.
    fn finish_page(
        &self,
        outbox: &ConnectionOutbox,
        conversation: ConversationId,
        head: Seq,
        enough: bool,
    ) -> (Seq, NextStep) {
        let mut guard = self.state();
        let state = &mut *guard;
        let progress = state.conversations.entry(conversation).or_default();
        let (up_to, newest) = (progress.up_to.unwrap_or_default(), head.max(progress.newest_seen));
        if newest > up_to {
            if !enough {
                return (up_to, NextStep::More);
            }
            outbox.push(EncodedFrame::from(encode_backlog(conversation, up_to, newest)));
            progress.up_to = Some(newest);
        }
        progress.go_live(outbox, &mut state.held_frames);
        (up_to, NextStep::Live)
    }

    /// Sends only a `backlog` frame, so that the device pages this conversation itself.
    pub fn skip_to_paging(&self, outbox: &ConnectionOutbox, missing: BacklogRange) {
        self.finish_page(outbox, missing.conversation, missing.head, true);
    }

    /// Ends the backlog of a conversation that the user is no longer a member of. Sends the held
    /// frames and `gone`.
    pub fn abandon(&self, outbox: &ConnectionOutbox, conversation: ConversationId) {
        let mut guard = self.state();
        let state = &mut *guard;
        if let Some(progress) = state.conversations.get_mut(&conversation) {
            progress.go_live(outbox, &mut state.held_frames);
        }
        outbox.push(EncodedFrame::from(encode_gone(conversation)));
    }

    /// Ends the catch-up: sends `caught_up`. All conversations must be live.
    pub fn finish(&self, outbox: &ConnectionOutbox) {
        let mut state = self.state();
        debug_assert!(state.conversations.values().all(|progress| progress.live), "a backlog was left out");
        outbox.push(EncodedFrame::from(encode_caught_up()));
        state.stage = CatchUpStage::Live { since: Instant::now() };
        state.sending = Vec::new();
        state
            .conversations
            .retain(|_, progress| progress.up_to.max(progress.claimed_position) > Some(progress.newest_seen));
        self.finish_if_caught_up(&mut state);
    }
}

impl CatchUpState {
    /// Whether the device claims a position at or past `seq` in a conversation that its user has
    /// left.
    fn has_position_at(&self, conversation: ConversationId, seq: Seq) -> bool {
        self.conversations.get(&conversation).is_some_and(|progress| progress.claimed_position >= Some(seq))
    }
}

impl ConversationCatchUp {
    /// Drops held leave notices up to `through`, which the device already has. Returns how many.
    fn drop_leave_notices(&mut self, through: Seq) -> usize {
        let mut dropped = 0;
        for held in self.held.range_mut(..=through).map(|(_, held)| held) {
            dropped += usize::from(
                held.replacement
                    .take_if(|unstored| matches!(unstored, UnstoredFrame::LeaveNotice(_)))
                    .is_some(),
            );
        }
        dropped
    }

    /// Marks the conversation as live and pushes the held frames in seq order.
    fn go_live(&mut self, outbox: &ConnectionOutbox, held_frames: &mut usize) {
        self.live = true;
        for held in std::mem::take(&mut self.held).into_values() {
            *held_frames -= held.count();
            held.push_into(outbox);
        }
    }

    /// Pushes the frames that are held for lower seqs.
    fn push_held_below(&mut self, seq: Seq, outbox: &ConnectionOutbox, held_frames: &mut usize) {
        while let Some(first) = self.held.first_entry().filter(|first| *first.key() < seq) {
            let held = first.remove();
            *held_frames -= held.count();
            held.push_into(outbox);
        }
    }
}

impl HeldFrames {
    fn count(&self) -> usize {
        usize::from(self.replacement.is_some()) + self.after.len()
    }

    fn push_into(self, outbox: &ConnectionOutbox) {
        let replacement = self.replacement.map(UnstoredFrame::into_frame);
        replacement.into_iter().chain(self.after).for_each(|frame| outbox.push(frame));
    }
}

#[cfg(test)]
mod tests;
