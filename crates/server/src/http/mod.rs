//! The HTTP API: one file per route, and the service around all routes. Each route is declared
//! once, so the router and the OpenAPI document cannot differ.

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
        description = "Bluetick is a self-hosted chat backend. Times are in milliseconds since the Unix epoch. \
            A `seq` is an integer: the position of a message in its conversation. \
            `/asyncapi.json` describes the frames of the WebSocket at `/v1/ws`.\n\n\
            Typing, live messages and all frames: choose **WebSocket** in the menu at the top left."
    ),
    modifiers(&Keys),
    tags(
        (name = "accounts", description = "Sign up, log in, and manage tokens and profiles"),
        (name = "conversations", description = "Direct conversations, groups, their members and settings"),
        (name = "messages", description = "Send messages and read the history"),
        (name = "ticks", description = "Mark messages as delivered and read, and get receipts"),
        (name = "presence", description = "Your profile, and whether members are online"),
        (name = "operations", description = "Health, metrics, archive, backups and erasures, for the operator"),
        (name = "pages", description = "The web client, the API reference and the API documents"),
    )
)]
struct Document;

struct Keys;

impl utoipa::Modify for Keys {
    fn modify(&self, document: &mut utoipa::openapi::OpenApi) {
        let components = document.components.get_or_insert_default();
        let bearer = |description: &str| {
            let mut scheme = Http::new(HttpAuthScheme::Bearer);
            scheme.description = Some(description.into());
            SecurityScheme::Http(scheme)
        };
        let token = "The access token of a user, from sign-up, log-in or `POST /v1/tokens`.";
        components.add_security_scheme("token", bearer(token));
        let admin_key = "The admin key of the operator: the file `admin.key` in the data directory.";
        components.add_security_scheme("admin_key", bearer(admin_key));
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
