//! A complete server on one thread with its own store.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;

use bluetick_auth::{AdminKey, AdminSettings, AuthSettings, PasswordRules, Passwords, Tokens};
use bluetick_core::UserId;
use bluetick_core::names::ReservedNames;
use bluetick_core::ports::{CommitListener, NoFleet, SystemRandom};
use bluetick_core::time::{Clock, SystemClock};
use bluetick_server::{
    ArchiveSchedule, ChatServer, Hub, LimitSettings, Metrics, NoArchive, ServerParts, ServerSettings,
};
use bluetick_store_embedded::{EmbeddedStore, StoreParts, StoreSettings};
use tempfile::TempDir;
use tokio::sync::oneshot;

/// Lifetime of the clients' tokens. It must exceed the duration of a run.
const TOKEN_TTL: Duration = Duration::from_secs(24 * 3600);
/// An interval longer than any run. It disables timers whose costs would distort the counts.
const NEVER_SECONDS: u64 = 24 * 3600;

pub struct MeasuredServer {
    pub address: SocketAddr,
    tokens: Arc<Tokens>,
    stop: oneshot::Sender<()>,
    thread: JoinHandle<()>,
    _data_dir: TempDir,
}

/// Opens the store of a data directory. It writes tables only when it is closed.
pub(crate) fn open_store(data_dir: &Path, listener: Option<Arc<dyn CommitListener>>) -> Arc<EmbeddedStore> {
    let settings = StoreSettings {
        data_dir: data_dir.to_owned(),
        checkpoint_idle_seconds: NEVER_SECONDS,
        ..StoreSettings::default()
    };
    let parts = StoreParts { listener, ..StoreParts::new(settings) };
    Arc::new(EmbeddedStore::open(parts).expect("the store opens in an empty directory"))
}

impl MeasuredServer {
    /// Starts a server on the store in the directory.
    pub fn start(data_dir: TempDir) -> MeasuredServer {
        let tokens = Tokens::open(&AuthSettings::default(), data_dir.path(), &SystemRandom);
        let tokens = Arc::new(tokens.expect("the data directory is writable"));
        let (started, address) = mpsc::channel();
        let (stop, stopped) = oneshot::channel();
        let serve = {
            let (path, tokens) = (data_dir.path().to_owned(), Arc::clone(&tokens));
            move || {
                runtime().block_on(async {
                    let server = serve(&path, tokens).await;
                    started.send(server.local_addr()).expect("the starting thread waits for the address");
                    let _ = stopped.await;
                    server.drain().await;
                });
            }
        };
        let thread = std::thread::Builder::new().name("server".into()).spawn(serve);
        let thread = thread.expect("the system can start a thread");
        let address = address.recv().expect("the server starts");
        MeasuredServer { address, tokens, stop, thread, _data_dir: data_dir }
    }

    pub fn token(&self, user: &UserId) -> String {
        let minted = self.tokens.mint(user, TOKEN_TTL, SystemClock.now());
        minted.expect("the server can mint a token for any user").token
    }

    pub fn stop(self) {
        // The send fails only if the thread has already ended; `join` then reports why.
        let _ = self.stop.send(());
        self.thread.join().expect("the drain succeeds");
    }
}

/// Builds a single-threaded runtime, so that the order of events hardly depends on free processors.
pub(crate) fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("the system can start a runtime")
}

async fn serve(data_dir: &Path, tokens: Arc<Tokens>) -> ChatServer {
    let metrics = Metrics::new();
    let hub = Hub::new(Arc::clone(&metrics));
    let listener = Arc::clone(&hub) as Arc<dyn CommitListener>;
    let store = open_store(data_dir, Some(listener));
    let admin_key = AdminKey::open(&AdminSettings::default(), data_dir, &SystemRandom);
    let parts = ServerParts {
        settings: ServerSettings { listen: "127.0.0.1:0".into(), ..ServerSettings::default() },
        limits: LimitSettings {
            // Set limits that are never reached. Checking them is part of the counted path.
            sends_per_second: u32::MAX,
            sends_burst: u32::MAX,
            requests_per_second: u32::MAX,
            requests_burst: u32::MAX,
            acks_per_second: u32::MAX,
            acks_burst: u32::MAX,
            ping_seconds: NEVER_SECONDS,
            idle_seconds: NEVER_SECONDS,
            // All clients connect from one address.
            connections_per_address: 0,
            connects_per_address_per_second: 0,
            conversations_per_user_per_day: 0,
            group_invitations_per_user_per_hour: 0,
            members_added_per_user_per_hour: 0,
            ..LimitSettings::default()
        },
        signup: false,
        reserved_names: ReservedNames::default(),
        token_ttl: TOKEN_TTL,
        max_token_ttl: TOKEN_TTL,
        store,
        archive: Arc::new(NoArchive),
        archive_schedule: ArchiveSchedule::default(),
        fleet: Arc::new(NoFleet),
        hub,
        metrics,
        tokens,
        passwords: Arc::new(Passwords::new(Arc::new(SystemRandom), PasswordRules::default())),
        audit: Arc::new(bluetick_server::audit::Trail::off()),
        admin_key: Arc::new(admin_key.expect("the data directory is writable")),
        clock: Arc::new(SystemClock),
        random: Arc::new(SystemRandom),
    };
    ChatServer::start(parts).await.expect("the server finds a free port")
}
