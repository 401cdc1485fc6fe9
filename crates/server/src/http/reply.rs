//! Builds responses with a body.

use axum::body::Body;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::Response;
use serde::Serialize;

pub(super) fn json(status: StatusCode, body: &impl Serialize) -> Response {
    written(status, serde_json::to_vec(body).expect("response bodies always serialize"))
}

/// A response of serialized JSON.
pub(super) fn written(status: StatusCode, body: Vec<u8>) -> Response {
    let mut response = with_type(status, "application/json", Body::from(body));
    // Responses are private to the caller and may contain a token.
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

pub(super) fn with_type(status: StatusCode, content_type: &'static str, body: Body) -> Response {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}
