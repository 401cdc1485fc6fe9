//! What is kept of a device's life for the judgement in the end. The device itself never looks back at it, apart from
//! the ticks it was told.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use serde_json::Value;

use crate::checker::{ClientLog, Event};
use crate::device::{Boundaries, Trouble};
use crate::names::{ConversationName, Seat, UserName};

/// Frames shown with a violation.
const FRAMES_KEPT: usize = 40;

/// How much happened, so that a test can insist that it was something.
#[derive(Clone, Copy, Debug, Default)]
pub struct Happened {
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
    /// Refused for the moment, and asked again.
    pub put_off: usize,
    pub rejoined: usize,
    pub gone: usize,
}

impl Happened {
    pub fn and(self, other: Happened) -> Happened {
        Happened {
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
pub struct Record {
    pub log: ClientLog,
    /// The most this device ever said of itself.
    pub claims: BTreeMap<ConversationName, Boundaries>,
    /// The most it was ever told, by frames and answers; durable, or it would not have been told.
    pub told: BTreeMap<Seat, Boundaries>,
    /// How far all others of a large group were said to have come.
    pub everybody: BTreeMap<ConversationName, Boundaries>,
    /// What it was told by frames alone, which are in order among themselves.
    heard: BTreeMap<Seat, Boundaries>,
    /// Messages refused because the sender was no member, by message_id. One of them may be stored all the same, by an
    /// attempt of which nothing was heard.
    pub refused: BTreeSet<String>,
    pub happened: Happened,
    /// When to come back, as servers said that shut down.
    pub sent_away_ms: Vec<u64>,
    frames: VecDeque<String>,
}

impl Record {
    pub fn new(log: ClientLog) -> Record {
        Record { log, ..Record::default() }
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

    pub fn claim(&mut self, conversation: &ConversationName, claim: Boundaries) {
        let most = self.claims.entry(conversation.clone()).or_default();
        *most = most.max(claim);
    }

    /// A status frame. `steady` where the member was never out of the conversation, and its ticks never start again.
    pub fn hear_status(&mut self, seat: Seat, told: Boundaries, steady: bool) -> Result<(), Trouble> {
        self.happened.statuses += 1;
        let before = self.heard.insert(seat.clone(), told).unwrap_or_default();
        self.learn(&seat, told);
        compare(&seat.1, before, told, steady)
    }

    /// What is said of all others at once.
    pub fn hear_receipts(
        &mut self,
        conversation: &ConversationName,
        told: Boundaries,
    ) -> Result<(), Trouble> {
        self.happened.receipts += 1;
        let most = self.everybody.entry(conversation.clone()).or_default();
        *most = most.max(told);
        compare(&UserName::new("everybody"), Boundaries::default(), told, false)
    }

    /// An answer, which knows at least what was ever told before.
    pub fn hear_answer(&mut self, seat: Seat, told: Boundaries, steady: bool) -> Result<(), Trouble> {
        let before = self.learn(&seat, told);
        compare(&seat.1, before, told, steady)
    }

    fn learn(&mut self, seat: &Seat, told: Boundaries) -> Boundaries {
        let most = self.told.entry(seat.clone()).or_default();
        let before = *most;
        *most = most.max(told);
        before
    }

    /// Frames are in order on one connection, and on those to one server. Whoever takes the further of two loses nothing.
    pub fn forget_heard(&mut self) {
        self.heard.clear();
    }

    pub fn connected(&mut self) {
        self.happened.connections += 1;
        self.log.events.push(Event::Connected);
    }
}

fn compare(of: &UserName, before: Boundaries, told: Boundaries, steady: bool) -> Result<(), Trouble> {
    if told.read > told.delivered {
        return Err(Trouble::ReadNotDelivered { of: of.clone(), told });
    }
    if steady && !told.covers(before) {
        return Err(Trouble::WentBack { of: of.clone(), from: before, to: told });
    }
    Ok(())
}
