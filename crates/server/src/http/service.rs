//! The HTTP service around the router: checks the host, converts a panic to a 500, counts refusals
//! and adds the security headers.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::http::{HeaderValue, Request, Response, header};
use axum::response::IntoResponse;
use bluetick_wire::ErrorCode;
use futures_util::FutureExt;
use hyper::body::Incoming;
use tokio::sync::oneshot;
use tower_service::Service;

use super::cors;
use crate::app::App;
use crate::listener::ConnectionPermit;
use crate::problem::Problem;

#[derive(Clone)]
pub(crate) struct HttpService {
    router: Router,
    app: Arc<App>,
    client: Option<(Peer, ConnectionPermit)>,
}

/// The other end of the connection: a client, or the proxy in front of this server.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Peer(pub SocketAddr);

impl HttpService {
    pub fn for_connection(&self, peer: SocketAddr, permit: ConnectionPermit) -> HttpService {
        HttpService { client: Some((Peer(peer), permit)), ..self.clone() }
    }
}

pub(crate) fn service(router: Router<Arc<App>>, app: Arc<App>) -> HttpService {
    HttpService { router: router.with_state(Arc::clone(&app)), app, client: None }
}

impl hyper::service::Service<Request<Incoming>> for HttpService {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

    fn call(&self, mut request: Request<Incoming>) -> Self::Future {
        let HttpService { router, app, client } = self.clone();
        let permit = client.map(|(peer, permit)| {
            request.extensions_mut().insert(peer);
            permit
        });
        Box::pin(async move {
            if let Err(refused) = app.hosts.check(request.uri(), request.headers())
                && !is_health_check(request.uri().path())
            {
                app.metrics.rejected(refused.code);
                return Ok(refused.into_response());
            }
            let origin = cors::allowed_origin(request.headers(), &app.settings.allowed_origins);
            let (allowed, tls) = (&app.settings.allowed_origins, app.settings.tls.is_on());
            let preflight = cors::preflight(&request, origin.as_ref())
                .or_else(|| cors::refuse_foreign_page(&request, allowed, tls));
            let mut response = match preflight {
                Some(answer) => answer,
                None if request.method().is_safe() => answer(router, request).await,
                None => run_detached(&app, router, request, permit).await,
            };
            if let Some(code) = response.extensions().get::<ErrorCode>() {
                app.metrics.rejected(*code);
            }
            response
                .headers_mut()
                .insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
            if app.settings.tls.is_on() {
                // Browsers that have seen this header refuse to connect without TLS.
                let year = HeaderValue::from_static("max-age=31536000");
                response.headers_mut().insert(header::STRICT_TRANSPORT_SECURITY, year);
            }
            cors::grant(response.headers_mut(), origin, &app.settings.allowed_origins);
            Ok(response)
        })
    }
}

/// Health checks skip the `Host` check: load balancers use the address, and the response contains
/// nothing confidential.
fn is_health_check(path: &str) -> bool {
    matches!(path, "/healthz" | "/readyz")
}

async fn answer(mut router: Router, request: Request<Incoming>) -> Response<Body> {
    let response_receiver = AssertUnwindSafe(router.call(request.map(Body::new)));
    match response_receiver.catch_unwind().await {
        Ok(Ok(response)) => response,
        // The panic hook has logged the message and the location.
        Err(_) => failed(),
    }
}

/// Runs a call that may write to its end, even if the client disconnects. The listener owns the
/// task and waits for it at shutdown. The task holds the permit of its connection, so that a client
/// cannot exceed its limit by disconnecting.
async fn run_detached(
    app: &App,
    router: Router,
    request: Request<Incoming>,
    permit: Option<ConnectionPermit>,
) -> Response<Body> {
    let (response_sender, response_receiver) = oneshot::channel();
    app.lifecycle.spawn_on_listener(Box::pin(async move {
        let _client_is_gone = response_sender.send(answer(router, request).await);
        drop(permit);
    }));
    // The sender is dropped only when the server aborts its connections.
    response_receiver.await.unwrap_or_else(|_| failed())
}

fn failed() -> Response<Body> {
    Problem::new(ErrorCode::Internal, "the server failed").into_response()
}
