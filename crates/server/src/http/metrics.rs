//! `GET /metrics`

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;

use super::reply;
use crate::app::App;

/// Content type of the response. With another type, Prometheus does not parse the metrics.
const OPENMETRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Get metrics
///
/// Returns the metrics of the server in OpenMetrics format, for Prometheus.
#[utoipa::path(
    get, path = "/metrics", tag = "operations",
    responses((status = 200, description = "OpenMetrics text", body = String,
               content_type = "application/openmetrics-text")),
)]
pub(super) async fn metrics(State(app): State<Arc<App>>) -> Response {
    reply::with_type(
        StatusCode::OK,
        OPENMETRICS,
        Body::from(
            app.metrics
                .encode(&app.archiver.archive().counters(), app.presence_directory.counters().as_ref()),
        ),
    )
}
