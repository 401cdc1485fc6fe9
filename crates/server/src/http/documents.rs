//! `GET /openapi.json`, `GET /asyncapi.json`: the contract, generated from the code that serves it.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use serde_json::Value;

use super::reply;
use crate::app::{App, Documents};

/// The OpenAPI document of every route, as it is served and committed.
pub fn openapi_document() -> Value {
    let (_, document) = super::router();
    finish(&document)
}

fn finish(openapi: &utoipa::openapi::OpenApi) -> Value {
    let mut document = serde_json::to_value(openapi).expect("the document is plain data");
    document["x-error-codes"] = bluetick_wire::document::error_codes();
    document
}

pub(crate) fn documents(openapi: &utoipa::openapi::OpenApi) -> Documents {
    let to_bytes =
        |document: &Value| serde_json::to_vec(document).expect("the document is plain data").into();
    Documents {
        openapi: to_bytes(&finish(openapi)),
        websocket: to_bytes(&bluetick_wire::document::websocket()),
    }
}

/// This document.
#[utoipa::path(
    get, path = "/openapi.json", tag = "pages",
    responses((status = 200, description = "OpenAPI 3.1", body = Object)),
)]
pub(super) async fn openapi(State(app): State<Arc<App>>) -> Response {
    reply::with_type(StatusCode::OK, "application/json", Body::from(app.documents.openapi.clone()))
}

/// The frames of the WebSocket.
#[utoipa::path(
    get, path = "/asyncapi.json", tag = "pages",
    responses((status = 200, description = "AsyncAPI 3.0 with JSON Schemas", body = Object)),
)]
pub(super) async fn asyncapi(State(app): State<Arc<App>>) -> Response {
    reply::with_type(StatusCode::OK, "application/json", Body::from(app.documents.websocket.clone()))
}
