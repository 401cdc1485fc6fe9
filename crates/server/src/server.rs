//! Builds the server from its parts, starts its tasks and shuts it down in order.

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
use crate::archiver::{self, ArchiveJobRunner, ArchiveSchedule};
use crate::audit::{Act, AuditEntry, FailedKeys, Outcome, Trail, Who};
use crate::delivery::{Hub, Workers};
use crate::drain::{DrainPhase, Lifecycle};
use crate::http::{self, Hosts};
use crate::limits::{AddressLimits, Budgets, PasswordHashPool};
use crate::listener::{self, Certificates, ConnectionSource, InMemoryConnector, LingeringCloser, TlsError};
use crate::metrics::Metrics;
use crate::revocation_check::RevocationCheck;
use crate::settings::{LimitSettings, ServerSettings, at_most};

/// The parts of a server. The store must have been opened with `hub` as its listener.
pub struct ServerParts {
    pub settings: ServerSettings,
    pub limits: LimitSettings,
    /// Whether users may create accounts with sign-up.
    pub signup: bool,
    /// User names that sign-up refuses.
    pub reserved_names: ReservedNames,
    /// Lifetime of a token from log-in or sign-up.
    pub token_ttl: Duration,
    /// Maximum lifetime of a minted token.
    pub max_token_ttl: Duration,
    pub store: Arc<dyn Store>,
    /// The archive of the store. Use [`NoArchive`](crate::NoArchive) for a store without one.
    pub archive: Arc<dyn Archive>,
    /// Schedule of archive runs.
    pub archive_schedule: ArchiveSchedule,
    /// The other nodes that serve the same store. Use [`NoFleet`](bluetick_core::ports::NoFleet)
    /// for a single node.
    pub fleet: Arc<dyn Fleet>,
    pub hub: Arc<Hub>,
    pub metrics: Arc<Metrics>,
    pub tokens: Arc<Tokens>,
    pub passwords: Arc<Passwords>,
    pub admin_key: Arc<AdminKey>,
    /// The audit trail.
    pub audit: Arc<Trail>,
    pub clock: Arc<dyn Clock>,
    pub random: Arc<dyn Random>,
}

/// A running server. Dropping it without [`ChatServer::drain`] aborts all connections and
/// background tasks.
pub struct ChatServer {
    app: Arc<App>,
    /// `None` if the server does not listen on the network.
    local_addr: Option<SocketAddr>,
    in_memory: InMemoryConnector,
    certificates: Option<Arc<Certificates>>,
    /// The accept loop, which owns the tasks of all connections.
    tasks: JoinSet<()>,
    /// Owns the lingering closes of ended connections.
    lingering_closer: LingeringCloser,
    workers: Workers,
    /// Periodic tasks that may be aborted at any point: the archive schedule (its jobs continue
    /// without it), the certificate reload, and the report of omitted wrong admin keys.
    periodic_tasks: JoinSet<()>,
}

/// Why a server cannot start.
#[derive(Debug, Error)]
pub enum ServerStartError {
    #[error(transparent)]
    Listen(#[from] io::Error),
    #[error(transparent)]
    Tls(#[from] TlsError),
}

/// Maximum number of backlog pages that are read at the same time, over all connections. Bounds
/// memory when many devices reconnect at once.
const BACKLOG_PAGES: usize = 16;

/// Interval at which the server writes the number of wrong admin keys without an audit entry of
/// their own. A longer one delays the report of an attack.
const FAILED_KEYS_INTERVAL: Duration = Duration::from_secs(60);

/// Upper bound on the wait for the archive job after the store has closed. A job that takes longer
/// is aborted with the runtime, and the next run continues it.
const ARCHIVE_JOB_TIMEOUT: Duration = Duration::from_secs(2);

/// Upper bound on the wait for password hashes and certificate reads at the end of the shutdown. No
/// caller waits for them. A longer time lets an unresponsive file system delay the shutdown.
const BLOCKING_TASKS_TIMEOUT: Duration = Duration::from_secs(2);

impl ChatServer {
    /// Listens on `settings.listen`, with TLS if `settings.tls` configures it. Returns an error if
    /// the certificate is not usable or the address cannot be bound.
    pub async fn start(parts: ServerParts) -> Result<ChatServer, ServerStartError> {
        let certificates = Certificates::open(&parts.settings.tls, Arc::clone(&parts.clock))?.map(Arc::new);
        let listener = listen(&parts.settings.listen).await?;
        let local_addr = listener.local_addr()?;
        Ok(ChatServer::run(parts, Some((listener, local_addr)), certificates))
    }

    /// Starts a server without a network listener. Clients connect with
    /// [`ChatServer::connect_in_memory`]. For programs that embed the server, and for tests that
    /// simulate the network. Panics outside a tokio runtime.
    pub fn start_without_listener(parts: ServerParts) -> ChatServer {
        ChatServer::run(parts, None, None)
    }

    /// Starts all tasks of the server.
    fn run(
        parts: ServerParts,
        listener: Option<(TcpListener, SocketAddr)>,
        certificates: Option<Arc<Certificates>>,
    ) -> ChatServer {
        let (router, openapi) = http::router();
        #[cfg(feature = "echo")]
        let router = router.route("/echo", axum::routing::get(crate::ws::echo));
        let (schedule, clock, random) =
            (parts.archive_schedule, Arc::clone(&parts.clock), Arc::clone(&parts.random));
        let (lifecycle, listener_tasks) = Lifecycle::new();
        let (listener, local_addr) = listener.unzip();
        let hosts = Hosts::new(&parts.settings, local_addr.map(|address| address.ip()));
        let app = Arc::new(app(parts, hosts, http::documents(&openapi), lifecycle));
        let service = http::service(router, Arc::clone(&app));
        let workers = app.hub.start_workers(&app.chat, &app.presence_directory);
        let mut periodic_tasks = JoinSet::new();
        periodic_tasks.spawn(archiver::schedule(Arc::clone(&app.archiver), schedule, clock, random));
        periodic_tasks.spawn(report_failed_keys(Arc::clone(&app)));
        if let Some(certificates) = &certificates {
            periodic_tasks.spawn(Arc::clone(certificates).watch_files());
        }
        let (connections, in_memory) = ConnectionSource::new(listener);
        let mut tasks = JoinSet::new();
        let lingering_closer = LingeringCloser::new();
        tasks.spawn(listener::accept(
            connections,
            certificates.clone(),
            Arc::clone(&app),
            service,
            listener_tasks,
            lingering_closer.clone(),
        ));
        ChatServer {
            app,
            local_addr,
            in_memory,
            certificates,
            tasks,
            lingering_closer,
            workers,
            periodic_tasks,
        }
    }

    /// Returns the listening address. Panics if the server was started without a listener.
    pub fn local_addr(&self) -> SocketAddr {
        self.local_addr.expect("the caller started the server with a listener")
    }

    /// Opens a connection without a network and returns the client's end. It speaks HTTP/1.1 and
    /// WebSocket, without TLS. The limits of the address `from` apply. When the server closes its
    /// connections, the client's end reads as closed.
    pub fn connect_in_memory(&self, from: IpAddr) -> DuplexStream {
        self.in_memory.connect(from)
    }

    /// Watches the certificate of new connections, in DER. Returns `None` without TLS.
    pub fn certificate(&self) -> Option<watch::Receiver<Arc<[u8]>>> {
        self.certificates.as_ref().map(|certificates| certificates.watch())
    }

    /// Reads the certificate files again and uses them for new connections. If they are not usable,
    /// it logs the reason and keeps the current certificate. It writes the outcome to the audit
    /// trail.
    pub async fn reload_certificates(&self) {
        let Some(certificates) = self.certificates.clone() else { return };
        let failure = certificates.reload_in_background().await.err();
        let outcome = if failure.is_none() { Outcome::Done } else { Outcome::Failed };
        self.app.write_audit_entry(Act::CertificateReload, outcome, failure).await;
    }

    /// Shuts the server down gracefully. Readiness becomes false immediately. After
    /// `drain_delay_seconds` the server refuses new work, finishes accepted work, writes its acks
    /// and tells clients when to reconnect. After another `drain_seconds` it aborts the rest.
    /// Closing the store has no timeout.
    ///
    /// The order is: readiness; new work; work in flight; fan-out; the listener; WebSockets and
    /// HTTP connections; lingering closes; the workers; periodic tasks; the store, which ends the
    /// archive job; the fan-out thread; password hashes and certificate reads; the audit trail.
    ///
    /// The last connection of a user stores when the user was last seen and removes the user from
    /// this node's presence. The workers (receipts, inbox entries, presence) stop without flushing,
    /// because clients read unpublished changes from the API. Until the work in flight is done, the
    /// listener accepts connections and refuses their work. A device in catch-up reconnects and
    /// continues. Acks held until the backlog reaches their seq are lost with the connection; a
    /// resend returns them.
    pub async fn drain(mut self) {
        let app = &self.app;
        app.write_audit_entry(Act::ServerDrain, Outcome::Begun, None).await;
        app.lifecycle.enter(DrainPhase::Leaving);
        sleep(app.settings.drain_delay()).await;
        let deadline = Instant::now() + app.settings.drain();
        app.lifecycle.enter(DrainPhase::Draining);
        let finished = timeout_at(deadline, async {
            app.lifecycle.work_done().await;
            app.hub.flush().await;
        });
        if finished.await.is_err() {
            tracing::warn!("drain timeout: aborting unfinished work");
        }
        app.lifecycle.enter(DrainPhase::Closing);
        app.hub.sessions().wake_all();
        let closed = timeout_at(deadline, async {
            app.lifecycle.sockets_closed().await;
            while self.tasks.join_next().await.is_some() {}
        });
        if closed.await.is_err() {
            tracing::warn!("drain timeout: aborting open connections");
        }
        self.tasks.shutdown().await;
        app.lifecycle.sockets_closed().await;
        self.lingering_closer.finish().await;
        self.workers.stop().await;
        self.periodic_tasks.shutdown().await;
        app.write_failed_keys().await;
        app.archiver.close();
        app.store.close().await;
        if timeout(ARCHIVE_JOB_TIMEOUT, app.archiver.jobs_ended()).await.is_err() {
            tracing::warn!("archive job did not stop in time; the next run continues it");
        }
        app.hub.stop().await;
        let blocking_tasks = async {
            app.password_pool.close().await;
            if let Some(certificates) = &self.certificates {
                certificates.reads_ended().await;
            }
        };
        if timeout(BLOCKING_TASKS_TIMEOUT, blocking_tasks).await.is_err() {
            tracing::warn!("password or certificate task did not end in time; leaving it to the runtime");
        }
        app.audit.flush().await;
    }
}

impl App {
    /// Writes an audit entry for an act of the process itself. The act proceeds even if the write
    /// fails.
    async fn write_audit_entry(&self, act: Act, outcome: Outcome, reason: Option<String>) {
        self.write_audit_entry_with(act, outcome, reason, Value::Null).await;
    }

    /// Writes an audit entry with the number of omitted wrong admin keys, if any.
    async fn write_failed_keys(&self) {
        if let Some(omitted) = self.failed_keys.take_omitted() {
            let detail = json!({"others_left_out": omitted});
            self.write_audit_entry_with(Act::AdminKeyRefused, Outcome::Refused, None, detail).await;
        }
    }

    async fn write_audit_entry_with(
        &self,
        act: Act,
        outcome: Outcome,
        reason: Option<String>,
        detail: Value,
    ) {
        let entry = AuditEntry {
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
            tracing::error!(?act, %error, "audit entry could not be written");
        }
    }
}

/// Reports omitted wrong admin keys at every `FAILED_KEYS_INTERVAL`. Never returns.
async fn report_failed_keys(app: Arc<App>) {
    loop {
        sleep(FAILED_KEYS_INTERVAL).await;
        app.write_failed_keys().await;
    }
}

/// Length of the kernel's queue of connections that wait for an accept. The usual 1,024 fill up
/// when all clients reconnect at once, and a client whose connection is dropped retries only a
/// second later. The kernel caps it at `net.core.somaxconn`.
const ACCEPT_BACKLOG: u32 = 16_384;

/// Binds the first usable address that the name resolves to. Returns the error of the last attempt.
async fn listen(address: &str) -> io::Result<TcpListener> {
    let mut failure = io::Error::new(io::ErrorKind::InvalidInput, "the host name resolves to no address");
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

/// Builds the shared state of the handlers.
fn app(parts: ServerParts, hosts: Hosts, documents: Documents, lifecycle: Lifecycle) -> App {
    let limits = parts.limits;
    let rules = ChatRules {
        max_content_bytes: at_most(limits.content_bytes),
        max_group_members: at_most(limits.group_members),
        max_members_per_call: at_most(limits.members_per_call),
        known_people_only: parts.signup,
    };
    let revocation_check = RevocationCheck::new(
        Arc::clone(&parts.store),
        Arc::clone(&parts.clock),
        parts.hub.revocation_cache(),
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
        archiver: Arc::new(ArchiveJobRunner::new(parts.archive, Arc::clone(&parts.clock))),
        hosts,
        address_limits: AddressLimits::new(&parts.settings, &limits, Arc::clone(&parts.clock)),
        budgets: Budgets::new(&limits, Arc::clone(&parts.clock)),
        clock: parts.clock,
        tokens: parts.tokens,
        revocation_check,
        passwords: parts.passwords,
        admin_key: parts.admin_key,
        audit: parts.audit,
        failed_keys: FailedKeys::default(),
        request_ids: AtomicU64::new(1),
        password_pool: PasswordHashPool::new(&limits),
        presence_directory: parts.hub.presence_directory(parts.fleet),
        hub: parts.hub,
        metrics: parts.metrics,
        lifecycle,
        backlog_pages: Semaphore::new(BACKLOG_PAGES),
        documents,
        settings: parts.settings,
        limits,
    }
}
