//! Users, conversations and devices of a run. All of it follows from the seed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::{Value, json};

use super::{ADMIN_KEY, Sizes};
use crate::device::{Device, DeviceIdentity, Habits, ReadingHabit};
use crate::dice::Dice;
use crate::http::{request, request_until_answered};
use crate::names::{ConversationName, DeviceName, Membership, UserName};

/// Group size up to which the server publishes each member's ticks individually; above, it
/// aggregates them.
const SMALL_GROUP: usize = 16;
/// Size of a group with aggregated ticks. It must be above `SMALL_GROUP`, or no test covers them.
const LARGE_GROUP: usize = 20;

pub struct GroupPlan {
    pub name: ConversationName,
    /// Members before the first message. The first of them is never removed.
    pub founders: Vec<UserName>,
    /// Users who are removed and added during the run.
    pub comers_and_goers: Vec<UserName>,
}

impl GroupPlan {
    /// Returns a member who sees every message.
    pub fn witness(&self) -> &UserName {
        &self.founders[0]
    }
}

pub struct Scene {
    pub seed: u64,
    pub tokens: BTreeMap<UserName, String>,
    pub lazy: BTreeSet<UserName>,
    pub plans: Vec<GroupPlan>,
    pub unsteady: Arc<BTreeSet<Membership>>,
}

impl Scene {
    pub async fn set_up(address: &str, sizes: &Sizes, dice: &mut Dice) -> Scene {
        let users: Vec<UserName> =
            (0..sizes.users()).map(|number| UserName::new(&format!("user{number:03}"))).collect();
        let mut tokens = BTreeMap::new();
        for user in &users {
            tokens.insert(user.clone(), mint(address, user).await);
        }
        let lazy = users.iter().filter(|_| dice.one_in(3)).cloned().collect();
        let mut plans = Vec::new();
        let groups = sizes.conversations * 2 / 5;
        for (one, other) in pairs(&users, sizes.conversations - groups, dice) {
            let body = json!({"kind": "direct", "peer": other.as_str()});
            let name = open(address, &tokens[&one], &body).await;
            plans.push(GroupPlan { name, founders: vec![one, other], comers_and_goers: Vec::new() });
        }
        for (number, (founders, comers_and_goers)) in gatherings(&users, groups, dice).into_iter().enumerate()
        {
            let members: Vec<&str> = founders.iter().map(UserName::as_str).collect();
            let body = json!({"kind": "group", "title": format!("group {number}"), "members": members});
            let name = open(address, &tokens[&founders[0]], &body).await;
            plans.push(GroupPlan { name, founders, comers_and_goers });
        }
        let seats = |plan: &GroupPlan| -> Vec<Membership> {
            plan.comers_and_goers.iter().map(|user| (plan.name.clone(), user.clone())).collect()
        };
        let unsteady = Arc::new(plans.iter().flat_map(seats).collect());
        Scene { seed: sizes.seed, tokens, lazy, plans, unsteady }
    }

    /// Creates one device for each user, then a second one for some.
    pub fn devices(&self, sizes: &Sizes, dice: &mut Dice) -> Vec<Device> {
        let users: Vec<&UserName> = self.tokens.keys().collect();
        let second = sizes.clients - users.len();
        let make = |number: usize| {
            let user = users[number % users.len()];
            let kind = if number < users.len() { "phone" } else { "laptop" };
            let identity = DeviceIdentity {
                name: DeviceName::new(&format!("{user}-{kind}")),
                user: user.clone(),
                token: self.tokens[user].clone(),
                seed: self.seed,
                unsteady: Arc::clone(&self.unsteady),
            };
            let long_absence_ms = if dice.one_in(3) { sizes.seconds * 1000 / 3 } else { 0 };
            let habits = Habits {
                tells_positions: !dice.one_in(3),
                only_device: number < users.len() && number >= second,
                reader: if self.lazy.contains(user) { ReadingHabit::Lazy } else { ReadingHabit::Eager },
                long_absence_ms,
                stays_connected: false,
                pause_ms: dice.between(60, 240),
            };
            Device::new(identity, habits, dice.fork())
        };
        (0..sizes.clients).map(make).collect()
    }
}

/// Returns distinct pairs of users.
fn pairs(users: &[UserName], count: usize, dice: &mut Dice) -> Vec<(UserName, UserName)> {
    let mut pairs = BTreeSet::new();
    while pairs.len() < count {
        let (one, other) = (dice.below(users.len() as u64), dice.below(users.len() as u64));
        if one < other {
            pairs.insert((users[one as usize].clone(), users[other as usize].clone()));
        }
    }
    pairs.into_iter().collect()
}

/// Returns the founders of each group, and the users who are removed and added. Every user is in at
/// least one group. The first group is large, and the third has `SMALL_GROUP` members or a few
/// more.
fn gatherings(users: &[UserName], count: usize, dice: &mut Dice) -> Vec<(Vec<UserName>, Vec<UserName>)> {
    let mut groups: Vec<Vec<UserName>> = Vec::new();
    for number in 0..count {
        let size = match number {
            0 => LARGE_GROUP,
            // Members join and leave this group, so it crosses the limit between individual and
            // aggregated ticks.
            2 => SMALL_GROUP,
            _ => dice.between(3, 10) as usize,
        };
        let mut all = users.to_vec();
        dice.shuffle(&mut all);
        all.truncate(size);
        groups.push(all);
    }
    for user in users {
        if !groups.iter().any(|group| group.contains(user)) {
            groups[dice.below(count as u64) as usize].push(user.clone());
        }
    }
    let with_comers = |(number, founders): (usize, Vec<UserName>)| {
        let mut strangers: Vec<UserName> =
            users.iter().filter(|user| !founders.contains(user)).cloned().collect();
        dice.shuffle(&mut strangers);
        // The creator and one more founder always stay.
        let from_within = founders.iter().skip(2).take(2);
        let comers = from_within.chain(strangers.iter().take(2)).cloned();
        let comers = if number % 2 == 0 { comers.collect() } else { Vec::new() };
        (founders, comers)
    };
    groups.into_iter().enumerate().map(with_comers).collect()
}

async fn mint(address: &str, user: &UserName) -> String {
    let body = json!({"user_id": user.as_str(), "ttl_s": 86400});
    let asked = request_until_answered(address, "POST", "/v1/tokens", ADMIN_KEY, Some(&body)).await;
    let (status, answer) = asked.unwrap();
    assert!(status < 300, "{answer}");
    answer["token"].as_str().unwrap().to_owned()
}

async fn open(address: &str, token: &str, body: &Value) -> ConversationName {
    let (status, answer) = request(address, "POST", "/v1/conversations", token, Some(body)).await.unwrap();
    assert!(status < 300, "{answer}");
    ConversationName::new(answer["conversation_id"].as_str().unwrap())
}
