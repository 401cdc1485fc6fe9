//! Where connections come in: accepting, speaking HTTP/1.1, and letting go politely. What is asked for over a
//! connection belongs to `http` and `ws`.

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

/// Plain HTTP connections besides the WebSockets. When all places are taken, newcomers wait in the kernel's queue.
const HTTP_CONNECTIONS: usize = 4_096;
/// Others that end meanwhile do not prolong it.
const OUT_OF_FILES_PAUSE: Duration = Duration::from_millis(50);
/// Headers of one request may take this much.
const HEADER_BYTES: usize = 16 * 1024;

/// Accepts until all accepted work is done, then waits for the connections it has. Whoever comes while the server
/// drains is told so: a load balancer learns it from `/readyz`, on a connection of its own.
///
/// It owns every connection: the HTTP ones, the WebSockets they grow into, and the calls that go on without them.
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
    // Until when none is accepted, since there were no files left. Waiting lets some be freed.
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
            // Always in this order, so that a simulation can repeat itself. None of them keeps the next from its turn:
            // what ends, what grows into a WebSocket and what a connection hands over was let in before.
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
                    // Closed without a word: to say one costs more than to come again.
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
                    // File descriptors, most likely.
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
            // First those who come: once all have ended there is nobody left who could hand over another.
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

/// Somebody who was let in and has said nothing yet.
struct Newcomer {
    arrival: Arrival,
    place: Place,
    partings: Partings,
}

impl Newcomer {
    /// `None` when they cannot agree on how to speak in secret, or not in time.
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

/// A place at the door, and what takes it.
type Guest = (Wire, Place);

/// Held for as long as there is a connection, or a call of it that goes on without it.
#[derive(Clone)]
pub(crate) struct Place(#[expect(dead_code, reason = "held for its drop")] Arc<Held>);

struct Held {
    _at_the_door: OwnedSemaphorePermit,
    /// `None` where its address is not counted.
    _of_its_address: Option<AddressPlace>,
}

impl Place {
    fn new(at_the_door: OwnedSemaphorePermit, of_its_address: Option<AddressPlace>) -> Place {
        Place(Arc::new(Held { _at_the_door: at_the_door, _of_its_address: of_its_address }))
    }
}
