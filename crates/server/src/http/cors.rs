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

/// The origin of the request, if it is one of `allowed`.
pub(super) fn allowed_origin(headers: &HeaderMap, allowed: &[String]) -> Option<HeaderValue> {
    let mut origins = headers.get_all(header::ORIGIN).iter();
    let origin = origins.next().filter(|_| origins.next().is_none())?;
    is_allowed(origin.to_str().ok()?, allowed).then(|| origin.clone())
}

pub(crate) fn is_allowed(origin: &str, allowed: &[String]) -> bool {
    allowed.iter().any(|allowed| allowed.trim_end_matches('/').eq_ignore_ascii_case(origin))
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
        let message = "web pages of this origin may not call the API; see server.allowed_origins";
        return Some(Problem::new(ErrorCode::OriginNotAllowed, message).into_response());
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
