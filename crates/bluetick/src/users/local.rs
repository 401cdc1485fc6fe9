//! Manages users in the store directly, while no server uses it.

use std::sync::Arc;

use bluetick_auth::{PasswordRules, Passwords};
use bluetick_core::ports::{NoObserver, Store, SystemRandom, UserUpdate};
use bluetick_core::time::{Clock, SystemClock};
use bluetick_core::{ProfileUpdate, Refusal, Revoke, Revoked, StoreError, User, UserId};
use tokio::runtime::{self, Runtime};

use super::{NewUser, ShownUser, no_such_user, user_exists};
use crate::failure::Failure;
use crate::settings::Settings;
use crate::store::{CannotOpen, OpenStore};

pub struct LocalUsers {
    runtime: Runtime,
    store: Arc<dyn Store>,
}

impl LocalUsers {
    pub fn open(settings: &Settings) -> Result<LocalUsers, CannotOpen> {
        let runtime = runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .expect("a process can start a thread");
        let store = OpenStore::open(settings, None, Arc::new(NoObserver), runtime.handle())?.store();
        Ok(LocalUsers { runtime, store })
    }

    pub fn add(&self, user: &NewUser) -> Result<(), Failure> {
        let new = User {
            id: user.id.clone(),
            display_name: user.display_name.as_deref().map(Into::into),
            password_hash: Some(hash(&user.password).into()),
            created_at: SystemClock.now(),
        };
        self.runtime.block_on(self.store.create_user(new)).map_err(|error| failure(error, &user.id))
    }

    /// Reserves the name, so that sign-up refuses it. Durable when it returns.
    pub fn reserve(&self, user: &UserId) -> Result<(), Failure> {
        let reserved = self.store.reserve_name(user.clone(), SystemClock.now());
        self.runtime.block_on(reserved).map_err(|error| {
            Failure::failed(format!("no token for {user}, because the name cannot be reserved: {error}"))
        })
    }

    pub fn set_password(&self, user: &UserId, password: &str) -> Result<(), Failure> {
        let update =
            UserUpdate { id: user.clone(), display_name: None, password_hash: Some(hash(password).into()) };
        self.runtime.block_on(self.store.update_user(update)).map_err(|error| failure(error, user))?;
        self.revoke(user)
    }

    pub fn revoke(&self, user: &UserId) -> Result<(), Failure> {
        let now = SystemClock.now();
        let revoke = Some(Revoke { what: Revoked::Through(now), at: now });
        let update = ProfileUpdate { revoke, ..ProfileUpdate::of(user.clone()) };
        self.runtime.block_on(self.store.update_profile(update)).map_err(|error| failure(error, user))?;
        Ok(())
    }

    pub fn show(&self, user: &UserId) -> Result<ShownUser, Failure> {
        let found = self.runtime.block_on(self.store.user(user)).map_err(|error| failure(error, user))?;
        let found = found.ok_or_else(|| no_such_user(user))?;
        Ok(ShownUser {
            id: found.id.to_string(),
            display_name: found.display_name.as_deref().map(str::to_owned),
            created_at: found.created_at,
            has_password: found.password_hash.is_some(),
        })
    }

    pub fn close(self) {
        self.runtime.block_on(self.store.close());
    }
}

fn hash(password: &str) -> String {
    Passwords::new(Arc::new(SystemRandom), PasswordRules::default()).hash(password)
}

fn failure(error: StoreError, user: &UserId) -> Failure {
    match error {
        StoreError::Refused(Refusal::UserExists) => user_exists(user),
        StoreError::Refused(Refusal::NoSuchUser) => no_such_user(user),
        other => Failure::failed(other),
    }
}
