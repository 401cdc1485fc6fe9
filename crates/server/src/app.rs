//! The shared state of all request handlers and WebSocket sessions.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use axum::body::Bytes;
use bluetick_auth::{AdminKey, Passwords, Tokens};
use bluetick_core::Chat;
use bluetick_core::names::ReservedNames;
use bluetick_core::ports::Store;
use bluetick_core::time::Clock;
use tokio::sync::Semaphore;

use crate::archiver::ArchiveJobRunner;
use crate::audit::{FailedKeys, Trail};
use crate::delivery::{Hub, PresenceDirectory};
use crate::drain::Lifecycle;
use crate::http::Hosts;
use crate::limits::{AddressLimits, Budgets, PasswordHashPool};
use crate::metrics::Metrics;
use crate::revocation_check::RevocationCheck;
use crate::settings::{LimitSettings, ServerSettings};

/// Everything that handlers use. Built once at start and shared through an `Arc`.
pub(crate) struct App {
    pub settings: ServerSettings,
    pub limits: LimitSettings,
    pub signup: bool,
    pub reserved_names: ReservedNames,
    pub token_ttl: Duration,
    pub max_token_ttl: Duration,
    pub chat: Chat,
    pub store: Arc<dyn Store>,
    pub archiver: Arc<ArchiveJobRunner>,
    pub clock: Arc<dyn Clock>,
    pub tokens: Arc<Tokens>,
    pub revocation_check: RevocationCheck,
    pub passwords: Arc<Passwords>,
    pub admin_key: Arc<AdminKey>,
    pub audit: Arc<Trail>,
    pub failed_keys: FailedKeys,
    pub request_ids: AtomicU64,
    pub password_pool: PasswordHashPool,
    pub budgets: Budgets,
    pub address_limits: AddressLimits,
    pub hosts: Hosts,
    pub hub: Arc<Hub>,
    pub presence_directory: PresenceDirectory,
    pub metrics: Arc<Metrics>,
    pub lifecycle: Lifecycle,
    /// Bounds the backlog pages in memory during catch-up, over all connections.
    pub backlog_pages: Semaphore,
    /// API documents, served as static bytes.
    pub documents: Documents,
}

impl App {
    /// Generates an id for a request that carries none.
    pub fn next_request_id(&self) -> String {
        let number = self.request_ids.fetch_add(1, Ordering::Relaxed);
        format!("{:x}-{number:x}", self.clock.now().millis())
    }
}

/// API documents, serialized once at start.
pub(crate) struct Documents {
    pub openapi: Bytes,
    pub websocket: Bytes,
}
