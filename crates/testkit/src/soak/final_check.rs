//! The final check after all traffic has ended. Histories are complete, devices are up to date,
//! ticks are within the reported bounds, and unread counts are exact.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::device::Life;
use super::ledger::{Breach, ConversationBreach, Shown};
use super::{SoakCounts, SoakState};
use crate::device::ReadState;
use crate::dice::Dice;
use crate::http::request_until_answered;
use crate::load::Scene;
use crate::names::{ConversationName, UserName};

/// Totals of a successful check.
#[derive(Clone, Copy, Debug)]
pub struct Verdict {
    pub happened: SoakCounts,
    /// Messages in all conversations, compared one by one.
    pub messages: u64,
    pub seats: u64,
    pub unread: u64,
    /// Memory of the ledger.
    pub ledger_bytes: usize,
}

/// Runs the final check. Panics on the first breach.
pub async fn judge(scene: &Arc<Scene>, world: &Arc<SoakState>, lives: &[Life], dice: &mut Dice) -> Verdict {
    let heads = histories(scene, world).await;
    for life in lives {
        for (conversation, end) in life.ends() {
            let head = heads[conversation];
            let breach = Breach::NotUpToDate { writer: life.writer, end, head };
            assert!(end == head, "{}", ConversationBreach { conversation: conversation.clone(), breach });
        }
    }
    let court = HistoryCheck { scene, world, heads: &heads };
    let standing = court.ticks(dice).await;
    let unread = court.inboxes(&standing).await;
    let happened = lives.iter().fold(SoakCounts::default(), |sum, life| sum.and(life.happened));
    Verdict {
        happened,
        messages: heads.values().sum(),
        seats: standing.len() as u64,
        unread,
        ledger_bytes: world.ledger.bytes(),
    }
}

/// Reads every conversation completely, several in parallel. Returns their heads.
async fn histories(scene: &Arc<Scene>, world: &Arc<SoakState>) -> BTreeMap<ConversationName, u64> {
    /// Upper bound on conversations that are read concurrently. More only shorten the check.
    const AT_ONCE: usize = 4;
    let mut plans = (0..scene.plans.len()).collect::<Vec<_>>();
    let (mut reading, mut heads) = (JoinSet::new(), BTreeMap::new());
    loop {
        while let Some(number) = (reading.len() < AT_ONCE).then(|| plans.pop()).flatten() {
            reading.spawn(history(Arc::clone(scene), number, Arc::clone(world)));
        }
        match reading.join_next().await {
            Some(read) => {
                let (conversation, head) = read.unwrap();
                heads.insert(conversation, head);
            }
            None => return heads,
        }
    }
}

async fn history(scene: Arc<Scene>, number: usize, world: Arc<SoakState>) -> (ConversationName, u64) {
    let plan = &scene.plans[number];
    let conversation = plan.name.clone();
    let found = |breach| ConversationBreach { conversation: conversation.clone(), breach };
    let mut reader = world.ledger.reader(conversation.clone());
    loop {
        let path = format!("/v1/conversations/{conversation}/messages?after_seq={}&limit=100", reader.head());
        let page = ask(&world, &scene, plan.witness(), "GET", &path, None).await;
        for message in page["messages"].as_array().into_iter().flatten() {
            let shown = Shown::of_json(message).unwrap_or_else(|| panic!("a message: {message}"));
            reader.next(shown).map_err(found).unwrap_or_else(|found| panic!("{found}"));
        }
        if page["next_after_seq"].is_null() {
            let head = reader.end().map_err(found).unwrap_or_else(|found| panic!("{found}"));
            return (conversation, head);
        }
    }
}

struct HistoryCheck<'a> {
    scene: &'a Scene,
    world: &'a SoakState,
    heads: &'a BTreeMap<ConversationName, u64>,
}

type ReadStatesByMember = BTreeMap<(ConversationName, UserName), ReadState>;

impl HistoryCheck<'_> {
    /// Checks that each read state lies between what was published and what the devices claimed.
    /// Then sends final receipts and checks that the read states match them.
    async fn ticks(&self, dice: &mut Dice) -> ReadStatesByMember {
        let mut standing = ReadStatesByMember::new();
        for plan in &self.scene.plans {
            let (room, head) = (&plan.name, self.heads[&plan.name]);
            let mut expected = BTreeMap::new();
            for (user, found) in self.statuses(room, plan.witness()).await {
                let (least, most) = self.world.ledger.bounds(room, &user);
                let breach = Breach::TickOutOfBounds { of: user.clone(), found, least, most };
                let within = found.covers(least) && most.covers(found);
                assert!(within, "{}", ConversationBreach { conversation: room.clone(), breach });
                let read = dice.between(most.read.max(self.world.ledger.last_own(room, &user)), head);
                let now = ReadState { delivered: head, read };
                self.mark(room, &user, "delivered", head).await;
                assert_eq!(
                    self.mark(room, &user, "read", read).await,
                    now,
                    "{user} in {room} after its last receipts"
                );
                expected.insert(user.clone(), now);
                standing.insert((room.clone(), user), now);
            }
            let found = self.statuses(room, plan.witness()).await;
            assert_eq!(found, expected, "the status of {room}");
        }
        standing
    }

    async fn statuses(&self, room: &ConversationName, reader: &UserName) -> BTreeMap<UserName, ReadState> {
        let path = format!("/v1/conversations/{room}/status");
        let answer = ask(self.world, self.scene, reader, "GET", &path, None).await;
        let member = |member: &Value| {
            let user = UserName::new(member["user_id"].as_str().expect("a name"));
            (user, ReadState::from_json(member).expect("both read seqs"))
        };
        answer["members"].as_array().expect("a status lists members").iter().map(member).collect()
    }

    async fn mark(&self, room: &ConversationName, user: &UserName, kind: &str, seq: u64) -> ReadState {
        let path = format!("/v1/conversations/{room}/{kind}");
        let answer = ask(self.world, self.scene, user, "POST", &path, Some(&json!({"seq": seq}))).await;
        ReadState::from_json(&answer).expect("the answer has both read seqs")
    }

    /// Checks that each inbox lists every conversation once, with its head and exact unread count.
    /// Returns the total.
    async fn inboxes(&self, standing: &ReadStatesByMember) -> u64 {
        let mut sum = 0;
        for user in self.scene.tokens.keys() {
            let mut found = BTreeMap::new();
            let mut cursor = String::new();
            loop {
                let path = format!("/v1/conversations?limit=20{cursor}");
                let page = ask(self.world, self.scene, user, "GET", &path, None).await;
                for entry in page["conversations"].as_array().into_iter().flatten() {
                    let room = ConversationName::new(entry["conversation_id"].as_str().expect("an id"));
                    let numbers = (entry["last_seq"].as_u64(), entry["unread"].as_u64());
                    let before = found.insert(room, numbers);
                    assert!(before.is_none(), "the inbox of {user} has a conversation twice: {entry}");
                }
                let Some(next) = page["next_cursor"].as_str() else { break };
                cursor = format!("&cursor={next}");
            }
            let seats = standing.iter().filter(|((_, of), _)| of == user);
            let expected: BTreeMap<_, _> = seats
                .map(|(seat, stands)| {
                    let unread = self.world.ledger.unread(seat, stands.read);
                    sum += unread;
                    (seat.0.clone(), (Some(self.heads[&seat.0]), Some(unread)))
                })
                .collect();
            assert_eq!(found, expected, "the inbox of {user}: head and unread of each conversation");
        }
        sum
    }
}

async fn ask(
    world: &SoakState,
    scene: &Scene,
    user: &UserName,
    method: &str,
    path: &str,
    body: Option<&Value>,
) -> Value {
    let answer = request_until_answered(&world.address, method, path, &scene.tokens[user], body).await;
    let (status, answer) = answer.expect("the server answers");
    assert!(status < 300, "{user}: {method} {path}: {status} {answer}");
    answer
}
