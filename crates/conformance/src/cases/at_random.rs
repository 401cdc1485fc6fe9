//! A randomized test. After a random sequence of operations the store must agree with a model
//! computed from the operation log.

use bluetick_core::{ConversationId, ReceiptKind, Refusal};

use crate::dice::Dice;
use crate::model::{Model, Name, Operation};
use crate::world::{assert_refused, ticks};
use crate::{Harness, StoreUnderTest};

const NAMES: [Name; 6] = ["al", "alice", "bob", "carol", "dave", "erin"];
/// Number of random operations. Fewer miss rare combinations.
const STEPS: u64 = 400;

async fn agrees<H: Harness>(world: &StoreUnderTest<H>, id: ConversationId, model: &Model, dice: &mut Dice) {
    let head = model.head();
    for name in NAMES {
        let Some(person) = model.person(name) else {
            assert_refused(world.store().statuses(id, &world.user(name)).await, Refusal::NotAMember);
            assert_eq!(world.pending(id, name).await, None, "{name} left");
            assert!(!world.inbox(name).await.contains(&id), "{name} left");
            continue;
        };
        let expected = model.members(&NAMES).map(|(other, person)| {
            let read = if other == name { person.read } else { person.shown_read };
            (world.user(other).as_str().to_owned(), (person.delivered, read))
        });
        assert_eq!(world.statuses(id, name).await, expected.collect(), "statuses for {name}");
        let entry = world.entry(id, name).await;
        assert_eq!(entry.unread, model.unread(name), "unread of {name}");
        assert_eq!(ticks(entry.own), (person.delivered, person.read), "own ticks of {name}");
        assert_eq!(ticks(entry.others), model.others(name, &NAMES), "the others' ticks for {name}");
        assert_eq!((entry.joined.get(), entry.conversation.head.get()), (person.joined, head), "{name}");
        assert_eq!(world.pending(id, name).await, model.pending(name), "pending for {name}");
        let position = dice.below(head + 3);
        let missed = world.behind(name, &[(id, position)]).await;
        let missed: Vec<_> =
            missed.iter().map(|behind| (behind.after.get(), behind.unacknowledged)).collect();
        assert_eq!(missed, Vec::from_iter(model.behind(name, position)), "{name} at {position}");
        let seq = person.joined + dice.below(head - person.joined + 1);
        assert_eq!(world.counted(id, name, seq).await, model.counted(seq, &NAMES), "receipts of {seq}");
    }
}

/// Performs one random operation. Returns `None` if the rules forbid it or nothing changes.
async fn step<H: Harness>(
    world: &StoreUnderTest<H>,
    id: ConversationId,
    model: &Model,
    dice: &mut Dice,
) -> Option<Operation> {
    let (name, other) = (dice.one_of(&NAMES), dice.one_of(&NAMES));
    let (inside, other_inside) = (model.person(name).is_some(), model.person(other).is_some());
    let kind = dice.one_of(&[ReceiptKind::Delivered, ReceiptKind::Read]);
    // A random seq, possibly beyond the head, or a seq slightly ahead of the member's read state.
    let far = dice.below(model.head() + 4);
    let near = model.person(name).map(|person| person.read + dice.below(4));
    let seq = near.filter(|_| dice.coin()).unwrap_or(far);
    match dice.below(100) {
        _ if !inside => {
            assert_refused(world.apply_receipt(id, name, kind, seq).await, Refusal::NotAMember);
            assert_refused(world.send(id, name, "let me in").await, Refusal::NotAMember);
            None
        }
        0..40 => {
            world.sent(id, name, &format!("m{}", model.head())).await;
            Some(Operation::Sent { by: name })
        }
        40..80 => {
            world.apply_receipt(id, name, kind, seq).await.unwrap();
            Some(Operation::Marked { name, kind, seq })
        }
        80..90 => {
            let hides = dice.coin();
            world.hide_reads(id, name, hides).await;
            Some(Operation::Hid { name, hides })
        }
        90..96 if !other_inside => {
            world.add(id, name, &[other]).await.unwrap();
            Some(Operation::Joined { by: name, name: other })
        }
        // The first member never leaves, so that the group always has a member.
        96.. if name != NAMES[0] => {
            world.remove(id, name, name).await.unwrap();
            Some(Operation::Left { by: name, name })
        }
        _ => None,
    }
}

pub async fn random_operations_agree_with_the_model<H: Harness>(mut world: StoreUnderTest<H>) {
    let mut dice = Dice::throw();
    let id = world.group(NAMES[0], &NAMES[1..4]).await;
    let mut model = Model::founded_by(&NAMES[..4]);
    for number in 0..STEPS {
        let deed = step(&world, id, &model, &mut dice).await;
        if let Some(deed) = deed {
            model.note(deed);
        }
        match dice.below(100) {
            0..2 => world = world.crash().await,
            2..4 => world = world.restart().await,
            4..20 => {}
            _ => continue,
        }
        println!("after step {number}: {deed:?}");
        agrees(&world, id, &model, &mut dice).await;
    }
    let world = world.crash().await;
    agrees(&world, id, &model, &mut dice).await;
    let world = world.restart().await;
    agrees(&world, id, &model, &mut dice).await;
}
