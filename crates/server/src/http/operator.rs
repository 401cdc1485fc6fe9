//! Authenticates the operator by the admin key and writes its acts to the audit trail.

use std::sync::Arc;

use axum::extract::FromRequestParts;
use axum::http::HeaderMap;
use axum::http::request::Parts;
use bluetick_wire::ErrorCode;
use serde_json::{Value, json};

use super::extract::bearer;
use super::service::Peer;
use crate::app::App;
use crate::audit::{Act, AuditEntry, AuditWriteError, CommandLine, Outcome, Subject, Who, sanitize};
use crate::limits::KeyCheck;
use crate::metrics::KeyFailure;
use crate::problem::Problem;

/// An operator who presented the admin key.
pub(crate) struct Operator {
    who: Who,
    request_id: String,
}

/// Header with the request id of the client, which connects audit entries with the client's own
/// log. An invalid or missing id is replaced.
const REQUEST_ID: &str = "x-request-id";
/// Maximum length of a request id in bytes. Bounds the size of an audit entry.
const REQUEST_ID_BYTES: usize = 64;
/// Header in which proxies list the client address. Without it, an entry names only the proxy.
const FORWARDED_FOR: &str = "x-forwarded-for";
/// Maximum number of characters of that header in an audit entry. Bounds the entry when a client
/// sends a long header.
const FORWARDED_FOR_BYTES: usize = 128;

impl FromRequestParts<Arc<App>> for Operator {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Operator, Problem> {
        let key = bearer(&parts.headers)?;
        let request_id = request_id(&parts.headers).unwrap_or_else(|| app.next_request_id());
        let Peer(peer) =
            parts.extensions.get().copied().expect("the listener adds the peer address to every request");
        let forwarded_for =
            text(&parts.headers, FORWARDED_FOR).map(|text| sanitize(text, FORWARDED_FOR_BYTES));
        let address = app.address_limits.caller(peer.ip(), &parts.headers);
        let peer = Some(peer);
        match app.address_limits.check_admin_key(address, || app.admin_key.matches(key)).await {
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
                app.failed_keys.omit();
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
    /// Writes an audit entry before an act. Returns an error if the write fails; the caller must
    /// then not perform the act.
    pub async fn begins<'a>(
        &self,
        app: &'a App,
        act: Act,
        subject: Option<Subject>,
    ) -> Result<BegunAct<'a>, Problem> {
        self.begins_with(app, act, subject, Value::Null).await
    }

    /// Like [`Operator::begins`], with details.
    pub async fn begins_with<'a>(
        &self,
        app: &'a App,
        act: Act,
        subject: Option<Subject>,
        detail: Value,
    ) -> Result<BegunAct<'a>, Problem> {
        let entry = AuditEntry { detail, ..self.entry(app, act, Outcome::Begun, subject) };
        app.audit.write(&entry).await.map_err(unwritten)?;
        Ok(BegunAct { app, entry })
    }

    /// Writes an audit entry for an act that takes effect only with its response.
    pub async fn does(&self, app: &App, act: Act, subject: Option<Subject>) -> Result<(), Problem> {
        let entry = self.entry(app, act, Outcome::Done, subject);
        app.audit.write(&entry).await.map_err(unwritten)
    }

    async fn was_refused(&self, app: &App, parts: &Parts) {
        let Some(take_omitted) = app.failed_keys.record(app.clock.now()) else { return };
        let mut detail = json!({"call": format!("{} {}", parts.method, sanitize(parts.uri.path(), 128))});
        if take_omitted > 0 {
            detail["others_left_out"] = take_omitted.into();
        }
        let entry = self.entry(app, Act::AdminKeyRefused, Outcome::Refused, None);
        // The request is refused even if this write fails. The trail has logged the error.
        let _unwritten = app.audit.write(&AuditEntry { detail, ..entry }).await;
    }

    fn entry(&self, app: &App, act: Act, outcome: Outcome, subject: Option<Subject>) -> AuditEntry {
        AuditEntry {
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

/// An act whose begin is in the audit trail.
pub(crate) struct BegunAct<'a> {
    app: &'a App,
    entry: AuditEntry,
}

impl BegunAct<'_> {
    /// Adds details to the final entry.
    pub fn with(mut self, detail: Value) -> Self {
        match (&mut self.entry.detail, detail) {
            (Value::Object(known), Value::Object(more)) => known.extend(more),
            (known, detail) => *known = detail,
        }
        self
    }

    /// Writes the outcome. If the write fails, the result stands: the trail has the entry of the
    /// begin.
    pub async fn ended<T>(self, result: Result<T, Problem>) -> Result<T, Problem> {
        let (outcome, reason) = match &result {
            Ok(_) => (Outcome::Done, None),
            Err(problem) if problem.code.status() < 500 => (Outcome::Refused, Some(problem.code)),
            Err(problem) => (Outcome::Failed, Some(problem.code)),
        };
        let reason = reason.map(|code| code.as_str().to_owned());
        let entry = AuditEntry { at: self.app.clock.now(), outcome, reason, ..self.entry };
        // The trail has logged the error.
        let _unwritten = self.app.audit.write(&entry).await;
        result
    }
}

fn unwritten(error: AuditWriteError) -> Problem {
    // The caller is the operator, so the message may name the file.
    Problem::new(ErrorCode::AuditUnavailable, error.to_string())
}
