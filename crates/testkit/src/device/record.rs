//! The record of a device for the final check. The device itself reads only the received read
//! states.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use serde_json::Value;

use crate::checker::{ClientEvent, ClientLog};
use crate::device::{ReadState, Trouble};
use crate::names::{ConversationName, Membership, UserName};

/// Number of frames shown with a violation. With too few, its cause is cut off.
const FRAMES_KEPT: usize = 40;

/// Counters, so that a test can assert that enough happened.
#[derive(Clone, Copy, Debug, Default)]
pub struct DeviceCounts {
    pub connections: usize,
    pub cuts: usize,
    pub closes: usize,
    pub abandoned: usize,
    pub statuses: usize,
    pub receipts: usize,
    pub backlog_frames: usize,
    pub pages: usize,
    pub own_gaps: usize,
    pub marks: usize,
    pub marks_answered: usize,
    pub resends: usize,
    pub refused: usize,
    /// Temporarily refused and retried.
    pub put_off: usize,
    pub rejoined: usize,
    pub gone: usize,
}

impl DeviceCounts {
    pub fn and(self, other: DeviceCounts) -> DeviceCounts {
        DeviceCounts {
            connections: self.connections + other.connections,
            cuts: self.cuts + other.cuts,
            closes: self.closes + other.closes,
            abandoned: self.abandoned + other.abandoned,
            statuses: self.statuses + other.statuses,
            receipts: self.receipts + other.receipts,
            backlog_frames: self.backlog_frames + other.backlog_frames,
            pages: self.pages + other.pages,
            own_gaps: self.own_gaps + other.own_gaps,
            marks: self.marks + other.marks,
            marks_answered: self.marks_answered + other.marks_answered,
            resends: self.resends + other.resends,
            refused: self.refused + other.refused,
            put_off: self.put_off + other.put_off,
            rejoined: self.rejoined + other.rejoined,
            gone: self.gone + other.gone,
        }
    }
}

#[derive(Clone, Debug, Default)]
pub struct DeviceRecord {
    pub log: ClientLog,
    /// The maximum read state that this device claimed.
    pub claims: BTreeMap<ConversationName, ReadState>,
    /// The maximum read states received in frames and answers. They are durable, because the server
    /// publishes durable states only.
    pub told: BTreeMap<Membership, ReadState>,
    /// The maximum received aggregate read state of all other members of a large group.
    pub lowest_of_others: BTreeMap<ConversationName, ReadState>,
    /// The last read states received in frames, which are ordered among themselves.
    heard: BTreeMap<Membership, ReadState>,
    /// Message ids refused because the sender was not a member. An earlier unanswered attempt may
    /// still have been stored.
    pub refused: BTreeSet<String>,
    pub happened: DeviceCounts,
    /// The reconnect delays that draining servers asked for, in milliseconds.
    pub sent_away_ms: Vec<u64>,
    frames: VecDeque<String>,
}

impl DeviceRecord {
    pub fn new(log: ClientLog) -> DeviceRecord {
        DeviceRecord { log, ..DeviceRecord::default() }
    }

    pub fn note(&mut self, what: &str, frame: &Value) {
        self.note_text(format!("{what} {frame}"));
    }

    pub fn note_text(&mut self, text: String) {
        if self.frames.len() == FRAMES_KEPT {
            self.frames.pop_front();
        }
        self.frames.push_back(text);
    }

    pub fn last_frames(&self) -> Vec<String> {
        self.frames.iter().cloned().collect()
    }

    pub fn claim(&mut self, conversation: &ConversationName, claim: ReadState) {
        let most = self.claims.entry(conversation.clone()).or_default();
        *most = most.max(claim);
    }

    /// Checks a status frame. `steady`: the member is never removed, so its ticks never restart.
    pub fn hear_status(&mut self, seat: Membership, told: ReadState, steady: bool) -> Result<(), Trouble> {
        self.happened.statuses += 1;
        let before = self.heard.insert(seat.clone(), told).unwrap_or_default();
        self.learn(&seat, told);
        compare(&seat.1, before, told, steady)
    }

    /// Checks the aggregate read state of all other members.
    pub fn hear_receipts(&mut self, conversation: &ConversationName, told: ReadState) -> Result<(), Trouble> {
        self.happened.receipts += 1;
        let most = self.lowest_of_others.entry(conversation.clone()).or_default();
        *most = most.max(told);
        compare(&UserName::new("all others"), ReadState::default(), told, false)
    }

    /// Checks an answer, which must reach every read state received before.
    pub fn hear_answer(&mut self, seat: Membership, told: ReadState, steady: bool) -> Result<(), Trouble> {
        let before = self.learn(&seat, told);
        compare(&seat.1, before, told, steady)
    }

    fn learn(&mut self, seat: &Membership, told: ReadState) -> ReadState {
        let most = self.told.entry(seat.clone()).or_default();
        let before = *most;
        *most = most.max(told);
        before
    }

    /// Clears the last frames' read states. Frames are ordered only within one server; clients keep
    /// the maximum.
    pub fn forget_heard(&mut self) {
        self.heard.clear();
    }

    pub fn connected(&mut self) {
        self.happened.connections += 1;
        self.log.events.push(ClientEvent::Connected);
    }
}

fn compare(of: &UserName, before: ReadState, told: ReadState, steady: bool) -> Result<(), Trouble> {
    if told.read > told.delivered {
        return Err(Trouble::ReadNotDelivered { of: of.clone(), told });
    }
    if steady && !told.covers(before) {
        return Err(Trouble::WentBack { of: of.clone(), from: before, to: told });
    }
    Ok(())
}
