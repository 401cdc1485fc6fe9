//! One server on any store.

use std::sync::Arc;
use std::time::Duration;

use bluetick_auth::{AdminKey, AdminSettings, PasswordRules, Passwords};
use bluetick_core::names::ReservedNames;
use bluetick_core::ports::{Fleet, Store};
use bluetick_server::{
    ArchiveSchedule, ChatServer, Hub, LimitSettings, Metrics, NoArchive, ServerParts, ServerSettings,
};
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::clock::SimClock;
use crate::cluster::{ADMIN_KEY, Cluster, SeededRandom};
use crate::dice::Dice;

/// A running server. Dropping it simulates a crash: all its tasks stop immediately.
pub struct Node {
    pub server: ChatServer,
    /// Tasks that drive the hub and the store.
    pub steps: JoinSet<()>,
}

/// Default and maximum lifetime of the tokens that the servers mint. It must exceed the length of a
/// run, or valid tokens expire.
const DAY: Duration = Duration::from_secs(24 * 3600);

/// Disables limits that the simulation would exceed: all clients share one address, and a few users
/// do in minutes what many do in days.
fn limits() -> LimitSettings {
    LimitSettings {
        connections_per_address: 0,
        connects_per_address_per_second: 0,
        wrong_admin_keys_per_address_per_minute: 0,
        conversations_per_user_per_day: 0,
        group_invitations_per_user_per_hour: 0,
        members_added_per_user_per_hour: 0,
        ..LimitSettings::default()
    }
}

pub async fn serve(
    town: &Cluster,
    name: &str,
    hub: Arc<Hub>,
    metrics: Arc<Metrics>,
    store: Arc<dyn Store>,
    fleet: Arc<dyn Fleet>,
    clock: Arc<SimClock>,
) -> Node {
    let random = Arc::new(SeededRandom::new(town.dice.of(&format!("random of {name}"))));
    let admin = AdminSettings { key: Some(ADMIN_KEY.to_owned()) };
    let admin_key = AdminKey::open(&admin, std::path::Path::new("/nonexistent"), random.as_ref());
    let mut steps = JoinSet::new();
    steps.spawn(deliver(Arc::clone(&hub), town.dice.of(&format!("hub of {name}"))));
    let parts = ServerParts {
        settings: ServerSettings { drain_seconds: 3, ..ServerSettings::default() },
        limits: limits(),
        signup: false,
        reserved_names: ReservedNames::default(),
        token_ttl: DAY,
        max_token_ttl: DAY,
        store,
        archive: Arc::new(NoArchive),
        archive_schedule: ArchiveSchedule::default(),
        fleet,
        hub,
        metrics,
        tokens: Arc::clone(&town.tokens),
        passwords: Arc::new(Passwords::new(random.clone(), PasswordRules::default())),
        audit: Arc::new(bluetick_server::audit::Trail::off()),
        admin_key: Arc::new(admin_key.expect("a given key needs no file")),
        clock,
        random,
    };
    Node { server: ChatServer::start_without_listener(parts), steps }
}

/// Delivers what the hub queued, at random times.
async fn deliver(hub: Arc<Hub>, mut dice: Dice) {
    loop {
        sleep(dice.millis(1, 15)).await;
        while hub.step() && !dice.one_in(4) {}
    }
}
