//! The listener: accepts connections, serves HTTP/1.1 on them and closes them gracefully. Handling
//! of requests and frames belongs to `http` and `ws`.

mod certificates;
mod client_stream;
mod connection_source;
mod episode;
mod lingering_close;
mod transport;
mod validity;

use std::sync::Arc;
use std::time::Duration;

use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until, timeout};

use crate::app::App;
use crate::drain::{DrainPhase, ListenerTasks, phase_reached};
use crate::http::HttpService;
use crate::limits::{AddressPermit, connections_of_this_process};
use crate::settings::seconds;
pub(crate) use certificates::Certificates;
pub use certificates::{TlsError, tls_advice};
pub(crate) use client_stream::ClientStream;
use connection_source::IncomingStream;
pub(crate) use connection_source::{ConnectionSource, InMemoryConnector};
use episode::Episode;
pub(crate) use lingering_close::LingeringCloser;
use transport::Transport;

/// Connection permits for plain HTTP, in addition to `limits.connections` for WebSockets. When all
/// permits are taken, new connections wait in the kernel's accept queue. With fewer, health checks
/// and calls wait while all WebSockets are open. If the limit on open files allows fewer
/// connections, the server closes further ones at once.
const HTTP_CONNECTIONS: usize = 4_096;
/// Pause after a failed accept. If it is too short, the accept loop spins while no file descriptor
/// is free. Connections that end during the pause do not extend it.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(50);
/// Maximum size of the read buffer of an HTTP connection, in bytes. Bounds the headers of one
/// request, and so the memory per connection.
const HEADER_BYTES: usize = 16 * 1024;

/// Accepts connections until [`DrainPhase::Closing`], then waits for the open ones to end. While
/// the server drains, it still accepts connections, so that a load balancer can read `/readyz` on a
/// new one.
///
/// This task owns every connection task: HTTP connections, the WebSockets they upgrade to, and
/// calls that outlive their connection.
pub(crate) async fn accept(
    mut source: ConnectionSource,
    certificates: Option<Arc<Certificates>>,
    app: Arc<App>,
    service: HttpService,
    mut listener_tasks: ListenerTasks,
    lingering_closer: LingeringCloser,
) {
    let mut phase = app.lifecycle.watch();
    let allowed = match app.limits.connections {
        0 => Semaphore::MAX_PERMITS,
        sockets => sockets.saturating_add(HTTP_CONNECTIONS).min(Semaphore::MAX_PERMITS),
    };
    // An in-memory connection is no open file.
    let within_file_limit =
        if source.listens() { connections_of_this_process() } else { Semaphore::MAX_PERMITS };
    // Close connections above the file limit at once. In the accept queue they would wait for idle
    // connections of an attacker to time out.
    let closes_excess = within_file_limit < allowed;
    let permits = Arc::new(Semaphore::new(allowed.min(within_file_limit)));
    let mut connections = JoinSet::new();
    // End of the pause after a failed accept. File descriptors can become free in the meantime.
    let mut pause_ends: Option<Instant> = None;
    let (mut failures, mut excess) = (Episode::default(), Episode::default());
    loop {
        let accepted = async {
            if let Some(pause_ends) = pause_ends {
                sleep_until(pause_ends).await;
            }
            let permit = match closes_excess {
                true => None,
                false => {
                    let acquired = Arc::clone(&permits).acquire_owned().await;
                    Some(acquired.expect("no code closes this semaphore"))
                }
            };
            (source.next().await, permit)
        };
        tokio::select! {
            // A fixed order makes simulations reproducible. No branch can starve the ones after it:
            // ended connections, upgrades and handed-over calls all belong to connections that were
            // accepted before.
            biased;
            () = phase_reached(&mut phase, DrainPhase::Closing) => break,
            Some(_) = connections.join_next() => {}
            Some(task) = listener_tasks.recv() => {
                connections.spawn(task);
            }
            (accepted, permit) = accepted => match accepted {
                Ok((stream, peer)) => {
                    pause_ends = None;
                    let now = Instant::now();
                    if let Some(failed_accepts) = failures.ends(now) {
                        tracing::info!(failed_accepts, "accepting connections again");
                    }
                    // Close without a response: writing one would cost the server more than the
                    // reconnect costs the client.
                    let Some(permit) = permit.or_else(|| Arc::clone(&permits).try_acquire_owned().ok()) else {
                        app.metrics.connection_above_file_limit();
                        if excess.begins(now) {
                            tracing::warn!(
                                max_connections = within_file_limit,
                                "closing new connections: the limit on open files is reached; see `ulimit -n`"
                            );
                        }
                        continue;
                    };
                    if let Some(closed_connections) = excess.ends(now) {
                        tracing::info!(closed_connections, "new connections fit the limit on open files again");
                    }
                    let address = match app.address_limits.admit(peer.ip()) {
                        Ok(address) => address,
                        Err(reason) => {
                            app.metrics.connection_refused(reason);
                            continue;
                        }
                    };
                    let permit = ConnectionPermit::new(permit, address);
                    let (phase, service) = (app.lifecycle.watch(), service.for_connection(peer, permit.clone()));
                    let connection = NewConnection { stream, permit, lingering_closer: lingering_closer.clone() };
                    let headers_time = seconds(app.limits.headers_seconds);
                    connections.spawn(serve(connection, certificates.clone(), service, phase, headers_time));
                }
                Err(error) => {
                    // The usual cause is that the process has no free file descriptors.
                    let now = Instant::now();
                    if failures.begins(now) {
                        tracing::warn!(%error, "accept failed; will retry");
                    }
                    pause_ends = Some(now + ACCEPT_RETRY_DELAY);
                }
            },
        }
    }
    drop(source);
    loop {
        tokio::select! {
            // Receive handed-over tasks first: after the last connection has ended, nothing can
            // hand over another.
            biased;
            Some(task) = listener_tasks.recv() => {
                connections.spawn(task);
            }
            ended = connections.join_next() => if ended.is_none() {
                break;
            },
        }
    }
}

/// An admitted connection before the TLS handshake.
struct NewConnection {
    stream: IncomingStream,
    permit: ConnectionPermit,
    lingering_closer: LingeringCloser,
}

impl NewConnection {
    /// Performs the TLS handshake if TLS is configured. Returns `None` if the handshake fails or
    /// exceeds `time`. In-memory connections never use TLS.
    async fn handshake(
        self,
        certificates: Option<Arc<Certificates>>,
        time: Option<Duration>,
    ) -> Option<ClientStream> {
        let transport = match (self.stream, certificates) {
            (IncomingStream::Tcp(stream), Some(certificates)) => {
                let finished = timeout(time.unwrap_or(Duration::MAX), certificates.handshake(stream)).await;
                match finished {
                    Ok(Ok(stream)) => Transport::Tls(Box::new(stream)),
                    Ok(Err(error)) => {
                        tracing::debug!(%error, "TLS handshake failed");
                        return None;
                    }
                    Err(_) => {
                        tracing::debug!("TLS handshake timed out");
                        return None;
                    }
                }
            }
            (IncomingStream::Tcp(stream), None) => Transport::Tcp(stream),
            (IncomingStream::InMemory(stream), _) => Transport::InMemory(stream),
        };
        Some(ClientStream::new(transport, self.permit, self.lingering_closer))
    }
}

/// Serves HTTP/1.1 on one connection, including the upgrade to a WebSocket. At
/// [`DrainPhase::Closing`] it aborts a handshake and shuts HTTP down gracefully.
async fn serve(
    connection: NewConnection,
    certificates: Option<Arc<Certificates>>,
    service: HttpService,
    mut phase: watch::Receiver<DrainPhase>,
    headers_time: Option<Duration>,
) {
    let stream = tokio::select! {
        biased;
        stream = connection.handshake(certificates, headers_time) => stream,
        () = phase_reached(&mut phase, DrainPhase::Closing) => return,
    };
    let Some(stream) = stream else { return };
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).max_buf_size(HEADER_BYTES).header_read_timeout(headers_time);
    let connection = http.serve_connection(TokioIo::new(stream), service).with_upgrades();
    tokio::pin!(connection);
    let result = tokio::select! {
        biased;
        result = &mut connection => result,
        () = phase_reached(&mut phase, DrainPhase::Closing) => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = result {
        tracing::debug!(%error, "HTTP connection ended with an error");
    }
}

/// A transport with the connection permit that it holds.
type PermittedTransport = (Transport, ConnectionPermit);

/// A connection permit. The connection and the calls that outlive it hold clones; dropping the last
/// clone releases the permit.
#[derive(Clone)]
pub(crate) struct ConnectionPermit(#[expect(dead_code, reason = "held for its drop")] Arc<HeldPermits>);

/// The permits behind a [`ConnectionPermit`].
struct HeldPermits {
    _of_server: OwnedSemaphorePermit,
    /// `None` if the peer is a trusted proxy.
    _of_address: Option<AddressPermit>,
}

impl ConnectionPermit {
    fn new(server: OwnedSemaphorePermit, address: Option<AddressPermit>) -> ConnectionPermit {
        ConnectionPermit(Arc::new(HeldPermits { _of_server: server, _of_address: address }))
    }
}
