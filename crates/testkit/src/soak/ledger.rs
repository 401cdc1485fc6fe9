//! The checker for runs that are too long to keep a log of. Of each message it keeps eight bytes, who wrote it and the
//! how-manieth of that writer it is, and judges everything else when it is heard.
//!
//! That is enough because a message here says nothing that does not follow from its id ([`MessageName`]): whoever sees
//! it knows what it must say, and a writer's messages to a conversation are numbered without a gap. So the history is
//! whole, in order and without a duplicate exactly when each writer's numbers in it are 1, 2, 3, up to the last.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::{Mutex, MutexGuard};

use crate::device::Boundaries;
use crate::names::{ConversationName, Seat, UserName};

/// One of the devices that write, counted from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Writer(pub u32);

/// Who wrote a message, and the how-manieth of that writer to that conversation it is, counted from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MessageName {
    pub writer: Writer,
    pub number: u64,
}

/// Texts are between these lengths, besides the id they begin with.
const MOST_WORDS: u64 = 24;

impl MessageName {
    pub fn id(self) -> String {
        format!("w{}n{}", self.writer.0, self.number)
    }

    fn of_id(id: &str) -> Option<MessageName> {
        let (writer, number) = id.strip_prefix('w')?.split_once('n')?;
        let name = MessageName { writer: Writer(writer.parse().ok()?), number: number.parse().ok()? };
        // Another spelling of the same numbers would be another id.
        (name.id() == id).then_some(name)
    }

    /// The only text that this message ever has.
    pub fn content(self) -> String {
        let mixed = (u64::from(self.writer.0) << 32 ^ self.number).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        format!("{} {}", self.id(), "and so on ".repeat((mixed % MOST_WORDS) as usize))
    }
}

/// What a message looks like, whichever way it came.
#[derive(Clone, Copy, Debug)]
pub struct Shown<'a> {
    pub seq: u64,
    pub sender: &'a str,
    pub message_id: &'a str,
    pub content: &'a str,
    /// Written by the server: somebody founded a group.
    pub is_notice: bool,
}

/// What is not as it was promised.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Breach {
    /// Nobody ever sent this.
    Invented { seq: u64, message_id: String },
    /// It says something else than was sent, or somebody else is said to have sent it.
    Altered { seq: u64, message_id: String },
    /// The same place was shown, or acknowledged, with another message before.
    Changed { seq: u64, before: Option<MessageName>, now: Option<MessageName> },
    /// Somebody was shown or told of a place that is not in the history.
    Lost { seq: u64, head: u64 },
    /// Of this writer, the history goes on with another number than the next: a message is missing, twice, or out of order.
    NotNext { seq: u64, writer: Writer, expected: u64, found: u64 },
    /// The history has not all that was acknowledged to this writer.
    Missing { writer: Writer, acknowledged: u64, found: u64 },
    /// Places do not follow each other.
    Hole { after: u64, then: u64 },
    /// A device that is up to date ends somewhere else than the history.
    NotUpToDate { writer: Writer, end: u64, head: u64 },
    /// A tick of a connection went back, or says read and not delivered.
    TickWentBack { of: UserName, from: Boundaries, to: Boundaries },
    /// A tick that nobody's device ever spoke for, or one that was told and is forgotten.
    TickOutOfBounds { of: UserName, found: Boundaries, least: Boundaries, most: Boundaries },
    /// Refused, closed, or answered in a way that the contract does not know.
    Misspoken(String),
}

/// A breach and where.
#[derive(Clone, Debug)]
pub struct Found {
    pub conversation: ConversationName,
    pub breach: Breach,
}

impl Found {
    /// Of no conversation in particular.
    pub fn anywhere(breach: Breach) -> Found {
        Found { conversation: ConversationName::new("no conversation in particular"), breach }
    }
}

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "in {}: {:?}", self.conversation, self.breach)
    }
}

/// Who and the how-manieth, in eight bytes. Zero: nobody has seen this place yet.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct Print(u64);

const UNSEEN: Print = Print(0);
const NOTICE: Print = Print(u64::MAX);

const NUMBER_BITS: u32 = 40;

impl Print {
    fn of(name: MessageName) -> Print {
        assert!(name.number > 0 && name.number < 1 << NUMBER_BITS && name.writer.0 < 1 << (64 - NUMBER_BITS));
        Print(u64::from(name.writer.0) << NUMBER_BITS | name.number)
    }

    fn name(self) -> Option<MessageName> {
        let writer = Writer(u32::try_from(self.0 >> NUMBER_BITS).expect("24 bits"));
        let number = self.0 & ((1 << NUMBER_BITS) - 1);
        (self != UNSEEN && self != NOTICE).then_some(MessageName { writer, number })
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Progress {
    attempted: u64,
    acknowledged: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Standing {
    /// The most that any device of the user said.
    claimed: Boundaries,
    /// The most that anybody was told.
    told: Boundaries,
    /// The last place with a message of the user.
    last_own: u64,
}

#[derive(Default)]
struct Room {
    prints: Vec<Print>,
    writers: BTreeMap<Writer, Progress>,
    seats: BTreeMap<UserName, Standing>,
}

/// All that was said, as far as it has to be kept.
#[derive(Default)]
pub struct Ledger {
    rooms: HashMap<ConversationName, Mutex<Room>>,
    /// Whose device each writer is, by number.
    owners: Vec<UserName>,
}

impl Ledger {
    /// `owners` says whose device each writer is.
    pub fn new(conversations: impl Iterator<Item = ConversationName>, owners: Vec<UserName>) -> Ledger {
        Ledger { rooms: conversations.map(|name| (name, Mutex::default())).collect(), owners }
    }

    fn room(&self, conversation: &ConversationName) -> MutexGuard<'_, Room> {
        self.rooms[conversation].lock().expect("nothing panics while it holds a room")
    }

    /// The name of the next message of a writer, which is on its way from now on.
    pub fn attempt(&self, conversation: &ConversationName, writer: Writer) -> MessageName {
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
        room.place(seq, Print::of(name))?;
        room.wrote(&self.owners[name.writer.0 as usize], seq);
        Ok(())
    }

    /// Holds a message against what its id says and against what everybody else was shown in its place. A notice has no
    /// name.
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
        room.place(seq, Print::of(name))?;
        room.wrote(owner, seq);
        Ok(Some(name))
    }

    /// Before a device says how far it has come.
    pub fn claim(&self, conversation: &ConversationName, user: &UserName, claim: Boundaries) {
        let mut room = self.room(conversation);
        let standing = room.seats.entry(user.clone()).or_default();
        standing.claimed = standing.claimed.max(claim);
    }

    /// Somebody was told how far a user has come.
    pub fn told(&self, conversation: &ConversationName, user: &UserName, told: Boundaries) {
        let mut room = self.room(conversation);
        let standing = room.seats.entry(user.clone()).or_default();
        standing.told = standing.told.max(told);
    }

    /// What a user's boundaries must lie between, both included, once nothing is on its way any more.
    pub fn bounds(&self, conversation: &ConversationName, user: &UserName) -> (Boundaries, Boundaries) {
        let standing = self.room(conversation).seats.get(user).copied().unwrap_or_default();
        let Standing { claimed, told, last_own } = standing;
        // A reply reads what came before it.
        let replied = last_own.saturating_sub(1);
        let replied = Boundaries { delivered: replied, read: replied };
        let claimed = Boundaries { delivered: claimed.delivered.max(claimed.read), ..claimed };
        (told.max(replied), claimed.max(replied).max(Boundaries { delivered: last_own, read: last_own }))
    }

    /// A walk through the whole history of a conversation, from the first place on.
    pub fn reader(&self, conversation: ConversationName) -> Reader<'_> {
        Reader { ledger: self, conversation, head: 0, counted: BTreeMap::new() }
    }

    /// Of a conversation whose history was found to be whole: messages above `read` by others.
    pub fn unread(&self, seat: &Seat, read: u64) -> u64 {
        let room = self.room(&seat.0);
        let by_others =
            |print: &&Print| print.name().is_some_and(|name| self.owners[name.writer.0 as usize] != seat.1);
        room.prints.iter().skip(read as usize).filter(by_others).count() as u64
    }

    pub fn last_own(&self, conversation: &ConversationName, user: &UserName) -> u64 {
        self.room(conversation).seats.get(user).map_or(0, |standing| standing.last_own)
    }

    /// What all of it takes, the few bytes for each member left out.
    pub fn bytes(&self) -> usize {
        self.rooms
            .values()
            .map(|room| room.lock().map_or(0, |room| room.prints.capacity() * size_of::<Print>()))
            .sum()
    }
}

impl Room {
    fn place(&mut self, seq: u64, now: Print) -> Result<(), Breach> {
        let Some(at) = seq.checked_sub(1).and_then(|at| usize::try_from(at).ok()) else {
            return Err(Breach::Misspoken(format!("a message at place {seq}")));
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

/// Goes through a history, message by message.
pub struct Reader<'a> {
    ledger: &'a Ledger,
    conversation: ConversationName,
    head: u64,
    counted: BTreeMap<Writer, u64>,
}

impl Reader<'_> {
    pub fn head(&self) -> u64 {
        self.head
    }

    /// The next of the history. Whoever comes from the page before asks for what is above [`Reader::head`].
    pub fn next(&mut self, shown: Shown<'_>) -> Result<(), Breach> {
        if shown.seq != self.head + 1 {
            return Err(Breach::Hole { after: self.head, then: shown.seq });
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

    /// Nothing that anybody was shown lies above, and everybody's messages are all there. Returns how many there are.
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
