//! The error responses of each operation, for the OpenAPI document.
//!
//! Most errors follow from what an operation takes: a token, a body, an id in its path. The table
//! [`OWN_ERRORS`] lists the others. The document keeps the `default` response, so a client must
//! also expect a code that an operation does not list.

use std::collections::BTreeMap;

use bluetick_wire::ErrorCode;
use serde_json::{Map, Value, json};

use ErrorCode::{
    ArchiveBusy, ArchiveOff, ArchiveUnavailable, AuditUnavailable, BodyTooLarge, ContentTooLarge,
    ConversationNotFound, DirectIsFixed, Draining, GroupFull, HostNotAllowed, Internal, InvalidCredentials,
    InvalidRequest, LoginDisabled, MemberNotFound, MessageIdConflict, MessageNotFound, NameReserved,
    NotAnAdmin, NotFound, OriginNotAllowed, Overloaded, RateLimited, RequestTimeout, SignupDisabled,
    StoreUnavailable, TokenExpired, TokenRevoked, TooManyConnections, Unauthenticated, UnknownUser,
    UpgradeRequired, UserExists, UserNotFound,
};

/// Errors that do not follow from the parameters, the body or the security of an operation, by
/// operation id. The document does not list a missing one.
const OWN_ERRORS: &[(&str, &[ErrorCode])] = &[
    ("signup", &[SignupDisabled, LoginDisabled, UserExists, NameReserved, RateLimited]),
    ("login", &[InvalidCredentials, LoginDisabled, RateLimited]),
    ("mint_token", &[LoginDisabled]),
    ("create_user", &[UserExists]),
    ("show_user", &[UserNotFound]),
    ("set_password", &[UserNotFound]),
    ("open_conversation", &[UnknownUser, GroupFull]),
    ("add_members", &[UnknownUser, DirectIsFixed, GroupFull]),
    ("remove_member", &[NotAnAdmin, MemberNotFound, DirectIsFixed]),
    ("send_message", &[MessageIdConflict, ContentTooLarge]),
    ("read_history", &[ArchiveUnavailable]),
    ("show_status", &[MessageNotFound]),
    ("show_archive_job", &[NotFound]),
    ("run_archive", &[ArchiveOff, ArchiveBusy]),
    ("verify_archive", &[ArchiveOff, ArchiveBusy]),
    ("restore_from_archive", &[ArchiveOff, ArchiveBusy, ConversationNotFound]),
    ("make_backup", &[ArchiveBusy]),
    ("erase_messages", &[ArchiveBusy, ConversationNotFound]),
    ("open_websocket", &[UpgradeRequired, TooManyConnections, Draining]),
];

/// Operations that answer from memory, so no store error is possible. The document lists store
/// errors for all others.
const WITHOUT_STORE: &[&str] = &["show_server", "open_websocket"];

/// Paths that a load balancer calls by address, so they accept any `Host`. Must equal the paths of
/// `is_health_check` in `service`, or the document is wrong.
const ANY_HOST: &[&str] = &["/healthz", "/readyz"];

/// Returns the error codes of an operation, in the order of the table of all codes.
fn codes(method: &str, path: &str, operation: &Value) -> Vec<ErrorCode> {
    let id = operation["operationId"].as_str().unwrap_or_default();
    let needs = |key: &str| {
        operation["security"].as_array().is_some_and(|any| any.iter().any(|each| each.get(key).is_some()))
    };
    let mut codes = Vec::new();
    if !ANY_HOST.contains(&path) {
        codes.push(HostNotAllowed);
    }
    if path.starts_with("/v1/") {
        codes.push(Internal);
        if !WITHOUT_STORE.contains(&id) {
            codes.extend([StoreUnavailable, Overloaded]);
        }
    }
    if needs("token") {
        codes.extend([Unauthenticated, TokenExpired, TokenRevoked, RateLimited]);
    }
    if needs("admin_key") {
        codes.extend([Unauthenticated, RateLimited]);
    }
    if method != "get" {
        codes.push(Draining);
        if needs("admin_key") {
            codes.push(AuditUnavailable);
        }
    }
    if operation.get("parameters").is_some() {
        codes.push(InvalidRequest);
    }
    if operation.get("requestBody").is_some() {
        codes.extend([InvalidRequest, BodyTooLarge, RequestTimeout]);
    }
    if path.contains("{conversation_id}") {
        codes.push(ConversationNotFound);
    }
    // A browser sends `Origin` with the handshake and with calls without a token. Other calls are
    // refused at the preflight, which is not an operation of this document.
    if ["open_websocket", "signup", "login"].contains(&id) {
        codes.push(OriginNotAllowed);
    }
    codes.extend(OWN_ERRORS.iter().filter(|(name, _)| *name == id).flat_map(|(_, own)| own.iter()));
    ErrorCode::ALL.iter().copied().filter(|code| codes.contains(code)).collect()
}

/// Returns references to the error responses of an operation, by status, and adds the responses to
/// `components`. Operations with the same errors share one component.
pub(super) fn responses(
    method: &str,
    path: &str,
    operation: &Value,
    components: &mut Map<String, Value>,
) -> Map<String, Value> {
    let mut by_status = BTreeMap::<u16, Vec<ErrorCode>>::new();
    for code in codes(method, path, operation) {
        by_status.entry(code.status()).or_default().push(code);
    }
    let named = by_status.iter().map(|(status, codes)| (*status, name(codes), response(*status, codes)));
    let mut named: Vec<_> = named.collect();
    if !by_status.contains_key(&400) {
        named.push((400, "MalformedRequest".to_owned(), malformed()));
    }
    let reference = |(status, name, response): (u16, String, Value)| {
        let reference = json!({ "$ref": format!("#/components/responses/{name}") });
        components.insert(name, response);
        (status.to_string(), reference)
    };
    named.into_iter().map(reference).collect()
}

/// Returns the name of the component: `[Overloaded, Draining]` becomes `OverloadedOrDraining`.
fn name(codes: &[ErrorCode]) -> String {
    codes.iter().map(|code| format!("{code:?}")).collect::<Vec<_>>().join("Or")
}

/// The error of a request that is not valid HTTP. hyper answers it before any handler runs.
fn malformed() -> Value {
    json!({ "description": "The request line or a header is invalid. The body is empty." })
}

fn response(status: u16, codes: &[ErrorCode]) -> Value {
    let lines: Vec<String> = codes.iter().map(|code| format!("`{code}`: {}", code.meaning())).collect();
    let meaning = codes[0].meaning();
    let message = meaning.split_once('.').map_or(meaning, |(first, _)| first);
    let mut response = json!({
        "description": lines.join("\n\n"),
        "content": { "application/json": {
            "schema": { "$ref": "#/components/schemas/ErrorBody" },
            "example": { "error": { "code": codes[0].as_str(), "message": message } },
        } },
    });
    let (name, description, schema) = match status {
        401 => ("WWW-Authenticate", "Always `Bearer`.", json!({ "type": "string", "const": "Bearer" })),
        429 => ("Retry-After", "The time to wait, in seconds.", seconds()),
        503 => ("Retry-After", "The time to wait, in seconds. Some errors do not set it.", seconds()),
        _ => return response,
    };
    response["headers"][name] = json!({ "description": description, "schema": schema });
    response
}

fn seconds() -> Value {
    json!({ "type": "integer", "format": "int64", "minimum": 1 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_of_own_errors_names_an_operation() {
        let document = crate::http::openapi_document();
        let items = document["paths"].as_object().expect("paths").values();
        let ids: Vec<&str> = items
            .flat_map(|item| item.as_object().expect("an item").values())
            .filter_map(|operation| operation["operationId"].as_str())
            .collect();
        for id in OWN_ERRORS.iter().map(|(id, _)| id).chain(WITHOUT_STORE) {
            assert!(ids.contains(id), "{id}");
        }
    }
}
