//! The operator, and how what it does is written down.

use std::sync::Arc;

use axum::extract::FromRequestParts;
use axum::http::HeaderMap;
use axum::http::request::Parts;
use bluetick_wire::ErrorCode;
use serde_json::{Value, json};

use super::extract::bearer;
use super::service::Peer;
use crate::app::App;
use crate::audit::{Act, CommandLine, Entry, Outcome, Subject, Unwritten, Who, tame};
use crate::limits::KeyCheck;
use crate::metrics::KeyFailure;
use crate::problem::Problem;

/// The operator, with the admin key.
pub(crate) struct Operator {
    who: Who,
    request_id: String,
}

/// Of the header of that name, where it is one.
const REQUEST_ID: &str = "x-request-id";
const REQUEST_ID_BYTES: usize = 64;
const FORWARDED_FOR: &str = "x-forwarded-for";
const FORWARDED_FOR_BYTES: usize = 128;

impl FromRequestParts<Arc<App>> for Operator {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Operator, Problem> {
        let key = bearer(&parts.headers)?;
        let request_id = request_id(&parts.headers).unwrap_or_else(|| app.next_request_id());
        let peer = parts.extensions.get::<Peer>().map(|Peer(address)| *address);
        let forwarded_for = text(&parts.headers, FORWARDED_FOR).map(|text| tame(text, FORWARDED_FOR_BYTES));
        let address = peer.map(|peer| {
            // A trusted proxy that does not name its client counts as the client.
            app.addresses.caller(peer.ip(), &parts.headers).unwrap_or(peer.ip())
        });
        match app.addresses.check_admin_key(address, || app.admin_key.matches(key)).await {
            KeyCheck::Right => {
                let key = app.admin_key.fingerprint().to_owned();
                let header = text(&parts.headers, CommandLine::HEADER);
                let command_line = header.and_then(CommandLine::from_header);
                let who = Who::AdminKey { key, peer, forwarded_for, command_line };
                return Ok(Operator { who, request_id });
            }
            KeyCheck::TooMany(refused) => {
                app.metrics.admin_key_failed(KeyFailure::TooMany);
                // The audit trail counts this key and does not describe it.
                app.failed_keys.leave_out();
                return Err(refused);
            }
            KeyCheck::Wrong => {}
        }
        app.metrics.admin_key_failed(KeyFailure::Wrong);
        let stranger = Operator { who: Who::Stranger { peer, forwarded_for }, request_id };
        stranger.was_refused(app, parts).await;
        Err(Problem::new(ErrorCode::Unauthenticated, "this call needs the admin key"))
    }
}

fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}

fn request_id(headers: &HeaderMap) -> Option<String> {
    let id = text(headers, REQUEST_ID)?;
    let is_name =
        (1..=REQUEST_ID_BYTES).contains(&id.len()) && id.bytes().all(|byte| byte.is_ascii_graphic());
    is_name.then(|| id.to_owned())
}

impl Operator {
    /// Writes down what is about to be done. Where that fails, it is not done.
    pub async fn begins<'a>(
        &self,
        app: &'a App,
        act: Act,
        subject: Option<Subject>,
    ) -> Result<Begun<'a>, Problem> {
        self.begins_with(app, act, subject, Value::Null).await
    }

    /// The same, with what else is worth knowing from the beginning on.
    pub async fn begins_with<'a>(
        &self,
        app: &'a App,
        act: Act,
        subject: Option<Subject>,
        detail: Value,
    ) -> Result<Begun<'a>, Problem> {
        let entry = Entry { detail, ..self.entry(app, act, Outcome::Begun, subject) };
        app.audit.write(&entry).await.map_err(unwritten)?;
        Ok(Begun { app, entry })
    }

    /// Writes down what is done when its answer goes out, and undone when there is none.
    pub async fn does(&self, app: &App, act: Act, subject: Option<Subject>) -> Result<(), Problem> {
        let entry = self.entry(app, act, Outcome::Done, subject);
        app.audit.write(&entry).await.map_err(unwritten)
    }

    async fn was_refused(&self, app: &App, parts: &Parts) {
        let Some(left_out) = app.failed_keys.note(app.clock.now()) else { return };
        let mut detail = json!({"call": format!("{} {}", parts.method, tame(parts.uri.path(), 128))});
        if left_out > 0 {
            detail["others_left_out"] = left_out.into();
        }
        let entry = self.entry(app, Act::AdminKeyRefused, Outcome::Refused, None);
        // It is refused whether this can be written down or not; the trail has told the log.
        let _unwritten = app.audit.write(&Entry { detail, ..entry }).await;
    }

    fn entry(&self, app: &App, act: Act, outcome: Outcome, subject: Option<Subject>) -> Entry {
        Entry {
            at: app.clock.now(),
            act,
            outcome,
            subject,
            who: self.who.clone(),
            request_id: self.request_id.clone(),
            reason: None,
            detail: Value::Null,
        }
    }
}

/// An act that is written down as begun.
pub(crate) struct Begun<'a> {
    app: &'a App,
    entry: Entry,
}

impl Begun<'_> {
    /// What else is worth knowing, with its end.
    pub fn with(mut self, detail: Value) -> Self {
        match (&mut self.entry.detail, detail) {
            (Value::Object(known), Value::Object(more)) => known.extend(more),
            (known, detail) => *known = detail,
        }
        self
    }

    /// Writes down how it ended. It stays as it is where that fails: that it was begun is written down.
    pub async fn ended<T>(self, result: Result<T, Problem>) -> Result<T, Problem> {
        let (outcome, reason) = match &result {
            Ok(_) => (Outcome::Done, None),
            Err(problem) if problem.code.status() < 500 => (Outcome::Refused, Some(problem.code)),
            Err(problem) => (Outcome::Failed, Some(problem.code)),
        };
        let reason = reason.map(|code| code.as_str().to_owned());
        let entry = Entry { at: self.app.clock.now(), outcome, reason, ..self.entry };
        // The trail has told the log.
        let _unwritten = self.app.audit.write(&entry).await;
        result
    }
}

fn unwritten(error: Unwritten) -> Problem {
    // The operator may know why.
    Problem::new(ErrorCode::AuditUnavailable, error.to_string())
}
