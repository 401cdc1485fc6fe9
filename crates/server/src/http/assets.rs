//! `GET /`, `GET /docs`, `GET /assets/{file}`: the web client and the documentation page, carried in the binary.

use axum::body::Body;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use bluetick_wire::ErrorCode;
use bluetick_wire::http::ErrorBody;
use rust_embed::{EmbeddedFile, RustEmbed};

use super::extract::FilePath;
use super::reply;
use crate::problem::Problem;

#[derive(RustEmbed)]
#[folder = "../../web"]
struct Web;

/// Nothing from elsewhere, nothing inline, nobody's frame.
const CONTENT_SECURITY_POLICY: &str = "default-src 'self'; connect-src 'self'; img-src 'self' data:; \
    object-src 'none'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'";

/// The web client.
#[utoipa::path(
    get, path = "/", tag = "pages",
    responses((status = 200, description = "A page", body = String, content_type = "text/html")),
)]
pub(super) async fn index(headers: HeaderMap) -> Response {
    serve("index.html", &headers)
}

/// This documentation, to read and to try.
#[utoipa::path(
    get, path = "/docs", tag = "pages",
    responses((status = 200, description = "A page", body = String, content_type = "text/html")),
)]
pub(super) async fn docs(headers: HeaderMap) -> Response {
    serve("docs.html", &headers)
}

/// A file of the pages.
#[utoipa::path(
    get, path = "/assets/{file}", tag = "pages",
    params(("file" = String, Path, description = "Its name")),
    responses((status = 200, description = "The file", body = String, content_type = "text/plain"),
              (status = 304, description = "It is what the client has"),
              (status = 404, description = "There is no such file", body = ErrorBody)),
)]
pub(super) async fn asset(FilePath(file): FilePath, headers: HeaderMap) -> Response {
    serve(&file, &headers)
}

fn serve(name: &str, request: &HeaderMap) -> Response {
    let Some(EmbeddedFile { data, metadata }) = Web::get(name) else {
        return Problem::new(ErrorCode::NotFound, "there is nothing at this path").into_response();
    };
    let etag = etag(&metadata.sha256_hash());
    let known = request.get(header::IF_NONE_MATCH).is_some_and(|known| known.as_bytes() == etag.as_bytes());
    let (status, body) =
        if known { (StatusCode::NOT_MODIFIED, Body::empty()) } else { (StatusCode::OK, Body::from(data)) };
    let mut response = reply::with_type(status, content_type(name), body);
    let headers = response.headers_mut();
    headers.insert(header::ETAG, etag);
    // Kept by the browser, and asked about each time: a new binary shows at once.
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(CONTENT_SECURITY_POLICY));
    headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    response
}

fn etag(sha256: &[u8; 32]) -> HeaderValue {
    let digits: String = sha256[..12].iter().map(|byte| format!("{byte:02x}")).collect();
    HeaderValue::from_str(&format!("\"{digits}\"")).expect("hex digits fit a header")
}

fn content_type(name: &str) -> &'static str {
    match name.rsplit_once('.').map(|(_, extension)| extension) {
        Some("html") => "text/html; charset=utf-8",
        Some("js" | "mjs") => "text/javascript; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        Some("svg") => "image/svg+xml",
        Some("png") => "image/png",
        Some("ico") => "image/x-icon",
        Some("json" | "webmanifest") => "application/json",
        Some("woff2") => "font/woff2",
        Some("txt" | "md") => "text/plain; charset=utf-8",
        _ => "application/octet-stream",
    }
}
