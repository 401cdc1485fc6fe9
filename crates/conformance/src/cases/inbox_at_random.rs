//! A randomized test. After random sends, preference changes, joins and leaves, the inbox must
//! agree with a model that sorts all entries.

use std::cmp::Reverse;
use std::collections::HashMap;

use bluetick_core::{ConversationId, InboxFilter, PreferenceChange};

use crate::dice::Dice;
use crate::world::conversations;
use crate::{Harness, StoreUnderTest};

const NAMES: [&str; 3] = ["al", "alice", "bob"];
const CONVERSATIONS: usize = 12;
/// Number of random operations. Fewer miss rare combinations.
const STEPS: u64 = 300;

#[derive(Clone, Copy, Default)]
struct ModelRow {
    pinned: bool,
    archived: bool,
}

#[derive(Default)]
struct Listed {
    /// Time of the newest message, in minutes.
    last_at: i64,
    /// The inbox rows of the current members.
    rows: HashMap<&'static str, ModelRow>,
}

/// All conversations with their members' preferences.
struct InboxModel(Vec<(ConversationId, Listed)>);

impl InboxModel {
    fn inbox(&self, name: &str, filter: InboxFilter) -> Vec<ConversationId> {
        let mut order: Vec<_> = self
            .0
            .iter()
            .filter_map(|(id, listed)| listed.rows.get(name).map(|row| (row, listed.last_at, *id)))
            .filter(|(row, ..)| match filter {
                InboxFilter::All => true,
                InboxFilter::Archived => row.archived,
                InboxFilter::NotArchived => !row.archived,
            })
            .map(|(row, last_at, id)| (row.archived, !row.pinned || row.archived, Reverse(last_at), id))
            .collect();
        order.sort_unstable();
        order.into_iter().map(|(.., id)| id).collect()
    }
}

async fn agrees<H: Harness>(world: &StoreUnderTest<H>, model: &InboxModel, dice: &mut Dice) {
    for name in NAMES {
        for filter in [InboxFilter::All, InboxFilter::Archived, InboxFilter::NotArchived] {
            let limit = dice.one_of(&[1, 2, 5, 100]);
            let entries = world.paged_inbox(name, limit, filter).await;
            assert_eq!(conversations(&entries), model.inbox(name, filter), "{name}, {filter:?}, by {limit}");
            for entry in entries {
                let (_, listed) = model.0.iter().find(|(id, _)| *id == entry.conversation.id).unwrap();
                let (row, set) = (listed.rows[name], entry.preferences);
                assert_eq!((set.pinned, set.archived), (row.pinned, row.archived));
                assert_eq!(entry, world.entry(entry.conversation.id, name).await);
            }
        }
    }
}

async fn step<H: Harness>(world: &StoreUnderTest<H>, model: &mut InboxModel, dice: &mut Dice, number: u64) {
    let index = usize::try_from(dice.below(CONVERSATIONS as u64)).unwrap();
    let (id, listed) = &mut model.0[index];
    let (id, name) = (*id, dice.one_of(&NAMES));
    // Use few distinct times, so that many conversations share one. The clock may also move
    // backwards.
    let minute = i64::try_from(number / 20 + dice.below(4)).unwrap();
    world.turn_clock_to(minute);
    let Some(row) = listed.rows.get_mut(name) else {
        world.add(id, "founder", &[name]).await.unwrap();
        listed.rows.insert(name, ModelRow::default());
        listed.last_at = listed.last_at.max(minute);
        return;
    };
    match dice.below(10) {
        0..5 => {
            world.sent(id, name, &format!("m{number}")).await;
            listed.last_at = listed.last_at.max(minute);
        }
        5..8 => {
            (row.pinned, row.archived) = (dice.coin(), dice.coin());
            let change = PreferenceChange {
                pinned: Some(row.pinned),
                archived: Some(row.archived),
                ..PreferenceChange::default()
            };
            world.set_preferences(id, name, change).await.unwrap();
        }
        _ => {
            world.remove(id, name, name).await.unwrap();
            listed.rows.remove(name);
            listed.last_at = listed.last_at.max(minute);
        }
    }
}

pub async fn inbox_agrees_with_the_model_after_random_operations<H: Harness>(mut world: StoreUnderTest<H>) {
    let mut dice = Dice::throw();
    let mut model = InboxModel(Vec::new());
    for _ in 0..CONVERSATIONS {
        // The founder never leaves, so that it can add other members again.
        let id = world.group("founder", &NAMES).await;
        let rows = NAMES.iter().map(|name| (*name, ModelRow::default())).collect();
        model.0.push((id, Listed { last_at: 0, rows }));
    }
    for number in 0..STEPS {
        step(&world, &mut model, &mut dice, number).await;
        match dice.below(60) {
            0 => world = world.crash().await,
            1 => world = world.restart().await,
            2..6 => {}
            _ => continue,
        }
        println!("after step {number}");
        agrees(&world, &model, &mut dice).await;
    }
    let world = world.crash().await;
    agrees(&world, &model, &mut dice).await;
    agrees(&world.restart().await, &model, &mut dice).await;
}
