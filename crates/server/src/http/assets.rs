//! `GET /`, `GET /docs`, `GET /assets/{file}` and the two files a browser wants beside them: the web client and the
//! documentation page, as they were built from `web/` and carried in the binary.

use std::collections::HashMap;
use std::io::Write;
use std::sync::{LazyLock, OnceLock};

use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use bluetick_wire::ErrorCode;
use bluetick_wire::http::ErrorBody;
use flate2::Compression;
use flate2::write::GzEncoder;
use rust_embed::RustEmbed;

use super::extract::FilePath;
use super::reply;
use crate::problem::Problem;

#[derive(RustEmbed)]
#[folder = "../../web/dist"]
struct Web;

/// Nothing from elsewhere, nothing inline, nobody's frame.
const CONTENT_SECURITY_POLICY: &str = "default-src 'self'; connect-src 'self'; img-src 'self' data:; \
    object-src 'none'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'";
/// Kept by the browser, and asked about each time: a new binary shows at once.
const ASK_EACH_TIME: &str = "no-cache";
/// A file with a part of its content's hash in its name is the same for ever.
const FOR_EVER: &str = "public, max-age=31536000, immutable";

struct File {
    plain: Bytes,
    /// Made when somebody first wants it.
    gzip: OnceLock<Bytes>,
    etag: String,
}

static FILES: LazyLock<HashMap<String, File>> = LazyLock::new(|| {
    let file = |name: &str| {
        let embedded = Web::get(name).expect("a file that is listed is there");
        let plain = match embedded.data {
            std::borrow::Cow::Borrowed(bytes) => Bytes::from_static(bytes),
            std::borrow::Cow::Owned(bytes) => Bytes::from(bytes),
        };
        let sha256 = embedded.metadata.sha256_hash();
        let etag = sha256[..12].iter().map(|byte| format!("{byte:02x}")).collect();
        File { plain, gzip: OnceLock::new(), etag }
    };
    Web::iter().map(|name| (name.to_string(), file(&name))).collect()
});

impl File {
    fn gzip(&self) -> Bytes {
        self.gzip.get_or_init(|| compress(&self.plain)).clone()
    }
}

fn compress(plain: &[u8]) -> Bytes {
    let mut encoder = GzEncoder::new(Vec::with_capacity(plain.len() / 2), Compression::best());
    encoder.write_all(plain).and_then(|()| encoder.finish()).expect("memory takes every byte").into()
}

/// The web client.
#[utoipa::path(
    get, path = "/", tag = "pages",
    responses((status = 200, description = "A page", body = String, content_type = "text/html")),
)]
pub(super) async fn index(headers: HeaderMap) -> Response {
    serve("index.html", ASK_EACH_TIME, &headers)
}

/// This documentation, to read and to try.
#[utoipa::path(
    get, path = "/docs", tag = "pages",
    responses((status = 200, description = "A page", body = String, content_type = "text/html")),
)]
pub(super) async fn docs(headers: HeaderMap) -> Response {
    serve("docs.html", ASK_EACH_TIME, &headers)
}

/// What keeps the web client at hand when there is no network.
#[utoipa::path(
    get, path = "/sw.js", tag = "pages",
    responses((status = 200, description = "A script", body = String, content_type = "text/javascript")),
)]
pub(super) async fn service_worker(headers: HeaderMap) -> Response {
    serve("sw.js", ASK_EACH_TIME, &headers)
}

/// What a phone needs to put the web client among its programs.
#[utoipa::path(
    get, path = "/manifest.webmanifest", tag = "pages",
    responses((status = 200, description = "A manifest", body = serde_json::Value, content_type = "application/manifest+json")),
)]
pub(super) async fn manifest(headers: HeaderMap) -> Response {
    serve("manifest.webmanifest", ASK_EACH_TIME, &headers)
}

/// A file of the pages.
#[utoipa::path(
    get, path = "/assets/{file}", tag = "pages",
    params(("file" = String, Path, description = "Its name")),
    responses((status = 200, description = "The file", content(
                  (String = "text/css"), (String = "text/javascript"), (String = "image/svg+xml"),
                  (String = "image/png"), (String = "text/plain"))),
              (status = 304, description = "It is what the client has"),
              (status = 404, description = "There is no such file", body = ErrorBody)),
)]
pub(super) async fn asset(FilePath(file): FilePath, headers: HeaderMap) -> Response {
    let cache = if is_hashed(&file) { FOR_EVER } else { ASK_EACH_TIME };
    serve(&format!("assets/{file}"), cache, &headers)
}

fn serve(name: &str, cache: &'static str, request: &HeaderMap) -> Response {
    let Some(file) = FILES.get(name) else {
        return Problem::new(ErrorCode::NotFound, "there is nothing at this path").into_response();
    };
    let zipped = is_text(name) && takes_gzip(request);
    // Two encodings are two representations, each with a tag of its own.
    let etag = if zipped { format!("\"{}-gz\"", file.etag) } else { format!("\"{}\"", file.etag) };
    let (status, body) = if knows(request, &etag) {
        (StatusCode::NOT_MODIFIED, Body::empty())
    } else {
        (StatusCode::OK, Body::from(if zipped { file.gzip() } else { file.plain.clone() }))
    };
    let mut response = reply::with_type(status, content_type(name), body);
    let headers = response.headers_mut();
    headers.insert(header::ETAG, HeaderValue::from_str(&etag).expect("hex digits fit a header"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static(cache));
    headers.insert(header::VARY, HeaderValue::from_static("accept-encoding"));
    if zipped && status == StatusCode::OK {
        headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    }
    headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(CONTENT_SECURITY_POLICY));
    headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    response
}

/// The values of a header that may be given as a list, or several times.
fn listed(request: &HeaderMap, name: header::HeaderName) -> impl Iterator<Item = &str> {
    let values = request.get_all(name).into_iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).map(str::trim)
}

/// A proxy on the way may have called the tag a weak one.
fn knows(request: &HeaderMap, etag: &str) -> bool {
    listed(request, header::IF_NONE_MATCH).any(|known| known.strip_prefix("W/").unwrap_or(known) == etag)
}

fn takes_gzip(request: &HeaderMap) -> bool {
    listed(request, header::ACCEPT_ENCODING).any(|accepted| {
        let (coding, weight) = accepted.split_once(';').unwrap_or((accepted, "q=1"));
        let refused = weight.trim().strip_prefix("q=").and_then(|q| q.parse().ok()) == Some(0.0_f32);
        coding.trim().eq_ignore_ascii_case("gzip") && !refused
    })
}

/// As the build names what it made: `index-DVa_MnJF.css`.
fn is_hashed(name: &str) -> bool {
    let stem = name.rsplit_once('.').map_or(name, |(stem, _)| stem);
    stem.len() > 9 && stem.as_bytes()[stem.len() - 9] == b'-'
}

fn extension(name: &str) -> &str {
    name.rsplit_once('.').map_or("", |(_, extension)| extension)
}

/// What gets smaller by compression.
fn is_text(name: &str) -> bool {
    matches!(extension(name), "html" | "js" | "css" | "svg" | "webmanifest" | "txt")
}

fn content_type(name: &str) -> &'static str {
    match extension(name) {
        "html" => "text/html; charset=utf-8",
        "js" => "text/javascript; charset=utf-8",
        "css" => "text/css; charset=utf-8",
        "svg" => "image/svg+xml",
        "png" => "image/png",
        "webmanifest" => "application/manifest+json",
        "woff2" => "font/woff2",
        "txt" => "text/plain; charset=utf-8",
        _ => "application/octet-stream",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(encodings: &[&'static str]) -> HeaderMap {
        let value = |encoding: &&'static str| (header::ACCEPT_ENCODING, HeaderValue::from_static(encoding));
        encodings.iter().map(value).collect()
    }

    #[test]
    fn only_what_is_named_by_its_content_is_kept_for_ever() {
        assert!(is_hashed("index-DVa_MnJF.css") && is_hashed("docs-6j9DNa-Q.js"));
        assert!(!is_hashed("icon.svg") && !is_hashed("third-party.txt") && !is_hashed("-DVa_MnJF.js"));
        for file in
            FILES.keys().filter_map(|name| name.strip_prefix("assets/")).filter(|name| name.ends_with(".png"))
        {
            assert!(!is_hashed(file), "{file}");
        }
    }

    #[test]
    fn only_who_says_so_gets_it_zipped() {
        for yes in ["gzip", "br, gzip", "deflate;q=0.5, GZIP ; q=0.3"] {
            assert!(takes_gzip(&request(&[yes])), "{yes}");
        }
        assert!(takes_gzip(&request(&["br", "gzip"])));
        for no in ["", "br", "gzip;q=0", "gzip; q=0.0", "x-gzip", "*"] {
            assert!(!takes_gzip(&request(&[no])), "{no}");
        }
    }
}
