//! A model of a group's state, computed from the log of all operations.
//!
//! It is slow on purpose: every query walks the whole log and applies the definitions. It must not
//! reuse the logic of a store or of the core, or it would repeat their bugs.

use bluetick_core::ReceiptKind;

pub type Name = &'static str;

#[derive(Clone, Copy, Debug)]
pub enum Operation {
    Sent { by: Name },
    Joined { by: Name, name: Name },
    Left { by: Name, name: Name },
    Marked { name: Name, kind: ReceiptKind, seq: u64 },
    Hid { name: Name, hides: bool },
}

/// The read state of a member since it last joined.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ModelMember {
    pub joined: u64,
    pub delivered: u64,
    pub read: u64,
    pub shown_read: u64,
    /// The member's devices have acknowledged all messages up to this seq, or the member sent them.
    pub acknowledged: u64,
    hides: bool,
}

impl ModelMember {
    fn has_read(&mut self, seq: u64) {
        self.read = self.read.max(seq);
        self.delivered = self.delivered.max(seq);
        if !self.hides {
            self.shown_read = self.shown_read.max(seq);
        }
    }

    /// Returns the ticks that other members see. Messages from before the member joined count as
    /// delivered and read.
    pub fn shown(&self) -> (u64, u64) {
        let floor = self.joined - 1;
        (self.delivered.max(floor), self.shown_read.max(floor))
    }
}

/// A message, reduced to the properties that affect ticks.
#[derive(Clone, Copy, Debug)]
struct ModelMessage {
    by: Name,
    notice: bool,
}

pub struct Model {
    founders: Vec<Name>,
    log: Vec<Operation>,
}

impl Model {
    /// Creates a group. The first of the founders is its creator.
    pub fn founded_by(founders: &[Name]) -> Model {
        Model { founders: founders.to_vec(), log: Vec::new() }
    }

    pub fn note(&mut self, deed: Operation) {
        self.log.push(deed);
    }

    fn places(&self) -> Vec<ModelMessage> {
        let founding = ModelMessage { by: self.founders[0], notice: true };
        let later = self.log.iter().filter_map(|deed| match *deed {
            Operation::Sent { by } => Some(ModelMessage { by, notice: false }),
            Operation::Joined { by, .. } | Operation::Left { by, .. } => {
                Some(ModelMessage { by, notice: true })
            }
            Operation::Marked { .. } | Operation::Hid { .. } => None,
        });
        std::iter::once(founding).chain(later).collect()
    }

    pub fn head(&self) -> u64 {
        self.places().len() as u64
    }

    /// Returns the member's read state, or `None` if the user is not a member.
    pub fn person(&self, who: Name) -> Option<ModelMember> {
        let founder = ModelMember { joined: 1, ..ModelMember::default() };
        let mut person = self.founders.contains(&who).then_some(founder);
        let mut head = 1;
        for deed in &self.log {
            let (before, is_message) =
                (head, !matches!(deed, Operation::Marked { .. } | Operation::Hid { .. }));
            head += u64::from(is_message);
            match *deed {
                Operation::Joined { name, .. } if name == who => {
                    person = Some(ModelMember { joined: head, ..ModelMember::default() });
                }
                Operation::Left { name, .. } if name == who => person = None,
                Operation::Sent { by } if by == who => {
                    let person = person.as_mut().expect("members send");
                    person.has_read(before);
                    if person.acknowledged == before {
                        person.acknowledged = head;
                    }
                }
                Operation::Marked { name, kind, seq } if name == who => {
                    let (person, seq) = (person.as_mut().expect("members mark"), seq.min(head));
                    if kind == ReceiptKind::Read {
                        person.has_read(seq);
                    }
                    person.delivered = person.delivered.max(seq);
                    person.acknowledged = person.acknowledged.max(seq);
                }
                Operation::Hid { name, hides } if name == who => {
                    person.as_mut().expect("members hide").hides = hides;
                }
                _ => {}
            }
        }
        person
    }

    pub fn members<'a>(&'a self, among: &'a [Name]) -> impl Iterator<Item = (Name, ModelMember)> + 'a {
        among.iter().filter_map(|name| self.person(name).map(|person| (*name, person)))
    }

    pub fn unread(&self, name: Name) -> u64 {
        let person = self.person(name).expect("a member has unread messages");
        let from = person.read.max(person.joined - 1);
        let numbered = (1..).zip(self.places());
        numbered.filter(|(seq, place)| *seq > from && !place.notice && place.by != name).count() as u64
    }

    /// Returns the seq after which messages are pending, or `None` if none are.
    pub fn pending(&self, name: Name) -> Option<u64> {
        let person = self.person(name).expect("a member has pending messages");
        let after = person.acknowledged.max(person.joined - 1);
        (after < self.head()).then_some(after)
    }

    /// Returns what a device at `position` misses: the seq to send after, and whether its position
    /// acknowledges new messages. Returns `None` if the device misses nothing and acknowledges
    /// nothing.
    pub fn behind(&self, name: Name, position: u64) -> Option<(u64, bool)> {
        let person = self.person(name).expect("a member has positions");
        if position > self.head() {
            return self.pending(name).map(|after| (after, false));
        }
        let floor = person.joined - 1;
        let after = position.max(floor);
        let unacknowledged = person.acknowledged.max(floor) < after;
        (after < self.head() || unacknowledged).then_some((after, unacknowledged))
    }

    /// Returns (recipients, delivered, read) of a message, by checking every recipient.
    pub fn counted(&self, seq: u64, among: &[Name]) -> (usize, usize, usize) {
        let index = usize::try_from(seq - 1).expect("a short conversation");
        let sender = self.places()[index].by;
        let recipients = self.members(among).filter(|(name, person)| *name != sender && person.joined <= seq);
        recipients.fold((0, 0, 0), |(recipients, delivered, read), (_, person)| {
            let got = usize::from(person.delivered >= seq);
            (recipients + 1, delivered + got, read + usize::from(person.shown_read >= seq))
        })
    }

    /// Returns the lowest read state among the other members, or the head if there are no others.
    pub fn others(&self, name: Name, among: &[Name]) -> (u64, u64) {
        let others = self.members(among).filter(|(other, _)| *other != name).map(|(_, other)| other.shown());
        let lowest = others.reduce(|one, other| (one.0.min(other.0), one.1.min(other.1)));
        lowest.unwrap_or((self.head(), self.head()))
    }
}
