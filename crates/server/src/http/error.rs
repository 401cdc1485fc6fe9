//! A problem as an HTTP response.

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use bluetick_wire::ErrorCode;
use bluetick_wire::http::ErrorBody;

use super::reply;
use crate::problem::Problem;

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let status =
            StatusCode::from_u16(self.code.status()).expect("every error code maps to a valid status");
        let mut response = reply::json(status, &ErrorBody::new(self.code, self.message));
        if let Some(wait) = self.retry_after {
            let seconds = wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds.max(1)));
        }
        if status == StatusCode::UNAUTHORIZED {
            response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        if status == StatusCode::UPGRADE_REQUIRED {
            response.headers_mut().insert(header::UPGRADE, HeaderValue::from_static("websocket"));
            response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("upgrade"));
        }
        // `HttpService` counts refusals by this code.
        response.extensions_mut().insert(self.code);
        response
    }
}

pub(super) async fn no_route() -> Problem {
    Problem::new(ErrorCode::NotFound, "no route has this path")
}

pub(super) async fn no_method() -> Problem {
    Problem::new(ErrorCode::MethodNotAllowed, "this path does not support this method")
}
