//! A minimal HTTP/1.1 client: one request, one answer. `GET` requests reuse idle connections. The
//! caller's task drives the connection, so no background task is needed.

use std::pin::Pin;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::Request;
use hyper::client::conn::http1::{self, SendRequest};
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HOST, RETRY_AFTER};
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use serde_json::Value;
use tokio::time::timeout;

pub use hyper::Method;

use crate::api::ApiError;
use crate::transport::{Server, Stream};

/// Timeout of one call, including connecting. A call that takes longer fails as unreachable.
const PATIENCE: Duration = Duration::from_secs(20);
/// Upper bound on a response body, in bytes. Pages have at most 1 MB, but one large message may
/// exceed that. A smaller value makes such pages unreadable.
const MOST_BYTES: usize = 16 * 1024 * 1024;
/// Maximum number of idle connections that are kept for reuse. With none, every `GET` connects
/// anew.
const KEPT: usize = 2;

pub struct HttpResponse {
    pub status: u16,
    pub retry_after: Option<Duration>,
    pub body: Bytes,
}

type ConnectionTask = Pin<Box<dyn Future<Output = hyper::Result<()>> + Send>>;

struct HttpConnection {
    requests: SendRequest<Full<Bytes>>,
    driven: ConnectionTask,
}

pub struct Http {
    server: Server,
    idle: Mutex<Vec<HttpConnection>>,
}

fn unreachable(error: impl std::fmt::Display) -> ApiError {
    ApiError::Unreachable(error.to_string())
}

impl Http {
    pub fn new(server: Server) -> Http {
        Http { server, idle: Mutex::new(Vec::new()) }
    }

    /// Makes one call, limited by `PATIENCE`. Returns any status as an answer; fails only if there
    /// is no answer.
    pub async fn call(
        &self,
        method: Method,
        path: &str,
        token: Option<&str>,
        body: Option<&Value>,
    ) -> Result<HttpResponse, ApiError> {
        let asked = timeout(PATIENCE, self.ask(method, path, token, body));
        asked.await.map_err(|_| unreachable("no answer in time"))?
    }

    async fn ask(
        &self,
        method: Method,
        path: &str,
        token: Option<&str>,
        body: Option<&Value>,
    ) -> Result<HttpResponse, ApiError> {
        // An idle connection may have been closed by the server. Only a `GET` may be sent twice, so
        // only a `GET` uses one and falls back to a new connection.
        if method == Method::GET
            && let Some(kept) = self.take_idle()
            && let Ok(answer) = self.over(kept, &method, path, token, body).await
        {
            return Ok(answer);
        }
        let fresh = self.connect().await?;
        self.over(fresh, &method, path, token, body).await
    }

    fn take_idle(&self) -> Option<HttpConnection> {
        self.idle.lock().pop()
    }

    async fn connect(&self) -> Result<HttpConnection, ApiError> {
        let stream: Stream = self.server.dial().await.map_err(unreachable)?;
        let (requests, driven) = http1::handshake(TokioIo::new(stream)).await.map_err(unreachable)?;
        Ok(HttpConnection { requests, driven: Box::pin(driven) })
    }

    async fn over(
        &self,
        mut connection: HttpConnection,
        method: &Method,
        path: &str,
        token: Option<&str>,
        body: Option<&Value>,
    ) -> Result<HttpResponse, ApiError> {
        let mut request = Request::builder()
            .method(method)
            .uri(self.server.url.path(path))
            .header(HOST, self.server.url.authority());
        if let Some(token) = token {
            request = request.header(AUTHORIZATION, format!("Bearer {token}"));
        }
        if body.is_some() {
            request = request.header(CONTENT_TYPE, "application/json");
        }
        let body = body.map(Value::to_string).unwrap_or_default();
        let request = request.body(Full::new(Bytes::from(body))).map_err(unreachable)?;
        let answered = async {
            let answer = connection.requests.send_request(request).await.map_err(unreachable)?;
            let status = answer.status().as_u16();
            let seconds =
                answer.headers().get(RETRY_AFTER).and_then(|after| after.to_str().ok()?.parse().ok());
            let body = Limited::new(answer.into_body(), MOST_BYTES).collect().await.map_err(unreachable)?;
            Ok::<HttpResponse, ApiError>(HttpResponse {
                status,
                retry_after: seconds.map(Duration::from_secs),
                body: body.to_bytes(),
            })
        };
        let mut is_open = true;
        let answer = {
            tokio::pin!(answered);
            loop {
                tokio::select! {
                    biased;
                    answer = &mut answered => break answer?,
                    _ended = &mut connection.driven, if is_open => is_open = false,
                }
            }
        };
        let mut idle = self.idle.lock();
        if is_open && idle.len() < KEPT {
            idle.push(connection);
        }
        Ok(answer)
    }
}
