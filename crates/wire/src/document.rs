//! Generates documents from the types and tables of this crate: `docs/errors.md` and the
//! description of the WebSocket (AsyncAPI 3). The server generates the OpenAPI document, next to
//! its routes.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde_json::{Map, Value, json};
use utoipa::ToSchema;
use utoipa::openapi::{RefOr, Schema};

use crate::frame::{
    AckFrame, BacklogFrame, CaughtUpFrame, ComeBackFrame, ConversationFrame, ErrorFrame, GoneFrame, Hello,
    MessageFrame, PongFrame, PresenceFrame, ReceiptFrame, ReceiptsFrame, SendFrame, StatusFrame, TypingFrame,
    TypingServerFrame, WelcomeFrame,
};
use crate::{CloseCode, ErrorCode};

/// Returns the content of `docs/errors.md`.
pub fn errors_markdown() -> String {
    let mut page = String::from(
        "# Errors and close codes\n\n\
         Generated from the tables in `crates/wire`; the code uses the same tables.\n\n\
         ## Error codes\n\n\
         Over HTTP, the body is `{\"error\":{\"code\":\"…\",\"message\":\"…\"}}` with the status below. On a\n\
         WebSocket, the frame is `{\"type\":\"error\",\"code\":\"…\",\"message\":\"…\",\"message_id\":\"…\"}`, and the\n\
         connection stays open. `message_id` is present if the server refused a `send` whose id it could\n\
         read.\n\n\
         The server answers 400, 408 or 431 with an empty body if a request line or a header is invalid, too\n\
         slow or too large. It then closes the connection.\n\n\
         | code | status | what to do | meaning |\n|---|---|---|---|\n",
    );
    for code in ErrorCode::ALL {
        let _ = writeln!(
            page,
            "| `{code}` | {} | {} | {} |",
            code.status(),
            code.remedy().as_str(),
            code.meaning()
        );
    }
    page.push_str(
        "\n## WebSocket close codes\n\nThe reason in the close frame is the name.\n\n\
         | code | name | what to do | meaning |\n|---|---|---|---|\n",
    );
    for code in CloseCode::ALL {
        let remedy = code.remedy().as_str();
        let _ = writeln!(page, "| {} | `{}` | {remedy} | {} |", code.number(), code.as_str(), code.meaning());
    }
    page
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Speaker {
    Client,
    Server,
}

struct Described {
    kind: &'static str,
    speaker: Speaker,
    schema: RefOr<Schema>,
    parts: Vec<(String, RefOr<Schema>)>,
}

impl Described {
    /// Returns the name of the frame in the document: its type, plus the direction if both sides
    /// have a frame of that type.
    fn key(&self, all: &[Described]) -> String {
        let said_by_both = all.iter().any(|other| other.kind == self.kind && other.speaker != self.speaker);
        match (said_by_both, self.speaker) {
            (false, _) => self.kind.into(),
            (true, Speaker::Client) => format!("{}_by_client", self.kind),
            (true, Speaker::Server) => format!("{}_by_server", self.kind),
        }
    }
}

fn describe<T: ToSchema>(kind: &'static str, speaker: Speaker) -> Described {
    let mut parts = Vec::new();
    T::schemas(&mut parts);
    Described { kind, speaker, schema: T::schema(), parts }
}

#[derive(ToSchema)]
#[schema(description = "Requests a `pong`, to check that the connection is alive.", example = json!({"type": "ping"}))]
struct PingFrame {}

fn frames() -> Vec<Described> {
    vec![
        describe::<Hello<'_>>("hello", Speaker::Client),
        describe::<SendFrame<'_>>("send", Speaker::Client),
        describe::<ReceiptFrame<'_>>("delivered", Speaker::Client),
        describe::<ReceiptFrame<'_>>("read", Speaker::Client),
        describe::<TypingFrame<'_>>("typing", Speaker::Client),
        describe::<PingFrame>("ping", Speaker::Client),
        describe::<WelcomeFrame<'_>>("welcome", Speaker::Server),
        describe::<BacklogFrame>("backlog", Speaker::Server),
        describe::<GoneFrame>("gone", Speaker::Server),
        describe::<CaughtUpFrame>("caught_up", Speaker::Server),
        describe::<ComeBackFrame>("come_back", Speaker::Server),
        describe::<MessageFrame<'_>>("message", Speaker::Server),
        describe::<AckFrame<'_>>("ack", Speaker::Server),
        describe::<StatusFrame<'_>>("status", Speaker::Server),
        describe::<ReceiptsFrame>("receipts", Speaker::Server),
        describe::<ConversationFrame<'_>>("conversation", Speaker::Server),
        describe::<TypingServerFrame<'_>>("typing", Speaker::Server),
        describe::<PresenceFrame<'_>>("presence", Speaker::Server),
        describe::<PongFrame>("pong", Speaker::Server),
        describe::<ErrorFrame<'_>>("error", Speaker::Server),
    ]
}

/// Returns the table of error codes, for the documents.
pub fn error_codes() -> Value {
    let row = |code: &ErrorCode| {
        json!({
            "code": code.as_str(), "status": code.status(), "remedy": code.remedy().as_str(),
            "meaning": code.meaning(),
        })
    };
    ErrorCode::ALL.iter().map(row).collect()
}

/// Returns a Markdown section with all error codes, for the description of the OpenAPI document.
pub fn error_section() -> String {
    let mut section = String::from(
        "# Errors\n\n\
         The body of an error is `{\"error\":{\"code\":\"…\",\"message\":\"…\"}}`. Programs use the code; the text of the \
         message may change. Each operation lists the errors that are specific to it. Any operation can also \
         return an error that it does not list.\n\n",
    );
    for code in ErrorCode::ALL {
        let _ = writeln!(section, "- `{code}` ({}): {}", code.status(), code.remedy().as_str());
    }
    section
}

/// Returns a Markdown section with all close codes, for the description of the AsyncAPI document.
fn close_section() -> String {
    let mut section = String::from("# Close codes\n\nThe reason in the close frame is the name.\n\n");
    for code in CloseCode::ALL {
        let (name, remedy) = (code.as_str(), code.remedy().as_str());
        let _ = writeln!(section, "- {} `{name}` ({remedy}): {}", code.number(), code.meaning());
    }
    section
}

fn close_codes() -> Value {
    let row = |code: &CloseCode| {
        json!({
            "code": code.number(), "name": code.as_str(), "remedy": code.remedy().as_str(),
            "meaning": code.meaning(),
        })
    };
    CloseCode::ALL.iter().map(row).collect()
}

/// Returns the content of `docs/websocket.json`, which the server also serves: AsyncAPI 3 with the
/// frames as JSON Schema.
pub fn websocket() -> Value {
    let mut schemas = BTreeMap::new();
    let mut messages = Map::new();
    let mut names: BTreeMap<&str, Vec<Value>> = BTreeMap::new();
    let frames = frames();
    for frame in &frames {
        for (name, part) in &frame.parts {
            schemas.insert(name.clone(), json!(part));
        }
        let mut schema = json!(frame.schema);
        let example = schema.as_object_mut().and_then(|schema| schema.remove("example"));
        name_type(&mut schema, frame.kind);
        let key = frame.key(&frames);
        let schema_name = format!("{key}_frame");
        messages.insert(
            key.clone(),
            json!({
                "name": frame.kind,
                "payload": { "$ref": format!("#/components/schemas/{schema_name}") },
                "examples": example.map(|example| vec![typed(example, frame.kind)]).unwrap_or_default(),
            }),
        );
        schemas.insert(schema_name, schema);
        let direction = if frame.speaker == Speaker::Client { "receive" } else { "send" };
        let reference = json!({ "$ref": format!("#/channels/connection/messages/{key}") });
        names.entry(direction).or_default().push(reference);
    }
    let in_channel: Map<String, Value> = messages
        .keys()
        .map(|key| (key.clone(), json!({ "$ref": format!("#/components/messages/{key}") })))
        .collect();
    let operation = |action: &str| json!({ "action": action, "channel": { "$ref": "#/channels/connection" }, "messages": names[action] });
    json!({
        "asyncapi": "3.0.0",
        "info": {
            "title": "Bluetick WebSocket",
            "version": "1",
            "description": format!(
                "Each text frame contains one JSON object. The first frame of the client is `hello`. The server \
                closes the connection if `hello` does not arrive in time. Both sides ignore unknown fields. \
                In this document, *receive* is what the server receives and *send* is what the server sends.\n\n{}",
                close_section(),
            ),
            "license": { "name": "Apache-2.0", "url": "https://www.apache.org/licenses/LICENSE-2.0" },
        },
        "defaultContentType": "application/json",
        "channels": { "connection": { "address": "/v1/ws", "messages": in_channel } },
        "operations": { "fromClient": operation("receive"), "fromServer": operation("send") },
        "components": { "messages": messages, "schemas": schemas },
        "x-close-codes": close_codes(),
        "x-error-codes": error_codes(),
    })
}

/// Sets the type of an example. Several types share one struct, so its own example may have another
/// type.
fn typed(mut example: Value, kind: &str) -> Value {
    example["type"] = kind.into();
    json!({ "payload": example })
}

/// Adds the `type` field to a schema. The structs do not contain it.
fn name_type(schema: &mut Value, kind: &str) {
    let tag = json!({
        "type": "object", "required": ["type"], "properties": { "type": { "type": "string", "const": kind } },
    });
    if let Some(parts) = schema.get_mut("allOf").and_then(Value::as_array_mut) {
        parts.insert(0, tag);
        return;
    }
    let Some(schema) = schema.as_object_mut() else { return };
    let required = schema.entry("required").or_insert_with(|| json!([]));
    if let Some(required) = required.as_array_mut() {
        required.insert(0, json!("type"));
    }
    let properties = schema.entry("properties").or_insert_with(|| json!({}));
    properties["type"] = tag["properties"]["type"].clone();
}
