//! Redis against memory: whatever is done in whatever order, both answer the same.
#![expect(clippy::unwrap_used, reason = "a test stops where its own set-up fails")]

mod hints_common;

use std::sync::Arc;

use bluetick_core::{ConversationId, Epoch, InboxFilter, InboxKey, InboxSection, Seq, Timestamp, UserId};
use bluetick_store_cloud::NodeId;
use bluetick_store_cloud::hints::{Hints, MessageKey, RegistryCopy, Reserve, Seed};
use bluetick_testkit::dice::Dice;
use hints_common::*;

const STEPS: usize = 3000;

#[tokio::test]
async fn one_redis_answers_as_memory_does() {
    compare(single().await).await;
}

#[tokio::test]
async fn a_cluster_answers_as_memory_does() {
    compare(cluster().await).await;
}

struct World {
    conversations: Vec<ConversationId>,
    people: Vec<UserId>,
    dice: Dice,
}

impl World {
    fn conversation(&mut self) -> ConversationId {
        *self.dice.pick(&self.conversations).unwrap()
    }

    fn user(&mut self) -> UserId {
        self.dice.pick(&self.people).unwrap().clone()
    }

    fn some_people(&mut self) -> Vec<UserId> {
        (0..self.dice.below(5)).map(|_| self.user()).collect()
    }

    fn moment(&mut self) -> Timestamp {
        at(self.dice.below(4) as i64 * DAY_MS + self.dice.below(5) as i64)
    }

    fn seq(&mut self) -> Seq {
        Seq::new(self.dice.below(30))
    }

    fn shelf(&mut self) -> InboxSection {
        *self.dice.pick(&InboxSection::ALL).unwrap()
    }

    fn copy(&mut self) -> RegistryCopy {
        let (epoch, version) = (Epoch::new(1 + self.dice.below(2)), 1 + self.dice.below(9));
        RegistryCopy { epoch, version, text: format!("{};{epoch:?}", 100 * version).into() }
    }

    fn key(&mut self) -> MessageKey {
        MessageKey(self.dice.below(40))
    }

    fn place(&mut self) -> InboxKey {
        InboxKey { shelf: self.shelf(), last_at: self.moment(), id: self.conversation() }
    }
}

async fn compare(redis: Arc<dyn Hints>) {
    let seed = std::env::var("BLUETICK_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed = seed.unwrap_or_else(|| u64::from(std::process::id()));
    println!("BLUETICK_SEED={seed}");
    let mut world = World {
        conversations: (0..4).map(|_| conversation()).collect(),
        people: (0..4).map(|_| user()).collect(),
        dice: Dice::new(seed),
    };
    let memory = memory().await;
    for step in 0..STEPS {
        let mut again = World {
            conversations: world.conversations.clone(),
            people: world.people.clone(),
            dice: world.dice.fork(),
        };
        let dice = again.dice.clone();
        let (name, expected) = one_step(&*memory, &mut again).await;
        again.dice = dice;
        let (_, found) = one_step(&*redis, &mut again).await;
        assert_eq!(found, expected, "step {step}: {name}");
    }
}

async fn one_step(hints: &dyn Hints, world: &mut World) -> (&'static str, String) {
    let id = world.conversation();
    match world.dice.below(15) {
        0..=3 => {
            let instead_of = world.dice.one_in(4).then(|| world.seq().next());
            let reserve = Reserve {
                conversation: id,
                id: world.key(),
                sender: world.user(),
                now: world.moment(),
                instead_of,
                settled: world.seq(),
                registry_version: world.dice.below(6),
            };
            ("reserve", format!("{:?}", hints.reserve(&reserve).await.unwrap()))
        }
        4 => {
            let mut ids = std::collections::BTreeMap::new();
            for _ in 0..world.dice.below(6) {
                ids.insert(world.key(), (world.seq().next(), world.moment()));
            }
            let sent = (0..world.dice.below(3)).map(|_| (world.user(), world.seq())).collect();
            let seed = Seed {
                is_whole: true,
                read_at: None,
                conversation: id,
                head: world.seq(),
                settled: world.seq(),
                last_at: world.moment(),
                members_version: world.dice.below(9),
                ids: ids.into_iter().map(|(id, (seq, at))| (id, seq, at)).collect(),
                sent,
                registry: world.dice.one_in(2).then(|| world.copy()),
            };
            ("seed", format!("{:?}", hints.seed(&seed).await.unwrap()))
        }
        5 => ("glance", format!("{:?}", hints.glance(id).await.unwrap())),
        6 => {
            let people = world.some_people();
            ("sent", format!("{:?}", hints.sent(id, &people).await.unwrap()))
        }
        7 => {
            let version = world.dice.below(20);
            ("members_changed", format!("{:?}", hints.members_changed(id, version).await.unwrap()))
        }
        8 => {
            let mut people = world.some_people();
            people.sort();
            people.dedup();
            let at = world.moment();
            ("touch", format!("{:?}", hints.touch(id, at, &people).await.unwrap()))
        }
        9 => {
            let people = world.some_people();
            ("whereabouts", format!("{:?}", hints.whereabouts(id, &people).await.unwrap()))
        }
        10 => {
            let (user, pending) = (world.user(), world.dice.one_in(2));
            ("set_pending", format!("{:?}", hints.set_pending(&user, id, pending).await.unwrap()))
        }
        11 => {
            let (user, place) = (world.user(), (world.shelf(), world.moment()));
            let place = (!world.dice.one_in(4)).then_some(place);
            ("shelve", format!("{:?}", hints.shelve(&user, id, place).await.unwrap()))
        }
        12 => {
            let (user, node) = (world.user(), NodeId::new(format!("node{}", world.dice.below(3))));
            if world.dice.one_in(3) {
                hints.disconnect(&user, &node).await.unwrap();
            } else {
                hints.connect(&user, &node).await.unwrap();
            }
            ("connect", String::new())
        }
        13 => {
            let copy = world.copy();
            ("registry_changed", format!("{:?}", hints.registry_changed(id, &copy).await.unwrap()))
        }
        _ => {
            let user = world.user();
            if world.dice.one_in(8) {
                let mut places: Vec<_> = (0..world.dice.below(4)).map(|_| world.place()).collect();
                places.sort_by_key(|place| place.id);
                places.dedup_by_key(|place| place.id);
                hints.fill_inbox(&user, &places).await.unwrap();
            }
            let filters = [InboxFilter::All, InboxFilter::Archived, InboxFilter::NotArchived];
            let filter = *world.dice.pick(&filters).unwrap();
            let after = world.dice.one_in(2).then(|| world.place());
            let limit = 1 + world.dice.below(4) as usize;
            ("inbox", format!("{:?}", hints.inbox(&user, filter, after, limit).await.unwrap()))
        }
    }
}
