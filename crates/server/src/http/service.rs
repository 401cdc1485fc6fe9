//! What surrounds every call: a panic becomes a 500, a refusal is counted, and every answer is marked as what it
//! says it is.

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
use crate::door::Place;
use crate::problem::Problem;

#[derive(Clone)]
pub(crate) struct HttpService {
    router: Router,
    app: Arc<App>,
    guest: Option<(Peer, Place)>,
}

/// The other end of the connection: a client, or the proxy in front of this server.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Peer(pub SocketAddr);

impl HttpService {
    pub fn for_guest(&self, peer: SocketAddr, place: Place) -> HttpService {
        HttpService { guest: Some((Peer(peer), place)), ..self.clone() }
    }
}

pub(crate) fn service(router: Router<Arc<App>>, app: Arc<App>) -> HttpService {
    HttpService { router: router.with_state(Arc::clone(&app)), app, guest: None }
}

impl hyper::service::Service<Request<Incoming>> for HttpService {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

    fn call(&self, mut request: Request<Incoming>) -> Self::Future {
        let HttpService { router, app, guest } = self.clone();
        let place = guest.map(|(peer, place)| {
            request.extensions_mut().insert(peer);
            place
        });
        Box::pin(async move {
            if let Err(refused) = app.hosts.check(request.uri(), request.headers())
                && !is_health_check(request.uri().path())
            {
                app.metrics.rejected(refused.code);
                return Ok(refused.into_response());
            }
            let origin = cors::allowed_origin(request.headers(), &app.settings.allowed_origins);
            let preflight = cors::preflight(&request, origin.as_ref());
            let mut response = match preflight {
                Some(answer) => answer,
                None if request.method().is_safe() => answer(router, request).await,
                None => to_its_end(&app, router, request, place).await,
            };
            if let Some(code) = response.extensions().get::<ErrorCode>() {
                app.metrics.rejected(*code);
            }
            response
                .headers_mut()
                .insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
            if app.settings.tls.is_on() {
                // A browser that was here once does not try without TLS again, whoever asks it to.
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
    let answered = AssertUnwindSafe(router.call(request.map(Body::new)));
    match answered.catch_unwind().await {
        Ok(Ok(response)) => response,
        // The panic's text went to the log with its place, by the panic hook.
        Err(_) => failed(),
    }
}

/// What changes something is not given up halfway because nobody waits for the answer any more, as everything is that
/// a connection does by itself. The door owns it, and waits for it when the server stops. It keeps the place of its
/// connection, so that nobody has more of them under way by hanging up.
async fn to_its_end(
    app: &App,
    router: Router,
    request: Request<Incoming>,
    place: Option<Place>,
) -> Response<Body> {
    let (told, answered) = oneshot::channel();
    app.lifecycle.attend(Box::pin(async move {
        let _nobody_waits = told.send(answer(router, request).await);
        drop(place);
    }));
    // Dropped only where the server is cut off, and the connection with it.
    answered.await.unwrap_or_else(|_| failed())
}

fn failed() -> Response<Body> {
    Problem::new(ErrorCode::Internal, "the server failed").into_response()
}
