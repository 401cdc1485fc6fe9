//! Planted bugs: the ledger finds each kind of breach and accepts a correct run.

use super::*;

/// Writer of the odd seqs.
const ALICE: SenderNumber = SenderNumber(0);
/// Writer of the even seqs.
const BOB: SenderNumber = SenderNumber(1);

struct World {
    ledger: Ledger,
    room: ConversationName,
    /// The messages that the server has stored, in order.
    stored: Vec<MessageName>,
}

fn user(writer: SenderNumber) -> UserName {
    UserName::new(["alice", "bob"][writer.0 as usize])
}

impl World {
    /// Alice and Bob send three messages each, in turn. All are stored, acknowledged and shown.
    fn new() -> World {
        let room = ConversationName::new("room");
        let ledger = Ledger::new([room.clone()].into_iter(), vec![user(ALICE), user(BOB)]);
        let mut world = World { ledger, room, stored: Vec::new() };
        for writer in [ALICE, BOB, ALICE, BOB, ALICE, BOB] {
            let name = world.ledger.attempt(&world.room, writer);
            world.stored.push(name);
            let seq = world.stored.len() as u64;
            world.ledger.acknowledged(&world.room, name, seq).unwrap();
            assert_eq!(world.show(seq, name), Ok(Some(name)));
        }
        world
    }

    fn show(&self, seq: u64, name: MessageName) -> Result<Option<MessageName>, Breach> {
        let (message_id, content) = (name.id(), name.content());
        let owner = user(name.writer);
        let sender = owner.as_str();
        self.ledger.shown(
            &self.room,
            Shown { seq, sender, message_id: &message_id, content: &content, is_notice: false },
        )
    }

    /// Checks the history as stored.
    fn verdict(&self) -> Result<u64, Breach> {
        let mut reader = self.ledger.reader(self.room.clone());
        for (at, name) in self.stored.iter().enumerate() {
            let (message_id, content) = (name.id(), name.content());
            let owner = user(name.writer);
            let (seq, sender) = (at as u64 + 1, owner.as_str());
            reader.next(Shown {
                seq,
                sender,
                message_id: &message_id,
                content: &content,
                is_notice: false,
            })?;
        }
        reader.end()
    }
}

#[test]
fn correct_history_has_no_violation_and_costs_eight_bytes_a_message() {
    let world = World::new();
    assert_eq!(world.verdict(), Ok(6));
    assert!(world.ledger.bytes() <= 8 * 8, "{}", world.ledger.bytes());
}

#[test]
fn ledger_finds_a_lost_acknowledged_message() {
    let mut world = World::new();
    world.stored.pop();
    assert_eq!(world.verdict(), Err(Breach::Lost { seq: 6, head: 5 }));
}

#[test]
fn ledger_finds_an_acknowledged_message_that_was_never_shown() {
    let world = World::new();
    let name = world.ledger.attempt(&world.room, ALICE);
    world.ledger.acknowledged(&world.room, name, 7).unwrap();
    assert_eq!(world.verdict(), Err(Breach::Lost { seq: 7, head: 6 }));
}

#[test]
fn ledger_finds_a_message_stored_twice() {
    let mut world = World::new();
    world.stored.push(world.stored[5]);
    let expected = Breach::NotNext { seq: 7, writer: BOB, expected: 4, found: 3 };
    assert_eq!(world.verdict(), Err(expected));
}

#[test]
fn ledger_finds_a_seq_with_other_content_than_shown() {
    let mut world = World::new();
    world.stored.swap(0, 1);
    let (before, now) = (Some(world.stored[1]), Some(world.stored[0]));
    assert_eq!(world.verdict(), Err(Breach::Changed { seq: 1, before, now }));
}

#[test]
fn ledger_finds_reordered_messages_of_one_sender() {
    let mut world = World::new();
    let (first, second) =
        (world.ledger.attempt(&world.room, ALICE), world.ledger.attempt(&world.room, ALICE));
    world.stored.extend([second, first]);
    let expected = Breach::NotNext { seq: 7, writer: ALICE, expected: 4, found: 5 };
    assert_eq!(world.verdict(), Err(expected));
}

#[test]
fn ledger_finds_unsent_and_changed_messages() {
    let world = World::new();
    let never_sent = MessageName { writer: BOB, number: 4 };
    assert!(matches!(world.show(7, never_sent), Err(Breach::Invented { seq: 7, .. })));
    let name = world.stored[0];
    let (message_id, content) = (name.id(), name.content());
    let cut =
        Shown { seq: 1, sender: "alice", message_id: &message_id, content: &content[..2], is_notice: false };
    assert!(matches!(world.ledger.shown(&world.room, cut), Err(Breach::Altered { seq: 1, .. })));
    let of_bob =
        Shown { seq: 1, sender: "bob", message_id: &message_id, content: &content, is_notice: false };
    assert!(matches!(world.ledger.shown(&world.room, of_bob), Err(Breach::Altered { seq: 1, .. })));
}

#[test]
fn ledger_finds_a_gap_in_the_history() {
    let world = World::new();
    let mut reader = world.ledger.reader(world.room.clone());
    let (message_id, content) = (world.stored[1].id(), world.stored[1].content());
    let second =
        Shown { seq: 2, sender: "bob", message_id: &message_id, content: &content, is_notice: false };
    assert_eq!(reader.next(second), Err(Breach::Gap { after: 0, then: 2 }));
}

#[test]
fn unread_counts_messages_of_others_above_the_read_seq() {
    let world = World::new();
    let unread = |writer, read| world.ledger.unread(&(world.room.clone(), user(writer)), read);
    assert_eq!((unread(ALICE, 0), unread(ALICE, 3), unread(BOB, 5), unread(BOB, 4)), (3, 2, 0, 1));
}

#[test]
fn ticks_lie_between_published_and_claimed() {
    let world = World::new();
    let claim = ReadState { delivered: 6, read: 6 };
    world.ledger.claim(&world.room, &user(ALICE), claim);
    world.ledger.told(&world.room, &user(ALICE), ReadState { delivered: 6, read: 2 });
    let (least, most) = world.ledger.bounds(&world.room, &user(ALICE));
    // Her last message, at seq 5, implies that she has read everything before it.
    assert_eq!((least, most), (ReadState { delivered: 6, read: 4 }, claim));
}

#[test]
fn message_id_has_one_spelling() {
    for id in ["w1n2", "w0n1"] {
        assert_eq!(MessageName::of_id(id).unwrap().id(), id);
    }
    for id in ["w1n02", "w+1n2", "w1", "n1", "", "w1n2 "] {
        assert_eq!(MessageName::of_id(id), None, "{id}");
    }
}
