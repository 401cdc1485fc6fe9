//! The HTTP half of the contract. One call, one answer or one error; what an answer means for the chat is decided
//! elsewhere.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use bluetick_core::{ConversationId, Seq, UserId};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use thiserror::Error;

use crate::http::{Answer, Http, Method};
use crate::transport::Server;
use crate::wire::bodies::{
    ConversationBody, ConversationDetail, ErrorBody, InboxEntry, InboxPage, MemberStatus, Page, People,
    Person, Presence, Presences, Profile, ProfileChange, Receipts, Session, SettingsChange, Statuses,
};
use crate::wire::codes::{CONVERSATION_NOT_FOUND, Remedy, remedy};

/// The most that a page holds, by the contract.
pub const PAGE_LIMIT: usize = 100;

#[derive(Clone, Debug, Error)]
pub enum ApiError {
    #[error("the server cannot be reached: {0}")]
    Unreachable(String),
    #[error("{message}")]
    Refused { status: u16, code: String, message: String, retry_after: Option<Duration> },
    #[error("the server's answer was not understood: {0}")]
    NotUnderstood(String),
    /// The token is not good any more and no other could be had.
    #[error("the log-in has expired")]
    LoggedOut,
}

impl ApiError {
    pub fn remedy(&self) -> Remedy {
        match self {
            ApiError::Unreachable(_) => Remedy::Retry,
            ApiError::Refused { code, .. } if !code.is_empty() => remedy(code),
            ApiError::Refused { status, .. } if *status >= 500 => Remedy::Retry,
            ApiError::Refused { .. } | ApiError::NotUnderstood(_) => Remedy::Fix,
            ApiError::LoggedOut => Remedy::Login,
        }
    }

    /// The server does not know the conversation, or one is not in it. Another 404 may be a proxy's.
    pub fn is_gone(&self) -> bool {
        matches!(self, ApiError::Refused { code, .. } if code == CONVERSATION_NOT_FOUND)
    }

    /// There is nothing there, or not for this user.
    pub fn is_not_found(&self) -> bool {
        matches!(self, ApiError::Refused { status: 404, .. })
    }
}

/// Where tokens come from: one that was given once, or the operator's own product.
#[async_trait]
pub trait TokenSource: Send + Sync + 'static {
    /// `refused` is the token that was not accepted, if one was. It is asked by one task at a time.
    async fn token(&self, refused: Option<&str>) -> Result<String, NoToken>;
}

/// Why there is no token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum NoToken {
    /// Not now, for instance because the source has no network itself. It is asked again after a pause.
    #[error("a token cannot be had just now")]
    Later,
    /// No other can be had: the person has to log in.
    #[error("the log-in has expired")]
    Never,
}

impl From<NoToken> for ApiError {
    fn from(reason: NoToken) -> ApiError {
        match reason {
            NoToken::Later => ApiError::Unreachable(reason.to_string()),
            NoToken::Never => ApiError::LoggedOut,
        }
    }
}

/// One token, for as long as it is good.
pub struct FixedToken(pub String);

#[async_trait]
impl TokenSource for FixedToken {
    async fn token(&self, refused: Option<&str>) -> Result<String, NoToken> {
        if refused == Some(self.0.as_str()) { Err(NoToken::Never) } else { Ok(self.0.clone()) }
    }
}

/// Makes an account and logs in.
pub async fn sign_up(
    server: &Server,
    user: &UserId,
    password: &str,
    display_name: Option<&str>,
) -> Result<Session, ApiError> {
    let mut body = json!({"user_id": user.as_str(), "password": password});
    if let Some(name) = display_name {
        body["display_name"] = json!(name);
    }
    read(Http::new(server.clone()).call(Method::POST, "/v1/signup", None, Some(&body)).await)
}

pub async fn log_in(server: &Server, user: &UserId, password: &str) -> Result<Session, ApiError> {
    let body = json!({"user_id": user.as_str(), "password": password});
    read(Http::new(server.clone()).call(Method::POST, "/v1/login", None, Some(&body)).await)
}

/// Makes the token void, and with `everywhere` all others of the user that were issued until now.
pub async fn log_out(server: &Server, token: &str, everywhere: bool) -> Result<(), ApiError> {
    let body = json!({ "everywhere": everywhere });
    checked(Http::new(server.clone()).call(Method::POST, "/v1/logout", Some(token), Some(&body)).await)
        .map(|_| ())
}

/// Whose token this is.
pub async fn who_is(server: &Server, token: &str) -> Result<Profile, ApiError> {
    read(Http::new(server.clone()).call(Method::GET, "/v1/me", Some(token), None).await)
}

/// From which place on a page of history is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageFrom {
    Newest,
    Before(Seq),
    After(Seq),
}

/// Calls on behalf of one user.
pub struct Api {
    http: Http,
    tokens: Arc<dyn TokenSource>,
    token: Mutex<InUse>,
    /// Held by who asks the source; the others take what it gets.
    asking: tokio::sync::Mutex<()>,
}

/// The token in use.
#[derive(Clone, Default)]
enum InUse {
    #[default]
    None,
    One(String),
    /// It is somebody else's: nothing may be done in that name.
    Foreign,
}

/// A token to try.
pub struct Given {
    pub token: String,
    /// The source gave it just now, knowing that the one before was refused. When this one is refused as well, asking
    /// once more does not help.
    pub is_renewed: bool,
}

impl Api {
    pub fn new(server: Server, tokens: Arc<dyn TokenSource>) -> Api {
        let (token, asking) = (Mutex::default(), tokio::sync::Mutex::default());
        Api { http: Http::new(server), tokens, token, asking }
    }

    fn in_use(&self) -> InUse {
        self.token.lock().expect("nothing panics while it holds the token").clone()
    }

    fn use_from_now_on(&self, token: InUse) {
        *self.token.lock().expect("nothing panics while it holds the token") = token;
    }

    /// The token is not this user's: from now on nothing is asked.
    pub fn token_is_foreign(&self) {
        self.use_from_now_on(InUse::Foreign);
    }

    /// A token, and not the one that was refused.
    pub async fn token(&self, refused: Option<&str>) -> Result<Given, NoToken> {
        let _asking = self.asking.lock().await;
        match self.in_use() {
            InUse::One(token) if refused != Some(token.as_str()) => {
                return Ok(Given { token, is_renewed: false });
            }
            InUse::Foreign => return Err(NoToken::Never),
            InUse::None | InUse::One(_) => {}
        }
        let token = self.tokens.token(refused).await?;
        if matches!(self.in_use(), InUse::Foreign) {
            return Err(NoToken::Never);
        }
        self.use_from_now_on(InUse::One(token.clone()));
        Ok(Given { token, is_renewed: refused.is_some() })
    }

    pub async fn inbox(&self, archived: bool, cursor: Option<&str>) -> Result<InboxPage, ApiError> {
        let cursor = cursor.map(|cursor| format!("&cursor={}", escaped(cursor))).unwrap_or_default();
        self.get(&format!("/v1/conversations?limit=50&archived={archived}{cursor}")).await
    }

    pub async fn conversation(&self, id: ConversationId) -> Result<ConversationDetail, ApiError> {
        self.get(&format!("/v1/conversations/{id}")).await
    }

    pub async fn open_direct(&self, peer: &UserId) -> Result<ConversationBody, ApiError> {
        self.call(Method::POST, "/v1/conversations", Some(json!({"kind": "direct", "peer": peer.as_str()})))
            .await
    }

    pub async fn create_group(&self, title: &str, members: &[UserId]) -> Result<ConversationBody, ApiError> {
        let members: Vec<&str> = members.iter().map(UserId::as_str).collect();
        let body = json!({"kind": "group", "title": title, "members": members});
        self.call(Method::POST, "/v1/conversations", Some(body)).await
    }

    pub async fn add_members(
        &self,
        id: ConversationId,
        members: &[UserId],
    ) -> Result<ConversationBody, ApiError> {
        let members: Vec<&str> = members.iter().map(UserId::as_str).collect();
        let path = format!("/v1/conversations/{id}/members");
        self.call(Method::POST, &path, Some(json!({ "members": members }))).await
    }

    pub async fn remove_member(&self, id: ConversationId, member: &UserId) -> Result<(), ApiError> {
        let path = format!("/v1/conversations/{id}/members/{}", escaped(member.as_str()));
        self.answer(Method::DELETE, &path, None).await.map(|_| ())
    }

    pub async fn change_settings(
        &self,
        id: ConversationId,
        change: SettingsChange,
    ) -> Result<InboxEntry, ApiError> {
        let body = serde_json::to_value(change).expect("settings are plain");
        self.call(Method::PATCH, &format!("/v1/conversations/{id}/settings"), Some(body)).await
    }

    pub async fn page(&self, id: ConversationId, from: PageFrom, limit: usize) -> Result<Page, ApiError> {
        let from = match from {
            PageFrom::Newest => String::new(),
            PageFrom::Before(seq) => format!("&before_seq={seq}"),
            PageFrom::After(seq) => format!("&after_seq={seq}"),
        };
        self.get(&format!("/v1/conversations/{id}/messages?limit={limit}{from}")).await
    }

    pub async fn statuses(&self, id: ConversationId) -> Result<Vec<MemberStatus>, ApiError> {
        let statuses: Statuses = self.get(&format!("/v1/conversations/{id}/status")).await?;
        Ok(statuses.members)
    }

    pub async fn receipts(&self, id: ConversationId, seq: Seq) -> Result<Receipts, ApiError> {
        self.get(&format!("/v1/conversations/{id}/status?seq={seq}")).await
    }

    pub async fn presence(&self, id: ConversationId) -> Result<Vec<Presence>, ApiError> {
        let presences: Presences = self.get(&format!("/v1/conversations/{id}/presence")).await?;
        Ok(presences.members)
    }

    pub async fn search_people(&self, text: &str) -> Result<Vec<Person>, ApiError> {
        let people: People = self.get(&format!("/v1/people?search={}&limit=10", escaped(text))).await?;
        Ok(people.people)
    }

    /// Unknown ones are left out. At most 100 at a time.
    pub async fn people(&self, users: &[UserId]) -> Result<Vec<Person>, ApiError> {
        let query: Vec<String> =
            users.iter().map(|user| format!("user_id={}", escaped(user.as_str()))).collect();
        let people: People = self.get(&format!("/v1/people?{}", query.join("&"))).await?;
        Ok(people.people)
    }

    pub async fn me(&self) -> Result<Profile, ApiError> {
        self.get("/v1/me").await
    }

    pub async fn change_me(&self, change: ProfileChange) -> Result<Profile, ApiError> {
        let body = serde_json::to_value(change).expect("a profile is plain");
        self.call(Method::PATCH, "/v1/me", Some(body)).await
    }

    async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, ApiError> {
        self.call(Method::GET, path, None).await
    }

    async fn call<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: Option<Value>,
    ) -> Result<T, ApiError> {
        decoded(&self.answer(method, path, body).await?)
    }

    /// Asks for another token once, where the one in use is not accepted.
    async fn answer(&self, method: Method, path: &str, body: Option<Value>) -> Result<Answer, ApiError> {
        let mut refused: Option<String> = None;
        loop {
            let Given { token, is_renewed } = self.token(refused.as_deref()).await?;
            let answer = self.http.call(method.clone(), path, Some(&token), body.as_ref()).await;
            match checked(answer) {
                Err(error) if error.remedy() == Remedy::Login => {
                    if is_renewed {
                        return Err(ApiError::LoggedOut);
                    }
                    refused = Some(token);
                }
                done => return done,
            }
        }
    }
}

fn checked(answer: Result<Answer, ApiError>) -> Result<Answer, ApiError> {
    let answer = answer?;
    if (200..300).contains(&answer.status) {
        return Ok(answer);
    }
    let Answer { status, retry_after, body } = answer;
    let (code, message) = match serde_json::from_slice::<ErrorBody>(&body) {
        Ok(body) => (body.error.code, body.error.message),
        Err(_) => (String::new(), format!("the server answered {status}")),
    };
    Err(ApiError::Refused { status, code, message, retry_after })
}

fn decoded<T: DeserializeOwned>(answer: &Answer) -> Result<T, ApiError> {
    // serde names the place and the type, and may quote a value; only the place is told.
    serde_json::from_slice(&answer.body)
        .map_err(|error| ApiError::NotUnderstood(format!("line {} column {}", error.line(), error.column())))
}

fn read<T: DeserializeOwned>(answer: Result<Answer, ApiError>) -> Result<T, ApiError> {
    decoded(&checked(answer)?)
}

/// As part of a path or a query.
fn escaped(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    let escape = |byte: u8| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") };
    text.bytes().map(escape).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_id_of_any_user_base_fits_into_a_path() {
        assert_eq!(escaped("auth0|5/é?#"), "auth0%7C5%2F%C3%A9%3F%23");
    }

    #[tokio::test]
    async fn a_fixed_token_is_given_until_it_is_refused() {
        let tokens = FixedToken("one".into());
        assert_eq!(tokens.token(None).await.as_deref(), Ok("one"));
        assert_eq!(tokens.token(Some("one")).await, Err(NoToken::Never));
    }
}
