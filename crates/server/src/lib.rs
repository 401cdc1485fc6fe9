//! Bluetick's HTTP and WebSocket server.
//!
//! It authenticates requests, applies limits, calls the use cases in `bluetick-core`, and pushes
//! every stored message to every connected device. Conversation rules belong to the core, wire
//! formats to `bluetick-wire`, storage to the stores, and settings files and signals to the binary.
//!
//! Create the parts in this order: [`Metrics`]; the [`Hub`]; the store, which reports to both; the
//! [`ChatServer`].
//!
//! ```
//! use std::sync::Arc;
//! use std::time::Duration;
//!
//! use bluetick_auth::{AdminKey, AdminSettings, AuthSettings, PasswordRules, Passwords, Tokens};
//! use bluetick_core::names::ReservedNames;
//! use bluetick_core::ports::{NoFleet, SystemRandom};
//! use bluetick_core::time::SystemClock;
//! use bluetick_server::audit::Trail;
//! use bluetick_server::{ArchiveSchedule, Hub, LimitSettings, Metrics, NoArchive};
//! use bluetick_server::{ChatServer, ServerParts, ServerSettings};
//! use bluetick_store_memory::MemoryStore;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(async {
//! let data_dir = tempfile::tempdir()?;
//! let admin_key = AdminKey::open(&AdminSettings::default(), data_dir.path(), &SystemRandom)?;
//! let metrics = Metrics::new();
//! let hub = Hub::new(Arc::clone(&metrics));
//! let store = Arc::new(MemoryStore::with_listener(hub.clone()));
//! let server = ChatServer::start(ServerParts {
//!     settings: ServerSettings { listen: "127.0.0.1:0".into(), ..ServerSettings::default() },
//!     limits: LimitSettings::default(),
//!     signup: true,
//!     reserved_names: ReservedNames::default(),
//!     token_ttl: Duration::from_secs(3600),
//!     max_token_ttl: Duration::from_secs(24 * 3600),
//!     store,
//!     archive: Arc::new(NoArchive),
//!     archive_schedule: ArchiveSchedule::default(),
//!     fleet: Arc::new(NoFleet),
//!     hub,
//!     metrics,
//!     tokens: Arc::new(Tokens::open(&AuthSettings::default(), data_dir.path(), &SystemRandom)?),
//!     passwords: Arc::new(Passwords::new(Arc::new(SystemRandom), PasswordRules::default())),
//!     audit: Arc::new(Trail::off()),
//!     admin_key: Arc::new(admin_key),
//!     clock: Arc::new(SystemClock),
//!     random: Arc::new(SystemRandom),
//! })
//! .await?;
//! println!("http://{}/", server.local_addr());
//! server.drain().await;
//! # Ok(())
//! # })
//! # }
//! ```

mod app;
mod archiver;
pub mod audit;
mod delivery;
mod drain;
mod http;
mod limits;
mod listener;
mod metrics;
mod problem;
mod revocation_check;
mod server;
pub mod settings;
mod ws;

pub use archiver::{ArchiveSchedule, Hours, InvalidHours, NoArchive};
pub use delivery::Hub;
pub use http::openapi_document;
pub use limits::{InvalidNetwork, Network, file_limit_and_connections, raise_file_limit};
pub use listener::{TlsError, tls_advice};
pub use metrics::Metrics;
pub use server::{ChatServer, ServerParts, ServerStartError};
pub use settings::{LimitSettings, ServerSettings, TlsSettings};
