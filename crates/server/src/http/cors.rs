//! CORS: pages of allowed origins may call the API; the browser blocks all other pages.
//!
//! Clients send tokens in a header, so the API needs no cookies and allows no credentials.

use axum::body::Body;
use axum::http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, header};
use axum::response::IntoResponse;
use bluetick_wire::ErrorCode;

use crate::problem::Problem;

/// Methods that pages of allowed origins may use. A missing method fails in browsers only.
const METHODS: HeaderValue = HeaderValue::from_static("GET, POST, PUT, PATCH, DELETE");
/// Request headers that those pages may set. Browsers block a call with any other header.
const REQUEST_HEADERS: HeaderValue = HeaderValue::from_static("authorization, content-type");
/// Response headers that those pages may read. Without `retry-after`, they cannot wait as long as
/// the server asks.
const EXPOSED_HEADERS: HeaderValue = HeaderValue::from_static("retry-after");
/// Time in seconds for which a browser caches a preflight response. A longer time delays a change
/// of the allowed origins.
const MAX_AGE_SECONDS: HeaderValue = HeaderValue::from_static("600");
/// The error message for a page of another origin. Without the name of the setting, operators do
/// not find the cause.
const FOREIGN_PAGE: &str = "web pages of this origin may not call the API; see server.allowed_origins";

/// The origin of the request, if it is one of `allowed`.
pub(super) fn allowed_origin(headers: &HeaderMap, allowed: &[String]) -> Option<HeaderValue> {
    let mut origins = headers.get_all(header::ORIGIN).iter();
    let origin = origins.next().filter(|_| origins.next().is_none())?;
    is_allowed(origin.to_str().ok()?, allowed).then(|| origin.clone())
}

fn is_allowed(origin: &str, allowed: &[String]) -> bool {
    allowed.iter().any(|allowed| allowed.trim_end_matches('/').eq_ignore_ascii_case(origin))
}

/// Returns whether the request comes from a page of this server, from a page of an origin in
/// `allowed`, or from no page. Browsers send the origin of the page; other clients send none and
/// have no cookies that a page could abuse. With TLS, the server's own pages are `https` only: an
/// attacker on the network could have written an `http` page.
pub(crate) fn is_own_or_allowed(headers: &HeaderMap, allowed: &[String], tls: bool) -> bool {
    let mut origins = headers.get_all(header::ORIGIN).iter();
    let Some(origin) = origins.next() else { return true };
    // With two origins, a proxy in front of this server may have checked the other one.
    let (Ok(origin), None) = (origin.to_str(), origins.next()) else { return false };
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok());
    let same = |host: &str| {
        let page = origin.split_once("://").filter(|(scheme, _)| !tls || *scheme == "https");
        page.is_some_and(|(_, page)| page.eq_ignore_ascii_case(host))
    };
    host.is_some_and(same) || is_allowed(origin, allowed)
}

/// Refuses a call that needs no token, such as a sign-up, from a page of another origin. A browser
/// sends it without a preflight if its content type is text. `Authorization` always causes a
/// preflight, so calls with it need no check.
pub(super) fn refuse_foreign_page<B>(
    request: &Request<B>,
    allowed: &[String],
    tls: bool,
) -> Option<Response<Body>> {
    let headers = request.headers();
    let is_unauthenticated = !request.method().is_safe() && !headers.contains_key(header::AUTHORIZATION);
    if !is_unauthenticated || is_own_or_allowed(headers, allowed, tls) {
        return None;
    }
    Some(Problem::new(ErrorCode::OriginNotAllowed, FOREIGN_PAGE).into_response())
}

/// Answers a CORS preflight: `OPTIONS` with the page's origin and the method it wants to use. No
/// route handles `OPTIONS`, so no other handler answers it. `origin` is what [`allowed_origin`]
/// found. A page of another origin gets an error that names the setting. The browser shows the
/// error in its network log and does not make the call.
pub(super) fn preflight<B>(request: &Request<B>, origin: Option<&HeaderValue>) -> Option<Response<Body>> {
    let asks = request.method() == Method::OPTIONS
        && request.headers().contains_key(header::ORIGIN)
        && request.headers().contains_key(header::ACCESS_CONTROL_REQUEST_METHOD);
    if !asks {
        return None;
    }
    if origin.is_none() {
        return Some(Problem::new(ErrorCode::OriginNotAllowed, FOREIGN_PAGE).into_response());
    }
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::NO_CONTENT;
    let headers = response.headers_mut();
    headers.insert(header::ACCESS_CONTROL_ALLOW_METHODS, METHODS);
    headers.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, REQUEST_HEADERS);
    headers.insert(header::ACCESS_CONTROL_MAX_AGE, MAX_AGE_SECONDS);
    Some(response)
}

/// Lets a page of an allowed origin read the response, errors included. If `allowed` is not empty,
/// every response varies by origin: a cache must not return the response for one origin to a page
/// of another.
pub(super) fn grant(headers: &mut HeaderMap, origin: Option<HeaderValue>, allowed: &[String]) {
    if !allowed.is_empty() {
        headers.append(header::VARY, HeaderValue::from_static("origin"));
    }
    if let Some(origin) = origin {
        headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
        headers.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, EXPOSED_HEADERS);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allowed(origin: Option<&'static str>, list: &[&str]) -> bool {
        allowed_with(false, origin, list)
    }

    fn allowed_with(tls: bool, origin: Option<&'static str>, list: &[&str]) -> bool {
        let mut headers = HeaderMap::new();
        headers.insert(header::HOST, HeaderValue::from_static("chat.example.org:8080"));
        if let Some(origin) = origin {
            headers.insert(header::ORIGIN, HeaderValue::from_static(origin));
        }
        is_own_or_allowed(&headers, &list.iter().map(|origin| origin.to_string()).collect::<Vec<_>>(), tls)
    }

    #[test]
    fn same_host_and_allowed_origins_may_connect_and_others_may_not() {
        assert!(allowed(Some("http://chat.example.org:8080"), &[]));
        assert!(!allowed(Some("http://chat.example.org"), &[]));
        assert!(!allowed(Some("https://evil.example"), &[]));
        assert!(!allowed(Some("null"), &[]));
        assert!(allowed(Some("https://app.example"), &["https://app.example/"]));
        assert!(!allowed(Some("https://app.example.evil"), &["https://app.example"]));
        assert!(allowed(None, &[]));
    }

    #[test]
    fn tls_server_refuses_its_own_http_origin() {
        assert!(allowed_with(true, Some("https://chat.example.org:8080"), &[]));
        assert!(!allowed_with(true, Some("http://chat.example.org:8080"), &[]));
        assert!(allowed_with(true, Some("http://app.example"), &["http://app.example"]));
    }

    #[test]
    fn request_with_two_origins_is_refused() {
        let mut headers = HeaderMap::new();
        headers.insert(header::HOST, HeaderValue::from_static("chat.example.org"));
        let origin = HeaderValue::from_static("https://chat.example.org");
        headers.insert(header::ORIGIN, origin.clone());
        assert!(is_own_or_allowed(&headers, &[], true));
        headers.append(header::ORIGIN, origin);
        assert!(!is_own_or_allowed(&headers, &[], true));
    }

    #[test]
    fn cors_methods_include_every_documented_method() {
        let methods = METHODS;
        let allowed: Vec<&str> = methods.to_str().unwrap().split(", ").collect();
        let document = crate::openapi_document();
        for (path, item) in document["paths"].as_object().unwrap() {
            for method in item.as_object().unwrap().keys() {
                assert!(allowed.contains(&method.to_uppercase().as_str()), "{method} {path}");
            }
        }
    }
}
