//! The checker for runs that are too long for a full log. It keeps eight bytes per message: the
//! writer and the writer's message number. It checks everything else on arrival.
//!
//! This is enough, because the content of a message follows from its id ([`MessageName`]). Each
//! writer numbers its messages to a conversation without a gap. The history is complete, ordered
//! and free of duplicates if each writer's numbers are 1, 2, 3, up to the last.

use std::collections::{BTreeMap, HashMap};
use std::fmt;

use parking_lot::{Mutex, MutexGuard};

use crate::device::ReadState;
use crate::names::{ConversationName, Membership, UserName};

/// One of the sending devices, counted from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SenderNumber(pub u32);

/// The name of a message: its writer and the writer's message number in the conversation, counted
/// from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MessageName {
    pub writer: SenderNumber,
    pub number: u64,
}

/// Exclusive upper bound on the number of filler phrases after the id in a text. It varies the size
/// of messages; a larger bound makes messages and the store larger.
const MOST_WORDS: u64 = 24;

impl MessageName {
    pub fn id(self) -> String {
        format!("w{}n{}", self.writer.0, self.number)
    }

    fn of_id(id: &str) -> Option<MessageName> {
        let (writer, number) = id.strip_prefix('w')?.split_once('n')?;
        let name = MessageName { writer: SenderNumber(writer.parse().ok()?), number: number.parse().ok()? };
        // Another spelling of the same numbers is a different id.
        (name.id() == id).then_some(name)
    }

    /// Returns the only valid text of this message.
    pub fn content(self) -> String {
        let mixed = (u64::from(self.writer.0) << 32 ^ self.number).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        format!("{} {}", self.id(), "and so on ".repeat((mixed % MOST_WORDS) as usize))
    }
}

/// A message as received in a push or a page.
#[derive(Clone, Copy, Debug)]
pub struct Shown<'a> {
    pub seq: u64,
    pub sender: &'a str,
    pub message_id: &'a str,
    pub content: &'a str,
    /// The server wrote it, for example when a group was created.
    pub is_notice: bool,
}

/// A violation of the contract.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Breach {
    /// No client sent this message.
    Invented { seq: u64, message_id: String },
    /// The content or the sender differs from what was sent.
    Altered { seq: u64, message_id: String },
    /// Another message was shown or acknowledged at the same seq before.
    Changed { seq: u64, before: Option<MessageName>, now: Option<MessageName> },
    /// A seq that a client was shown or that was acknowledged is not in the history.
    Lost { seq: u64, head: u64 },
    /// The writer's next message in the history has an unexpected number: a message is missing,
    /// duplicated or out of order.
    NotNext { seq: u64, writer: SenderNumber, expected: u64, found: u64 },
    /// The history lacks messages that were acknowledged to this writer.
    Missing { writer: SenderNumber, acknowledged: u64, found: u64 },
    /// The seqs are not contiguous.
    Gap { after: u64, then: u64 },
    /// A device that is up to date does not end at the head.
    NotUpToDate { writer: SenderNumber, end: u64, head: u64 },
    /// A tick moved backwards on a connection, or read is above delivered.
    TickWentBack { of: UserName, from: ReadState, to: ReadState },
    /// A tick above everything that devices reported, or below what was published.
    TickOutOfBounds { of: UserName, found: ReadState, least: ReadState, most: ReadState },
    /// A refusal, a close or an answer that violates the contract.
    Misspoken(String),
}

/// A breach and its conversation.
#[derive(Clone, Debug)]
pub struct ConversationBreach {
    pub conversation: ConversationName,
    pub breach: Breach,
}

impl ConversationBreach {
    /// A breach without a conversation.
    pub fn anywhere(breach: Breach) -> ConversationBreach {
        ConversationBreach { conversation: ConversationName::new("no conversation in particular"), breach }
    }
}

impl fmt::Display for ConversationBreach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "in {}: {:?}", self.conversation, self.breach)
    }
}

/// A message name in eight bytes. Zero: the seq has not been seen yet.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct NameHash(u64);

/// The entry of a seq that has not been seen yet.
const UNSEEN: NameHash = NameHash(0);
/// The entry of a notice, which has no writer.
const NOTICE: NameHash = NameHash(u64::MAX);

/// Bits of a `NameHash` for the message number; the writer gets the rest. `NameHash::of` panics on
/// overflow.
const NUMBER_BITS: u32 = 40;

impl NameHash {
    fn of(name: MessageName) -> NameHash {
        assert!(name.number > 0 && name.number < 1 << NUMBER_BITS && name.writer.0 < 1 << (64 - NUMBER_BITS));
        NameHash(u64::from(name.writer.0) << NUMBER_BITS | name.number)
    }

    fn name(self) -> Option<MessageName> {
        let writer = SenderNumber(u32::try_from(self.0 >> NUMBER_BITS).expect("24 bits"));
        let number = self.0 & ((1 << NUMBER_BITS) - 1);
        (self != UNSEEN && self != NOTICE).then_some(MessageName { writer, number })
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct SenderProgress {
    attempted: u64,
    acknowledged: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct LedgerReadState {
    /// The maximum that any device of the user claimed.
    claimed: ReadState,
    /// The maximum that any client received.
    told: ReadState,
    /// The highest seq of a message of the user.
    last_own: u64,
}

#[derive(Default)]
struct ConversationRecord {
    prints: Vec<NameHash>,
    writers: BTreeMap<SenderNumber, SenderProgress>,
    seats: BTreeMap<UserName, LedgerReadState>,
}

/// All facts of a run that the final check needs.
#[derive(Default)]
pub struct Ledger {
    rooms: HashMap<ConversationName, Mutex<ConversationRecord>>,
    /// The user of each writer, by writer number.
    owners: Vec<UserName>,
}

impl Ledger {
    /// `owners` holds the user of each writer, by writer number.
    pub fn new(conversations: impl Iterator<Item = ConversationName>, owners: Vec<UserName>) -> Ledger {
        Ledger { rooms: conversations.map(|name| (name, Mutex::default())).collect(), owners }
    }

    fn room(&self, conversation: &ConversationName) -> MutexGuard<'_, ConversationRecord> {
        self.rooms[conversation].lock()
    }

    /// Returns the name of the writer's next message and counts it as attempted.
    pub fn attempt(&self, conversation: &ConversationName, writer: SenderNumber) -> MessageName {
        let mut room = self.room(conversation);
        let progress = room.writers.entry(writer).or_default();
        progress.attempted += 1;
        MessageName { writer, number: progress.attempted }
    }

    pub fn acknowledged(
        &self,
        conversation: &ConversationName,
        name: MessageName,
        seq: u64,
    ) -> Result<(), Breach> {
        let mut room = self.room(conversation);
        let progress = room.writers.entry(name.writer).or_default();
        progress.acknowledged = progress.acknowledged.max(name.number);
        room.place(seq, NameHash::of(name))?;
        room.wrote(&self.owners[name.writer.0 as usize], seq);
        Ok(())
    }

    /// Checks a message against its id and against what other clients saw at this seq. Returns
    /// `None` for a notice.
    pub fn shown(
        &self,
        conversation: &ConversationName,
        shown: Shown<'_>,
    ) -> Result<Option<MessageName>, Breach> {
        let Shown { seq, sender, message_id, content, is_notice } = shown;
        if is_notice {
            return self.room(conversation).place(seq, NOTICE).map(|()| None);
        }
        let message_id = || message_id.to_owned();
        let invented = || Breach::Invented { seq, message_id: message_id() };
        let name = MessageName::of_id(shown.message_id).ok_or_else(invented)?;
        let owner = self.owners.get(name.writer.0 as usize).ok_or_else(invented)?;
        let mut room = self.room(conversation);
        let attempted = room.writers.get(&name.writer).map_or(0, |progress| progress.attempted);
        if name.number == 0 || name.number > attempted {
            return Err(invented());
        }
        if owner.as_str() != sender || name.content() != content {
            return Err(Breach::Altered { seq, message_id: message_id() });
        }
        room.place(seq, NameHash::of(name))?;
        room.wrote(owner, seq);
        Ok(Some(name))
    }

    /// Records a receipt. Call it before the device sends the receipt.
    pub fn claim(&self, conversation: &ConversationName, user: &UserName, claim: ReadState) {
        let mut room = self.room(conversation);
        let standing = room.seats.entry(user.clone()).or_default();
        standing.claimed = standing.claimed.max(claim);
    }

    /// Records that a client received a read state.
    pub fn told(&self, conversation: &ConversationName, user: &UserName, told: ReadState) {
        let mut room = self.room(conversation);
        let standing = room.seats.entry(user.clone()).or_default();
        standing.told = standing.told.max(told);
    }

    /// Returns the inclusive bounds of a user's read state after all traffic has ended.
    pub fn bounds(&self, conversation: &ConversationName, user: &UserName) -> (ReadState, ReadState) {
        let standing = self.room(conversation).seats.get(user).copied().unwrap_or_default();
        let LedgerReadState { claimed, told, last_own } = standing;
        // A reply implies that the user has read everything before it.
        let replied = last_own.saturating_sub(1);
        let replied = ReadState { delivered: replied, read: replied };
        let claimed = ReadState { delivered: claimed.delivered.max(claimed.read), ..claimed };
        (told.max(replied), claimed.max(replied).max(ReadState { delivered: last_own, read: last_own }))
    }

    /// Returns a reader that checks the whole history of a conversation from the first seq.
    pub fn reader(&self, conversation: ConversationName) -> HistoryChecker<'_> {
        HistoryChecker { ledger: self, conversation, head: 0, counted: BTreeMap::new() }
    }

    /// Counts the messages of others above `read`. Requires that the history was checked.
    pub fn unread(&self, seat: &Membership, read: u64) -> u64 {
        let room = self.room(&seat.0);
        let by_others = |print: &&NameHash| {
            print.name().is_some_and(|name| self.owners[name.writer.0 as usize] != seat.1)
        };
        room.prints.iter().skip(read as usize).filter(by_others).count() as u64
    }

    pub fn last_own(&self, conversation: &ConversationName, user: &UserName) -> u64 {
        self.room(conversation).seats.get(user).map_or(0, |standing| standing.last_own)
    }

    /// Returns the memory of the message entries in bytes, without the small state per member.
    pub fn bytes(&self) -> usize {
        self.rooms.values().map(|room| room.lock().prints.capacity() * size_of::<NameHash>()).sum()
    }
}

impl ConversationRecord {
    fn place(&mut self, seq: u64, now: NameHash) -> Result<(), Breach> {
        let Some(at) = seq.checked_sub(1).and_then(|at| usize::try_from(at).ok()) else {
            return Err(Breach::Misspoken(format!("a message at seq {seq}")));
        };
        if self.prints.len() <= at {
            self.prints.resize(at + 1, UNSEEN);
        }
        let before = std::mem::replace(&mut self.prints[at], now);
        if before == UNSEEN || before == now {
            return Ok(());
        }
        Err(Breach::Changed { seq, before: before.name(), now: now.name() })
    }

    fn wrote(&mut self, user: &UserName, seq: u64) {
        let standing = match self.seats.get_mut(user) {
            Some(standing) => standing,
            None => self.seats.entry(user.clone()).or_default(),
        };
        standing.last_own = standing.last_own.max(seq);
    }
}

/// Checks a history message by message.
pub struct HistoryChecker<'a> {
    ledger: &'a Ledger,
    conversation: ConversationName,
    head: u64,
    counted: BTreeMap<SenderNumber, u64>,
}

impl HistoryChecker<'_> {
    pub fn head(&self) -> u64 {
        self.head
    }

    /// Checks the next message of the history. Request pages after [`HistoryChecker::head`].
    pub fn next(&mut self, shown: Shown<'_>) -> Result<(), Breach> {
        if shown.seq != self.head + 1 {
            return Err(Breach::Gap { after: self.head, then: shown.seq });
        }
        self.head = shown.seq;
        let Some(name) = self.ledger.shown(&self.conversation, shown)? else { return Ok(()) };
        let counted = self.counted.entry(name.writer).or_default();
        *counted += 1;
        if *counted != name.number {
            let (expected, found) = (*counted, name.number);
            return Err(Breach::NotNext { seq: shown.seq, writer: name.writer, expected, found });
        }
        Ok(())
    }

    /// Checks that no seen seq is above the head and that every acknowledged message is present.
    /// Returns the head.
    pub fn end(self) -> Result<u64, Breach> {
        let room = self.ledger.room(&self.conversation);
        if room.prints.len() as u64 > self.head {
            return Err(Breach::Lost { seq: room.prints.len() as u64, head: self.head });
        }
        for (writer, progress) in &room.writers {
            let found = self.counted.get(writer).copied().unwrap_or(0);
            if found < progress.acknowledged {
                let (writer, acknowledged) = (*writer, progress.acknowledged);
                return Err(Breach::Missing { writer, acknowledged, found });
            }
        }
        Ok(self.head)
    }
}

#[cfg(test)]
mod tests;
