//! `bluetick serve`: assembles the server, prints the banner, and runs until a stop signal arrives.

use std::io::{self, Write};
use std::sync::Arc;
use std::time::Duration;

use bluetick_auth::{AdminKey, Passwords, Tokens};
use bluetick_core::ports::SystemRandom;
use bluetick_core::time::{Clock, SystemClock};
use bluetick_server::audit::{Act, AuditEntry, Outcome, Trail, Who};
use bluetick_server::{
    ArchiveSchedule, ChatServer, Hub, Metrics, ServerParts, ServerStartError, raise_file_limit,
};
use serde_json::json;
use tokio::runtime::Handle;
use tokio::sync::watch;

use crate::banner::Banner;
use crate::cli::ServeArgs;
use crate::failure::Failure;
#[cfg(feature = "fleet")]
use crate::fleet_keys;
use crate::logging;
use crate::preflight;
use crate::settings::{ArchiveSettings, Inputs, Loaded, StoreEngine};
use crate::stop_signals::{ReloadSignal, StopSignals};
use crate::store::OpenStore;

pub fn run(arguments: &ServeArgs) -> Result<(), Failure> {
    let loaded = Loaded::load(&Inputs::of_this_process(arguments.flags()))?;
    let settings = &loaded.settings;
    logging::start(&settings.log)?;
    if let Err(error) = raise_file_limit() {
        tracing::warn!(%error, "the soft limit on open files cannot be raised");
    }
    for advice in settings.advice().chain(preflight::file_limit(settings)) {
        tracing::warn!(advice, "settings need attention");
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .thread_name("bluetick-worker")
        .enable_all()
        .build()
        .map_err(|error| Failure::failed(format!("cannot start threads: {error}")))?;
    runtime.block_on(serve(&loaded))
}

async fn serve(loaded: &Loaded) -> Result<(), Failure> {
    let settings = &loaded.settings;
    // From here on, a stop signal causes a graceful shutdown instead of ending the process.
    let mut stop = StopSignals::listen()?;
    let mut reload = ReloadSignal::listen(settings.server.tls.is_on())?;
    let metrics = Metrics::new();
    let hub = Hub::new(Arc::clone(&metrics));
    let store = tokio::task::block_in_place(|| {
        // Opening the store creates the data directory, so look for other mistakes first, such as a
        // port in use. Report all mistakes at once, instead of one per start.
        let found = preflight::besides_store(settings).mistakes;
        if found.is_empty() {
            let store = OpenStore::open(settings, Some(hub.clone()), metrics.clone(), &Handle::current());
            return store.map_err(Failure::from);
        }
        let all = preflight::everything(settings, &|_| false).mistakes;
        let mistakes = Failure::all(all).or_else(|| Failure::all(found));
        Err(mistakes.expect("the first check found a mistake"))
    })?;
    #[cfg(feature = "fleet")]
    if let OpenStore::Cloud(cloud) = &store {
        fleet_keys::share(cloud, &settings.store.data_dir).await?;
    }
    let started = start(loaded, &store, hub, metrics).await;
    let (server, banner) = match started {
        Ok(started) => started,
        Err(failure) => {
            store.store().close().await;
            return Err(failure);
        }
    };
    // Serve even if standard output is closed.
    let _unread = io::stdout().write_all(banner.as_bytes()).and_then(|()| io::stdout().flush());

    let mut certificate = server.certificate();
    let name = loop {
        tokio::select! {
            name = stop.next() => break name,
            () = reload.next() => server.reload_certificates().await,
            shown = next_certificate(&mut certificate) => {
                if let Err(error) = store.announce_certificate(&settings.store.data_dir, Some(&shown)) {
                    tracing::warn!(%error, "cannot store the new certificate for local commands");
                }
            }
        }
    };
    tracing::info!(signal = name, "stopping: finishing accepted requests; a second signal stops immediately");
    tokio::select! {
        () = server.drain() => {
            tracing::info!("stopped");
            Ok(())
        }
        name = stop.next() => {
            tracing::warn!(signal = name, "stopped immediately; acknowledged messages are safe");
            std::process::exit(1);
        }
    }
}

/// Starts to listen, and announces address and certificate to the tools on this machine.
async fn start(
    loaded: &Loaded,
    store: &OpenStore,
    hub: Arc<Hub>,
    metrics: Arc<Metrics>,
) -> Result<(ChatServer, String), Failure> {
    let settings = &loaded.settings;
    let data_dir = &settings.store.data_dir;
    let audit = Arc::new(Trail::new(&settings.audit, data_dir));
    note_start(loaded, &audit).await?;
    let random = Arc::new(SystemRandom);
    let tokens = Arc::new(Tokens::open(&settings.auth, data_dir, &SystemRandom)?);
    let admin_key = AdminKey::open(&settings.admin, data_dir, &SystemRandom)?;
    let mints = tokens.can_mint();
    let parts = ServerParts {
        settings: settings.server.clone(),
        limits: settings.limits.clone(),
        signup: settings.auth.signup_is_open() && mints,
        reserved_names: settings.auth.reserved_names(),
        token_ttl: tokens.login_ttl(),
        max_token_ttl: tokens.max_ttl(),
        store: store.store(),
        archive: store.archive(),
        archive_schedule: schedule(&settings.archive),
        fleet: store.fleet(),
        hub,
        metrics,
        tokens,
        passwords: Arc::new(tokio::task::block_in_place(|| {
            Passwords::new(random.clone(), settings.auth.password_rules())
        })),
        admin_key: Arc::new(admin_key),
        audit,
        clock: Arc::new(SystemClock),
        random,
    };
    let listen = &settings.server.listen;
    let server = ChatServer::start(parts).await.map_err(|error| match error {
        ServerStartError::Listen(error) => preflight::cannot_listen(listen, &error),
        ServerStartError::Tls(error) => Failure::usage(error.to_string()),
    })?;
    let address = server.local_addr();
    // Announce the certificate first, so that a tool that finds the address can verify the server.
    let certificate = server.certificate().map(|certificate| Arc::clone(&certificate.borrow()));
    let announced =
        store.announce_certificate(data_dir, certificate.as_deref()).and_then(|()| store.announce(address));
    announced.map_err(|error| Failure::failed(format!("cannot write to {}: {error}", data_dir.display())))?;
    tracing::info!(%address, data_dir = %data_dir.display(), version = env!("CARGO_PKG_VERSION"), "serving");
    let program = std::env::args().next().unwrap_or_else(|| "bluetick".into());
    let data_dir = &std::path::absolute(data_dir).unwrap_or_else(|_| data_dir.clone());
    let (signup, is_fleet) = (settings.auth.signup_is_open(), settings.store.engine == StoreEngine::DynamoDb);
    let tls = settings.server.tls.is_on();
    let banner = Banner { address, tls, data_dir, program: &program, signup, mints, is_fleet };
    Ok((server, banner.text()))
}

/// Waits for the next certificate. Never returns if the server does not use TLS.
async fn next_certificate(certificate: &mut Option<watch::Receiver<Arc<[u8]>>>) -> Arc<[u8]> {
    if let Some(shown) = certificate
        && shown.changed().await.is_ok()
    {
        return Arc::clone(&shown.borrow_and_update());
    }
    std::future::pending().await
}

/// Records the start and its settings in the audit trail. If that fails, the server does not start.
async fn note_start(loaded: &Loaded, audit: &Arc<Trail>) -> Result<(), Failure> {
    let now = SystemClock.now();
    let entry = AuditEntry {
        at: now,
        act: Act::ServerStart,
        outcome: Outcome::Done,
        subject: None,
        who: Who::this_process(),
        request_id: format!("{:x}-start", now.millis()),
        reason: None,
        detail: json!({"version": env!("CARGO_PKG_VERSION"), "settings": loaded.set_by_somebody()}),
    };
    audit.write(&entry).await.map_err(Failure::failed)
}

/// When the archive runs automatically. Loading the settings has refused invalid hours already.
fn schedule(settings: &ArchiveSettings) -> ArchiveSchedule {
    let between = settings.between.as_deref().and_then(|hours| hours.parse().ok());
    ArchiveSchedule { every: Duration::from_secs(settings.every_seconds), between }
}
