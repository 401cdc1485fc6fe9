//! Membership changes under load: members are removed from groups and added again.

use std::time::Duration;

use serde_json::json;
use tokio::sync::watch;
use tokio::time::timeout;

use super::{GroupPlan, Scene};
use crate::client::{Situation, stopped};
use crate::dice::Dice;
use crate::http::request;
use crate::names::{ConversationName, UserName};

/// Removes and adds members at random, as group admins, until `stop` is set. Returns the number of
/// answered requests.
pub async fn comings_and_goings(
    changes: Vec<ChurningMember>,
    mut dice: Dice,
    mut situation: watch::Receiver<Situation>,
) -> usize {
    let mut answered = 0;
    loop {
        let now = situation.borrow_and_update().clone();
        if now.stop {
            return answered;
        }
        let address = dice.pick(&now.addresses).cloned();
        if let (Some(address), Some(change)) = (address, dice.pick(&changes).cloned()) {
            answered += usize::from(change.make(&address, &mut dice).await);
        }
        let pause = Duration::from_millis(dice.between(20, 200));
        let _either = timeout(pause, stopped(&mut situation)).await;
    }
}

/// A member whom an admin removes and adds during the run.
#[derive(Clone)]
pub struct ChurningMember {
    group: ConversationName,
    user: UserName,
    admin_token: String,
}

impl ChurningMember {
    pub fn all(scene: &Scene) -> Vec<ChurningMember> {
        let of_plan = |plan: &GroupPlan| -> Vec<ChurningMember> {
            let change = |user: &UserName| ChurningMember {
                group: plan.name.clone(),
                user: user.clone(),
                admin_token: scene.tokens[plan.witness()].clone(),
            };
            plan.comers_and_goers.iter().map(change).collect()
        };
        scene.plans.iter().flat_map(of_plan).collect()
    }

    /// Adds or removes the member at random. Returns false if there was no answer or a 503.
    async fn make(&self, address: &str, dice: &mut Dice) -> bool {
        let path = format!("/v1/conversations/{}/members", self.group);
        let answer = if dice.below(3) < 2 {
            let body = json!({"members": [self.user.as_str()]});
            request(address, "POST", &path, &self.admin_token, Some(&body)).await
        } else {
            let path = format!("{path}/{}", self.user);
            request(address, "DELETE", &path, &self.admin_token, None).await
        };
        let Ok((status, answer)) = answer else { return false };
        // The history shows whether the change took effect.
        if status == 503 {
            return false;
        }
        let out_already = answer["error"]["code"] == "member_not_found";
        assert!(status < 300 || out_already, "{} in {}: {status} {answer}", self.user, self.group);
        true
    }
}
