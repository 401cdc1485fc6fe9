//! The HTTP API of the server. Each function makes one call and returns one answer or one error.
//! The callers decide how an answer changes the client's state.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bluetick_types::{ConversationId, Seq, UserId};
use parking_lot::Mutex;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use thiserror::Error;

use crate::http::{Http, HttpResponse, Method};
use crate::transport::Server;
use crate::wire::bodies::{
    ConversationBody, ConversationDetail, ErrorBody, InboxEntry, InboxPage, MemberStatus, Page, PeopleBody,
    Person, Presence, Presences, Profile, ProfileChange, ReceiptCounts, Session, SettingsChange, Statuses,
};
use crate::wire::codes::{CONVERSATION_NOT_FOUND, Remedy, remedy};

/// Maximum number of items in one page. The server's contract allows no larger limit.
pub const PAGE_LIMIT: usize = 100;

/// Why an HTTP call failed.
#[derive(Clone, Debug, Error)]
pub enum ApiError {
    /// The server did not answer, or the token source has no token right now.
    #[error("the server cannot be reached: {0}")]
    Unreachable(String),
    /// The server answered with a status other than 2xx. `code` is empty if the body is not a
    /// Bluetick error, for example from a proxy.
    #[error("{message}")]
    Refused { status: u16, code: String, message: String, retry_after: Option<Duration> },
    /// The body of a 2xx answer did not parse. Holds the line and column only, so that no content
    /// reaches a log.
    #[error("the server's answer was not understood: {0}")]
    NotUnderstood(String),
    /// The server refused the token and the token source has no other one.
    #[error("the log-in has expired")]
    LoggedOut,
}

impl ApiError {
    /// The reaction that this error requires of the caller.
    pub fn remedy(&self) -> Remedy {
        match self {
            ApiError::Unreachable(_) => Remedy::Retry,
            ApiError::Refused { code, .. } if !code.is_empty() => remedy(code),
            ApiError::Refused { status, .. } if *status >= 500 => Remedy::Retry,
            ApiError::Refused { .. } | ApiError::NotUnderstood(_) => Remedy::Fix,
            ApiError::LoggedOut => Remedy::Login,
        }
    }

    /// Whether the conversation does not exist or this user is not a member. Checks the error code,
    /// because a proxy may also answer 404.
    pub fn is_gone(&self) -> bool {
        matches!(self, ApiError::Refused { code, .. } if code == CONVERSATION_NOT_FOUND)
    }

    /// Whether the answer had status 404, whatever its error code.
    pub fn is_not_found(&self) -> bool {
        matches!(self, ApiError::Refused { status: 404, .. })
    }
}

/// Supplies tokens, for example one fixed token or tokens from the operator's own service.
#[async_trait]
pub trait TokenSource: Send + Sync + 'static {
    /// Returns a token. `refused` is the token that the server did not accept, if any; return
    /// another one.
    ///
    /// A client calls this from one task at a time.
    ///
    /// # Errors
    ///
    /// `NoToken::Later` makes the client retry with backoff. `NoToken::Never` logs the client out.
    async fn token(&self, refused: Option<&str>) -> Result<String, NoToken>;
}

/// Why a [`TokenSource`] returned no token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum NoToken {
    /// No token is available right now, for example because the source has no network. The client
    /// asks again later.
    #[error("no token is available now")]
    Later,
    /// The source will never return another token. The user has to log in again.
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

/// A [`TokenSource`] with a single token. It returns `NoToken::Never` once the server refuses that
/// token.
pub struct FixedToken(pub String);

#[async_trait]
impl TokenSource for FixedToken {
    async fn token(&self, refused: Option<&str>) -> Result<String, NoToken> {
        if refused == Some(self.0.as_str()) { Err(NoToken::Never) } else { Ok(self.0.clone()) }
    }
}

/// Creates an account and returns a session for it.
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

/// Logs in with a password and returns a new session.
pub async fn log_in(server: &Server, user: &UserId, password: &str) -> Result<Session, ApiError> {
    let body = json!({"user_id": user.as_str(), "password": password});
    read(Http::new(server.clone()).call(Method::POST, "/v1/login", None, Some(&body)).await)
}

/// Revokes `token`. With `everywhere`, also revokes all other tokens of the user that were issued
/// until now.
pub async fn log_out(server: &Server, token: &str, everywhere: bool) -> Result<(), ApiError> {
    let body = json!({ "everywhere": everywhere });
    checked(Http::new(server.clone()).call(Method::POST, "/v1/logout", Some(token), Some(&body)).await)
        .map(|_| ())
}

/// Fetches the profile of the user who owns `token`.
pub async fn who_is(server: &Server, token: &str) -> Result<Profile, ApiError> {
    read(Http::new(server.clone()).call(Method::GET, "/v1/me", Some(token), None).await)
}

/// The range of a history page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageFrom {
    /// The newest messages, newest first.
    Newest,
    /// The messages directly below this seq, newest first.
    Before(Seq),
    /// The messages directly above this seq, oldest first.
    After(Seq),
}

/// HTTP calls on behalf of one user. Fetches tokens from a [`TokenSource`] and renews a refused
/// token.
pub struct Api {
    http: Http,
    tokens: Arc<dyn TokenSource>,
    token: Mutex<CurrentToken>,
    /// Held while one task asks the token source. Other tasks wait and then use the token it
    /// returned.
    asking: tokio::sync::Mutex<()>,
}

/// The token in use.
#[derive(Clone, Default)]
enum CurrentToken {
    #[default]
    None,
    One(String),
    /// The token belongs to another user. All calls fail, so that nothing happens in that user's
    /// name.
    Foreign,
}

/// A token to use for one call or one connection.
pub struct IssuedToken {
    pub token: String,
    /// The source returned this token after the server refused the previous one. If the server
    /// refuses this one too, the user is logged out.
    pub is_renewed: bool,
}

impl Api {
    pub fn new(server: Server, tokens: Arc<dyn TokenSource>) -> Api {
        let (token, asking) = (Mutex::default(), tokio::sync::Mutex::default());
        Api { http: Http::new(server), tokens, token, asking }
    }

    fn in_use(&self) -> CurrentToken {
        self.token.lock().clone()
    }

    fn use_from_now_on(&self, token: CurrentToken) {
        *self.token.lock() = token;
    }

    /// Records that the token belongs to another user. From now on every call fails with
    /// `LoggedOut`.
    pub fn token_is_foreign(&self) {
        self.use_from_now_on(CurrentToken::Foreign);
    }

    /// Returns the token in use, or asks the source if there is none or it equals `refused`.
    pub async fn token(&self, refused: Option<&str>) -> Result<IssuedToken, NoToken> {
        let _asking = self.asking.lock().await;
        match self.in_use() {
            CurrentToken::One(token) if refused != Some(token.as_str()) => {
                return Ok(IssuedToken { token, is_renewed: false });
            }
            CurrentToken::Foreign => return Err(NoToken::Never),
            CurrentToken::None | CurrentToken::One(_) => {}
        }
        let token = self.tokens.token(refused).await?;
        if matches!(self.in_use(), CurrentToken::Foreign) {
            return Err(NoToken::Never);
        }
        self.use_from_now_on(CurrentToken::One(token.clone()));
        Ok(IssuedToken { token, is_renewed: refused.is_some() })
    }

    /// Fetches one page of at most 50 inbox or archive entries.
    pub async fn inbox(&self, archived: bool, cursor: Option<&str>) -> Result<InboxPage, ApiError> {
        let cursor = cursor.map(|cursor| format!("&cursor={}", escaped(cursor))).unwrap_or_default();
        self.get(&format!("/v1/conversations?limit=50&archived={archived}{cursor}")).await
    }

    /// Fetches a conversation with its members and this user's read state and settings.
    pub async fn conversation(&self, id: ConversationId) -> Result<ConversationDetail, ApiError> {
        self.get(&format!("/v1/conversations/{id}")).await
    }

    /// Creates or returns the direct conversation with `peer`.
    pub async fn open_direct(&self, peer: &UserId) -> Result<ConversationBody, ApiError> {
        self.call(Method::POST, "/v1/conversations", Some(json!({"kind": "direct", "peer": peer.as_str()})))
            .await
    }

    /// Creates a group.
    pub async fn create_group(&self, title: &str, members: &[UserId]) -> Result<ConversationBody, ApiError> {
        let members: Vec<&str> = members.iter().map(UserId::as_str).collect();
        let body = json!({"kind": "group", "title": title, "members": members});
        self.call(Method::POST, "/v1/conversations", Some(body)).await
    }

    /// Adds members to a group.
    pub async fn add_members(
        &self,
        id: ConversationId,
        members: &[UserId],
    ) -> Result<ConversationBody, ApiError> {
        let members: Vec<&str> = members.iter().map(UserId::as_str).collect();
        let path = format!("/v1/conversations/{id}/members");
        self.call(Method::POST, &path, Some(json!({ "members": members }))).await
    }

    /// Removes a member from a group. With the caller's own id, leaves the group.
    pub async fn remove_member(&self, id: ConversationId, member: &UserId) -> Result<(), ApiError> {
        let path = format!("/v1/conversations/{id}/members/{}", escaped(member.as_str()));
        self.answer(Method::DELETE, &path, None).await.map(|_| ())
    }

    /// Changes this user's settings of a conversation and returns the new inbox entry.
    pub async fn change_settings(
        &self,
        id: ConversationId,
        change: SettingsChange,
    ) -> Result<InboxEntry, ApiError> {
        let body = serde_json::to_value(change).expect("settings hold only booleans and strings");
        self.call(Method::PATCH, &format!("/v1/conversations/{id}/settings"), Some(body)).await
    }

    /// Fetches one page of history. `limit` is at most 100.
    pub async fn page(&self, id: ConversationId, from: PageFrom, limit: usize) -> Result<Page, ApiError> {
        let from = match from {
            PageFrom::Newest => String::new(),
            PageFrom::Before(seq) => format!("&before_seq={seq}"),
            PageFrom::After(seq) => format!("&after_seq={seq}"),
        };
        self.get(&format!("/v1/conversations/{id}/messages?limit={limit}{from}")).await
    }

    /// Fetches the read state of every member.
    pub async fn statuses(&self, id: ConversationId) -> Result<Vec<MemberStatus>, ApiError> {
        let statuses: Statuses = self.get(&format!("/v1/conversations/{id}/status")).await?;
        Ok(statuses.members)
    }

    /// Fetches how many receivers have received and read one message.
    pub async fn receipts(&self, id: ConversationId, seq: Seq) -> Result<ReceiptCounts, ApiError> {
        self.get(&format!("/v1/conversations/{id}/status?seq={seq}")).await
    }

    /// Fetches the presence of the members.
    pub async fn presence(&self, id: ConversationId) -> Result<Vec<Presence>, ApiError> {
        let presences: Presences = self.get(&format!("/v1/conversations/{id}/presence")).await?;
        Ok(presences.members)
    }

    /// Fetches up to 10 people whose user id or display name starts with `text`.
    pub async fn search_people(&self, text: &str) -> Result<Vec<Person>, ApiError> {
        let people: PeopleBody = self.get(&format!("/v1/people?search={}&limit=10", escaped(text))).await?;
        Ok(people.people)
    }

    /// Fetches the display names of `users`, at most 100 of them. The answer omits unknown users.
    pub async fn people(&self, users: &[UserId]) -> Result<Vec<Person>, ApiError> {
        let query: Vec<String> =
            users.iter().map(|user| format!("user_id={}", escaped(user.as_str()))).collect();
        let people: PeopleBody = self.get(&format!("/v1/people?{}", query.join("&"))).await?;
        Ok(people.people)
    }

    /// Fetches the profile of this user.
    pub async fn me(&self) -> Result<Profile, ApiError> {
        self.get("/v1/me").await
    }

    /// Changes the profile of this user.
    pub async fn change_me(&self, change: ProfileChange) -> Result<Profile, ApiError> {
        let body = serde_json::to_value(change).expect("a profile holds only strings and booleans");
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

    /// Makes a call. If the server refuses the token, gets another token and repeats the call.
    /// Returns `LoggedOut` if the server also refuses a token that was renewed for this call.
    async fn answer(
        &self,
        method: Method,
        path: &str,
        body: Option<Value>,
    ) -> Result<HttpResponse, ApiError> {
        let mut refused: Option<String> = None;
        loop {
            let IssuedToken { token, is_renewed } = self.token(refused.as_deref()).await?;
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

fn checked(answer: Result<HttpResponse, ApiError>) -> Result<HttpResponse, ApiError> {
    let answer = answer?;
    if (200..300).contains(&answer.status) {
        return Ok(answer);
    }
    let HttpResponse { status, retry_after, body } = answer;
    let (code, message) = match serde_json::from_slice::<ErrorBody>(&body) {
        Ok(body) => (body.error.code, body.error.message),
        Err(_) => (String::new(), format!("the server answered with status {status}")),
    };
    Err(ApiError::Refused { status, code, message, retry_after })
}

fn decoded<T: DeserializeOwned>(answer: &HttpResponse) -> Result<T, ApiError> {
    // A serde message may quote a value of the body. Report only the position, so that no content
    // leaks.
    serde_json::from_slice(&answer.body)
        .map_err(|error| ApiError::NotUnderstood(format!("line {} column {}", error.line(), error.column())))
}

fn read<T: DeserializeOwned>(answer: Result<HttpResponse, ApiError>) -> Result<T, ApiError> {
    decoded(&checked(answer)?)
}

/// Percent-encodes text for use in a path segment or a query value.
fn escaped(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    let escape = |byte: u8| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") };
    text.bytes().map(escape).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_user_id_is_encoded_in_a_path() {
        assert_eq!(escaped("auth0|5/é?#"), "auth0%7C5%2F%C3%A9%3F%23");
    }

    #[tokio::test]
    async fn fixed_token_is_returned_until_refused() {
        let tokens = FixedToken("one".into());
        assert_eq!(tokens.token(None).await.as_deref(), Ok("one"));
        assert_eq!(tokens.token(Some("one")).await, Err(NoToken::Never));
    }
}
