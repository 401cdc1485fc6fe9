//! The final check: views against the history, ticks and unread counts against the model.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::Scene;
use crate::checker::{Checked, ClientEvent, Histories, check};
use crate::device::{Device, ReadState, Trouble};
use crate::dice::Dice;
use crate::http::{messages, request_until_answered};
use crate::model::{ClaimedReadStates, ConversationHistory, ReceiptCounts};
use crate::names::{ConversationName, UserName};

/// The read state of every member of every conversation.
pub type ReadStatesByConversation = BTreeMap<ConversationName, BTreeMap<UserName, ReadState>>;

pub struct Judge<'a> {
    pub scene: &'a Scene,
    pub threads: BTreeMap<ConversationName, ConversationHistory>,
}

impl<'a> Judge<'a> {
    /// Reads the complete history of every conversation.
    pub async fn new(scene: &'a Scene, address: &str) -> Judge<'a> {
        let mut threads = BTreeMap::new();
        for plan in &scene.plans {
            let token = &scene.tokens[plan.witness()];
            let history = messages(address, token, plan.name.as_str()).await;
            let thread =
                ConversationHistory::new(&plan.founders, &history).expect("all messages are well-formed");
            threads.insert(plan.name.clone(), thread);
        }
        Judge { scene, threads }
    }

    /// Checks that no acknowledged message is lost, duplicated, moved or changed, and that pushes
    /// were in order. Panics on a violation.
    pub fn logs(&self, devices: &[Device]) -> Checked {
        let stored: std::collections::HashSet<&str> = self
            .threads
            .values()
            .flat_map(|thread| &thread.messages)
            .map(|message| message.message_id.as_str())
            .collect();
        let logs = devices.iter().map(|device| {
            let mut log = device.record.log.clone();
            // Attempts of a removed user do not count, unless an earlier unanswered attempt was
            // stored.
            log.events.retain(|event| {
                !matches!(event, ClientEvent::Attempted { message_id, .. }
                    if device.record.refused.contains(message_id) && !stored.contains(message_id.as_str()))
            });
            log
        });
        let logs: Vec<_> = logs.collect();
        let histories: Histories =
            self.threads.iter().map(|(name, thread)| (name.as_str().to_owned(), thread.stored())).collect();
        let seed = self.scene.seed;
        check(&logs, &histories).unwrap_or_else(|violations| panic!("seed {seed}: {violations:#?}"))
    }

    /// Checks that every device has exactly the messages visible to its user, in order. Returns how
    /// many were compared.
    pub fn views(&self, devices: &[Device]) -> usize {
        let mut compared = 0;
        for device in devices {
            for (conversation, thread) in &self.threads {
                let Some(visible) = thread.visible_to(&device.identity.user) else { continue };
                let seen = device.view(conversation).map(|view| view.messages()).unwrap_or_default();
                compared += visible.len();
                if seen == visible {
                    continue;
                }
                let differs = seen.iter().zip(visible).position(|(one, other)| one != other);
                let at = differs.unwrap_or(seen.len().min(visible.len()));
                let trouble = Trouble::Stuck(format!(
                    "has {} of {} messages; first difference: {:?}, stored {:?}",
                    seen.len(),
                    visible.len(),
                    seen.get(at),
                    visible.get(at)
                ));
                panic!("{}", device.violation(Some(conversation), trouble));
            }
        }
        compared
    }

    /// Checks, before the final receipts, that each read state lies between what was published and
    /// what the devices claimed.
    pub async fn ticks_within_bounds(&self, address: &str, devices: &[Device]) {
        let claims = claims_of(devices);
        for ((conversation, user), told) in claims.told() {
            let head = self.threads[conversation].head();
            let seed = self.scene.seed;
            assert!(told.delivered <= head, "seed {seed}: {user} in {conversation}: {told:?} above {head}");
        }
        self.aggregates_stay_below_every_member(&claims, devices);
        for plan in &self.scene.plans {
            let thread = &self.threads[&plan.name];
            for (user, found) in self.statuses(address, &plan.name, plan.witness()).await {
                let steady = !self.scene.unsteady.contains(&(plan.name.clone(), user.clone()));
                let bounds = claims.bounds(&plan.name, &user, thread, steady);
                let place = format!("seed {}: {user} in {}", self.scene.seed, plan.name);
                assert!(bounds.hold(found), "{place}: {found:?} is not within {bounds:?}");
            }
        }
    }

    /// Checks that the aggregate read state of a group was never above that of any steady member.
    fn aggregates_stay_below_every_member(&self, claims: &ClaimedReadStates, devices: &[Device]) {
        for plan in &self.scene.plans {
            let thread = &self.threads[&plan.name];
            let steady = plan.founders.iter().filter(|user| !plan.comers_and_goers.contains(user));
            for user in steady {
                let most = claims.bounds(&plan.name, user, thread, true).most;
                for device in devices.iter().filter(|device| device.identity.user != *user) {
                    let told = device.record.lowest_of_others.get(&plan.name).copied().unwrap_or_default();
                    let place = format!("seed {}: {user} in {}", self.scene.seed, plan.name);
                    assert!(
                        most.covers(told),
                        "no device of {place} sent {told:?}, which {} received",
                        device.identity.name
                    );
                }
            }
        }
    }

    /// Sends the final receipts over HTTP: everyone has received everything, and lazy readers stop
    /// at a random seq. Returns the resulting read states.
    pub async fn last_marks(
        &self,
        address: &str,
        devices: &[Device],
        dice: &mut Dice,
    ) -> ReadStatesByConversation {
        let claims = claims_of(devices);
        let mut standing = ReadStatesByConversation::new();
        for (conversation, thread) in &self.threads {
            // Request the counts before the change too, so that a cached count must be updated.
            let asker = thread.members.keys().next().expect("every conversation has a message");
            self.counted(address, asker, conversation, thread.head()).await;
            for (user, joined) in &thread.members {
                let (head, mut read) = (thread.head(), thread.head());
                if self.scene.lazy.contains(user) {
                    let bounds = claims.bounds(conversation, user, thread, true);
                    read = dice.between(bounds.most.read.max(joined - 1), head);
                }
                self.mark(address, conversation, user, "delivered", head).await;
                let found = self.mark(address, conversation, user, "read", read).await;
                let expected = ReadState { delivered: head, read };
                let seed = self.scene.seed;
                assert_eq!(found, expected, "seed {seed}: {user} in {conversation} after its last receipts");
                standing.entry(conversation.clone()).or_default().insert(user.clone(), expected);
            }
            self.statuses_and_receipts(address, conversation, &standing[conversation], dice).await;
        }
        standing
    }

    async fn mark(
        &self,
        address: &str,
        conversation: &ConversationName,
        user: &UserName,
        kind: &str,
        seq: u64,
    ) -> ReadState {
        let path = format!("/v1/conversations/{conversation}/{kind}");
        let answer = self.ask(address, user, "POST", &path, Some(&json!({"seq": seq}))).await;
        ReadState::from_json(&answer).expect("the answer has both read seqs")
    }

    /// Checks all numbers of the server against the model. Returns the total of unread messages.
    pub async fn numbers(&self, address: &str, standing: &ReadStatesByConversation, dice: &mut Dice) -> u64 {
        for (conversation, expected) in standing {
            for reader in expected.keys() {
                let found = self.statuses(address, conversation, reader).await;
                let seed = self.scene.seed;
                assert_eq!(
                    found, *expected,
                    "seed {seed}: the status of {conversation}, as {reader} sees it"
                );
            }
            self.receipts(address, conversation, &expected.clone(), dice).await;
        }
        let mut unread = 0;
        for user in self.scene.tokens.keys() {
            unread += self.inbox(address, user, standing).await;
        }
        unread
    }

    async fn statuses_and_receipts(
        &self,
        address: &str,
        conversation: &ConversationName,
        expected: &BTreeMap<UserName, ReadState>,
        dice: &mut Dice,
    ) {
        for reader in expected.keys() {
            let found = self.statuses(address, conversation, reader).await;
            let seed = self.scene.seed;
            assert_eq!(found, *expected, "seed {seed}: the status of {conversation}, as {reader} sees it");
        }
        self.receipts(address, conversation, expected, dice).await;
    }

    async fn receipts(
        &self,
        address: &str,
        conversation: &ConversationName,
        standing: &BTreeMap<UserName, ReadState>,
        dice: &mut Dice,
    ) {
        let thread = &self.threads[conversation];
        let readers: Vec<(&UserName, &u64)> = thread.members.iter().collect();
        for _ in 0..3 {
            let Some((reader, joined)) = dice.pick(&readers).copied().filter(|_| thread.head() > 0) else {
                return;
            };
            let seq = dice.between(*joined, thread.head());
            let found = self.counted(address, reader, conversation, seq).await;
            let expected = thread.receipts(seq, standing);
            let seed = self.scene.seed;
            assert_eq!(found, expected, "seed {seed}: who has {seq} of {conversation}, as {reader} sees it");
        }
    }

    /// Returns the receipt counts of one message from the server; `None` if there is no message at
    /// this seq, such as at a void.
    async fn counted(
        &self,
        address: &str,
        reader: &UserName,
        conversation: &ConversationName,
        seq: u64,
    ) -> Option<ReceiptCounts> {
        let path = format!("/v1/conversations/{conversation}/status?seq={seq}");
        let answer = request_until_answered(address, "GET", &path, &self.scene.tokens[reader], None).await;
        let (status, answer) = answer.expect("the server answers");
        let counted = ReceiptCounts::from_answer(status, &answer);
        counted.unwrap_or_else(|unexpected| {
            panic!("seed {}: {reader}: GET {path}: {unexpected}", self.scene.seed)
        })
    }

    /// Checks that the inbox lists every conversation of the user once, latest first, with the
    /// right numbers. Returns the unread total.
    async fn inbox(&self, address: &str, user: &UserName, standing: &ReadStatesByConversation) -> u64 {
        let mut entries: Vec<Value> = Vec::new();
        let mut cursor = String::new();
        loop {
            let path = format!("/v1/conversations?limit=4{cursor}");
            let mut page = self.ask(address, user, "GET", &path, None).await;
            entries.append(page["conversations"].as_array_mut().expect("a page has conversations"));
            let Some(next) = page["next_cursor"].as_str() else { break };
            cursor = format!("&cursor={next}");
        }
        let seed = self.scene.seed;
        let times: Vec<i64> = entries.iter().filter_map(|entry| entry["last_at"].as_i64()).collect();
        assert!(times.is_sorted_by(|one, next| one >= next), "seed {seed}: the inbox of {user}: {times:?}");
        // Only its creator lists a direct conversation without messages.
        let with_messages = entries.iter().filter(|entry| entry["last_seq"] != 0);
        let mut found: Vec<&str> =
            with_messages.filter_map(|entry| entry["conversation_id"].as_str()).collect();
        found.sort_unstable();
        let own = self.threads.iter().filter(|(_, thread)| thread.members.contains_key(user));
        let own = own.filter(|(_, thread)| !thread.messages.is_empty());
        let expected: Vec<&str> = own.map(|(name, _)| name.as_str()).collect();
        assert_eq!(found, expected, "seed {seed}: the conversations of {user}");
        let mut unread = 0;
        for entry in &entries {
            let expected = self.entry(user, entry, standing);
            for (field, value) in expected.as_object().expect("an object") {
                assert_eq!(&entry[field], value, "seed {seed}: {field} in the inbox of {user}: {entry}");
            }
            unread += entry["unread"].as_u64().expect("a number");
        }
        unread
    }

    /// Returns the expected values of the checked fields of an inbox entry.
    fn entry(&self, user: &UserName, found: &Value, standing: &ReadStatesByConversation) -> Value {
        let conversation = ConversationName::new(found["conversation_id"].as_str().expect("an id"));
        let thread = &self.threads[&conversation];
        let seqs = |of: ReadState| json!({"last_delivered_seq": of.delivered, "last_read_seq": of.read});
        let own = standing[&conversation][user];
        let mut entry = json!({
            "last_seq": thread.head(),
            "first_seq": thread.members[user],
            "member_count": thread.members.len(),
            "unread": thread.unread(user, own.read),
            "my_status": seqs(own),
            "peer_status": seqs(thread.others(user, &standing[&conversation])),
        });
        if let (Some(last), Some(last_at)) = (thread.messages.last(), thread.last_at) {
            let preview =
                if last.is_notice() { "" } else { &last.content[..last.content.floor_char_boundary(120)] };
            entry["last_at"] = json!(last_at);
            entry["preview"] = json!(preview);
        }
        entry
    }

    async fn statuses(
        &self,
        address: &str,
        conversation: &ConversationName,
        reader: &UserName,
    ) -> BTreeMap<UserName, ReadState> {
        let path = format!("/v1/conversations/{conversation}/status");
        let answer = self.ask(address, reader, "GET", &path, None).await;
        let members = answer["members"].as_array().expect("a status lists members");
        let member = |member: &Value| {
            let user = UserName::new(member["user_id"].as_str().expect("a name"));
            (user, ReadState::from_json(member).expect("both read seqs"))
        };
        members.iter().map(member).collect()
    }

    async fn ask(
        &self,
        address: &str,
        user: &UserName,
        method: &str,
        path: &str,
        body: Option<&Value>,
    ) -> Value {
        let token = &self.scene.tokens[user];
        let answer = request_until_answered(address, method, path, token, body).await;
        let (status, answer) = answer.expect("the server answers");
        assert!(status < 300, "seed {}: {user}: {method} {path}: {status} {answer}", self.scene.seed);
        answer
    }
}

fn claims_of(devices: &[Device]) -> ClaimedReadStates {
    let mut claims = ClaimedReadStates::default();
    devices.iter().for_each(|device| claims.add(&device.identity.user, &device.record));
    claims
}
