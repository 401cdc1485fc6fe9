//! The web client and the documentation page, as a browser loads them.

use std::io::Read;
use std::net::SocketAddr;

use crate::harness::{Reply, World, raw_call};

/// Bounds the first visit, in bytes on the wire with gzip. More makes the page slow on a phone.
const FIRST_LOAD_BYTES: usize = 64_000;

async fn get(addr: SocketAddr, path: &str, header: &str) -> Reply {
    let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{header}\r\n");
    raw_call(addr, request.as_bytes()).await
}

/// The files a page names.
fn links(page: &Reply) -> Vec<String> {
    let text = String::from_utf8(page.body.clone()).unwrap();
    let named =
        text.split(['"', '\'']).filter(|part| part.starts_with("/assets/") || part.starts_with("/manifest"));
    named.map(str::to_owned).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_have_content_type_csp_cache_control_and_etag() {
    let world = World::new().await;
    let mut paths = vec!["/".to_owned(), "/docs".to_owned(), "/sw.js".to_owned()];
    for page in ["/", "/docs"] {
        let links = links(&world.get(page).await);
        assert!(
            links.iter().any(|link| link.ends_with(".js")) && links.iter().any(|link| link.ends_with(".css"))
        );
        paths.extend(links);
    }
    for path in paths {
        let page = world.get(&path).await;
        let content_type = match path.rsplit_once('.') {
            None => "text/html; charset=utf-8",
            Some((_, "js")) => "text/javascript; charset=utf-8",
            Some((_, "css")) => "text/css; charset=utf-8",
            Some((_, "webmanifest")) => "application/manifest+json",
            Some((_, "svg")) => "image/svg+xml",
            Some(_) => "image/png",
        };
        assert_eq!((page.status, page.header("content-type")), (200, Some(content_type)), "{path}");
        let policy = page.header("content-security-policy").unwrap();
        // The viewer of the API reference adds style elements; no page may run an inline script.
        let style = if path == "/docs" { "style-src 'self' 'unsafe-inline'" } else { "style-src 'self'" };
        let parts: Vec<&str> = policy.split("; ").collect();
        assert!(parts.contains(&"default-src 'self'") && parts.contains(&style), "{path}: {policy}");
        assert_eq!(policy.matches("unsafe").count(), usize::from(path == "/docs"), "{path}: {policy}");
        assert_eq!(page.header("x-content-type-options"), Some("nosniff"));
        let kept = page.header("cache-control").unwrap();
        // The build names its files like `index-DVa_MnJF.css`.
        let name = path.strip_prefix("/assets/").and_then(|file| file.split('.').next()).unwrap_or_default();
        let is_hashed = name.len() > 9 && name.as_bytes()[name.len() - 9] == b'-';
        assert_eq!(kept.contains("immutable"), is_hashed, "{path}: {kept}");
        let etag = page.header("etag").unwrap();
        for known in [etag.to_owned(), format!("\"other\", W/{etag}")] {
            let again = get(world.addr, &path, &format!("If-None-Match: {known}\r\n")).await;
            assert_eq!((again.status, again.body.len()), (304, 0), "{path}");
        }
    }
    for missing in ["/assets/nothing.js", "/assets/..%2Findex.html", "/assets/../index.html", "/assets/"] {
        world.get(missing).await.refused(404, "not_found");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn viewer_of_the_api_reference_is_the_same_script_with_and_without_gzip() {
    let world = World::new().await;
    let page = world.get("/docs").await;
    let script = links(&page).into_iter().find(|link| link.ends_with(".js")).unwrap();
    let script = world.get(&script).await.text();
    let (_, viewer) = script.split_once("/assets/api-reference-").unwrap();
    let (version, _) = viewer.split_once(".js").unwrap();
    let path = format!("/assets/api-reference-{version}.js");
    let zipped = get(world.addr, &path, "Accept-Encoding: gzip\r\n").await;
    let plain = world.get(&path).await;
    assert_eq!((zipped.status, zipped.header("content-encoding")), (200, Some("gzip")));
    assert_eq!((plain.status, plain.header("content-encoding")), (200, None));
    let mut expanded = Vec::new();
    flate2::read::GzDecoder::new(zipped.body.as_slice()).read_to_end(&mut expanded).unwrap();
    assert!(expanded == plain.body && plain.body.len() > zipped.body.len());
    // The web client does not load it.
    assert!(links(&world.get("/").await).iter().all(|link| !link.contains("api-reference")));
}

#[tokio::test(flavor = "multi_thread")]
async fn first_visit_stays_below_its_byte_limit() {
    let world = World::new().await;
    let page = world.get("/").await;
    // A phone fetches the PNG only when the user adds the page to the home screen.
    let mut paths: Vec<_> = links(&page).into_iter().filter(|link| !link.ends_with(".png")).collect();
    paths.push("/".to_owned());
    paths.push("/sw.js".to_owned());
    let mut total = 0;
    for path in &paths {
        let zipped = get(world.addr, path, "Accept-Encoding: gzip\r\n").await;
        assert_eq!(zipped.status, 200, "{path}");
        total += zipped.body.len();
        let plain = world.get(path).await;
        if zipped.header("content-encoding") == Some("gzip") {
            assert_ne!(zipped.header("etag"), plain.header("etag"), "each representation has its own ETag");
        } else {
            assert_eq!(zipped.body, plain.body);
        }
    }
    assert!(total < FIRST_LOAD_BYTES, "{total} bytes for {paths:?}");
}

/// Width and height of a PNG, from its header.
fn png_size(bytes: &[u8]) -> (u32, u32) {
    assert_eq!(&bytes[..8], b"\x89PNG\r\n\x1a\n");
    let number = |at: usize| u32::from_be_bytes(bytes[at..at + 4].try_into().unwrap());
    (number(16), number(20))
}

#[tokio::test(flavor = "multi_thread")]
async fn manifest_icons_are_served_with_their_size_and_type() {
    let world = World::new().await;
    let manifest = world.get("/manifest.webmanifest").await.json();
    let mut found = Vec::new();
    for icon in manifest["icons"].as_array().unwrap() {
        let file = world.get(icon["src"].as_str().unwrap()).await;
        assert_eq!((file.status, file.header("content-type")), (200, icon["type"].as_str()), "{icon}");
        let sizes = icon["sizes"].as_str().unwrap();
        if icon["type"] == "image/png" {
            let (width, height) = png_size(&file.body);
            assert_eq!(sizes, format!("{width}x{height}"));
        }
        found.push(format!("{sizes} {}", icon["purpose"].as_str().unwrap()));
    }
    for wanted in ["192x192 any", "512x512 any", "512x512 maskable"] {
        assert!(found.iter().any(|each| each == wanted), "{wanted} in {found:?}");
    }
    let page = world.get("/").await.text();
    assert!(page.contains(r#"rel="apple-touch-icon" href="/assets/apple-touch-icon.png""#));
    assert_eq!(png_size(&world.get("/assets/apple-touch-icon.png").await.body), (180, 180));
}
