//! `GET /openapi.json`, `GET /asyncapi.json`: the contract, generated from the code that serves it.

mod complete;
mod errors;

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use serde_json::Value;

use super::reply;
use crate::app::{App, Documents};

/// Returns the OpenAPI document of every route, as it is served and committed.
pub fn openapi_document() -> Value {
    let (_, document) = super::router();
    finish(&document)
}

fn finish(openapi: &utoipa::openapi::OpenApi) -> Value {
    complete::complete(serde_json::to_value(openapi).expect("the document is plain data"))
}

pub(crate) fn documents(openapi: &utoipa::openapi::OpenApi) -> Documents {
    let to_bytes =
        |document: &Value| serde_json::to_vec(document).expect("the document is plain data").into();
    Documents {
        openapi: to_bytes(&finish(openapi)),
        websocket: to_bytes(&bluetick_wire::document::websocket()),
    }
}

/// Get the OpenAPI document
///
/// Returns the description of the HTTP API: this document. It needs no token.
#[utoipa::path(
    get, path = "/openapi.json", tag = "pages",
    responses((status = 200, description = "OpenAPI 3.1", body = Object)),
)]
pub(super) async fn openapi(State(app): State<Arc<App>>) -> Response {
    reply::with_type(StatusCode::OK, "application/json", Body::from(app.documents.openapi.clone()))
}

/// Get the AsyncAPI document
///
/// Returns the description of the frames of the WebSocket. It needs no token.
#[utoipa::path(
    get, path = "/asyncapi.json", tag = "pages",
    responses((status = 200, description = "AsyncAPI 3.0 with JSON Schemas", body = Object)),
)]
pub(super) async fn asyncapi(State(app): State<Arc<App>>) -> Response {
    reply::with_type(StatusCode::OK, "application/json", Body::from(app.documents.websocket.clone()))
}
