//! Receipts of a message: "read by k of n".

use bluetick_core::ports::Receipt;
use bluetick_core::{ConversationId, ReceiptKind, Refusal, Seq};

use crate::cases::at_once;
use crate::dice::Dice;
use crate::world::assert_refused;
use crate::{Harness, StoreUnderTest};

pub async fn direct_message_has_one_recipient<H: Harness>(world: StoreUnderTest<H>) {
    let id = world.direct("alice", "bob").await;
    world.sent_many(id, "alice", "m", 3).await;
    world.sent(id, "bob", "reply").await;
    world.delivered(id, "alice", 4).await;
    let check = async |world: &StoreUnderTest<H>| {
        assert_eq!(world.counted(id, "alice", 3).await, (1, 1, 1));
        assert_eq!(world.counted(id, "bob", 4).await, (1, 1, 0), "the sender itself does not count");
        assert_eq!(world.counted(id, "alice", 4).await, (1, 1, 0), "also when the peer asks");
    };
    world.holds(check).await;
}

pub async fn receipt_counts_of_a_group_message_cover_delivered_and_read<H: Harness>(
    world: StoreUnderTest<H>,
) {
    let id = world.group("alice", &["bob", "carol", "dave"]).await;
    world.sent_many(id, "alice", "m", 4).await;
    world.delivered(id, "bob", 5).await;
    world.read(id, "carol", 3).await;
    let check = async |world: &StoreUnderTest<H>| {
        assert_eq!(world.counted(id, "alice", 2).await, (3, 2, 1));
        assert_eq!(world.counted(id, "alice", 3).await, (3, 2, 1));
        assert_eq!(world.counted(id, "alice", 4).await, (3, 1, 0));
        assert_eq!(world.counted(id, "dave", 5).await, (3, 1, 0));
    };
    let world = world.holds(check).await;
    for name in ["bob", "carol", "dave"] {
        world.read(id, name, 5).await;
    }
    world.holds(async |world| assert_eq!(world.counted(id, "alice", 5).await, (3, 3, 3))).await;
}

pub async fn member_who_joined_later_is_not_counted_as_recipient<H: Harness>(world: StoreUnderTest<H>) {
    let id = world.group("alice", &["bob"]).await;
    world.sent(id, "alice", "before").await;
    world.read(id, "bob", 2).await;
    world.add(id, "alice", &["carol", "dave"]).await.unwrap();
    world.sent(id, "bob", "after").await;
    world.read(id, "carol", 5).await;
    let check = async |world: &StoreUnderTest<H>| {
        assert_eq!(world.counted(id, "alice", 2).await, (1, 1, 1), "carol and dave came later");
        assert_eq!(world.counted(id, "alice", 3).await, (2, 2, 2), "the notice of carol, by alice");
        assert_eq!(world.counted(id, "alice", 4).await, (3, 2, 2));
        assert_eq!(world.counted(id, "carol", 5).await, (3, 1, 1), "alice and dave have not read it");
    };
    world.holds(check).await;
}

pub async fn member_who_left_is_not_counted_as_recipient<H: Harness>(world: StoreUnderTest<H>) {
    let id = world.group("alice", &["bob", "carol", "dave"]).await;
    world.sent(id, "bob", "hello").await;
    world.read(id, "carol", 2).await;
    world.delivered(id, "dave", 2).await;
    assert_eq!(world.counted(id, "alice", 2).await, (3, 2, 1));
    world.remove(id, "carol", "carol").await.unwrap();
    let world = world.holds(async |world| assert_eq!(world.counted(id, "bob", 2).await, (2, 1, 0))).await;
    world.add(id, "alice", &["carol"]).await.unwrap();
    let world = world.holds(async |world| assert_eq!(world.counted(id, "bob", 2).await, (2, 1, 0))).await;
    // The sender leaves and returns. It is never a recipient of its own message.
    world.remove(id, "bob", "bob").await.unwrap();
    let world = world.holds(async |world| assert_eq!(world.counted(id, "alice", 2).await, (2, 1, 0))).await;
    world.add(id, "alice", &["bob"]).await.unwrap();
    world.holds(async |world| assert_eq!(world.counted(id, "alice", 2).await, (2, 1, 0))).await;
}

pub async fn receipt_counts_of_an_invisible_message_are_refused<H: Harness>(world: StoreUnderTest<H>) {
    let id = world.group("alice", &["bob"]).await;
    world.sent(id, "alice", "before").await;
    world.add(id, "alice", &["carol"]).await.unwrap();
    let direct = world.direct("alice", "bob").await;
    let unknown = ConversationId::direct(&world.user("x"), &world.user("y"));
    let check = async |world: &StoreUnderTest<H>| {
        for seq in [0, 4, u64::MAX] {
            assert_refused(world.receipt_counts(id, "alice", seq).await, Refusal::NoSuchMessage);
        }
        for seq in [1, 2] {
            assert_refused(world.receipt_counts(id, "carol", seq).await, Refusal::NoSuchMessage);
        }
        assert_eq!(world.counted(id, "carol", 3).await, (2, 0, 0));
        assert_refused(world.receipt_counts(direct, "bob", 1).await, Refusal::NoSuchMessage);
        for (conversation, seq) in [(id, 2), (id, 99), (direct, 1), (unknown, 1)] {
            assert_refused(world.receipt_counts(conversation, "zoe", seq).await, Refusal::NotAMember);
        }
    };
    world.holds(check).await;
}

pub async fn hidden_read_counts_as_delivered<H: Harness>(world: StoreUnderTest<H>) {
    let id = world.group("alice", &["bob", "carol"]).await;
    world.sent_many(id, "alice", "m", 2).await;
    world.read(id, "bob", 2).await;
    world.hide_reads(id, "bob", true).await;
    world.read(id, "bob", 3).await;
    let check = async |world: &StoreUnderTest<H>| {
        assert_eq!(world.counted(id, "alice", 2).await, (2, 1, 1));
        assert_eq!(world.counted(id, "alice", 3).await, (2, 1, 0));
    };
    world.holds(check).await;
}

pub async fn receipt_counts_are_exact_in_a_group_of_2_000_members<H: Harness>(world: StoreUnderTest<H>) {
    let names: Vec<String> = (0..1_999).map(|number| format!("m{number}")).collect();
    let id = world.group("alice", &names.iter().map(String::as_str).collect::<Vec<_>>()).await;
    world.sent_many(id, "alice", "hello", 2).await;
    for hundred in names[..700].chunks(100) {
        let marks = hundred.iter().map(|name| {
            let number: u64 = name[1..].parse().unwrap();
            let (kind, seq) = match number % 7 {
                0 | 1 => (ReceiptKind::Read, 3),
                2 => (ReceiptKind::Read, 2),
                _ => (ReceiptKind::Delivered, 3),
            };
            let mark =
                Receipt { conversation: id, user: world.user(name), kind, seq: Seq::new(seq), origin: None };
            let store = world.store();
            async move { store.apply_receipt(mark).await.unwrap() }
        });
        at_once(marks).await;
    }
    let check = async |world: &StoreUnderTest<H>| {
        assert_eq!(world.counted(id, "alice", 3).await, (1_999, 600, 200));
        assert_eq!(world.counted(id, "m1998", 2).await, (1_999, 700, 300));
        assert_eq!(world.statuses(id, "alice").await.len(), 2_000);
    };
    let world = world.holds(check).await;
    world.remove(id, "alice", "m0").await.unwrap();
    world.holds(async |world| assert_eq!(world.counted(id, "alice", 3).await, (1_998, 599, 199))).await;
}

/// Computes the receipt counts from the statuses of all members.
async fn counts_from_statuses<H: Harness>(
    world: &StoreUnderTest<H>,
    id: ConversationId,
    seq: u64,
) -> (usize, usize, usize) {
    let message = world.history(id, "watcher").await.into_iter().find(|message| message.seq.get() == seq);
    let sender = message.unwrap().sender;
    let view = world.store().conversation(id, &world.user("watcher")).await.unwrap();
    let statuses = world.statuses(id, "watcher").await;
    let mut counted = (0, 0, 0);
    for member in view.members.iter().filter(|member| member.user != sender && member.joined_seq.get() <= seq)
    {
        let (delivered, read) = statuses[member.user.as_str()];
        counted.0 += 1;
        counted.1 += usize::from(delivered >= seq);
        counted.2 += usize::from(read >= seq);
    }
    counted
}

pub async fn receipt_counts_agree_with_member_statuses_after_random_operations<H: Harness>(
    mut world: StoreUnderTest<H>,
) {
    const NAMES: [&str; 8] = ["ann", "ben", "cat", "dan", "eve", "fay", "gus", "hal"];
    let mut dice = Dice::throw();
    let id = world.group("watcher", &NAMES[..5]).await;
    for number in 0..250 {
        let name = dice.one_of(&NAMES);
        let view = world.store().conversation(id, &world.user("watcher")).await.unwrap();
        let (inside, head) = (view.members.contains(&world.user(name)), view.conversation.head.get());
        match dice.below(10) {
            _ if !inside => drop(world.add(id, "watcher", &[name]).await.unwrap()),
            0..3 => drop(world.sent(id, name, &format!("m{number}")).await),
            3..8 => {
                let kind = dice.one_of(&[ReceiptKind::Delivered, ReceiptKind::Read]);
                world.apply_receipt(id, name, kind, dice.below(head + 2)).await.unwrap();
            }
            8 => world.hide_reads(id, name, dice.coin()).await,
            _ => drop(world.remove(id, name, name).await.unwrap()),
        }
        match dice.below(50) {
            0 => world = world.crash().await,
            1 => world = world.restart().await,
            _ => {}
        }
        let seq = 1 + dice.below(head);
        let expected = counts_from_statuses(&world, id, seq).await;
        assert_eq!(world.counted(id, "watcher", seq).await, expected, "seq {seq} after step {number}");
    }
}
