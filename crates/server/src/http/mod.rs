//! The HTTP API: one file per route, and the service around all routes. Each route is declared once,
//! so the router and the OpenAPI document cannot differ.

mod archive;
mod assets;
mod backups;
mod conversations;
pub(crate) mod cors;
mod documents;
mod erasures;
mod error;
mod extract;
mod health;
mod hosts;
mod inbox;
mod login;
mod logout;
mod me;
mod members;
mod messages;
mod metrics;
mod offer;
mod operator;
mod people;
mod preferences;
mod presence;
mod receipts;
mod reply;
mod service;
mod signup;
mod status;
mod tokens;
mod users;

use std::sync::Arc;

use axum::Router;
use utoipa::OpenApi;
use utoipa::openapi::security::{Http, HttpAuthScheme, SecurityScheme};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

pub(crate) use documents::documents;
pub use documents::openapi_document;
pub(crate) use hosts::Hosts;
pub(crate) use service::{HttpService, Peer, service};

use crate::app::App;
use crate::ws;

#[derive(OpenApi)]
#[openapi(
    info(
        title = "Bluetick",
        version = "1",
        description = "A self-hosted chat backend. Times are milliseconds since the Unix epoch; seqs are integers. \
            The WebSocket at `/v1/ws` is described in `/asyncapi.json`."
    ),
    modifiers(&Keys),
    tags(
        (name = "accounts", description = "Signing up, logging in, tokens"),
        (name = "conversations", description = "Direct chats and groups"),
        (name = "messages", description = "Sending and reading back"),
        (name = "ticks", description = "What was delivered and read"),
        (name = "presence", description = "Who is there"),
        (name = "operations", description = "For load balancers, monitoring and the operator"),
        (name = "pages", description = "The web client and the documentation"),
    )
)]
struct Document;

struct Keys;

impl utoipa::Modify for Keys {
    fn modify(&self, document: &mut utoipa::openapi::OpenApi) {
        let components = document.components.get_or_insert_default();
        let bearer = || SecurityScheme::Http(Http::new(HttpAuthScheme::Bearer));
        components.add_security_scheme("token", bearer());
        components.add_security_scheme("admin_key", bearer());
    }
}

/// Every route of the server.
pub(crate) fn router() -> (Router<Arc<App>>, utoipa::openapi::OpenApi) {
    let (router, document) = OpenApiRouter::with_openapi(Document::openapi())
        .routes(routes!(offer::show))
        .routes(routes!(signup::signup))
        .routes(routes!(login::login))
        .routes(routes!(logout::logout))
        .routes(routes!(tokens::mint))
        .routes(routes!(users::create))
        .routes(routes!(users::show))
        .routes(routes!(users::set_password))
        .routes(routes!(logout::revoke))
        .routes(routes!(me::show, me::change))
        .routes(routes!(people::find))
        .routes(routes!(conversations::open, inbox::list))
        .routes(routes!(conversations::show))
        .routes(routes!(members::add))
        .routes(routes!(members::remove))
        .routes(routes!(messages::send, messages::history))
        .routes(routes!(receipts::delivered))
        .routes(routes!(receipts::read))
        .routes(routes!(status::show))
        .routes(routes!(preferences::change))
        .routes(routes!(presence::show))
        .routes(routes!(ws::upgrade))
        .routes(routes!(archive::show))
        .routes(routes!(archive::show_job))
        .routes(routes!(archive::run))
        .routes(routes!(archive::verify))
        .routes(routes!(archive::restore))
        .routes(routes!(backups::make))
        .routes(routes!(erasures::erase))
        .routes(routes!(health::healthz))
        .routes(routes!(health::readyz))
        .routes(routes!(metrics::metrics))
        .routes(routes!(documents::openapi))
        .routes(routes!(documents::asyncapi))
        .routes(routes!(assets::docs))
        .routes(routes!(assets::index))
        .routes(routes!(assets::service_worker))
        .routes(routes!(assets::manifest))
        .routes(routes!(assets::asset))
        .split_for_parts();
    let router = router.fallback(error::no_route).method_not_allowed_fallback(error::no_method);
    (router, document)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// The router exposes its paths only in its debug output.
    #[test]
    fn served_paths_equal_documented_paths() {
        let (router, document) = router();
        let printed = format!("{router:?}");
        let served: BTreeSet<&str> = printed.split('"').filter(|text| text.starts_with('/')).collect();
        // The fallback has paths of its own.
        let served: BTreeSet<&str> = served.into_iter().filter(|path| !path.contains("axum")).collect();
        let documented: BTreeSet<&str> = document.paths.paths.keys().map(String::as_str).collect();
        assert_eq!(served, documented);
    }
}
