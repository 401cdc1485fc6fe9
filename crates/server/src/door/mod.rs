//! The listener: accepts connections, serves HTTP/1.1 on them and closes them gracefully. Handling
//! of requests and frames belongs to `http` and `ws`.

mod accept_failures;
mod arrivals;
mod certificates;
mod parting;
mod stream;
mod validity;
mod wire;

use std::sync::Arc;
use std::time::Duration;

use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until, timeout};

use crate::app::App;
use crate::drain::{Newcomers, Phase, reached};
use crate::http::HttpService;
use crate::limits::AddressPlace;
use crate::settings::seconds;
use accept_failures::AcceptFailures;
use arrivals::Arrival;
pub(crate) use arrivals::{Arrivals, SideDoor};
pub(crate) use certificates::Certificates;
pub use certificates::{TlsError, tls_advice};
use parting::Partings;
pub(crate) use stream::DoorStream;
use wire::Wire;

/// Connection permits for plain HTTP, in addition to `limits.connections` for WebSockets. When all
/// permits are taken, new connections wait in the kernel's accept queue.
const HTTP_CONNECTIONS: usize = 4_096;
/// Pause after a failed accept. If it is too short, the accept loop spins while no file descriptor
/// is free. Connections that end during the pause do not extend it.
const OUT_OF_FILES_PAUSE: Duration = Duration::from_millis(50);
/// Maximum size of the read buffer of an HTTP connection, in bytes. Bounds the headers of one
/// request.
const HEADER_BYTES: usize = 16 * 1024;

/// Accepts connections until [`Phase::Closing`], then waits for the open ones to end. While the
/// server drains, it still accepts connections, so that a load balancer can read `/readyz` on a new
/// one.
///
/// This task owns every connection task: HTTP connections, the WebSockets they upgrade to, and
/// calls that outlive their connection.
pub(crate) async fn accept(
    mut arrivals: Arrivals,
    certificates: Option<Arc<Certificates>>,
    app: Arc<App>,
    service: HttpService,
    mut newcomers: Newcomers,
) {
    let mut phase = app.lifecycle.watch();
    let places = match app.limits.connections {
        0 => Semaphore::MAX_PERMITS,
        sockets => sockets.saturating_add(HTTP_CONNECTIONS).min(Semaphore::MAX_PERMITS),
    };
    let places = Arc::new(Semaphore::new(places));
    let partings = Partings::new();
    let mut connections = JoinSet::new();
    // End of the pause after a failed accept. File descriptors can become free in the meantime.
    let mut pause_ends: Option<Instant> = None;
    let mut failures = AcceptFailures::default();
    loop {
        let accepted = async {
            if let Some(pause_ends) = pause_ends {
                sleep_until(pause_ends).await;
            }
            let place =
                Arc::clone(&places).acquire_owned().await.expect("the door never closes its semaphore");
            (arrivals.next().await, place)
        };
        tokio::select! {
            // A fixed order makes simulations reproducible. No branch can starve the ones after it:
            // ended connections, upgrades and handed-over calls all belong to connections that were
            // accepted before.
            biased;
            () = reached(&mut phase, Phase::Closing) => break,
            Some(_) = connections.join_next() => {}
            Some(newcomer) = newcomers.recv() => {
                connections.spawn(newcomer);
            }
            (accepted, place) = accepted => match accepted {
                Ok((arrival, peer)) => {
                    pause_ends = None;
                    failures.accepted(Instant::now());
                    // Close without a response: writing one would cost the server more than the
                    // reconnect costs the client.
                    let address = match app.addresses.admit(peer.ip()) {
                        Ok(address) => address,
                        Err(reason) => {
                            app.metrics.turned_away(reason);
                            continue;
                        }
                    };
                    let place = Place::new(place, address);
                    let (phase, service) = (app.lifecycle.watch(), service.for_guest(peer, place.clone()));
                    let newcomer = Newcomer { arrival, place, partings: partings.clone() };
                    let headers_time = seconds(app.limits.headers_seconds);
                    connections.spawn(serve(newcomer, certificates.clone(), service, phase, headers_time));
                }
                Err(error) => {
                    // The usual cause is that the process has no free file descriptors.
                    let now = Instant::now();
                    failures.failed(&error, now);
                    pause_ends = Some(now + OUT_OF_FILES_PAUSE);
                }
            },
        }
    }
    drop(arrivals);
    loop {
        tokio::select! {
            // Receive handed-over tasks first: after the last connection has ended, nothing can
            // hand over another.
            biased;
            Some(newcomer) = newcomers.recv() => {
                connections.spawn(newcomer);
            }
            ended = connections.join_next() => if ended.is_none() {
                break;
            },
        }
    }
    partings.finish().await;
}

/// An admitted connection before the TLS handshake.
struct Newcomer {
    arrival: Arrival,
    place: Place,
    partings: Partings,
}

impl Newcomer {
    /// Performs the TLS handshake if TLS is configured. Returns `None` if the handshake fails or
    /// exceeds `time`. In-memory connections never use TLS.
    async fn settle_in(
        self,
        certificates: Option<Arc<Certificates>>,
        time: Option<Duration>,
    ) -> Option<DoorStream> {
        let wire = match (self.arrival, certificates) {
            (Arrival::Tcp(stream), Some(certificates)) => {
                let greeted = timeout(time.unwrap_or(Duration::MAX), certificates.greet(stream)).await;
                match greeted {
                    Ok(Ok(stream)) => Wire::Tls(Box::new(stream)),
                    Ok(Err(error)) => {
                        tracing::debug!(%error, "a TLS handshake failed");
                        return None;
                    }
                    Err(_) => {
                        tracing::debug!("a TLS handshake took too long");
                        return None;
                    }
                }
            }
            (Arrival::Tcp(stream), None) => Wire::Tcp(stream),
            (Arrival::InMemory(stream), _) => Wire::InMemory(stream),
        };
        Some(DoorStream::new(wire, self.place, self.partings))
    }
}

/// Serves HTTP/1.1 on one connection, including the upgrade to a WebSocket. At [`Phase::Closing`]
/// it aborts a handshake and shuts HTTP down gracefully.
async fn serve(
    newcomer: Newcomer,
    certificates: Option<Arc<Certificates>>,
    service: HttpService,
    mut phase: watch::Receiver<Phase>,
    headers_time: Option<Duration>,
) {
    let stream = tokio::select! {
        biased;
        stream = newcomer.settle_in(certificates, headers_time) => stream,
        () = reached(&mut phase, Phase::Closing) => return,
    };
    let Some(stream) = stream else { return };
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).max_buf_size(HEADER_BYTES).header_read_timeout(headers_time);
    let connection = http.serve_connection(TokioIo::new(stream), service).with_upgrades();
    tokio::pin!(connection);
    let result = tokio::select! {
        biased;
        result = &mut connection => result,
        () = reached(&mut phase, Phase::Closing) => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = result {
        tracing::debug!(%error, "an HTTP connection ended early");
    }
}

/// A transport with the connection permit that it holds.
type Guest = (Wire, Place);

/// A connection permit. The connection and the calls that outlive it hold clones; dropping the last
/// clone releases the permit.
#[derive(Clone)]
pub(crate) struct Place(#[expect(dead_code, reason = "held for its drop")] Arc<Held>);

/// The permits behind a [`Place`].
struct Held {
    _at_the_door: OwnedSemaphorePermit,
    /// `None` if the peer is a trusted proxy.
    _of_its_address: Option<AddressPlace>,
}

impl Place {
    fn new(at_the_door: OwnedSemaphorePermit, of_its_address: Option<AddressPlace>) -> Place {
        Place(Arc::new(Held { _at_the_door: at_the_door, _of_its_address: of_its_address }))
    }
}
