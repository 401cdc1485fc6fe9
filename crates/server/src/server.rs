//! Putting the parts together, and taking them apart in order.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bluetick_auth::{AdminKey, Passwords, Tokens};
use bluetick_core::Chat;
use bluetick_core::chat::ChatRules;
use bluetick_core::ports::{Archive, Fleet, Random, Store};
use bluetick_core::time::Clock;
use tokio::net::{TcpListener, TcpSocket, lookup_host};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout, timeout_at};

use crate::app::{App, Documents};
use crate::archivist::{self, ArchiveSchedule, Archivist};
use crate::door;
use crate::drain::{Lifecycle, Phase};
use crate::http;
use crate::hub::{Hub, Workers};
use crate::limits::{Budgets, PasswordDesk};
use crate::metrics::Metrics;
use crate::settings::{LimitSettings, ServerSettings, at_most};

/// Everything a server is made of. The store must have been opened with `hub` as its listener.
pub struct ServerParts {
    pub settings: ServerSettings,
    pub limits: LimitSettings,
    /// Whether people may make their own accounts.
    pub signup: bool,
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
    pub clock: Arc<dyn Clock>,
    pub random: Arc<dyn Random>,
}

/// A server that listens. Dropping it without [`Server::drain`] cuts everything off.
pub struct Server {
    app: Arc<App>,
    local_addr: SocketAddr,
    /// The supervisor of connections: the accept loop, which owns their tasks in turn.
    tasks: JoinSet<()>,
    workers: Workers,
    /// The schedule of the archive, which stops at any point: the jobs it gave go on without it.
    archive_turns: JoinSet<()>,
}

/// However many devices come back at once, this many pages of what they missed are read at a time.
const BACKLOG_PAGES: usize = 16;

/// A job of the archive ends soon after the store has closed.
const LAST_JOB: Duration = Duration::from_secs(2);

impl Server {
    pub async fn start(parts: ServerParts) -> io::Result<Server> {
        let listener = listen(&parts.settings.listen).await?;
        let local_addr = listener.local_addr()?;
        let (router, openapi) = http::router();
        let (schedule, clock, random) =
            (parts.archive_schedule, Arc::clone(&parts.clock), Arc::clone(&parts.random));
        let (lifecycle, websockets) = Lifecycle::new();
        let app = Arc::new(app(parts, http::documents(&openapi), lifecycle));
        let service = http::service(router, Arc::clone(&app));
        let workers = app.hub.start_workers(&app.chat, &app.whereabouts);
        let mut archive_turns = JoinSet::new();
        archive_turns.spawn(archivist::schedule(Arc::clone(&app.archivist), schedule, clock, random));
        let mut tasks = JoinSet::new();
        tasks.spawn(door::accept(listener, Arc::clone(&app), service, websockets));
        Ok(Server { app, local_addr, tasks, workers, archive_turns })
    }

    pub fn local_addr(&self) -> SocketAddr {
        self.local_addr
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
        self.archive_turns.shutdown().await;
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

fn app(parts: ServerParts, documents: Documents, lifecycle: Lifecycle) -> App {
    let limits = parts.limits;
    let rules = ChatRules {
        max_content_bytes: at_most(limits.content_bytes),
        max_group_members: at_most(limits.group_members),
        max_members_per_call: at_most(limits.members_per_call),
    };
    let chat = Chat::new(Arc::clone(&parts.store), Arc::clone(&parts.clock), parts.random, rules);
    App {
        settings: parts.settings,
        signup: parts.signup,
        token_ttl: parts.token_ttl,
        max_token_ttl: parts.max_token_ttl,
        chat,
        store: parts.store,
        archivist: Arc::new(Archivist::new(parts.archive, Arc::clone(&parts.clock))),
        budgets: Budgets::new(&limits, Arc::clone(&parts.clock)),
        clock: parts.clock,
        tokens: parts.tokens,
        passwords: parts.passwords,
        admin_key: parts.admin_key,
        desk: PasswordDesk::new(&limits),
        whereabouts: parts.hub.whereabouts(parts.fleet),
        hub: parts.hub,
        metrics: parts.metrics,
        lifecycle,
        backlog_pages: Semaphore::new(BACKLOG_PAGES),
        documents,
        limits,
    }
}
