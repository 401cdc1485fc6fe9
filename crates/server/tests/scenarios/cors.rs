//! Web pages of other origins: preflights, calls, errors, and refusals for origins that are not
//! allowed.

use serde_json::json;

use crate::harness::{Reply, Setup, World, raw_call};

const APP: &str = "https://app.example";
const PREFLIGHT: &str = "Access-Control-Request-Headers: authorization,content-type\r\n";

async fn world(allowed: &[&str]) -> World {
    let mut setup = Setup::default();
    setup.settings.allowed_origins = allowed.iter().map(|origin| origin.to_string()).collect();
    setup.start().await
}

/// Sends one request with these headers, each with its line break.
async fn ask(world: &World, method: &str, path: &str, headers: &str) -> Reply {
    let request =
        format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\n{headers}Connection: close\r\n\r\n");
    raw_call(world.addr, request.as_bytes()).await
}

async fn preflight(world: &World, origin: &str, method: &str) -> Reply {
    let headers = format!("Origin: {origin}\r\nAccess-Control-Request-Method: {method}\r\n{PREFLIGHT}");
    ask(world, "OPTIONS", "/v1/conversations", &headers).await
}

fn lists(reply: &Reply, header: &str, wanted: &str) -> bool {
    reply
        .header(header)
        .is_some_and(|list| list.split(',').any(|item| item.trim().eq_ignore_ascii_case(wanted)))
}

#[tokio::test(flavor = "multi_thread")]
async fn preflight_of_an_allowed_origin_answers_204_with_methods_headers_and_age() {
    let world = world(&["https://other.example", APP]).await;
    for method in ["GET", "POST", "PUT", "PATCH", "DELETE"] {
        let reply = preflight(&world, APP, method).await;
        assert_eq!((reply.status, reply.body.len()), (204, 0), "{method}");
        assert_eq!(reply.header("access-control-allow-origin"), Some(APP));
        assert!(lists(&reply, "access-control-allow-methods", method), "{method}");
        for header in ["authorization", "content-type"] {
            assert!(lists(&reply, "access-control-allow-headers", header), "{header}");
        }
        let age = reply.header("access-control-max-age").unwrap();
        assert!(age.parse::<u32>().unwrap() > 0, "{age}");
        assert!(lists(&reply, "vary", "origin"));
        assert_eq!(reply.header("access-control-allow-credentials"), None, "no cookies are involved");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn preflight_of_another_origin_is_refused_with_the_name_of_the_setting() {
    let worlds = [world(&[]).await, world(&[APP]).await];
    for world in &worlds {
        for origin in ["https://evil.example", "https://app.example.evil", "http://app.example", "null"] {
            let reply = preflight(world, origin, "POST").await;
            assert_eq!(reply.header("access-control-allow-origin"), None, "{origin}");
            assert_eq!(reply.header("access-control-allow-methods"), None, "{origin}");
            assert!(reply.text().contains("server.allowed_origins"), "{}", reply.text());
            reply.refused(403, "origin_not_allowed");
        }
    }
    let twice = format!("Origin: {APP}\r\nOrigin: {APP}\r\nAccess-Control-Request-Method: POST\r\n");
    ask(&worlds[1], "OPTIONS", "/v1/conversations", &twice).await.refused(403, "origin_not_allowed");
}

#[tokio::test(flavor = "multi_thread")]
async fn options_without_preflight_headers_reaches_the_routes() {
    let world = world(&[APP]).await;
    for headers in
        [String::new(), format!("Origin: {APP}\r\n"), "Access-Control-Request-Method: POST\r\n".to_owned()]
    {
        let reply = ask(&world, "OPTIONS", "/v1/conversations", &headers).await;
        assert_eq!(reply.status, 405, "{headers}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn responses_and_errors_are_readable_by_allowed_origins_only() {
    let world = world(&[APP]).await;
    let post = "Content-Type: application/json\r\nContent-Length: 2\r\n";
    let calls = [
        ("GET", "/v1/server", "", 200),
        ("GET", "/v1/conversations", "", 401),
        ("GET", "/v1/nothing", "", 404),
        ("PUT", "/v1/server", "Content-Length: 0\r\n", 405),
    ];
    for (method, path, extra, status) in calls {
        let reply = ask(&world, method, path, &format!("Origin: {APP}\r\n{extra}")).await;
        assert_eq!(
            (reply.status, reply.header("access-control-allow-origin")),
            (status, Some(APP)),
            "{path}"
        );
        assert!(lists(&reply, "access-control-expose-headers", "retry-after"), "{path}");
        assert!(lists(&reply, "vary", "origin"), "{path}");
        let foreign = ask(&world, method, path, &format!("Origin: https://evil.example\r\n{extra}")).await;
        assert_eq!(foreign.header("access-control-allow-origin"), None, "{path}");
        assert!(lists(&foreign, "vary", "origin"), "the response varies by origin: {path}");
    }
    let login = format!(
        "POST /v1/login HTTP/1.1\r\nHost: localhost\r\nOrigin: {APP}\r\n{post}Connection: close\r\n\r\n{{}}"
    );
    let reply = raw_call(world.addr, login.as_bytes()).await;
    assert_eq!((reply.status, reply.header("access-control-allow-origin")), (400, Some(APP)));
}

#[tokio::test(flavor = "multi_thread")]
async fn responses_do_not_vary_by_origin_without_allowed_origins() {
    let world = world(&[]).await;
    let reply = ask(&world, "GET", "/v1/server", &format!("Origin: {APP}\r\n")).await;
    assert_eq!((reply.status, reply.header("access-control-allow-origin")), (200, None));
    assert!(!lists(&reply, "vary", "origin"));
}

/// A browser sends text without a preflight.
#[tokio::test(flavor = "multi_thread")]
async fn sign_up_and_log_in_from_a_page_of_another_origin_are_refused() {
    let mut setup = Setup { signup: true, ..Setup::default() };
    setup.settings.allowed_origins = vec![APP.into()];
    let world = setup.start().await;
    let call = async |path: &str, user: &str, origins: &[&str]| {
        let body = json!({"user_id": user, "password": "correct horse"}).to_string();
        let origins: String = origins.iter().map(|origin| format!("Origin: {origin}\r\n")).collect();
        let request = format!(
            "POST {path} HTTP/1.1\r\nHost: localhost:8080\r\n{origins}Content-Type: text/plain\r\n\
             Content-Length: {}\r\nConnection: close\r\n\r\n{body}",
            body.len()
        );
        raw_call(world.addr, request.as_bytes()).await
    };
    let own = "http://localhost:8080";
    let foreign: [&[&str]; 6] = [
        &["https://evil.example"],
        &["http://localhost"],
        &["http://localhost:80"],
        &["null"],
        &[""],
        &[own, own],
    ];
    for origins in foreign {
        let refused = call("/v1/signup", "mallory", origins).await;
        assert!(refused.text().contains("server.allowed_origins"), "{origins:?}: {}", refused.text());
        refused.refused(403, "origin_not_allowed");
    }
    assert_eq!(call("/v1/signup", "mallory", &[]).await.status, 201, "no refused call created the account");
    // A proxy with TLS passes on the name and not the scheme.
    for (user, origin) in [("alice", own), ("bob", "https://localhost:8080"), ("carol", APP)] {
        assert_eq!(call("/v1/signup", user, &[origin]).await.status, 201, "{origin}");
        assert_eq!(call("/v1/login", user, &[origin]).await.status, 200, "{origin}");
        call("/v1/login", user, &["https://evil.example"]).await.refused(403, "origin_not_allowed");
    }
}
