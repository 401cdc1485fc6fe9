//! A server whose `/echo` returns every message, for WebSocket conformance suites. It listens on
//! the given address, prints its URL, and ends when its standard input closes.

use std::error::Error;
use std::io::Read;
use std::sync::Arc;
use std::time::Duration;

use bluetick_auth::{AdminKey, AdminSettings, AuthSettings, PasswordRules, Passwords, Tokens};
use bluetick_core::names::ReservedNames;
use bluetick_core::ports::{NoFleet, SystemRandom};
use bluetick_core::time::SystemClock;
use bluetick_server::{
    ArchiveSchedule, ChatServer, Hub, LimitSettings, Metrics, NoArchive, ServerParts, ServerSettings,
};
use bluetick_store_memory::MemoryStore;

/// Maximum frame size in bytes. The suite sends 16 MiB; a smaller limit fails its size cases.
const FRAME_BYTES: usize = 32 << 20;

fn main() -> Result<(), Box<dyn Error>> {
    let listen = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:0".into());
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(run(listen))
}

async fn run(listen: String) -> Result<(), Box<dyn Error>> {
    let data_dir = tempfile::tempdir()?;
    let metrics = Metrics::new();
    let hub = Hub::new(Arc::clone(&metrics));
    let server = ChatServer::start(ServerParts {
        settings: ServerSettings { listen, ..ServerSettings::default() },
        limits: LimitSettings { frame_bytes: FRAME_BYTES, ..LimitSettings::default() },
        signup: false,
        reserved_names: ReservedNames::default(),
        token_ttl: Duration::from_secs(3600),
        max_token_ttl: Duration::from_secs(3600),
        store: Arc::new(MemoryStore::with_listener(hub.clone())),
        archive: Arc::new(NoArchive),
        archive_schedule: ArchiveSchedule::default(),
        fleet: Arc::new(NoFleet),
        hub,
        metrics,
        tokens: Arc::new(Tokens::open(&AuthSettings::default(), data_dir.path(), &SystemRandom)?),
        passwords: Arc::new(Passwords::new(Arc::new(SystemRandom), PasswordRules::default())),
        admin_key: Arc::new(AdminKey::open(&AdminSettings::default(), data_dir.path(), &SystemRandom)?),
        audit: Arc::new(bluetick_server::audit::Trail::off()),
        clock: Arc::new(SystemClock),
        random: Arc::new(SystemRandom),
    })
    .await?;
    println!("ws://{}/echo", server.local_addr());
    tokio::task::spawn_blocking(|| std::io::stdin().read_to_end(&mut Vec::new())).await??;
    server.drain().await;
    Ok(())
}
