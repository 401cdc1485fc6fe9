//! The HTTP client of a user. It reads pages, inboxes and ticks, and sometimes sends a message. It
//! adds and removes group members, leaves groups, and attempts accesses that the server must
//! refuse.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bluetick_core::{ConversationId, ConversationKind, UserId};
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::audit::{Guarantee, ReadState, ReadStates, ReceivedMessage};
use crate::cluster::{Cluster, person, short};
use crate::device::member_state;
use crate::dice::Dice;
use crate::http::{self, JsonResponse};

pub struct HttpAuditor {
    town: Arc<Cluster>,
    pub user: UserId,
    name: String,
    dice: Dice,
    token: String,
    /// Conversations that the user belongs to from their creation.
    conversations: Vec<ConversationId>,
    /// Groups in which the user may add and remove members.
    groups: Vec<ConversationId>,
    people: usize,
    /// The user's device relies on pending rows to catch up. The sender's own messages create none,
    /// so this client must not send.
    sends_nothing: bool,
    /// Suppresses trace lines for the requests of the final check.
    is_quiet: bool,
    number: u64,
}

/// Page size of history requests, in messages. It is small, so that a history spans several pages.
/// The server refuses a size above the API's maximum.
const PAGE: usize = 20;

impl HttpAuditor {
    pub fn new(town: &Arc<Cluster>, number: usize, people: usize, sends_nothing: bool) -> HttpAuditor {
        let user = person(number);
        let name = format!("{user}/desk");
        let (dice, token) = (town.dice.of(&name), town.token(&user));
        let town = Arc::clone(town);
        HttpAuditor {
            town,
            user,
            name,
            dice,
            token,
            conversations: Vec::new(),
            groups: Vec::new(),
            people,
            sends_nothing,
            is_quiet: false,
            number: 0,
        }
    }

    pub fn belongs_to(&mut self, id: ConversationId, may_invite: bool) {
        self.conversations.push(id);
        if may_invite {
            self.groups.push(id);
        }
    }

    pub fn be_quiet(&mut self) {
        self.is_quiet = true;
    }

    pub fn conversations(&self) -> &[ConversationId] {
        &self.conversations
    }

    fn note(&self, what: impl std::fmt::Display) {
        self.town.trace.note(&self.name, what);
    }

    async fn call(&mut self, method: &str, path: &str, body: Option<&Value>) -> Option<JsonResponse> {
        let answer = http::call(&self.town, &mut self.dice, &self.token, method, path, body).await;
        if !self.is_quiet {
            self.note(format_args!(
                "{method} {path}: {}",
                answer.as_ref().map_or_else(|| "no answer".to_owned(), |answer| answer.status.to_string())
            ));
        }
        answer
    }

    /// Repeats the request until it succeeds or is refused for a reason other than the rate limit.
    /// Returns `None` after 200 attempts or when the run has a finding.
    pub async fn surely(&mut self, method: &str, path: &str, body: Option<&Value>) -> Option<JsonResponse> {
        for _ in 0..200 {
            if self.town.is_broken() {
                return None;
            }
            match self.call(method, path, body).await {
                Some(answer) if answer.is_done() || (answer.is_refused() && answer.status != 429) => {
                    return Some(answer);
                }
                _ => sleep(Duration::from_millis(500)).await,
            }
        }
        None
    }

    /// Creates a conversation and returns its id.
    pub async fn open(&mut self, body: &Value) -> Option<ConversationId> {
        let answer = self.surely("POST", "/v1/conversations", Some(body)).await?;
        answer.body["conversation_id"].as_str()?.parse().ok()
    }

    pub async fn live(mut self) -> HttpAuditor {
        while !self.town.is_calm() && !self.town.is_over() && !self.town.is_broken() {
            sleep(self.dice.millis(100, 1_500)).await;
            match self.dice.below(18) {
                0..=2 => self.read_page().await,
                3..=4 => self.read_inbox().await,
                5..=6 => self.read_ticks().await,
                7..=8 if !self.sends_nothing => self.send().await,
                9 => self.invite().await,
                10 => self.come_late().await,
                11 if !self.sends_nothing => self.exaggerate().await,
                12 => self.take_out().await,
                13 => self.leave().await,
                14 => self.look_around().await,
                _ => self.intrude().await,
            }
        }
        self
    }

    async fn read_page(&mut self) {
        let id = *self.dice.pick(&self.conversations);
        let stored = self.town.auditor().stored_so_far(id);
        let before = self.dice.one_in(2).then(|| self.dice.between(1, stored + 3));
        let cursor = before.map(|before| format!("&before_seq={before}")).unwrap_or_default();
        let path = format!("/v1/conversations/{id}/messages?limit={PAGE}{cursor}");
        if let Some(answer) = self.call("GET", &path, None).await
            && answer.is_done()
        {
            self.town.auditor().page(id, before, PAGE, stored, &answer.body);
        }
    }

    async fn read_inbox(&mut self) {
        let stored: Vec<_> = {
            let auditor = self.town.auditor();
            self.conversations.iter().map(|id| auditor.stored_so_far(*id)).collect()
        };
        if let Some(answer) = self.call("GET", "/v1/conversations?limit=50", None).await
            && answer.is_done()
        {
            self.check_inbox(&stored, &answer.body);
        }
    }

    /// Checks each inbox entry and returns whether all conversations are present. A direct
    /// conversation without messages may be missing: only its creator lists it.
    pub fn check_inbox(&self, stored: &[u64], body: &Value) -> bool {
        let entries = body["conversations"].as_array().map_or(&[][..], Vec::as_slice);
        let mut all = true;
        for (id, stored) in self.conversations.iter().zip(stored) {
            let spelled = id.to_string();
            match entries.iter().find(|entry| entry["conversation_id"] == spelled.as_str()) {
                Some(entry) => self.town.auditor().inbox_entry(*id, &self.user, *stored, entry),
                None => all &= *stored == 0 && id.kind() == ConversationKind::Direct,
            }
        }
        all
    }

    async fn read_ticks(&mut self) {
        let id = *self.dice.pick(&self.conversations);
        let before = self.town.auditor().told_so_far(id);
        if let Some(answer) = self.call("GET", &format!("/v1/conversations/{id}/status"), None).await
            && answer.is_done()
        {
            self.check_ticks(id, &before, &answer.body);
        }
    }

    /// Checks the read states of all members and returns them. `before` holds the read states
    /// published before the request.
    fn check_ticks(&self, id: ConversationId, before: &ReadStates, body: &Value) -> ReadStates {
        let members = body["members"].as_array().into_iter().flatten();
        let member_states: ReadStates = members.filter_map(member_state).collect();
        for (user, now) in &member_states {
            self.town.auditor().answered(&self.name, id, user, before, *now);
        }
        member_states
    }

    /// Reads and checks the read states of all members at the end of the run.
    pub async fn member_states(&mut self, id: ConversationId) -> Option<ReadStates> {
        let before = self.town.auditor().told_so_far(id);
        let answer = self.surely("GET", &format!("/v1/conversations/{id}/status"), None).await?;
        answer.is_done().then(|| self.check_ticks(id, &before, &answer.body))
    }

    async fn send(&mut self) {
        let id = *self.dice.pick(&self.conversations);
        self.number += 1;
        self.town.counts.sends.fetch_add(1, Ordering::SeqCst);
        let (message_id, content) =
            (format!("{}.desk-{}", self.user, self.number), format!("by post {}", self.number));
        self.town.auditor().attempted(id, &self.user, &message_id, &content);
        let body = json!({"message_id": message_id, "content": content});
        let path = format!("/v1/conversations/{id}/messages");
        // Resend up to two times: after a missing answer, and sometimes after a success.
        for _ in 0..=self.dice.below(3) {
            if let Some(answer) = self.call("POST", &path, Some(&body)).await
                && answer.is_done()
                && let Some(seq) = answer.body["seq"].as_u64()
            {
                self.note(format_args!("gets the ack of {message_id} at {}:{seq}", short(id)));
                self.town.auditor().acknowledged(id, &self.user, &message_id, seq);
                if self.dice.one_in(2) {
                    self.contradict(id, &message_id).await;
                }
            }
        }
    }

    /// Sends other content under a `message_id` that is stored. The server must refuse it.
    async fn contradict(&mut self, id: ConversationId, message_id: &str) {
        let body = json!({"message_id": message_id, "content": "something else"});
        let path = format!("/v1/conversations/{id}/messages");
        if let Some(answer) = self.call("POST", &path, Some(&body)).await
            && answer.is_done()
        {
            let what =
                format!("{message_id} was stored, and the server also accepted other content under that id");
            self.town.auditor().find(Guarantee::NoDuplicate, Some(id), what);
        }
    }

    /// Sends a read receipt above the head.
    async fn exaggerate(&mut self) {
        let id = *self.dice.pick(&self.conversations);
        let seq = self.town.auditor().stored_so_far(id) + self.dice.between(1, 5);
        self.town.auditor().says(id, &self.user, ReadState { delivered: seq, read: seq });
        let body = json!({"seq": seq});
        self.call("POST", &format!("/v1/conversations/{id}/read"), Some(&body)).await;
    }

    async fn invite(&mut self) {
        if self.groups.is_empty() {
            return;
        }
        let id = *self.dice.pick(&self.groups);
        let guest = person(usize::try_from(self.dice.below(self.people as u64)).unwrap_or(0));
        self.town.auditor().invites(id, &guest);
        let body = json!({"members": [guest.as_str()]});
        let answer = self.call("POST", &format!("/v1/conversations/{id}/members"), Some(&body)).await;
        if answer.is_some_and(|answer| answer.is_done() || answer.is_refused()) {
            self.town.auditor().invitation_was_answered(id, &guest);
        }
    }

    /// Removes a member who was added later.
    async fn take_out(&mut self) {
        if self.groups.is_empty() {
            return;
        }
        let id = *self.dice.pick(&self.groups);
        let guest = person(usize::try_from(self.dice.below(self.people as u64)).unwrap_or(0));
        if !self.town.auditor().is_founder(id, &guest) {
            self.remove(id, &guest).await;
        }
    }

    /// Leaves a group that the user was added to later.
    async fn leave(&mut self) {
        if let Some(id) = self.pick_visited() {
            let user = self.user.clone();
            self.remove(id, &user).await;
        }
    }

    async fn remove(&mut self, id: ConversationId, user: &UserId) {
        let begun = self.town.auditor().removes(id, user);
        let answer = self.call("DELETE", &format!("/v1/conversations/{id}/members/{user}"), None).await;
        // 404 means that the user is not a member any more, so the removal is complete as well.
        if answer.is_some_and(|answer| answer.is_done() || answer.status == 404) {
            self.town.auditor().removed(id, user, begun);
        }
    }

    /// Picks a conversation that the user may have been added to later.
    fn pick_visited(&mut self) -> Option<ConversationId> {
        let visited: Vec<_> = {
            let auditor = self.town.auditor();
            let all = auditor.conversations().into_iter();
            all.filter(|id| auditor.may_see(*id, &self.user) && !auditor.is_founder(*id, &self.user))
                .collect()
        };
        (!visited.is_empty()).then(|| *self.dice.pick(&visited))
    }

    /// Reads a page of a conversation that the user was added to later.
    async fn look_around(&mut self) {
        let Some(id) = self.pick_visited() else { return };
        let path = format!("/v1/conversations/{id}/messages?limit={PAGE}");
        if let Some(answer) = self.call("GET", &path, None).await
            && answer.is_done()
        {
            let page =
                answer.body["messages"].as_array().into_iter().flatten().filter_map(ReceivedMessage::read);
            page.for_each(|(seq, seen)| self.town.auditor().showed(id, &self.user, seq, &seen));
        }
    }

    /// Attempts to access a conversation that the user is not a member of. The attempt may succeed
    /// if the user is added concurrently.
    async fn intrude(&mut self) {
        let closed: Vec<_> = {
            let auditor = self.town.auditor();
            let all = auditor.conversations();
            all.into_iter().filter(|id| !auditor.may_see(*id, &self.user)).collect()
        };
        if closed.is_empty() {
            return;
        }
        let id = *self.dice.pick(&closed);
        let (what, method, path, body) = match self.dice.below(5) {
            0 => ("read a page of it", "GET", "/messages?limit=5", None),
            1 => ("read its ticks", "GET", "/status", None),
            2 => ("read its members", "GET", "", None),
            3 => {
                self.town.auditor().says(id, &self.user, ReadState { delivered: 1, read: 1 });
                ("move a tick of it", "POST", "/read", Some(json!({"seq": 1})))
            }
            _ => {
                let (message_id, content) = (format!("{}-intruder", self.user), "let me in");
                self.town.auditor().attempted(id, &self.user, &message_id, content);
                let body = json!({"message_id": message_id, "content": content});
                ("send to it", "POST", "/messages", Some(body))
            }
        };
        let path = format!("/v1/conversations/{id}{path}");
        if let Some(answer) = self.call(method, &path, body.as_ref()).await
            && answer.is_done()
            // A concurrent request may have added the user.
            && !self.town.auditor().may_see(id, &self.user)
        {
            self.town.auditor().intruded(id, &self.user, what);
        }
    }

    /// Sends a request with an expired token.
    async fn come_late(&mut self) {
        let token = self.town.expired_token(&self.user);
        let answer = http::call(&self.town, &mut self.dice, &token, "GET", "/v1/conversations", None).await;
        if let Some(answer) = answer
            && answer.is_done()
        {
            let id = self.conversations[0];
            self.town.auditor().intruded(id, &self.user, "read its inbox with an expired token");
        }
    }

    /// Reads the whole history of a conversation, oldest first.
    pub async fn history(&mut self, id: ConversationId) -> Option<Vec<(u64, ReceivedMessage)>> {
        let mut history = Vec::new();
        let mut after = 0;
        loop {
            let path = format!("/v1/conversations/{id}/messages?after_seq={after}&limit=100");
            let answer = self.surely("GET", &path, None).await?;
            let page = answer.body["messages"].as_array()?;
            history.extend(page.iter().filter_map(ReceivedMessage::read));
            match answer.body["next_after_seq"].as_u64() {
                Some(next) if next > after => after = next,
                _ => return Some(history),
            }
        }
    }
}
