//! `GET /`, `GET /docs`, `GET /assets/{file}`, the service worker and the manifest: the web client
//! and the API reference, as built from `web/` and embedded in the binary.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::sync::{LazyLock, OnceLock};

use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use bluetick_wire::ErrorCode;
use bluetick_wire::http::ErrorBody;
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use rust_embed::RustEmbed;

use super::extract::FilePath;
use super::reply;
use crate::problem::Problem;

#[derive(RustEmbed)]
#[folder = "../../web/dist"]
struct Web;

/// The viewer of the API reference, compressed: the standalone file of `@scalar/api-reference` in
/// npm. `tests/api` compares it with the package. See ADR 29.
const VIEWER: (&str, &[u8]) =
    ("assets/api-reference-1.72.1.js", include_bytes!("../../../../web/vendor/api-reference-1.72.1.js.gz"));

/// The page of the API reference, in `web/dist`. Only this page gets
/// [`DOCS_CONTENT_SECURITY_POLICY`].
const DOCS_PAGE: &str = "docs.html";

macro_rules! policy {
    ($style:literal) => {
        concat!(
            "default-src 'self'; connect-src 'self'; img-src 'self' data:; style-src ",
            $style,
            "; object-src 'none'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
        )
    };
}
/// Pages load only files of this server, run no inline scripts, and no site can frame them. A
/// weaker policy lets injected markup run scripts.
const CONTENT_SECURITY_POLICY: &str = policy!("'self'");
/// The same for the API reference, whose viewer adds style elements to the page. Scripts stay as
/// restricted as on the other pages.
const DOCS_CONTENT_SECURITY_POLICY: &str = policy!("'self' 'unsafe-inline'");

/// For files without a hash in the name: the browser revalidates its copy on each use, so a new
/// binary takes effect immediately.
const ASK_EACH_TIME: &str = "no-cache";
/// For files with a hash of their content in the name: the browser never revalidates its copy. On
/// any other file, a browser would keep an outdated version for a year.
const FOR_EVER: &str = "public, max-age=31536000, immutable";

struct File {
    plain: OnceLock<Bytes>,
    gzip: OnceLock<Bytes>,
    etag: String,
}

static FILES: LazyLock<HashMap<String, File>> = LazyLock::new(|| {
    let file = |name: &str| {
        let embedded = Web::get(name).expect("the list contains embedded files only");
        let plain = match embedded.data {
            std::borrow::Cow::Borrowed(bytes) => Bytes::from_static(bytes),
            std::borrow::Cow::Owned(bytes) => Bytes::from(bytes),
        };
        let sha256 = embedded.metadata.sha256_hash();
        let etag = sha256[..12].iter().map(|byte| format!("{byte:02x}")).collect();
        File { plain: OnceLock::from(plain), gzip: OnceLock::new(), etag }
    };
    let (name, gzip) = VIEWER;
    let version = name.trim_start_matches("assets/").trim_end_matches(".js");
    let viewer = File {
        plain: OnceLock::new(),
        gzip: OnceLock::from(Bytes::from_static(gzip)),
        etag: format!("{version}-{:x}", gzip.len()),
    };
    let web = Web::iter().map(|name| (name.to_string(), file(&name)));
    web.chain([(name.to_owned(), viewer)]).collect()
});

/// The binary contains each file in one of the two forms. The first request for the other form
/// creates it.
impl File {
    fn gzip(&self) -> Bytes {
        self.gzip.get_or_init(|| compress(&self.plain())).clone()
    }

    fn plain(&self) -> Bytes {
        self.plain.get_or_init(|| self.gzip.get().map(|gzip| expand(gzip)).unwrap_or_default()).clone()
    }
}

fn compress(plain: &[u8]) -> Bytes {
    let mut encoder = GzEncoder::new(Vec::with_capacity(plain.len() / 2), Compression::best());
    encoder.write_all(plain).and_then(|()| encoder.finish()).expect("a write to memory succeeds").into()
}

fn expand(gzip: &[u8]) -> Bytes {
    let mut plain = Vec::with_capacity(gzip.len() * 4);
    GzDecoder::new(gzip).read_to_end(&mut plain).expect("the embedded file is valid gzip");
    plain.into()
}

/// Get the web client
///
/// Returns the page of the web client. It needs no token.
#[utoipa::path(
    get, path = "/", tag = "pages",
    responses((status = 200, description = "A page", body = String, content_type = "text/html")),
)]
pub(super) async fn index(headers: HeaderMap) -> Response {
    serve("index.html", ASK_EACH_TIME, &headers)
}

/// Get the API reference
///
/// Returns a page that shows this document and the AsyncAPI document, with search and request
/// samples. It needs no token.
#[utoipa::path(
    get, path = "/docs", tag = "pages",
    responses((status = 200, description = "A page", body = String, content_type = "text/html")),
)]
pub(super) async fn docs(headers: HeaderMap) -> Response {
    serve(DOCS_PAGE, ASK_EACH_TIME, &headers)
}

/// Get the service worker
///
/// Returns the script that lets the web client start without a network. It needs no token.
#[utoipa::path(
    get, path = "/sw.js", tag = "pages",
    responses((status = 200, description = "A script", body = String, content_type = "text/javascript")),
)]
pub(super) async fn service_worker(headers: HeaderMap) -> Response {
    serve("sw.js", ASK_EACH_TIME, &headers)
}

/// Get the web app manifest
///
/// Returns the names and icons with which a phone installs the web client. It needs no token.
#[utoipa::path(
    get, path = "/manifest.webmanifest", tag = "pages",
    responses((status = 200, description = "A manifest", body = serde_json::Value, content_type = "application/manifest+json")),
)]
pub(super) async fn manifest(headers: HeaderMap) -> Response {
    serve("manifest.webmanifest", ASK_EACH_TIME, &headers)
}

/// Get a file of the pages
///
/// Returns a script, a style sheet, an image or a licence text. It needs no token.
#[utoipa::path(
    get, path = "/assets/{file}", tag = "pages",
    params(("file" = String, Path, description = "The name of the file")),
    responses((status = 200, description = "The file", content(
                  (String = "text/css"), (String = "text/javascript"), (String = "image/svg+xml"),
                  (String = "image/png"), (String = "text/plain"))),
              (status = 304, description = "The client has the current version"),
              (status = 404, description = "The file does not exist", body = ErrorBody)),
)]
pub(super) async fn asset(FilePath(file): FilePath, headers: HeaderMap) -> Response {
    let cache = if is_hashed(&file) { FOR_EVER } else { ASK_EACH_TIME };
    serve(&format!("assets/{file}"), cache, &headers)
}

fn serve(name: &str, cache: &'static str, request: &HeaderMap) -> Response {
    let Some(file) = FILES.get(name) else {
        return Problem::new(ErrorCode::NotFound, "no file has this path").into_response();
    };
    let zipped = is_text(name) && takes_gzip(request);
    // Each encoding is a representation of its own, with its own tag.
    let etag = if zipped { format!("\"{}-gz\"", file.etag) } else { format!("\"{}\"", file.etag) };
    let (status, body) = if knows(request, &etag) {
        (StatusCode::NOT_MODIFIED, Body::empty())
    } else {
        (StatusCode::OK, Body::from(if zipped { file.gzip() } else { file.plain() }))
    };
    let mut response = reply::with_type(status, content_type(name), body);
    let headers = response.headers_mut();
    headers.insert(header::ETAG, HeaderValue::from_str(&etag).expect("hex digits fit a header"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static(cache));
    headers.insert(header::VARY, HeaderValue::from_static("accept-encoding"));
    if zipped && status == StatusCode::OK {
        headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    }
    let policy = if name == DOCS_PAGE { DOCS_CONTENT_SECURITY_POLICY } else { CONTENT_SECURITY_POLICY };
    headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(policy));
    headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    response
}

/// Returns the values of a header that can contain a list and can occur several times.
fn listed(request: &HeaderMap, name: header::HeaderName) -> impl Iterator<Item = &str> {
    let values = request.get_all(name).into_iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).map(str::trim)
}

/// Reports whether the client has this version. A proxy may have made the tag a weak one.
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

/// Reports whether the build put a hash of the content into the name: `index-DVa_MnJF.css`.
fn is_hashed(name: &str) -> bool {
    let stem = name.rsplit_once('.').map_or(name, |(stem, _)| stem);
    stem.len() > 9 && stem.as_bytes()[stem.len() - 9] == b'-'
}

fn extension(name: &str) -> &str {
    name.rsplit_once('.').map_or("", |(_, extension)| extension)
}

/// Reports whether compression makes the file smaller.
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
    fn only_names_with_a_content_hash_are_immutable() {
        assert!(is_hashed("index-DVa_MnJF.css") && is_hashed("docs-6j9DNa-Q.js"));
        assert!(!is_hashed(VIEWER.0), "its name has a version and no hash");
        assert!(!is_hashed("icon.svg") && !is_hashed("third-party.txt") && !is_hashed("-DVa_MnJF.js"));
        for file in
            FILES.keys().filter_map(|name| name.strip_prefix("assets/")).filter(|name| name.ends_with(".png"))
        {
            assert!(!is_hashed(file), "{file}");
        }
    }

    #[test]
    fn gzip_is_sent_only_to_clients_that_accept_it() {
        for yes in ["gzip", "br, gzip", "deflate;q=0.5, GZIP ; q=0.3"] {
            assert!(takes_gzip(&request(&[yes])), "{yes}");
        }
        assert!(takes_gzip(&request(&["br", "gzip"])));
        for no in ["", "br", "gzip;q=0", "gzip; q=0.0", "x-gzip", "*"] {
            assert!(!takes_gzip(&request(&[no])), "{no}");
        }
    }

    #[test]
    fn viewer_expands_to_a_script_and_only_docs_allow_inline_styles() {
        let viewer = FILES[VIEWER.0].plain();
        assert!(viewer.len() > VIEWER.1.len() && std::str::from_utf8(&viewer).is_ok());
        assert!(!CONTENT_SECURITY_POLICY.contains("unsafe"));
        assert_eq!(DOCS_CONTENT_SECURITY_POLICY.replace(" 'unsafe-inline'", ""), CONTENT_SECURITY_POLICY);
    }
}
