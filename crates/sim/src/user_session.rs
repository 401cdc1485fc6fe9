//! A client that gets a token, has it revoked (by logging out or by the operator) and uses it
//! again. It checks that a revoked token is refused everywhere and that its open connections are
//! closed.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bluetick_core::UserId;
use serde_json::{Value, json};
use tokio::time::{sleep, timeout};

use crate::audit::Guarantee;
use crate::cluster::{ADMIN_KEY, Cluster, person};
use crate::dice::Dice;
use crate::http::{self, JsonResponse};
use crate::websocket::WebSocket;

pub struct UserSession {
    town: Arc<Cluster>,
    user: UserId,
    dice: Dice,
    /// Whether there is one server, which applies revocations immediately. In a fleet other nodes
    /// may apply them later.
    is_alone: bool,
    void: Vec<Void>,
}

/// A token whose revocation was acknowledged.
struct Void {
    token: String,
    /// The connection opened with the token before the revocation.
    socket: Option<WebSocket>,
}

/// A valid token, and the value of `clocks_set` before it was minted.
struct FreshToken {
    token: String,
    clocks_set: u64,
}

/// Time limit for closing a connection after its token is revoked. The server notices at its next
/// check, and the network may delay the close. If it is too short, correct runs fail.
const CLOSING: Duration = Duration::from_secs(20);
/// Time after which every node of a healthy fleet refuses a revoked token. If it is too short,
/// correct runs fail.
const HEARD_EVERYWHERE: Duration = Duration::from_secs(16);

/// WebSocket close code for a revoked token.
const REVOKED: u16 = 4402;
/// Other acceptable close codes: the server failed on this connection (1011) or is shutting down
/// (1012).
const OTHER_ENDS: [u16; 2] = [1011, 1012];

impl UserSession {
    pub fn new(town: &Arc<Cluster>, number: usize, is_alone: bool) -> UserSession {
        let dice = town.dice.of("lodger");
        UserSession { town: Arc::clone(town), user: person(number), dice, is_alone, void: Vec::new() }
    }

    fn note(&self, what: impl std::fmt::Display) {
        self.town.trace.note("lodger", what);
    }

    async fn call(
        &mut self,
        token: &str,
        method: &str,
        path: &str,
        body: Option<&Value>,
    ) -> Option<JsonResponse> {
        http::call(&self.town, &mut self.dice, token, method, path, body).await
    }

    pub async fn live(mut self) -> UserSession {
        while !self.town.is_calm() && !self.town.is_over() && !self.town.is_broken() {
            sleep(self.dice.millis(500, 6_000)).await;
            let Some(fresh) = self.get_a_key().await else { continue };
            let socket = self.go_in(&fresh.token).await;
            sleep(self.dice.millis(0, 1_000)).await;
            if self.is_logged_out(&fresh).await {
                self.note("has a revoked token");
                // Nodes that missed the announcement find the revocation by scanning in time order.
                // That needs clocks that agree.
                let socket = socket.filter(|_| self.clocks_agree(&fresh));
                self.void.push(Void { token: fresh.token, socket });
                if self.is_alone {
                    self.try_void_keys().await;
                }
            }
        }
        self
    }

    /// Asks the server to mint a token. The server guarantees that no earlier revocation covers it.
    async fn get_a_key(&mut self) -> Option<FreshToken> {
        let clocks_set = self.town.counts.clocks_set.load(Ordering::SeqCst);
        let body = json!({"user_id": self.user.as_str(), "ttl_s": 80_000});
        let answer = self.call(ADMIN_KEY, "POST", "/v1/tokens", Some(&body)).await?;
        let token = answer.body["token"].as_str()?.to_owned();
        Some(FreshToken { token, clocks_set })
    }

    async fn go_in(&mut self, token: &str) -> Option<WebSocket> {
        let (_, line) = self.town.connect(&mut self.dice)?;
        let mut socket = WebSocket::open(line).await?;
        let hello = json!({"type": "hello", "token": token, "device_id": "lodger"});
        if !socket.say(&hello.to_string()).await {
            return None;
        }
        let heard = timeout(CLOSING, socket.hear()).await.ok()??;
        heard.contains("welcome").then_some(socket)
    }

    /// Logs out in one of three ways. Returns whether the token is certainly revoked.
    async fn is_logged_out(&mut self, fresh: &FreshToken) -> bool {
        let (how, everywhere) = (self.dice.below(3), json!({"everywhere": true}));
        let sessions = format!("/v1/users/{}/sessions", self.user);
        let answer = match how {
            0 => self.call(&fresh.token, "POST", "/v1/logout", None).await,
            1 => self.call(&fresh.token, "POST", "/v1/logout", Some(&everywhere)).await,
            _ => self.call(ADMIN_KEY, "DELETE", &sessions, None).await,
        };
        // The operator revokes all tokens issued until now, which is only reliable if the clocks
        // agree.
        answer.is_some_and(|answer| answer.is_done()) && (how < 2 || self.clocks_agree(fresh))
    }

    fn clocks_agree(&self, fresh: &FreshToken) -> bool {
        let clocks_set = self.town.counts.clocks_set.load(Ordering::SeqCst);
        match self.is_alone {
            true => clocks_set == fresh.clocks_set,
            false => clocks_set == 0,
        }
    }

    async fn try_void_keys(&mut self) {
        for index in 0..self.void.len() {
            if let Some(socket) = self.void[index].socket.take() {
                self.is_shown_out(socket).await;
            }
            let token = self.void[index].token.clone();
            let answer = self.call(&token, "GET", "/v1/conversations", None).await;
            if answer.is_some_and(|answer| answer.is_done()) {
                return self.find("read its inbox with a revoked token".to_owned());
            }
        }
        if let Some(void) = self.void.last() {
            let token = void.token.clone();
            if self.go_in(&token).await.is_some() {
                self.find("was welcomed with a revoked token".to_owned());
            }
        }
    }

    async fn is_shown_out(&mut self, mut socket: WebSocket) {
        let ends = async { while socket.hear().await.is_some() {} };
        if timeout(CLOSING, ends).await.is_err() {
            return self.find("stays connected with a revoked token".to_owned());
        }
        // `None`: the connection was cut without a close frame.
        let code = socket.close_code();
        self.note(format_args!("is disconnected: {code:?}"));
        if let Some(code) = code
            && code != REVOKED
            && !OTHER_ENDS.contains(&code)
        {
            self.find(format!("had a revoked token, and its connection was closed with {code}"));
        }
    }

    fn find(&self, what: String) {
        self.town.auditor().find(Guarantee::Private, None, format!("{} {what}", self.user));
    }

    /// Final check: every node refuses the revoked tokens and accepts a new one.
    pub async fn close(&mut self) {
        sleep(HEARD_EVERYWHERE).await;
        for _ in 0..4 {
            self.try_void_keys().await;
        }
        for _ in 0..20 {
            let fresh = self.get_a_key().await;
            if let Some(FreshToken { token, .. }) = fresh
                && let Some(answer) = self.call(&token, "GET", "/v1/conversations", None).await
                && answer.status != 429
            {
                if !answer.is_done() {
                    self.find(format!("has a new token and got the status {}", answer.status));
                }
                return;
            }
            sleep(Duration::from_secs(1)).await;
        }
        self.find("cannot get a new token".to_owned());
    }
}
