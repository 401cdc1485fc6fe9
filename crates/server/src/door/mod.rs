//! Where connections come in: accepting, speaking HTTP/1.1, and letting go politely. What is asked for over a
//! connection belongs to `http` and `ws`.

mod parting;
mod stream;

use std::sync::Arc;
use std::time::Duration;

use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use socket2::SockRef;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::JoinSet;

use crate::app::App;
use crate::drain::{Newcomers, Phase, reached};
use crate::http::HttpService;
use crate::settings::seconds;
use parting::Partings;
pub(crate) use stream::DoorStream;

/// Plain HTTP connections besides the WebSockets. When all places are taken, newcomers wait in the kernel's queue.
const HTTP_CONNECTIONS: usize = 4_096;
/// What the kernel holds for one client. Left to itself it grows to megabytes, which a slow reader would have to get
/// through before it comes to the close code.
const SEND_BUFFER_BYTES: usize = 256 * 1024;
/// Headers of one request may take this much.
const HEADER_BYTES: usize = 16 * 1024;

/// Accepts until all accepted work is done, then waits for the connections it has. Whoever comes while the server
/// drains is told so: a load balancer learns it from `/readyz`, on a connection of its own.
///
/// It owns every connection: the HTTP ones, and the WebSockets they grow into.
pub(crate) async fn accept(
    listener: TcpListener,
    app: Arc<App>,
    service: HttpService,
    mut websockets: Newcomers,
) {
    let mut phase = app.lifecycle.watch();
    let places = match app.limits.connections {
        0 => Semaphore::MAX_PERMITS,
        sockets => sockets.saturating_add(HTTP_CONNECTIONS).min(Semaphore::MAX_PERMITS),
    };
    let places = Arc::new(Semaphore::new(places));
    let partings = Partings::new();
    let mut connections = JoinSet::new();
    let mut out_of_files = false;
    loop {
        let accepted = async {
            if out_of_files {
                // Waiting lets some be freed.
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
            let place =
                Arc::clone(&places).acquire_owned().await.expect("the door never closes its semaphore");
            (listener.accept().await, place)
        };
        tokio::select! {
            (accepted, place) = accepted => match accepted {
                Ok((stream, _)) => {
                    out_of_files = false;
                    let _ = stream.set_nodelay(true);
                    let _ = SockRef::from(&stream).set_send_buffer_size(SEND_BUFFER_BYTES);
                    let stream = DoorStream::new(stream, place, partings.clone());
                    let headers_time = seconds(app.limits.headers_seconds);
                    connections.spawn(serve(stream, service.clone(), app.lifecycle.watch(), headers_time));
                }
                Err(error) => {
                    // File descriptors, most likely.
                    tracing::warn!(%error, "cannot accept a connection");
                    out_of_files = true;
                }
            },
            Some(websocket) = websockets.recv() => {
                connections.spawn(websocket);
            }
            Some(_) = connections.join_next() => {}
            () = reached(&mut phase, Phase::Closing) => break,
        }
    }
    drop(listener);
    loop {
        while let Ok(websocket) = websockets.try_recv() {
            connections.spawn(websocket);
        }
        if connections.join_next().await.is_none() {
            break;
        }
    }
    partings.finish().await;
}

async fn serve(
    stream: DoorStream,
    service: HttpService,
    mut phase: watch::Receiver<Phase>,
    headers_time: Option<Duration>,
) {
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).max_buf_size(HEADER_BYTES).header_read_timeout(headers_time);
    let connection = http.serve_connection(TokioIo::new(stream), service).with_upgrades();
    tokio::pin!(connection);
    let result = tokio::select! {
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

/// A place at the door and the socket that takes it.
type Guest = (TcpStream, OwnedSemaphorePermit);
