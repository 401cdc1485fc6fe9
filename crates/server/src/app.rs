//! What every handler may reach. Each is given this and takes from it only what it names.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use bluetick_auth::{AdminKey, Passwords, Tokens};
use bluetick_core::Chat;
use bluetick_core::ports::Store;
use bluetick_core::time::Clock;
use tokio::sync::Semaphore;

use crate::archivist::Archivist;
use crate::drain::Lifecycle;
use crate::hub::{Hub, Whereabouts};
use crate::limits::{Budgets, PasswordDesk};
use crate::metrics::Metrics;
use crate::settings::{LimitSettings, ServerSettings};

pub(crate) struct App {
    pub settings: ServerSettings,
    pub limits: LimitSettings,
    pub signup: bool,
    pub token_ttl: Duration,
    pub max_token_ttl: Duration,
    pub chat: Chat,
    pub store: Arc<dyn Store>,
    pub archivist: Arc<Archivist>,
    pub clock: Arc<dyn Clock>,
    pub tokens: Arc<Tokens>,
    pub passwords: Arc<Passwords>,
    pub admin_key: Arc<AdminKey>,
    pub desk: PasswordDesk,
    pub budgets: Budgets,
    pub hub: Arc<Hub>,
    pub whereabouts: Whereabouts,
    pub metrics: Arc<Metrics>,
    pub lifecycle: Lifecycle,
    /// Pages of backlogs that are in memory at a time, over all connections.
    pub backlog_pages: Semaphore,
    pub documents: Documents,
}

/// Made once at the start, served as they are.
pub(crate) struct Documents {
    pub openapi: Bytes,
    pub websocket: Bytes,
}
