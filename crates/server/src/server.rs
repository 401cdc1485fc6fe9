//! Putting the parts together, and taking them apart in order.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use bluetick_auth::{AdminKey, Passwords, Tokens};
use bluetick_core::Chat;
use bluetick_core::chat::ChatRules;
use bluetick_core::names::ReservedNames;
use bluetick_core::ports::{Archive, Fleet, Random, Store};
use bluetick_core::time::Clock;
use serde_json::{Value, json};
use thiserror::Error;
use tokio::io::DuplexStream;
use tokio::net::{TcpListener, TcpSocket, lookup_host};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout, timeout_at};

use crate::app::{App, Documents};
use crate::archivist::{self, ArchiveSchedule, Archivist};
use crate::audit::{Act, Entry, FailedKeys, Outcome, Trail, Who};
use crate::door::{self, Arrivals, Certificates, SideDoor, TlsError};
use crate::drain::{Lifecycle, Phase};
use crate::gate::Gate;
use crate::http::{self, Hosts};
use crate::hub::{Hub, Workers};
use crate::limits::{Addresses, Budgets, PasswordDesk};
use crate::metrics::Metrics;
use crate::settings::{LimitSettings, ServerSettings, at_most};

/// Everything a server is made of. The store must have been opened with `hub` as its listener.
pub struct ServerParts {
    pub settings: ServerSettings,
    pub limits: LimitSettings,
    /// Whether people may make their own accounts.
    pub signup: bool,
    /// Names that sign-up refuses.
    pub reserved_names: ReservedNames,
    /// How long the token of a log-in is valid.
    pub token_ttl: Duration,
    /// The longest time a token can be minted for.
    pub max_token_ttl: Duration,
    pub store: Arc<dyn Store>,
    /// Where the store's old messages go. [`NoArchive`](crate::NoArchive) for a store that has no such place.
    pub archive: Arc<dyn Archive>,
    /// When the archive runs by itself.
    pub archive_schedule: ArchiveSchedule,
    /// The other nodes that serve the store. [`NoFleet`](bluetick_core::ports::NoFleet) where there are none.
    pub fleet: Arc<dyn Fleet>,
    pub hub: Arc<Hub>,
    pub metrics: Arc<Metrics>,
    pub tokens: Arc<Tokens>,
    pub passwords: Arc<Passwords>,
    pub admin_key: Arc<AdminKey>,
    /// Where administrative acts are written down.
    pub audit: Arc<Trail>,
    pub clock: Arc<dyn Clock>,
    pub random: Arc<dyn Random>,
}

/// A server that runs. Dropping it without [`Server::drain`] cuts everything off.
pub struct Server {
    app: Arc<App>,
    /// `None` where it does not listen.
    local_addr: Option<SocketAddr>,
    side_door: SideDoor,
    certificates: Option<Arc<Certificates>>,
    /// The supervisor of connections: the accept loop, which owns their tasks in turn.
    tasks: JoinSet<()>,
    workers: Workers,
    /// What comes round by itself and stops at any point: the schedule of the archive, whose jobs go on without it, the
    /// look at the files of the certificate, and the count of wrong admin keys.
    turns: JoinSet<()>,
}

/// Why a server cannot start.
#[derive(Debug, Error)]
pub enum StartError {
    #[error(transparent)]
    Listen(#[from] io::Error),
    #[error(transparent)]
    Tls(#[from] TlsError),
}

/// However many devices come back at once, this many pages of what they missed are read at a time.
const BACKLOG_PAGES: usize = 16;

/// Wrong admin keys beyond those that are written down one by one are told as often.
const FAILED_KEYS_EVERY: Duration = Duration::from_secs(60);

/// A job of the archive ends soon after the store has closed.
const LAST_JOB: Duration = Duration::from_secs(2);

impl Server {
    /// Starts to listen on `settings.listen`, with TLS where `settings.tls` says so.
    pub async fn start(parts: ServerParts) -> Result<Server, StartError> {
        let certificates = Certificates::open(&parts.settings.tls, Arc::clone(&parts.clock))?.map(Arc::new);
        let listener = listen(&parts.settings.listen).await?;
        let local_addr = listener.local_addr()?;
        Ok(Server::run(parts, Some((listener, local_addr)), certificates))
    }

    /// Starts a server that nobody reaches over the network, only by [`Server::connect_in_memory`]: for programs that
    /// embed it, and for tests that simulate the network. Must be called within a tokio runtime.
    pub fn start_without_listener(parts: ServerParts) -> Server {
        Server::run(parts, None, None)
    }

    fn run(
        parts: ServerParts,
        listener: Option<(TcpListener, SocketAddr)>,
        certificates: Option<Arc<Certificates>>,
    ) -> Server {
        let (router, openapi) = http::router();
        #[cfg(feature = "echo")]
        let router = router.route("/echo", axum::routing::get(crate::ws::echo));
        let (schedule, clock, random) =
            (parts.archive_schedule, Arc::clone(&parts.clock), Arc::clone(&parts.random));
        let (lifecycle, websockets) = Lifecycle::new();
        let (listener, local_addr) = listener.unzip();
        let hosts = Hosts::new(&parts.settings, local_addr.map(|address| address.ip()));
        let app = Arc::new(app(parts, hosts, http::documents(&openapi), lifecycle));
        let service = http::service(router, Arc::clone(&app));
        let workers = app.hub.start_workers(&app.chat, &app.whereabouts);
        let mut turns = JoinSet::new();
        turns.spawn(archivist::schedule(Arc::clone(&app.archivist), schedule, clock, random));
        turns.spawn(tell_of_failed_keys(Arc::clone(&app)));
        if let Some(certificates) = &certificates {
            turns.spawn(Arc::clone(certificates).keep_fresh());
        }
        let (arrivals, side_door) = Arrivals::new(listener);
        let mut tasks = JoinSet::new();
        tasks.spawn(door::accept(arrivals, certificates.clone(), Arc::clone(&app), service, websockets));
        Server { app, local_addr, side_door, certificates, tasks, workers, turns }
    }

    /// Where it listens. Panics for one that does not.
    pub fn local_addr(&self) -> SocketAddr {
        self.local_addr.expect("only a server that was started to listen has an address")
    }

    /// A connection to this server without a network: what is returned is the client's end, on which HTTP/1.1 and
    /// WebSockets are spoken as over a socket, without TLS. To the server it comes from `from`, with the limits of that
    /// address. Once the server drains, the other end is closed as a socket is.
    pub fn connect_in_memory(&self, from: IpAddr) -> DuplexStream {
        self.side_door.connect(from)
    }

    /// The certificate that new connections are shown, in DER, and each that takes its place. `None` without TLS.
    pub fn certificate(&self) -> Option<watch::Receiver<Arc<[u8]>>> {
        self.certificates.as_ref().map(|certificates| certificates.watch())
    }

    /// Reads the files of the certificate again and shows what is new in them to new connections. Those that cannot be
    /// used are named in the log, and what was shown before stays. Written down either way.
    pub async fn reload_certificates(&self) {
        let Some(certificates) = self.certificates.clone() else { return };
        let read =
            tokio::task::spawn_blocking(move || certificates.reload().map_err(|error| error.to_string()));
        let failure = match read.await {
            Ok(read) => read.err(),
            Err(error) => Some(error.to_string()),
        };
        let outcome = if failure.is_none() { Outcome::Done } else { Outcome::Failed };
        self.app.note(Act::CertificateReload, outcome, failure).await;
    }

    /// Ends the server: it is not ready any more, and after `drain_delay_seconds` nothing new is taken, what was
    /// accepted is finished and its acks are written, clients are told to come back. `drain_seconds` later what is left
    /// is cut off. Then the store closes, in its own time.
    ///
    /// The order: readiness; new work; work in flight; fan-out; listener; WebSockets and HTTP connections, each of which
    /// says when its user was last here and, where it was the last, that the user has gone from this node; the workers
    /// (receipts, inbox entries, presence: all at once, since what they have not told yet is found by asking); the
    /// archive's schedule; the store, which ends the archive's job; the fan-out thread. Until the work in flight is done,
    /// newcomers are let in to be told that there is no more. Somebody who is still catching up comes back and goes on:
    /// the acks of its sends that wait for their places go with the connection, and a resend gets them.
    pub async fn drain(mut self) {
        let app = &self.app;
        app.note(Act::ServerDrain, Outcome::Begun, None).await;
        app.lifecycle.enter(Phase::Leaving);
        sleep(app.settings.drain_delay()).await;
        let deadline = Instant::now() + app.settings.drain();
        app.lifecycle.enter(Phase::Draining);
        let finished = timeout_at(deadline, async {
            app.lifecycle.work_done().await;
            app.hub.flush().await;
        });
        if finished.await.is_err() {
            tracing::warn!("not everything accepted was finished in time; it is cut off");
        }
        app.lifecycle.enter(Phase::Closing);
        app.hub.sessions().nudge_all();
        let closed = timeout_at(deadline, async {
            app.lifecycle.sockets_closed().await;
            while self.tasks.join_next().await.is_some() {}
        });
        if closed.await.is_err() {
            tracing::warn!("not every connection closed in time; the rest is cut off");
        }
        self.tasks.shutdown().await;
        app.lifecycle.sockets_closed().await;
        self.workers.stop().await;
        self.turns.shutdown().await;
        app.note_failed_keys().await;
        app.archivist.close();
        app.store.close().await;
        if timeout(LAST_JOB, app.archivist.jobs_ended()).await.is_err() {
            tracing::warn!(
                "a job of the archive did not stop; it is cut off, and the next run goes on from there"
            );
        }
        app.hub.stop().await;
    }
}

impl App {
    /// Writes down what the process was told to do, which it does whether that can be written down or not.
    async fn note(&self, act: Act, outcome: Outcome, reason: Option<String>) {
        self.note_with(act, outcome, reason, Value::Null).await;
    }

    async fn note_failed_keys(&self) {
        if let Some(left_out) = self.failed_keys.left_out() {
            let detail = json!({"others_left_out": left_out});
            self.note_with(Act::AdminKeyRefused, Outcome::Refused, None, detail).await;
        }
    }

    async fn note_with(&self, act: Act, outcome: Outcome, reason: Option<String>, detail: Value) {
        let entry = Entry {
            at: self.clock.now(),
            act,
            outcome,
            subject: None,
            who: Who::this_process(),
            request_id: self.next_request_id(),
            reason,
            detail,
        };
        if let Err(error) = self.audit.write(&entry).await {
            tracing::error!(?act, %error, "this is not in the audit trail");
        }
    }
}

async fn tell_of_failed_keys(app: Arc<App>) {
    loop {
        sleep(FAILED_KEYS_EVERY).await;
        app.note_failed_keys().await;
    }
}

/// Connections that may wait to be accepted. When everybody comes back at once, the usual 1,024 are soon full, and
/// whoever finds no place tries again a whole second later. The kernel has its own limit (`net.core.somaxconn`).
const ACCEPT_BACKLOG: u32 = 16_384;

async fn listen(address: &str) -> io::Result<TcpListener> {
    let mut failure = io::Error::new(io::ErrorKind::InvalidInput, "the name has no address");
    for address in lookup_host(address).await? {
        let bound = || {
            let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
            socket.set_reuseaddr(true)?;
            socket.bind(address)?;
            socket.listen(ACCEPT_BACKLOG)
        };
        match bound() {
            Ok(listener) => return Ok(listener),
            Err(error) => failure = error,
        }
    }
    Err(failure)
}

fn app(parts: ServerParts, hosts: Hosts, documents: Documents, lifecycle: Lifecycle) -> App {
    let limits = parts.limits;
    let rules = ChatRules {
        max_content_bytes: at_most(limits.content_bytes),
        max_group_members: at_most(limits.group_members),
        max_members_per_call: at_most(limits.members_per_call),
        known_people_only: parts.signup,
    };
    let gate = Gate::new(
        Arc::clone(&parts.store),
        Arc::clone(&parts.clock),
        parts.hub.known_revocations(),
        parts.fleet.is_alone(),
    );
    let chat = Chat::new(Arc::clone(&parts.store), Arc::clone(&parts.clock), parts.random, rules);
    App {
        signup: parts.signup,
        reserved_names: parts.reserved_names,
        token_ttl: parts.token_ttl,
        max_token_ttl: parts.max_token_ttl,
        chat,
        store: parts.store,
        archivist: Arc::new(Archivist::new(parts.archive, Arc::clone(&parts.clock))),
        hosts,
        addresses: Addresses::new(&parts.settings, &limits, Arc::clone(&parts.clock)),
        budgets: Budgets::new(&limits, Arc::clone(&parts.clock)),
        clock: parts.clock,
        tokens: parts.tokens,
        gate,
        passwords: parts.passwords,
        admin_key: parts.admin_key,
        audit: parts.audit,
        failed_keys: FailedKeys::default(),
        request_ids: AtomicU64::new(1),
        desk: PasswordDesk::new(&limits),
        whereabouts: parts.hub.whereabouts(parts.fleet),
        hub: parts.hub,
        metrics: parts.metrics,
        lifecycle,
        backlog_pages: Semaphore::new(BACKLOG_PAGES),
        documents,
        settings: parts.settings,
        limits,
    }
}
